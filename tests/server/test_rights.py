"""Tokens: their rights, the views they reach, the rows they are bound to, and their life."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import httpx
import pytest
from websockets.sync.client import connect

from tests.server.conftest import ADMIN, Served, code_of
from viewkeeper.server.token_files import drop_token

ROWS = "/api/v1/views/orders/rows"
SSE = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def tokens(reading: Served) -> dict[str, str]:
    made = {
        "read": reading.token("reader"),
        "write": reading.token("writer", "write"),
        "view": reading.token("for-big", big=None),
        "bound": reading.token("for-eu", orders="region = 'EU'"),
    }
    time.sleep(0.2)
    return made


def post(served: Served, token: str | None, sql: str) -> httpx.Response:
    with served.client(token) as client:
        return client.post("/api/v1/sql", json={"sql": sql, "preview": True})


@pytest.mark.parametrize("token", [None, "wrong", "Bearer", ADMIN + "x", ADMIN[:-1], "vk_" + "A" * 43, "\x7f"])
@pytest.mark.parametrize("path", ["/api/v1/tables", ROWS, "/metrics", "/api/v1/views/orders/changes?since=0"])
def test_no_token_and_wrong_tokens_are_refused(reading: Served, token: str | None, path: str) -> None:
    with reading.client(token) as client:
        answer = client.get(path)
    assert (answer.status_code, code_of(answer)) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_token_in_the_query_string_counts_for_nothing_and_is_not_logged(
    reading: Served, tokens: dict[str, str]
) -> None:
    with reading.client() as client:
        for token in (ADMIN, tokens["read"]):
            for name in ("token", "access_token", "since", "limit"):
                assert client.get("/api/v1/tables", params={name: token}).status_code == 401
            assert client.get(f"/api/v1/views/{token}").status_code == 401
    with reading.client(tokens["read"]) as client:
        assert client.get(f"/api/v1/views/{tokens['read']}/rows").status_code == 404
    with pytest.raises(Exception, match="401"), connect(f"{reading.socket_url}?token={ADMIN}"):
        pass
    text = reading.log.getvalue()
    assert ADMIN not in text
    for token in tokens.values():
        assert token not in text
    assert "/api/v1/views/***" in text


READING = (
    "SELECT 1",
    "SHOW TABLES",
    "DESCRIBE orders",
    "EXPLAIN VIEW by_region",
    "EXPLAIN DELETE FROM orders",
    "ANALYZE VIEW SELECT id FROM orders",
    "VERIFY VIEW by_region",
)
WRITING = (
    "INSERT INTO orders VALUES (9, 'EU', 1)",
    "UPDATE orders SET amount = 1",
    "DELETE FROM orders",
    "TRUNCATE TABLE orders",
    "SELECT 1; DELETE FROM orders",
    "REFRESH MATERIALIZED VIEW by_region",
)
DEFINING = (
    "CREATE TABLE t (a INT)",
    "DROP TABLE orders CASCADE",
    "CREATE VIEW v AS SELECT 1 AS a",
    "ALTER MATERIALIZED VIEW by_region SUSPEND",
    "CREATE RULE r ON orders DO DELETE FROM secrets",
    "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT * FROM orders))",
    "SET statement_timeout = 0",
    "VERIFY VIEW by_region WITH (engine = 'sc://127.0.0.1:1')",
    "SELECT 1; SELECT 2; DROP TABLE secrets",
)


@pytest.mark.parametrize("sql", READING)
def test_the_right_to_read(reading: Served, tokens: dict[str, str], sql: str) -> None:
    assert post(reading, tokens["read"], sql).status_code == 200


@pytest.mark.parametrize("sql", WRITING)
def test_the_right_to_write(reading: Served, tokens: dict[str, str], sql: str) -> None:
    assert code_of(post(reading, tokens["read"], sql)) == "forbidden"
    allowed = post(reading, tokens["write"], sql)
    assert allowed.status_code == 200 or code_of(allowed) != "forbidden"


@pytest.mark.parametrize("sql", DEFINING)
def test_the_right_to_administrate(reading: Served, tokens: dict[str, str], sql: str) -> None:
    for name in ("read", "write"):
        answer = post(reading, tokens[name], sql)
        assert (answer.status_code, code_of(answer)) == (403, "forbidden")


def test_a_token_for_one_view_reaches_no_other(reading: Served, tokens: dict[str, str]) -> None:
    with reading.client(tokens["view"]) as client:
        assert len(client.get("/api/v1/views/big/rows").json()["rows"]) == 2
        assert [each["name"] for each in client.get("/api/v1/views").json()["views"]] == ["big"]
        assert client.get("/api/v1/tables").json()["tables"] == []
        document = client.get("/api/v1/views/big").json()
        assert document["definition"] is document["plan"] is document["analysis"] is None
        assert document["reads"] == []
        for path in ("", "/rows", "/changes?since=0"):
            for name in ("orders", "secrets", "nothing", "big%20", "`big`", "big/../orders", "big%2F..%2Forders"):
                answer = client.get(f"/api/v1/views/{name}{path}")
                assert answer.status_code in (403, 404)
                assert code_of(answer) in ("not-granted", "no-such-call")
        for path in ("commits", "graph", "rules", "assertions"):
            assert code_of(client.get(f"/api/v1/{path}")) == "not-granted"
        assert code_of(client.get("/metrics")) == "not-granted"
        assert code_of(client.post("/api/v1/sql", json={"sql": "SELECT * FROM big"})) == "not-granted"
        assert code_of(client.get("/api/v1/views/orders/changes", headers=SSE)) == "not-granted"


WIDENING = (
    "true",
    "1 = 1",
    "region = 'US'",
    "region = 'US' OR true",
    "NOT region = 'EU'",
    "region IS NOT NULL OR region = 'EU'",
    "CASE WHEN region = 'EU' THEN false ELSE true END",
)
ESCAPING = (
    "1=1) OR (1=1",
    "true) UNION SELECT * FROM secrets WHERE (true",
    "true -- ",
    "true /* ",
    "true; DROP TABLE orders",
    "true LIMIT 1",
    "true ORDER BY id",
    "id IN (SELECT id FROM secrets)",
    "EXISTS (SELECT 1 FROM secrets WHERE word = 'plover')",
    "(SELECT max(word) FROM secrets) = 'xyzzy'",
    "true AS OF EPOCH 1",
    "count(*) > 0",
    "row_number() OVER (ORDER BY id) = 1",
    "explode(array(1, 2)) = 1",
    "reflect('java.lang.System', 'getenv', 'PATH') = ''",
    "`java_method`('java.lang.System', 'exit', 0) = ''",
    "secrets.word = 'plover'",
    "orders.word = 'plover'",
    ":p = 1",
    "?",
    "",
    " ",
    "'",
    "\x00",
    "{_vk_0}",
)


@pytest.mark.parametrize("where", WIDENING)
def test_a_binding_is_not_widened(reading: Served, tokens: dict[str, str], where: str) -> None:
    with reading.client(tokens["bound"]) as client:
        rows = client.get(ROWS, params={"where": where}).json()["rows"]
        assert all(row[1] == "EU" for row in rows)
        updates = client.get("/api/v1/views/orders/changes", params={"since": 0, "until": 6, "where": where}).json()
        assert all(update["row"][1] == "EU" for update in updates["updates"])


@pytest.mark.parametrize("where", ESCAPING)
@pytest.mark.parametrize("name", ["bound", "read"])
def test_a_condition_is_one_condition(reading: Served, tokens: dict[str, str], name: str, where: str) -> None:
    with reading.client(tokens[name]) as client:
        for path in (ROWS, "/api/v1/views/orders/changes?since=0"):
            answer = client.get(path, params={"since": 0, "where": where})
            if answer.status_code == 200:  # a comment ends nothing: the condition before it counts
                assert where.startswith("true -")
                found = answer.json().get("rows") or [each["row"] for each in answer.json()["updates"]]
                assert len(found) == (2 if name == "bound" else 3)
            else:
                assert answer.status_code in (400, 403, 404, 422), answer.text
                code_of(answer)


def test_an_error_tells_nothing_of_other_rows(reading: Served, tokens: dict[str, str]) -> None:
    with reading.client(tokens["bound"]) as client:
        assert client.get(ROWS, params={"where": "1 / (id - 2) < 5"}).status_code == 200
        assert client.get(ROWS, params={"where": "1 / (id - 3) < 5"}).status_code in (400, 422)


def test_a_bound_token_sees_its_rows_at_every_epoch_and_in_streams(reading: Served, tokens: dict[str, str]) -> None:
    token = tokens["bound"]
    with reading.client(token) as client:
        assert sorted(row[0] for row in client.get(ROWS, params={"as_of": 5}).json()["rows"]) == [1, 3]
        listed = client.get("/api/v1/tables").json()["tables"]
        assert [(each["name"], each["rows"], each["bytes"]) for each in listed] == [("orders", None, 0)]
        answer = client.get("/api/v1/views/orders/changes", params={"since": 4, "until": 5})
        assert answer.headers["cache-control"].startswith("private")
        assert sorted(each["row"][0] for each in answer.json()["updates"]) == [1, 3]
        with client.stream("GET", "/api/v1/views/orders/changes", headers=SSE, params={"where": "true"}) as stream:
            data = next(line for line in stream.iter_lines() if line.startswith("data:"))
        assert sorted(each["row"][0] for each in json.loads(data[5:])["updates"]) == [1, 3]
    with connect(reading.socket_url, subprotocols=["viewkeeper", f"bearer.{token}"]) as socket:  # type: ignore[list-item]
        assert json.loads(socket.recv(30))["type"] == "hello"
        assert socket.subprotocol == "viewkeeper"
        socket.send(json.dumps({"type": "subscribe", "id": "a", "view": "orders", "where": "region = 'US'"}))
        assert json.loads(socket.recv(30))["updates"] == []
        socket.send(json.dumps({"type": "subscribe", "id": "b", "view": "secrets"}))
        error = json.loads(socket.recv(30))
        assert (error["type"], error["id"], error["code"]) == ("error", "b", "not-granted")
        socket.send(json.dumps({"type": "commits"}))
        assert json.loads(socket.recv(30))["code"] == "not-granted"


SQL_ESCAPES = (
    "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
    "SELECT `reflect` ('java.lang.System', 'getenv', 'PATH')",
    "SELECT java_method('java.lang.System', 'exit', 0)",
    "SELECT * FROM parquet.`/etc/passwd`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM csv.`file:///etc/passwd`",
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM _vk_0",
    "SELECT * FROM {_vk_0}",
    "SELECT load_file('/etc/passwd')",
    "SHOW DATABASES",
    "DESCRIBE EXTENDED `../ledger`",
)


@pytest.mark.parametrize("sql", SQL_ESCAPES)
def test_sql_reaches_nothing_but_the_database(reading: Served, tokens: dict[str, str], sql: str) -> None:
    with reading.client(tokens["read"]) as client:
        answer = client.post("/api/v1/sql", json={"sql": sql})
    assert 400 <= answer.status_code < 500, answer.text
    code_of(answer)
    assert "root:" not in answer.text


NAMES = (
    "..%2F..%2Fetc%2Fpasswd",
    "../../etc/passwd",
    "orders%00",
    "orders`; DROP TABLE orders; --",
    "orders` WHERE 1=1 --",
    "'orders'",
    "_vk_0",
    "%F0%9F%90%98",
    "x" * 499,
    "x" * 3000,
    "%ff%fe",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_names_of_relations_only(reading: Served, tokens: dict[str, str], name: str) -> None:
    with reading.client(tokens["read"]) as client:
        for path in ("", "/rows", "/changes?since=0"):
            answer = client.get(f"/api/v1/views/{name}{path}")
            assert answer.status_code in (404, 422), answer.text
            code_of(answer)
        for path in ("..%2F__init__.py", "%2e%2e/%2e%2e/__init__.py", "..%2F..%2F..%2Ferrors.py", "%00"):
            assert client.get(f"/assets/{path}").status_code == 404
        assert client.get("/healthz").status_code == 200
    assert len(reading.db.sql("SELECT * FROM orders").rows()) == 3


# the life of tokens ---------------------------------------------------------------------------------


@pytest.fixture
def own(serve: Callable[..., Served]) -> Served:
    return serve(token=ADMIN)


def test_a_dropped_token_is_refused_and_its_streams_end(own: Served) -> None:
    token = own.token("short")
    with own.client(token) as client:
        assert client.get("/api/v1/tables").status_code == 200
        with (
            connect(own.socket_url, additional_headers={"Authorization": f"Bearer {token}"}) as socket,
            client.stream("GET", "/api/v1/views/orders/changes", headers=SSE) as stream,
        ):
            assert json.loads(socket.recv(30))["type"] == "hello"
            drop_token(own.db.store.storage, "short")
            assert sum(1 for _ in stream.iter_lines()) > 0  # to its end
            with pytest.raises(Exception, match="4401"):
                socket.recv(30)
        assert client.get("/api/v1/tables").status_code == 401


def test_from_the_first_token_on_every_call_needs_one(serve: Callable[..., Served]) -> None:
    made = serve()
    with made.client() as client:
        assert client.get("/api/v1/tables").status_code == 200
        made.token("first")
        time.sleep(1.1)
        assert client.get("/api/v1/tables").status_code == 401
        drop_token(made.db.store.storage, "first")
        time.sleep(1.1)
        assert client.get("/api/v1/tables").status_code == 401


def test_only_hashes_are_stored(own: Served) -> None:
    token = own.token("secret-keeper")
    stored = own.db.store.storage.read("tokens/secret-keeper.json")
    assert stored is not None
    assert token.encode() not in stored
    assert token.removeprefix("vk_").encode() not in stored
