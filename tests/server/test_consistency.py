"""Distributed consistency: copies far away equal their views, although connections break and the server is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import viewkeeper as vk
from tests.processes import ROOT, clean_environment, command
from tests.server import consistency_writer
from tests.server.consistency_writer import CUSTOMERS, NODES
from tests.server.distant_copies import Copy, Row, Subscribers, digest, part_of
from viewkeeper.feed.subscription import MOST_FRAMES

PATHS = (
    "WITH RECURSIVE p(a, b) AS (SELECT a, b FROM edges UNION SELECT p.a, e.b FROM p JOIN edges e ON p.b = e.a) "
    "SELECT a, b FROM p"
)
SETUP = f"""
CREATE TABLE customers (id BIGINT PRIMARY KEY, region STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT);
CREATE TABLE edges (a BIGINT, b BIGINT);
CREATE MATERIALIZED VIEW by_region AS
    SELECT region, count(*) AS n, sum(amount) AS total FROM orders JOIN customers c ON customer = c.id GROUP BY region;
CREATE VIEW by_customer AS SELECT customer, count(*) AS n, max(amount) AS most FROM orders GROUP BY customer;
CREATE VIEW lines AS SELECT region, amount FROM orders JOIN customers c ON customer = c.id;
CREATE VIEW paths AS {PATHS};
CREATE MATERIALIZED VIEW stored_paths AS {PATHS};
INSERT INTO customers SELECT id, CASE WHEN id % 3 = 0 THEN 'EU' WHEN id % 3 = 1 THEN 'US' END FROM range({CUSTOMERS});
INSERT INTO orders SELECT -id, id % {CUSTOMERS}, id % 4 FROM range(1, 40);
INSERT INTO edges VALUES (0, 1), (1, 2), (2, 3), (3, 1)
"""
VIEWS = ("orders", "by_region", "by_customer", "lines", "paths", "stored_paths")
WITHOUT_DUPLICATES = ("orders", "by_customer", "by_region", "paths", "stored_paths")

Part = Callable[[Row], bool]


def bound(view: str, rng: random.Random) -> tuple[str, Part]:
    """A condition on the rows of a view, and the same in Python."""
    customer, node, amount = rng.randrange(CUSTOMERS), rng.randrange(NODES), rng.randrange(4)
    region = rng.choice(("EU", "US", "it's", "nowhere"))
    escaped = region.replace("'", "\\'")
    found: dict[str, list[tuple[str, Part]]] = {
        "orders": [
            (f"customer = {customer}", lambda row: row[1] == customer),
            (f"amount > {amount} AND customer < 10", lambda row: row[2] > amount and row[1] < 10),
        ],
        "by_region": [
            (f"region = '{escaped}'", lambda row: row[0] == region),
            ("n >= 5 OR region IS NULL", lambda row: row[1] >= 5 or row[0] is None),
        ],
        "by_customer": [(f"customer = {customer}", lambda row: row[0] == customer)],
        "lines": [
            (f"region = '{escaped}'", lambda row: row[0] == region),
            (f"amount = {amount}", lambda row: row[1] == amount),
        ],
        "paths": [
            (f"a = {node}", lambda row: row[0] == node),
            (f"b = {node} AND a = 1", lambda row: row == (1, node)),
            (f"b > {node}", lambda row: row[1] > node),
        ],
    }
    found["stored_paths"] = found["paths"]
    return rng.choice(found[view])


def random_copy(rng: random.Random, transport: str) -> Copy:
    """A copy of any view, bound or not, in a quality that the transport has."""
    copy = Copy(rng.choice(VIEWS))
    while rng.random() < 0.5 or (transport == "electric" and "\\" in (copy.where or "")):  # which has other escapes
        copy.where, copy.part = bound(copy.view, rng)
    if transport not in ("polling", "electric"):
        if copy.view in WITHOUT_DUPLICATES and rng.random() < 0.25:
            copy.precision = "nervous"
        paces = [None, None, None, "0.3 seconds", "2 seconds", *(["demand"] if transport == "websocket" else [])]
        copy.every = rng.choice(paces)
    return copy


def start_subscribers(subscribers: Subscribers, rng: random.Random, count: int) -> None:
    """Half over WebSocket, some of them sharing one; the others over events, polling, the client, and some shapes."""
    for _ in range(max(2, count // 20)):
        subscribers.add("electric", random_copy(rng, "electric"))
    while len(subscribers.copies) < count:
        transport = rng.choice(("websocket",) * 4 + ("sse",) * 3 + ("polling",) * 2 + ("client",))
        shared = rng.choice((1, 1, 1, 3)) if transport == "websocket" else 1
        subscribers.add(transport, *(random_copy(rng, transport) for _ in range(shared)))


class KilledServer:
    """`viewkeeper serve` in a process of its own, always on the same port."""

    def __init__(self, lake: Path, engine: str, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        given = ["--db", str(lake), "--engine", engine]
        given += ["--timeout", "10 minutes"] if engine == "spark" else []  # copies of recursive views share two cores
        given += ["serve", "--port", str(self.port), "--rate", "10000"]
        self._command = [sys.executable, "-c", "from viewkeeper.cli import main; main()", *given]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Starts it, and waits until it is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=clean_environment(), stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + 120
        async with httpx.AsyncClient(trust_env=False) as client:
            while time.monotonic() < until:
                assert self._process.poll() is None, self._log.read_text()
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"{self.url}/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.05)
        raise AssertionError(self._log.read_text())

    def kill(self) -> None:
        """Kills it, and the engine with it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


async def run(
    lake: Path, engine: str, ways: tuple[str, ...], *, seed: int, subscribers: int, transactions: int, kills: int
) -> Subscribers:
    """Copies beside writers and kills, up to the end."""
    rng = random.Random(seed)
    server = KilledServer(lake, engine, lake.parent / "server.log")
    writers: list[asyncio.subprocess.Process] = []
    made = Subscribers(server.url, seed)
    committed = 0

    async def read(writer: asyncio.subprocess.Process) -> None:
        nonlocal committed
        assert writer.stdout is not None
        async for _ in writer.stdout:
            committed += 1

    try:
        await server.start()
        start_subscribers(made, rng, subscribers)
        for number, way in enumerate(ways, 1):
            each = transactions // len(ways)
            started = await asyncio.create_subprocess_exec(
                *command(consistency_writer, lake, engine, server.url, way, seed * 10 + number, each, 0.05),
                cwd=ROOT,
                env=clean_environment(),
                stdout=subprocess.PIPE,
            )
            writers.append(started)
        reading = [asyncio.create_task(read(writer)) for writer in writers]
        for number in range(1, kills + 1):
            while committed < number * transactions // (kills + 1):
                made.check()
                assert all(writer.returncode in (None, 0) for writer in writers)
                await asyncio.sleep(0.05)
            server.kill()
            await asyncio.sleep(rng.uniform(0, 0.5))
            await server.start()
        await asyncio.gather(*reading)
        assert [await writer.wait() for writer in writers] == [0] * len(writers)
        assert committed == transactions // len(ways) * len(ways)
        with vk.connect(lake, engine="sail") as db:
            made.contents = {view: contents(db, view, db.epoch) for view in VIEWS}
            made.target = db.epoch
        began = time.monotonic()
        await made.finish(400)
        print(f"{len(made.copies)} copies were at epoch {made.target} after {time.monotonic() - began:.1f} s;", end=" ")
        print(f"{sum(copy.connections for copy in made.copies)} connections, {made.refused} refused")
        await made.close()
        await nobody_is_left(server.url)
    finally:
        await made.close()
        for writer in writers:
            if writer.returncode is None:
                writer.kill()
                await writer.wait()
        server.kill()
    return made


async def nobody_is_left(url: str) -> None:
    """The server has forgotten every subscription whose client has gone."""
    text = ""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        for _ in range(100):
            text = (await client.get(f"{url}/metrics")).text
            open_ones = [line for line in text.splitlines() if line.startswith("viewkeeper_subscriptions{")]
            if all(line.endswith(" 0.0") for line in open_ones):
                return
            await asyncio.sleep(0.1)
    raise AssertionError(open_ones)


def contents(db: vk.Database, view: str, epoch: int) -> Counter[Row]:
    return Counter(db.sql(f"SELECT * FROM {view} AS OF EPOCH {epoch}").rows())


def check_copies(db: vk.Database, copies: list[Copy], seed: int) -> int:
    """Every copy equals its view now, and did after each frame of some epochs; how many were compared."""
    now = {view: contents(db, view, db.epoch) for view in VIEWS}
    for copy in copies:
        assert copy.rows == part_of(now[copy.view], copy), f"{copy}, frames {list(copy.states)}"
    compared = 0
    for epoch in random.Random(seed).sample(range(db.epoch // 3, db.epoch), 8):
        for view in VIEWS:
            had = [copy for copy in copies if copy.view == view and epoch in copy.states]
            then = contents(db, view, epoch) if had else Counter()
            for copy in had:
                wanted = digest(part_of(then, copy))
                assert copy.states[epoch] == wanted, f"{copy} at epoch {epoch}, frames {list(copy.states)}"
                compared += 1
    return compared


def check_twins(db: vk.Database, begin: int) -> None:
    """The virtual recursive view has the feed of its stored twin, and nothing of it is stored."""
    for since in range(begin, db.epoch, MOST_FRAMES):
        feeds: dict[str, list[Any]] = {}
        for name in ("paths", "stored_paths"):
            with db.subscribe(name, since=since, until=min(since + MOST_FRAMES, db.epoch)) as subscription:
                feeds[name] = [(frame.epoch, frame.committed_at, frame.change.weights()) for frame in subscription]
        assert feeds["paths"] == feeds["stored_paths"]
    listed = {each["name"]: each for each in db.ls(hidden=True)}
    assert (listed["paths"]["files"], listed["paths"]["stored_rows"]) == (0, 0)
    assert listed["stored_paths"]["stored_rows"] > 0


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql(SETUP)
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("seed", "subscribers", "transactions", "kills"),
    [(1, 40, 60, 3), pytest.param(2, 200, 500, 10, marks=pytest.mark.long)],
)
def test_every_copy_equals_its_view(lake: Path, seed: int, subscribers: int, transactions: int, kills: int) -> None:
    sizes = {"subscribers": subscribers, "transactions": transactions, "kills": kills}
    made = asyncio.run(run(lake, "sail", ("direct", "both"), seed=seed, **sizes))
    with vk.connect(lake, engine="sail") as db:
        begin = db.epoch - transactions
        compared = check_copies(db, made.copies, seed)
        print(f"{compared} copies compared at earlier epochs")
        assert compared > subscribers / 4
        check_twins(db, begin)


@pytest.mark.long
def test_every_copy_equals_its_view_on_spark(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with vk.connect(lake, engine="spark") as db:
        db.sql(SETUP)
        made = asyncio.run(run(lake, "spark", ("server", "server"), seed=3, subscribers=20, transactions=30, kills=1))
        check_copies(db, made.copies, 3)
        check_twins(db, db.epoch - 30)
