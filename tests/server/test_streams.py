"""Frames over Server-Sent Events and WebSocket, and closed ranges that caches may keep."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import viewkeeper as vk
from tests.server.conftest import ADMIN, Served, code_of
from viewkeeper.server.server_metrics import ServerMetrics
from viewkeeper.server.server_settings import ServerLimits
from viewkeeper.server.streams import MOST_MEASURED, Asked, Streams
from viewkeeper.server.workers import Workers

CHANGES = "/api/v1/views/by_region/changes"
SSE = {"Accept": "text/event-stream"}


@contextlib.contextmanager
def events(made: Served, path: str = CHANGES, **options: Any) -> Iterator[Iterator[tuple[str, int, Any]]]:
    """The events of a stream: kind, id and data."""
    headers = {**SSE, **options.pop("headers", {})}
    with made.client() as client, client.stream("GET", path, headers=headers, **options) as stream:
        assert stream.status_code == 200, stream.read()
        assert stream.headers["content-type"].startswith("text/event-stream")
        yield parsed(stream)


def parsed(stream: httpx.Response) -> Iterator[tuple[str, int, Any]]:
    event: dict[str, str] = {}
    for line in stream.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        else:
            if "data" in event:
                yield event["event"], int(event.get("id", -1)), json.loads(event["data"])
            event = {}


def next_frame(found: Iterator[tuple[str, int, Any]]) -> Any:
    return next(data for kind, _, data in found if kind == "frame")


def told(socket: ClientConnection, kind: str) -> Any:
    while True:
        message = json.loads(socket.recv(30))
        if message["type"] == kind:
            return message


def test_snapshot_then_changes(serve: Callable[..., Served]) -> None:
    made = serve()
    with events(made) as found:
        frame = next_frame(found)
        assert frame["snapshot"] is True
        assert frame["reset"] is False
        assert (frame["view"], frame["epoch"]) == ("by_region", 6)
        assert sorted(map(str, frame["updates"])) == [
            "{'row': ['EU', '35.00', 2], 'diff': 1}",
            "{'row': ['US', '20.50', 1], 'diff': 1}",
        ]
        made.db.sql("INSERT INTO secrets VALUES (5, 'x')")
        made.db.sql("INSERT INTO orders VALUES (10, 'EU', 1)")
        frame = next_frame(found)
        assert (frame["epoch"], frame["snapshot"]) == (8, False)
        assert sorted(map(str, frame["updates"])) == [
            "{'row': ['EU', '35.00', 2], 'diff': -1}",
            "{'row': ['EU', '36.00', 3], 'diff': 1}",
        ]
        made.db.sql("INSERT INTO secrets VALUES (6, 'x')")
        assert next(found) == ("progress", 9, {"epoch": 9})


def test_going_on_after_the_last_event(serve: Callable[..., Served]) -> None:
    made = serve()
    for number in range(3):
        made.db.sql(f"INSERT INTO orders VALUES ({20 + number}, 'EU', 1)")
    with events(made, headers={"Last-Event-ID": "7"}) as found:
        assert [next_frame(found)["epoch"] for _ in range(2)] == [8, 9]
    with events(made, params={"since": 8}) as found:
        assert next_frame(found)["epoch"] == 9
    with events(made, params={"since": 9}) as found:
        assert next(found)[:2] == ("progress", 9)
    with events(made, params={"snapshot": "false"}) as found:
        assert next(found)[:2] == ("progress", 9)
    with made.client() as client:
        assert code_of(client.get(CHANGES, headers={**SSE, "Last-Event-ID": "x"})) == "bad-request"
        assert client.get(CHANGES, headers=SSE, params={"since": 99}).status_code == 400
        assert code_of(client.get(CHANGES, headers=SSE, params={"precision": "rough"})) == "sql"
        assert client.get(CHANGES, headers=SSE, params={"every": "now and then"}).status_code == 400
        assert client.get("/api/v1/views/nothing/changes", headers=SSE).status_code == 404


def test_a_condition_and_a_virtual_view(serve: Callable[..., Served]) -> None:
    made = serve()
    with events(made, "/api/v1/views/big/changes", params={"where": "region = 'EU'"}) as found:
        assert next_frame(found)["updates"] == [{"row": [3, "EU", "30.00"], "diff": 1}]
        made.db.sql("INSERT INTO orders VALUES (30, 'US', 99)")
        made.db.sql("UPDATE orders SET region = 'EU' WHERE id = 2")
        frame = next_frame(found)
        assert frame["epoch"] == 8
        assert frame["updates"] == [{"row": [2, "EU", "20.50"], "diff": 1}]


def test_the_net_of_some_time(serve: Callable[..., Served]) -> None:
    made = serve()
    with events(made, params={"every": "1 second"}) as found:
        copy: Counter[tuple[Any, ...]] = Counter()
        for number in range(5):
            made.db.sql(f"INSERT INTO orders VALUES ({40 + number}, 'EU', 1)")
        while copy != Counter({("EU", "40.00", 7): 1, ("US", "20.50", 1): 1}):
            for update in next_frame(found)["updates"]:
                copy[tuple(update["row"])] += update["diff"]
            copy = +copy


def test_a_nervous_stream_leaves_out_nothing(serve: Callable[..., Served]) -> None:
    made = serve()
    made.db.sql("CREATE VIEW regions AS SELECT DISTINCT region FROM orders")
    with events(made, "/api/v1/views/regions/changes", params={"precision": "nervous"}) as found:
        assert sorted(each["row"][0] for each in next_frame(found)["updates"]) == ["EU", "US"]
        made.db.sql("INSERT INTO orders VALUES (10, 'ASIA', 1), (11, 'EU', 1)")
        frame = next_frame(found)
        assert {"row": ["ASIA"], "diff": 1} in frame["updates"]


def test_a_closed_range_never_changes(serve: Callable[..., Served]) -> None:
    made = serve()
    made.db.sql("INSERT INTO orders VALUES (10, 'EU', 1)")
    made.db.sql("INSERT INTO orders VALUES (11, 'EU', 1)")
    made.db.sql("DELETE FROM orders WHERE id = 10")
    with made.client() as client:
        answer = client.get(CHANGES, params={"since": 6, "until": 8})
        assert answer.json() == {
            "view": "by_region",
            "since": 6,
            "until": 8,
            "updates": [{"row": ["EU", "35.00", 2], "diff": -1}, {"row": ["EU", "37.00", 4], "diff": 1}],
        }
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        tag = {"If-None-Match": answer.headers["etag"]}
        again = client.get(CHANGES, params={"since": 6, "until": 8}, headers=tag)
        assert (again.status_code, again.content) == (304, b"")
        other = client.get(CHANGES, params={"since": 6, "until": 9}, headers=tag)
        assert other.status_code == 200
        assert sum(each["diff"] for each in other.json()["updates"]) == 0
        newest = client.get(CHANGES, params={"since": 6})
        assert newest.json()["until"] == 9
        assert newest.headers["cache-control"] == "public, no-cache"
        everything = client.get(CHANGES, params={"since": 0, "until": 6}).json()["updates"]
        assert sorted(each["row"][0] for each in everything) == ["EU", "US"]
        bound = client.get(CHANGES, params={"since": 0, "until": 6, "where": "n > 1"}).json()["updates"]
        assert [each["row"][0] for each in bound] == ["EU"]
        arrow = client.get(
            CHANGES, params={"since": 6, "until": 8}, headers={"Accept": "application/vnd.apache.arrow.stream"}
        )
        assert sorted(pa.ipc.open_stream(arrow.content).read_all()["_diff"].to_pylist()) == [-1, 1]
        assert arrow.headers["etag"] != answer.headers["etag"]
        for since, until, status in ((8, 6, 400), (6, 99, 404), (99, 99, 404), (0, 2, 404)):
            assert client.get(CHANGES, params={"since": since, "until": until}).status_code == status
        early = client.get(CHANGES, params={"since": 0, "until": 2}).json()
        assert (early["detail"], early["hint"]) == ("there was no by_region in epoch 2", "it was created in epoch 3")
        assert code_of(client.get(CHANGES)) == "bad-request"
        made.db.sql("DROP VIEW big; CREATE VIEW big AS SELECT 1 AS one")
        old = client.get("/api/v1/views/big/changes", params={"since": 4, "until": 6}).json()
        assert len(old["updates"]) == 2  # of the view that had the name then


def test_an_epoch_that_is_no_longer_kept(tmp_path: Any) -> None:
    from tests.server.conftest import SHOP, served

    with vk.connect(tmp_path / "short", engine="sail", keep="1 ms") as db:
        db.sql(SHOP)
        for number in range(3):
            db.sql(f"INSERT INTO orders VALUES ({50 + number}, 'EU', 1)")
        db.compact()
        with served(db) as made, made.client() as client:
            answers = [
                client.get(CHANGES, params={"since": 4, "until": 9}),
                client.get(CHANGES, headers={**SSE, "Last-Event-ID": "4"}),
                client.get("/api/v1/views/by_region/rows", params={"as_of": 4}),
            ]
            for answer in answers:
                assert (answer.status_code, code_of(answer)) == (410, "gone")
                assert answer.json()["oldest"] > 4
            with events(made, params={"since": 4, "reset": "true"}) as found:
                frame = next_frame(found)
                assert frame["reset"] is True
                assert frame["snapshot"] is True
            with connect(made.socket_url) as socket:
                socket.send(json.dumps({"type": "subscribe", "id": "a", "view": "by_region", "since": 4}))
                error = told(socket, "error")
                assert (error["code"], error["id"]) == ("gone", "a")
                assert error["oldest"] > 4


def test_websocket(serve: Callable[..., Served]) -> None:
    made = serve(token=ADMIN)
    with connect(made.socket_url, additional_headers={"Authorization": f"Bearer {ADMIN}"}) as socket:
        hello = told(socket, "hello")
        assert hello["epoch"] == 6
        socket.send(json.dumps({"type": "subscribe", "id": "a", "view": "by_region"}))
        first = told(socket, "frame")
        assert (first["id"], first["snapshot"], len(first["updates"])) == ("a", True, 2)
        assert first["columns"][0] == {"name": "region", "type": "STRING"}
        socket.send(json.dumps({"type": "subscribe", "id": "b", "view": "orders", "since": 6}))
        assert told(socket, "progress") == {"type": "progress", "id": "b", "epoch": 6}
        made.db.sql("INSERT INTO orders VALUES (10, 'ASIA', 1)")
        frames = {message["id"]: message for message in (told(socket, "frame"), told(socket, "frame"))}
        assert frames["a"]["epoch"] == frames["b"]["epoch"] == 7
        assert frames["b"]["updates"] == [{"row": [10, "ASIA", "1.00"], "diff": 1}]
        socket.send(json.dumps({"type": "unsubscribe", "id": "a"}))
        socket.send(
            json.dumps({"type": "subscribe", "id": "c", "view": "orders", "every": "demand", "snapshot": False})
        )
        told(socket, "progress")
        made.db.sql("DELETE FROM orders WHERE id = 10")
        assert told(socket, "frame")["id"] == "b"
        socket.send(json.dumps({"type": "poll", "id": "c"}))
        polled = told(socket, "frame")
        assert (polled["id"], polled["updates"]) == ("c", [{"row": [10, "ASIA", "1.00"], "diff": -1}])


def test_commits_are_followed(serve: Callable[..., Served]) -> None:
    made = serve()
    with connect(made.socket_url) as socket, made.client() as client:
        socket.send(json.dumps({"type": "commits"}))
        socket.send(json.dumps({"type": "subscribe", "view": "by_region"}))
        told(socket, "frame")
        client.post("/api/v1/sql", json={"sql": "INSERT INTO orders VALUES (10, 'ASIA', 1)"})
        commit = told(socket, "commit")
        assert commit["epoch"] == 7
        assert commit["levels"] == [["orders"], ["by_region"]]
        assert commit["changes"]["by_region"] == {"inserted": 1, "deleted": 0}
        assert commit["milliseconds"] > 0


@pytest.mark.parametrize(
    "message",
    ["", "x", "[]", "{}", '{"type": "dance"}', '{"type": "subscribe"}', '{"type": "subscribe", "view": "nothing"}',
     '{"type": "subscribe", "view": "orders", "since": -1}', '{"type": "subscribe", "view": "orders", "since": 99}',
     '{"type": "subscribe", "view": "orders", "where": "1=1) OR (1=1"}', '{"type": "poll", "id": "q"}',
     '{"type": "subscribe", "view": "orders", "every": -1}', '{"type": "subscribe", "view": "orders; SELECT 1"}',
     '{"type": "subscribe", "view": "SELECT * FROM secrets"}', '{"type": "subscribe", "view": "orders", "every": "x"}',
     '{"type": "subscribe", "view": "orders", "precision": "x"}'],
)  # fmt: skip
def test_wrong_messages_are_told_and_the_socket_stays_open(reading: Served, message: str) -> None:
    with connect(reading.socket_url, additional_headers={"Authorization": f"Bearer {ADMIN}"}) as socket:
        socket.send(message)
        error = told(socket, "error")
        assert error["code"] in ("bad-request", "not-found", "sql"), error
        socket.send(b"\xff\xfe")
        assert told(socket, "error")["code"] == "bad-request"


def test_the_end_of_the_server_loses_no_frame(serve: Callable[..., Served]) -> None:
    made = serve()
    got: list[int] = []
    with connect(made.socket_url) as socket, made.client() as client:
        socket.send(json.dumps({"type": "subscribe", "id": "a", "view": "orders", "since": 6}))
        told(socket, "progress")

        def listen() -> None:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    got.append(told(socket, "frame")["epoch"])

        listening = threading.Thread(target=listen)
        listening.start()
        for number in range(5):
            answer = client.post("/api/v1/sql", json={"sql": f"INSERT INTO orders VALUES ({60 + number}, 'EU', 1)"})
            assert answer.status_code == 200
        made.stop()
        listening.join(30)
        assert socket.close_code == 1001
    newest = serve()
    with events(newest, "/api/v1/views/orders/changes", params={"since": got[-1] if got else 6}) as found:
        while not got or got[-1] < 11:
            got.append(next_frame(found)["epoch"])
    assert got == list(range(7, 12))


def test_many_subscribers_get_the_same_and_the_lag_is_measured(serve: Callable[..., Served]) -> None:
    made = serve()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(connect(made.socket_url)) for _ in range(20)]
        for number, socket in enumerate(sockets):
            where = f"region = '{'EU' if number % 2 else 'US'}'" if number % 4 else None
            socket.send(json.dumps({"type": "subscribe", "id": str(number), "view": "orders", "where": where}))
        copies = [Counter({tuple(u["row"]): u["diff"] for u in told(socket, "frame")["updates"]}) for socket in sockets]
        for number in range(10):
            made.db.sql(f"INSERT INTO orders VALUES ({70 + number}, '{'EU' if number % 2 else 'US'}', 1)")
        with made.client() as client:
            text = client.get("/metrics").text
        assert 'viewkeeper_subscriptions{transport="websocket"} 20.0' in text
        lags = re.findall(r'lag_epochs\{subscription="(\d+)",transport="websocket",view="orders"\} (\d+)\.0', text)
        assert len({number for number, _ in lags}) == MOST_MEASURED
        assert all(0 <= int(behind) <= 10 for _, behind in lags)
        for number, (socket, copy) in enumerate(zip(sockets, copies, strict=True)):
            wanted = 13 if number % 4 == 0 else 7 if number % 2 else 6
            while sum(copy.values()) < wanted:
                for update in told(socket, "frame")["updates"]:
                    copy[tuple(update["row"])] += update["diff"]
            assert sum(copy.values()) == wanted


def test_many_are_told_of_progress_by_and_by(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.server.streams.MOST_TOLD", 7)
    monkeypatch.setattr("viewkeeper.server.streams.TICK", 0.05)
    made = serve()
    with connect(made.socket_url) as socket:
        for number in range(30):
            socket.send(json.dumps({"type": "subscribe", "id": number, "view": "by_region", "since": 6}))
        first = [told(socket, "progress")["id"] for _ in range(30)]
        made.db.sql("INSERT INTO secrets VALUES (5, 'x')")
        then = [told(socket, "progress") for _ in range(30)]
        assert {each["id"] for each in then} == set(first) == {str(number) for number in range(30)}
        assert {each["epoch"] for each in then} == {7}


def test_a_subscription_that_nobody_waits_for_is_closed(lake: vk.Database) -> None:
    class Slow(Workers):
        async def derive(self, work: Callable[[], Any]) -> Any:
            made = work()
            await asyncio.sleep(0.05)
            return made

    async def leave() -> None:
        workers = Slow(ServerLimits())
        opening = asyncio.create_task(Streams(lake, workers, ServerMetrics()).open(Asked("orders"), "sse"))
        await asyncio.sleep(0.01)
        assert len(lake._feeds.subscriptions) == 1
        opening.cancel()
        await asyncio.sleep(0.2)
        workers.close()

    asyncio.run(leave())
    assert lake._feeds.subscriptions == []
