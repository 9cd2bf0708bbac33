"""The client of the server: the same SQL and subscriptions, resumed over restarts."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from tests.server.conftest import ADMIN, Served, served
from viewkeeper.client.http_calls import KINDS, Refused, Unreachable
from viewkeeper.client.remote_subscription import RemoteSubscription
from viewkeeper.server import http_problems

TYPES = (
    "a BIGINT, b STRING, d DECIMAL(10,2), ts TIMESTAMP, n TIMESTAMP_NTZ, da DATE, f DOUBLE, bin BINARY, "
    "arr ARRAY<INT>, m MAP<STRING,INT>, s STRUCT<x: INT, y: STRING>, yes BOOLEAN"
)
VALUES = (
    "1, 'it''s', 1.50, TIMESTAMP'2026-01-01 12:00:00', TIMESTAMP_NTZ'2026-01-01 12:00:00', DATE'2026-01-01', "
    "CAST('Infinity' AS DOUBLE), X'00FF', array(1, NULL), map('k', 1), named_struct('x', 1, 'y', 'z'), true"
)


def test_sql_and_its_results(reading: Served) -> None:
    db = vk.client.connect(reading.url, ADMIN)
    result = db.sql("SELECT id, region, amount FROM orders ORDER BY id")
    assert result.columns == ["id", "region", "amount"]
    assert result.rows() == [(1, "EU", Decimal("5.00")), (2, "US", Decimal("20.50")), (3, "EU", Decimal("30.00"))]
    assert result.arrow().equals(reading.db.sql("SELECT id, region, amount FROM orders ORDER BY id").arrow())
    assert db.read("big", where="region = 'EU'").to_pylist() == [{"id": 3, "region": "EU", "amount": Decimal(30)}]
    assert db.changes("by_region", 0, 6)["_diff"].to_pylist() == [1, 1]
    assert [column["name"] for column in db.describe("big")["columns"]] == ["id", "region", "amount"]


def test_commits_previews_and_subscriptions(lake: vk.Database) -> None:
    with served(lake, token=ADMIN) as server:
        db = vk.client.connect(server.url, ADMIN)
        with db.subscribe("by_region", where="region = 'EU'") as subscription:
            first = subscription.next(20)
            assert first is not None
            assert (first.snapshot, first.change.weights()) == (True, {("EU", Decimal("35.00"), 2): 1})
            preview = db.sql("DELETE FROM orders", preview=True).preview
            assert preview is not None
            assert preview["changes"]["by_region"]["deleted"] == 2
            done = db.sql("INSERT INTO orders VALUES (4, 'EU', 1), (5, 'US', 1)").commit
            assert done is not None
            assert done.changes["orders"] == {"inserted": 2, "deleted": 0}
            frame = subscription.next(20)
            assert frame is not None
            assert (frame.epoch, frame.committed_at) == (done.epoch, done.committed_at)
            assert frame.change.weights() == {("EU", Decimal("35.00"), 2): -1, ("EU", Decimal("36.00"), 3): 1}
            assert subscription.next(0.1) is None
        assert subscription.next() is None


def test_values_of_every_type(lake: vk.Database) -> None:
    lake.sql(f"CREATE TABLE kinds ({TYPES}); INSERT INTO kinds VALUES ({VALUES})")
    with served(lake) as server, vk.client.connect(server.url).subscribe("kinds") as subscription:
        frame = subscription.next(20)
        assert frame is not None
        with lake.subscribe("kinds") as local:
            wanted = local.next()
            assert wanted is not None
            assert frame.change.rows.equals(wanted.change.rows)
        assert frame.change.rows["ts"][0].as_py() == dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def test_nothing_is_lost_before_the_stream_begins(lake: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, stream = threading.Event(), RemoteSubscription._stream

    def late(self: RemoteSubscription) -> None:
        assert changed.wait(20)
        stream(self)

    monkeypatch.setattr(RemoteSubscription, "_stream", late)
    with served(lake) as server, vk.client.connect(server.url).subscribe("orders", snapshot=False) as subscription:
        lake.sql("INSERT INTO orders VALUES (4, 'EU', 1)")
        changed.set()
        frame = subscription.next(20)
        assert frame is not None
        assert frame.change.weights() == {(4, "EU", Decimal("1.00")): 1}


def test_a_subscription_outlives_its_server(lake: vk.Database) -> None:
    with served(lake) as server:
        port = int(server.url.rsplit(":", 1)[1])
        subscription = vk.client.connect(server.url).subscribe("orders", snapshot=False)
        lake.sql("INSERT INTO orders VALUES (4, 'EU', 1)")
        frame = subscription.next(20)
        assert frame is not None
    lake.sql("INSERT INTO orders VALUES (5, 'EU', 1)")
    with served(lake, port=port):
        lake.sql("DELETE FROM orders WHERE id = 4")
        frames = [subscription.next(20), subscription.next(20)]
        assert [frame.change.weights() for frame in frames if frame is not None] == [
            {(5, "EU", Decimal("1.00")): 1},
            {(4, "EU", Decimal("1.00")): -1},
        ]
        subscription.close()


def test_asynchronously(lake: vk.Database) -> None:
    async def first(url: str) -> Any:
        with vk.client.connect(url).subscribe("orders") as subscription:
            async for frame in subscription:
                return frame
        return None

    with served(lake) as server:
        assert len(asyncio.run(first(server.url)).change.weights()) == 3


def test_mistakes(reading: Served, tmp_path: Path) -> None:
    db = vk.client.connect(reading.url, ADMIN)
    with pytest.raises(vk.errors.SqlError, match="does not begin a statement"):
        db.sql("SELEC 1")
    with pytest.raises(vk.errors.NotFound, match="no column 'nothing'") as caught:
        db.sql("SELECT nothing FROM orders")
    assert "line 1, column 8" in str(caught.value)
    with pytest.raises(vk.errors.NotFound, match="no table named 'nothing'"):
        db.subscribe("nothing")
    with pytest.raises(vk.errors.ViewkeeperError, match="no epoch 999 yet"):
        db.subscribe("orders", since=999).next(20)
    with pytest.raises(Refused) as refused:
        vk.client.connect(reading.url, "a-token-that-nobody-made").sql("SELECT 1")
    assert refused.value.code == "unauthorized"
    with pytest.raises(Unreachable, match="cannot be reached"):
        vk.client.connect("http://127.0.0.1:9").sql("SELECT 1")
    with pytest.raises(vk.errors.SqlError, match="not the address of a server"):
        vk.client.connect(str(tmp_path))


def test_every_code_of_the_server_is_known() -> None:
    assert {code for _, code, _ in http_problems.KINDS.values()} - {"error"} == set(KINDS)
    for kind, (_, code, _) in http_problems.KINDS.items():
        assert kind is vk.errors.ViewkeeperError or KINDS[code] is kind
