"""Copies equal their views, whatever happens to the connections and to the server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import httpx
import pytest

import viewkeeper as vk
from tests.server.conftest import SHOP
from tests.server.copies import ByEvents, ByPolling, ByWebSocket, Copy
from tests.server.test_serve_verb import Process
from viewkeeper.algebra.types import quote
from viewkeeper.server.row_encoding import json_rows

GRAPH = """
CREATE TABLE edges (a INT, b INT);
CREATE VIEW reach AS WITH RECURSIVE r (a, b) AS
  (SELECT a, b FROM edges UNION SELECT r.a, e.b FROM r JOIN edges e ON e.a = r.b) SELECT a, b FROM r;
INSERT INTO edges VALUES (1, 2), (2, 3)
"""
BOUNDS = {
    "orders": (None, "region = 'EU'", "region = 'US'", "amount > 50"),
    "by_region": (None, "n > 3", "region = 'EU'"),
    "big": (None, "region = 'EU'"),
    "reach": (None, "a = 1", "b > 2"),
}


_IDS = itertools.count(1_000)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def statement(chance: random.Random) -> str:
    """A statement that changes something."""
    kinds = (
        lambda: f"INSERT INTO orders VALUES ({next(_IDS)}, '{chance.choice(('EU', 'US'))}', {chance.randint(1, 99)})",
        lambda: f"UPDATE orders SET amount = amount + 1 WHERE id % 7 = {chance.randint(0, 6)}",
        lambda: f"DELETE FROM orders WHERE id % 11 = {chance.randint(0, 10)} AND id > 3",
        lambda: f"INSERT INTO edges VALUES ({chance.randint(1, 6)}, {chance.randint(1, 6)})",
        lambda: f"DELETE FROM edges WHERE a = {chance.randint(1, 6)}",
        lambda: "INSERT INTO secrets VALUES (1, 'x')",
    )
    return chance.choice(kinds)()


async def write_here(db: vk.Database, chance: random.Random, count: int) -> None:
    """Transactions of this process."""
    for _ in range(count):
        with contextlib.suppress(vk.errors.Conflict):
            await asyncio.to_thread(db.sql, statement(chance))
        await asyncio.sleep(0.02)


async def write_there(url: str, chance: random.Random, count: int) -> None:
    """Transactions through the server."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, verify=False) as client:
        for _ in range(count):
            with contextlib.suppress(httpx.HTTPError):
                answer = await client.post("/api/v1/sql", json={"sql": statement(chance)})
                assert answer.status_code in (200, 409, 503), answer.text
            await asyncio.sleep(0.02)


class Server:
    """A server that is killed and started again at the same address; its log is read so that it never waits."""

    def __init__(self, place: Path, port: int) -> None:
        self._made = Process(place, "--port", str(port))
        stderr = self._made.process.stderr
        assert stderr is not None
        self._stderr = stderr
        self._reading = threading.Thread(target=stderr.read)
        self._reading.start()

    def kill(self) -> None:
        """Ends it at once."""
        self._made.process.send_signal(signal.SIGKILL)
        self._made.process.wait()
        self._reading.join()
        self._stderr.close()


async def play(db: vk.Database, place: Path, copies: list[Copy], port: int, transactions: int, kills: int) -> None:
    """Writes by two processes while the server is killed and started again."""
    url, chance = f"http://127.0.0.1:{port}", random.Random(7)
    server = await asyncio.to_thread(Server, place, port)
    following = [asyncio.create_task(copy.follow()) for copy in copies]
    share = transactions // (kills + 1) // 2
    try:
        for lives in range(kills, -1, -1):
            await asyncio.gather(write_here(db, chance, share), write_there(url, chance, share))
            if lives:
                await asyncio.to_thread(server.kill)
                server = await asyncio.to_thread(Server, place, port)
        async with asyncio.timeout(90):
            while any(copy.epoch < db.epoch for copy in copies):
                await asyncio.sleep(0.1)
                for task in following:
                    if task.done():
                        task.result()
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await asyncio.to_thread(server.kill)


@pytest.mark.parametrize(
    ("copies", "transactions", "kills"),
    [(18, 24, 1), pytest.param(200, 500, 10, marks=pytest.mark.long)],
    ids=["short", "long"],
)
def test_copies_equal_their_views(tmp_path: Path, copies: int, transactions: int, kills: int) -> None:
    place, port = tmp_path / "lake", free_port()
    url = f"http://127.0.0.1:{port}"
    with vk.connect(place, engine="sail", durability="process") as db:
        db.sql(SHOP)
        db.sql(GRAPH)
        kinds = itertools.cycle((ByWebSocket, ByEvents, ByPolling))
        bounds = itertools.cycle([(view, where) for view, several in BOUNDS.items() for where in several])
        made: list[Copy] = []
        for number in range(copies):
            view, where = next(bounds)
            kind = next(kinds)
            every = "1 second" if number % 5 == 4 and kind is not ByPolling else None
            made.append(kind(url, view, where, every, random.Random(number)))
        asyncio.run(play(db, place, made, port, transactions, kills))
        for copy in made:
            suffix = "" if copy.where is None else f" WHERE {copy.where}"
            table = db.sql(f"SELECT * FROM {quote(copy.view)}{suffix}").arrow()
            assert copy.rows == Counter(json.dumps(row) for row in json_rows(table)), copy
        assert sum(copy.connections for copy in made) > copies
