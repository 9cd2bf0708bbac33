"""Subscribers over WebSocket while a server commits: `python benchmarks/subscribers.py [--engine sail]`.

One view of totals per customer over a table of orders. Every commit adds an order; ten commits a second are asked for.
First 100 busy subscribers get every change of the view and 1,000 idle ones are bound to customers without changes. Then
10,000 subscribers are bound to one customer each, of whom 100 change with every commit. Each subscriber checks that its
frames come once, in order and complete. Times are from `committed_at` to the moment at which a subscriber
has the frame; the commit's "own time" is how long the statement took inside the server.

Beside it, without subscriptions: a client that reads the whole view after every commit, and DuckDB in memory, which
computes it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import itertools
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
from websockets.asyncio.client import connect

import viewkeeper as vk
from viewkeeper.server.running_server import serve
from viewkeeper.server.server_settings import ServerLimits, ServerSettings

CUSTOMERS = 10_000
ORDERS = 50_000
VIEW = "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer"
PER_SOCKET = 200
IDS = itertools.count(ORDERS)
LIMITS = ServerLimits(connections=5_000, connections_per_client=5_000, rate=1e6, burst=1_000_000, waiting=20_000)


def serve_here(path: str, engine: str, port: int) -> None:
    """The server, in a process of its own."""
    with vk.connect(path, engine=engine) as db:
        serve(db, ServerSettings(port=port, limits=LIMITS))


class Arrivals:
    """When frames of each epoch came, over all subscribers, and what was wrong with them."""

    def __init__(self) -> None:
        self.at: dict[int, list[float]] = {}
        self.wrong: list[str] = []
        self.frames = 0


class Subscriber:
    """One subscription; its frames come in order, and each deletes what the one before has inserted."""

    def __init__(self, where: str | None, arrivals: Arrivals) -> None:
        self.where = where
        self.epochs: list[int] = []
        self.rows: dict[int, tuple[int, int]] = {}
        self.arrivals = arrivals

    def take(self, frame: dict[str, Any], now: float) -> None:
        """Applies a frame."""
        epoch = frame["epoch"]
        if self.epochs and epoch <= self.epochs[-1]:
            self.arrivals.wrong.append(f"epoch {epoch} after {self.epochs[-1]} of {self.where}")
        self.epochs.append(epoch)
        for update in sorted(frame["updates"], key=lambda update: update["diff"]):
            customer, n, total = update["row"]
            if update["diff"] > 0:
                self.rows[customer] = (n, int(total))
            elif self.rows.pop(customer, (n, int(total))) != (n, int(total)):
                self.arrivals.wrong.append(f"another row is deleted in epoch {epoch} of {self.where}")
        if not frame["snapshot"]:
            self.arrivals.frames += 1
            self.arrivals.at.setdefault(epoch, []).append(now)


async def follow(url: str, subscribers: list[Subscriber], since: int, ready: asyncio.Semaphore) -> None:
    """Follows several subscriptions over one WebSocket."""
    async with connect(url, max_size=None, proxy=None, open_timeout=120, ping_interval=None) as stream:
        for number, one in enumerate(subscribers):
            asked = {"type": "subscribe", "id": number, "view": "totals", "since": since}
            await stream.send(json.dumps(asked | ({} if one.where is None else {"where": one.where})))
        heard: set[str] = set()
        async for text in stream:
            now = time.time()
            message = json.loads(text)
            if message["type"] == "frame":
                subscribers[int(message["id"])].take(message, now)
            elif message["type"] == "error":
                raise RuntimeError(message)
            elif message["type"] == "progress" and message["id"] not in heard:
                heard.add(message["id"])
                ready.release()


@contextlib.asynccontextmanager
async def following(
    address: str, since: int, groups: list[list[Subscriber]], arrivals: Arrivals
) -> AsyncIterator[float]:
    """Subscribers, each group over one WebSocket; gives the seconds until all were ready."""
    ready = asyncio.Semaphore(0)
    began = time.monotonic()
    url = f"ws://{address}/api/v1/stream"
    tasks = [asyncio.create_task(follow(url, group, since, ready)) for group in groups]
    for _ in range(sum(map(len, groups))):
        waiting = asyncio.create_task(ready.acquire())
        await asyncio.wait((waiting, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        await waiting
    try:
        yield time.monotonic() - began
    finally:
        for task in tasks:
            if task.done():
                arrivals.wrong.append(f"a stream ended: {task.exception()}")
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Commits:
    """Commits through the server at a steady pace."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.polled: list[float] = []

    async def make(self, count: int, rate: float, customers: int, *, rows: int = 1, polls: bool = False) -> float:
        """Makes commits, each for the next customers; returns how many were made in a second."""
        began = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            values = ", ".join(f"({each}, {each % customers}, 1)" for each in itertools.islice(IDS, rows))
            answer = await self.client.post("/api/v1/sql", json={"sql": f"INSERT INTO orders VALUES {values}"})
            answer.raise_for_status()
            if polls:
                at = time.monotonic()
                (await self.client.get("/api/v1/views/totals/rows", params={"limit": CUSTOMERS})).raise_for_status()
                self.polled.append(time.monotonic() - at)
        return count / (time.monotonic() - began)

    async def newest(self, count: int) -> dict[int, tuple[float, float]]:
        """Of the newest commits: when each was made, and how long it took in the server."""
        found: dict[int, tuple[float, float]] = {}
        before: int | None = None
        while len(found) < count:
            params = {"limit": min(100, count - len(found)), **({} if before is None else {"before": before})}
            for each in (await self.client.get("/api/v1/commits", params=params)).json()["commits"]:
                at = dt.datetime.fromisoformat(each["committed_at"]).timestamp()
                found[each["epoch"]] = (at, each["milliseconds"] / 1000)
                before = each["epoch"]
        return found


def percent(values: list[float], part: float) -> float:
    """A percentile, in milliseconds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000


def resident(process: int) -> float:
    """The memory of a process, in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def measure(
    name: str, address: str, process: int, groups: list[list[Subscriber]], wanted: int, *, commits: dict[str, Any]
) -> None:
    """Subscribes, commits, waits until all frames have come, and prints what that took."""
    arrivals = groups[0][0].arrivals
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=120, trust_env=False) as client:
        since = (await client.get("/api/v1/commits", params={"limit": 1})).json()["commits"][0]["epoch"]
        async with following(address, since, groups, arrivals) as setup:
            rate = await Commits(client).make(**commits)
            until = time.monotonic() + 60
            while arrivals.frames < wanted and time.monotonic() < until:
                await asyncio.sleep(0.1)
            memory = resident(process)
        made = await Commits(client).newest(commits["count"])
    waits = [at - made[epoch][0] for epoch, found in arrivals.at.items() for at in found]
    own = [seconds for _, seconds in made.values()]
    ratios = [percent(waits, 0.99) / percent(own, part) for part in (0.5, 0.99)]
    count = sum(map(len, groups))
    print(f"{name}: {count:,} subscribers over {len(groups):,} WebSockets, ready after {setup:.1f} s")
    print(f"  {len(own)} commits, {rate:.1f} a second; own time p50 {percent(own, 0.5):.0f} ms, p99", end=" ")
    print(f"{percent(own, 0.99):.0f} ms; server {memory:.0f} MiB")
    print(f"  {arrivals.frames:,} frames of {wanted:,}; wrong, repeated or out of order: {len(arrivals.wrong)}")
    print(f"  commit to arrival p50 {percent(waits, 0.5):.0f} ms, p99 {percent(waits, 0.99):.0f} ms:", end=" ")
    print(f"p99 is {ratios[0]:.1f} times the p50 and {ratios[1]:.1f} times the p99 of the commit itself (aim: below 3)")
    sys.stdout.flush()
    for each in arrivals.wrong[:5]:
        print(f"  {each}")


async def polling(address: str, count: int, rate: float) -> None:
    """The whole view read after every commit, and computed by DuckDB."""
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=120, trust_env=False) as client:
        commits = Commits(client)
        made = await commits.make(count, rate, CUSTOMERS, polls=True)
    print(f"without subscriptions, one client reads the {CUSTOMERS:,} rows of the view after every commit:")
    print(f"  p50 {percent(commits.polled, 0.5):.0f} ms, p99 {percent(commits.polled, 0.99):.0f} ms;", end=" ")
    print(f"{made:.1f} commits a second")
    with duckdb.connect() as other:
        other.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT)")
        other.sql(f"INSERT INTO orders SELECT range, range % {CUSTOMERS}, 1 FROM range({ORDERS})")
        taken = []
        for number in range(count):
            other.sql(f"INSERT INTO orders VALUES ({ORDERS + number}, {number % CUSTOMERS}, 1)")
            at = time.monotonic()
            other.sql(VIEW).fetchall()
            taken.append(time.monotonic() - at)
    print(f"  DuckDB in memory computes them in p50 {percent(taken, 0.5):.0f} ms, p99 {percent(taken, 0.99):.0f} ms")


async def bench(address: str, process: int, seconds: float, rate: float, scale: float) -> None:
    """All measurements, one after the other."""
    count = round(seconds * rate)
    busy, idle, many = (max(1, round(number * scale)) for number in (100, 1_000, 10_000))
    arrivals = Arrivals()
    everything = [[Subscriber(None, arrivals)] for _ in range(busy)]
    quiet = [[Subscriber(f"customer = {CUSTOMERS + number}", arrivals)] for number in range(idle)]
    made = {"count": count, "rate": rate, "customers": CUSTOMERS}
    await measure("busy and idle", address, process, everything + quiet, busy * count, commits=made)
    arrivals = Arrivals()
    bound = [Subscriber(f"customer = {number}", arrivals) for number in range(many)]
    groups = [bound[first : first + PER_SOCKET] for first in range(0, many, PER_SOCKET)]
    made |= {"customers": many, "rows": 100}
    await measure("bound", address, process, groups, 100 * count, commits=made)
    await polling(address, count, rate)


@contextlib.contextmanager
def running(path: str, engine: str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: its address and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = subprocess.Popen(
        [sys.executable, __file__, "--serve", path, str(port), "--engine", engine], stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and started.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200:
                    break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}", started.pid
    finally:
        started.terminate()
        started.wait(60)


def main() -> None:
    """Reads the arguments, and runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sail", choices=["sail", "spark"])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the subscribers")
    parser.add_argument("--serve", nargs=2, metavar=("PATH", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve_here(given.serve[0], given.engine, int(given.serve[1]))
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    load = os.getloadavg()[0]
    print(f"{CUSTOMERS:,} customers, {ORDERS:,} orders, {platform.machine()}, {given.engine}", end=", ")
    print(f"load of the machine before: {load:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/lake"
        with vk.connect(path, engine=given.engine) as db:
            db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT)")
            db.sql(f"INSERT INTO orders SELECT id, id % {CUSTOMERS}, 1 FROM range({ORDERS})")
            db.sql(f"CREATE MATERIALIZED VIEW totals AS {VIEW}")
        with running(path, given.engine) as (address, process):
            asyncio.run(bench(address, process, given.seconds, given.rate, given.scale))


if __name__ == "__main__":
    main()
