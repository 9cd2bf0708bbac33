"""Limits: body, time, rows, connections, rate, slow clients; each with a code of its own. Origins and hosts."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

from tests.server.conftest import ADMIN, Served, code_of

SSE = {"Accept": "text/event-stream"}


def raw(made: Served) -> socket.socket:
    parts = urlsplit(made.url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30)


def read_all(connection: socket.socket) -> str:
    found = b""
    while part := connection.recv(65536):
        found += part
    return found.decode()


def test_body(serve: Callable[..., Served]) -> None:
    made = serve(body_bytes=2_000)
    with made.client() as client:
        large = client.post("/api/v1/sql", json={"sql": "SELECT '" + "x" * 3_000 + "'"})
        assert (large.status_code, code_of(large)) == (413, "body-too-large")
        assert large.json()["limit"] == 2_000

        def parts() -> object:
            for _ in range(10):
                yield b"x" * 1_000

        unannounced = client.post("/api/v1/sql", content=parts())  # type: ignore[arg-type]
        assert code_of(unannounced) == "body-too-large"
        assert client.post("/api/v1/sql", json={"sql": "SELECT 1"}).status_code == 200
    with connect(made.socket_url) as stream:
        stream.recv(30)
        stream.send(json.dumps({"type": "subscribe", "view": "x" * 5_000}))
        with pytest.raises(ConnectionClosedError, match="1009"):
            stream.recv(30)


def test_slow_clients(serve: Callable[..., Served]) -> None:
    made = serve(header_seconds=0.5, body_seconds=0.5)
    with raw(made) as connection:
        began = time.monotonic()
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        answer = read_all(connection)
        assert "408" in answer
        assert "head-too-slow" in answer
        assert time.monotonic() - began < 10
    with raw(made) as connection:  # a drop every now and then does not help
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        ended = False
        for _ in range(100):
            try:
                connection.sendall(b"X-A: b\r\n")
            except OSError:
                ended = True
                break
            time.sleep(0.05)
        assert ended
    with raw(made) as connection:
        head = b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b'Content-Length: 100\r\n\r\n{"sql"')
        answer = read_all(connection)
        assert "body-too-slow" in answer
    with raw(made) as connection:  # one that has been served once is watched too
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in connection.recv(65536)
        connection.sendall(b"GET /hea")
        assert "head-too-slow" in read_all(connection)


def test_rows(serve: Callable[..., Served]) -> None:
    with serve(rows=2).client() as client:
        many = client.post("/api/v1/sql", json={"sql": "SELECT * FROM orders"})
        assert (many.status_code, code_of(many)) == (422, "too-many-rows")
        assert client.post("/api/v1/sql", json={"sql": "SELECT * FROM orders LIMIT 2"}).status_code == 200
        assert client.get("/api/v1/views/orders/rows").json()["more"] is True
        assert code_of(client.get("/api/v1/views/orders/rows", params={"limit": 3})) == "too-many-rows"
        assert code_of(client.get("/api/v1/views/orders/changes", params={"since": 0})) == "too-many-rows"


def test_time(serve: Callable[..., Served]) -> None:
    made = serve(statement_seconds=1.0)
    with made.client() as client:
        slow = "SELECT count(*) FROM range(400000) a JOIN range(400000) b ON a.id + b.id = -1"
        began = time.monotonic()
        answer = client.post("/api/v1/sql", json={"sql": slow})
        assert (answer.status_code, code_of(answer)) == (422, "statement-timeout")
        assert "--timeout" in answer.json()["hint"]
        assert time.monotonic() - began < 30


def test_rate(serve: Callable[..., Served]) -> None:
    made = serve(rate=1.0, burst=5)
    with made.client() as client:
        answers = [client.get("/healthz") for _ in range(8)]
    assert [each.status_code for each in answers].count(429) >= 2
    assert code_of(answers[-1]) == "too-many-requests"
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_rate_of_messages(serve: Callable[..., Served]) -> None:
    made = serve(rate=1.0, burst=5)
    with connect(made.socket_url) as stream:
        for _ in range(10):
            stream.send(json.dumps({"type": "unsubscribe", "id": "a"}))
        stream.recv(30)
        assert json.loads(stream.recv(30))["code"] == "too-many-requests"


def test_connections(serve: Callable[..., Served]) -> None:
    made = serve(connections_per_client=2, connections=10)
    with made.client() as client, connect(made.socket_url), connect(made.socket_url):
        answer = client.get("/healthz")
        assert (answer.status_code, code_of(answer)) == (429, "too-many-connections")
        with pytest.raises(InvalidStatus), connect(made.socket_url):
            pass
    with made.client() as client:
        time.sleep(0.2)
        assert client.get("/healthz").status_code == 200
    idle = [raw(made) for _ in range(10)]
    try:
        time.sleep(0.2)
        with raw(made) as connection:
            answer_text = read_all(connection)
        assert "503" in answer_text
        assert "too-many-connections" in answer_text
    finally:
        for each in idle:
            each.close()


def test_subscriptions(serve: Callable[..., Served]) -> None:
    with connect(serve(websocket_subscriptions=1).socket_url) as stream:
        stream.recv(30)
        stream.send(json.dumps({"type": "subscribe", "id": "a", "view": "orders"}))
        assert json.loads(stream.recv(30))["type"] == "frame"
        stream.send(json.dumps({"type": "subscribe", "id": "b", "view": "orders"}))
        assert json.loads(stream.recv(30))["code"] == "too-many-subscriptions"


def test_busy(serve: Callable[..., Served]) -> None:
    with serve(waiting=0).client() as client:
        answer = client.get("/api/v1/tables")
        assert (answer.status_code, code_of(answer)) == (503, "busy")
        assert answer.headers["retry-after"] == "1"


# where requests come from -----------------------------------------------------------------------------


def test_pages_of_other_sites(serve: Callable[..., Served]) -> None:
    made = serve(allow_origin=("https://good.example",))
    with made.client() as client:
        evil, good = {"Origin": "https://evil.example"}, {"Origin": "https://good.example"}
        call = {"sql": "SELECT 1"}
        assert code_of(client.post("/api/v1/sql", json=call, headers=evil)) == "cross-origin"
        assert code_of(client.post("/api/v1/sql", json=call, headers={"Origin": "null"})) == "cross-origin"
        assert "access-control-allow-origin" not in client.get("/api/v1/tables", headers=evil).headers
        allowed = client.post("/api/v1/sql", json=call, headers=good)
        assert allowed.headers["access-control-allow-origin"] == "https://good.example"
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        assert code_of(client.options("/api/v1/sql", headers={**evil, **asks})) == "cross-origin"
        preflight = client.options("/api/v1/sql", headers={**good, **asks})
        assert preflight.status_code == 204
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        own = {"Origin": made.url}
        assert client.post("/api/v1/sql", json=call, headers=own).status_code == 200
    with pytest.raises(InvalidStatus, match="403"), connect(made.socket_url, origin="https://evil.example"):  # type: ignore[arg-type]
        pass
    with connect(made.socket_url, origin="https://good.example") as stream:  # type: ignore[arg-type]
        assert json.loads(stream.recv(30))["type"] == "hello"


def test_a_form_of_another_site_is_no_call(serve: Callable[..., Served]) -> None:
    with serve().client() as client:
        body, headers = b'{"sql": "DELETE FROM orders"}', {"Content-Type": "text/plain"}
        assert client.post("/api/v1/sql", content=body, headers=headers).status_code == 422


def test_other_names_of_this_machine(serve: Callable[..., Served]) -> None:
    made = serve()
    with made.client() as client:
        for host in ("evil.example", "evil.example:80", "", "[::", "127.0.0.1.evil.example"):
            assert client.get("/api/v1/tables", headers={"Host": host}).status_code in (400, 403)
        assert client.get("/api/v1/tables", headers={"Host": "localhost:8780"}).status_code == 200
    with_token = serve(token=ADMIN)
    with with_token.client(ADMIN) as client:
        assert client.get("/api/v1/tables", headers={"Host": "views.example"}).status_code == 200


# the log --------------------------------------------------------------------------------------------------


def test_one_line_per_request(serve: Callable[..., Served]) -> None:
    made = serve(token=ADMIN)
    with made.client(ADMIN) as client:
        answer = client.get("/api/v1/views/orders/rows", params={"limit": 1, "where": "region = 'EU'"})
        client.post("/api/v1/sql", json={"sql": "SELECT nothing"})
    made.stop()
    first, second = made.logged()
    assert first["event"] == "request"
    assert first["route"] == "/api/v1/views/{name}/rows"
    assert first["query"] == "limit=1&where"
    assert first["status"] == 200
    assert first["token"] == "serve"
    assert first["request"] == answer.headers["x-request-id"]
    assert second["status"] in (400, 404)
    assert second["milliseconds"] > 0
