"""Small commits with their rows in the ledger entry beside commits with files: `python benchmarks/one_file.py`.

Two databases with the same table and five views take turns in one run; one of them writes files (`inlined_rows=0`).
Prints medians of a commit of ten rows, and per commit the calls of fsync, the new files and the new threads, as counted
while the commit runs; housekeeping is waited for after each commit and counted apart.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import platform
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import viewkeeper as vk

VIEWS = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, region STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(12, 2), day DATE);
CREATE MATERIALIZED VIEW named AS SELECT o.id, c.region, o.amount FROM orders o JOIN customer c ON c.id = o.customer;
CREATE MATERIALIZED VIEW by_region AS
    SELECT c.region, count(*) AS n, sum(o.amount) AS total
    FROM orders o JOIN customer c ON c.id = o.customer GROUP BY c.region;
CREATE MATERIALIZED VIEW by_day AS SELECT day, count(*) AS n, max(amount) AS most FROM orders GROUP BY day;
CREATE MATERIALIZED VIEW large AS SELECT id, amount FROM orders WHERE amount > 500;
CREATE MATERIALIZED VIEW idle AS
    SELECT id FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id);
"""
CUSTOMERS = 1_000


@contextlib.contextmanager
def counted(path: str) -> Iterator[Counter[str]]:
    """Calls of fsync and starts of threads in this process, and files that are new under a path."""
    found: Counter[str] = Counter()
    before = set(Path(path).rglob("*.*"))
    caller = threading.current_thread()
    fsync, start = os.fsync, threading.Thread.start

    def synced(handle: int) -> None:
        if "housekeeping" not in threading.current_thread().name:
            found["fsyncs"] += 1
        fsync(handle)

    def started(self: threading.Thread) -> None:
        if threading.current_thread() is caller:
            found["threads"] += 1
        start(self)

    os.fsync, threading.Thread.start = synced, started  # type: ignore[assignment,method-assign]
    try:
        yield found
    finally:
        os.fsync, threading.Thread.start = fsync, start  # type: ignore[method-assign]
    found["files"] += len([file for file in set(Path(path).rglob("*.*")) - before if "scratch" not in file.parts])


class Side:
    """One database, and what its commits took."""

    def __init__(self, path: str, engine: str, tuning: vk.Tuning, rows: int) -> None:
        self.db = vk.connect(path, engine=engine, tuning=tuning)
        self.db.sql(VIEWS)
        with self.db.transaction() as tx:
            regions = [f"region {number % 25}" for number in range(CUSTOMERS)]
            tx.insert("customer", pa.table({"id": range(CUSTOMERS), "region": regions}))
        with self.db.transaction() as tx:
            tx.insert("orders", orders(0, rows))
        self.db.compact()
        self.took: list[float] = []
        self.waited: list[float] = []
        self.counts: Counter[str] = Counter()

    def commit(self, first: int, count: int, *, note: bool) -> None:
        """Inserts some orders, and waits for housekeeping."""
        rows = orders(first, count)
        with counted(self.db.path) as found:
            began = time.perf_counter()
            with self.db.transaction() as tx:
                tx.insert("orders", rows)
            took = time.perf_counter() - began
        began = time.perf_counter()
        self.db._store.housekeeping.wait()
        if note:
            self.took.append(took * 1000)
            self.waited.append((time.perf_counter() - began) * 1000)
            self.counts += found

    def line(self, name: str) -> str:
        """A row of the table."""
        ordered, n = sorted(self.took), len(self.took)
        p99 = ordered[min(n - 1, round(0.99 * n))]
        each = " | ".join(f"{self.counts[what] / n:.1f}" for what in ("fsyncs", "files", "threads"))
        return f"| {name} | {statistics.median(ordered):.1f} | {p99:.1f} | {each} | {sum(self.waited) / n:.1f} |"


def orders(first: int, count: int) -> pa.Table:
    """Some orders; every commit reaches every view."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": numbers,
            "customer": [(number * 7919) % CUSTOMERS for number in numbers],
            "amount": [Decimal(number % 1000) + Decimal("0.50") for number in numbers],
            "day": [dt.date(2026, number % 12 + 1, number % 28 + 1) for number in numbers],
        }
    )


def main() -> None:
    """Runs both sides in turn and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sail")
    parser.add_argument("--rows", type=int, default=20_000, help="orders before the first commit")
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--size", type=int, default=10, help="orders of a commit")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as place:
        sides = {
            "files": Side(f"{place}/files", options.engine, vk.Tuning(inlined_rows=0), options.rows),
            "entry": Side(f"{place}/entry", options.engine, vk.Tuning(), options.rows),
        }
        for number in range(options.commits + 5):
            turn = list(sides.values()) if number % 2 else list(sides.values())[::-1]
            for side in turn:
                side.commit(options.rows + number * options.size, options.size, note=number >= 5)
        print(f"{options.engine}, {options.commits} commits of {options.size} rows, five views, {platform.machine()}")
        print("| rows in | p50 ms | p99 ms | fsyncs | new files | new threads | housekeeping ms |")
        print("|---|---|---|---|---|---|---|")
        for name, side in sides.items():
            print(side.line(name))
            assert side.db.verify().equal
            side.db.close()


if __name__ == "__main__":
    main()
