"""Loads TPC-H and measures small transactions: `python benchmarks/tpch_load.py --scale 1 --engine sail --engine spark`.

Prints, for each engine in one run: load rows/s per table, and the median time of a transaction that inserts 10 orders
with their lineitems (about 40 rows) into the loaded tables, all keys declared:

- "spread": order keys drawn over the whole key range (TPC-H leaves gaps in it), so that each key has to be looked up
  in another file of both tables;
- "append": order keys beyond all others, as a stream of new orders has them;

both right after the load and again after --epochs further epochs, and the ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

import viewkeeper as vk
from tpch_orders import data_directory, generate
from tpch_schema import KEYS, ORDER, create_statement, order_rows


def insert_orders(db: vk.Database, keys: list[int], rng: random.Random) -> float:
    orders, lines = order_rows(keys, rng)
    began = time.perf_counter()
    with db.transaction() as tx:
        tx.insert("orders", orders)
        tx.insert("lineitem", lines)
    return time.perf_counter() - began


class Keys:
    """Unused order keys: gaps of the loaded range, each used once, and keys beyond it."""

    def __init__(self, highest: int, rng: random.Random) -> None:
        self.highest = self.loaded = highest
        self.rng = rng
        self.used: set[int] = set()

    def spread(self, count: int) -> list[int]:
        chosen: list[int] = []
        while len(chosen) < count:
            key = self.rng.randrange(self.loaded // 32) * 32 + self.rng.randrange(8, 32)
            if key not in self.used and key % 32 >= 8:
                self.used.add(key)
                chosen.append(key)
        return chosen

    def append(self, count: int) -> list[int]:
        keys = list(range(self.highest + 1, self.highest + 1 + count))
        self.highest += count
        return keys


def median_ms(db: vk.Database, draw: object, rounds: int, rng: random.Random) -> float:
    times = [insert_orders(db, draw(10), rng) for _ in range(rounds)]  # type: ignore[operator]
    return statistics.median(times) * 1000


def measure(engine: str, data: Path, epochs: int, rounds: int, where: Path) -> dict[str, object]:
    rng = random.Random(7)
    db = vk.connect(where, engine=engine)
    db.sql("SELECT 1").rows()  # the engine is started before anything is timed
    found: dict[str, object] = {"engine": engine, "load": {}}
    total = 0.0
    for table in ORDER:
        db.sql(create_statement(table))
        began = time.perf_counter()
        db.load(table, str(data / f"{table}.parquet"))
        took = time.perf_counter() - began
        total += took
        rows = pq.read_metadata(data / f"{table}.parquet").num_rows
        files = next(row["files"] for row in db.ls() if row["name"] == table)
        found["load"][table] = {"rows": rows, "seconds": took, "rows_per_second": rows / took, "files": files}  # type: ignore[index]
        print(
            f"  {engine:6} load {table:9} {rows:>11,} rows {took:7.1f} s {rows / took:>11,.0f} rows/s {files:>4} files"
        )
    highest = max(pq.ParquetFile(data / "orders.parquet").read(["o_orderkey"])["o_orderkey"].to_pylist())
    keys = Keys(highest, rng)
    median_ms(db, keys.spread, 3, rng)
    first = {"spread": median_ms(db, keys.spread, rounds, rng), "append": median_ms(db, keys.append, rounds, rng)}
    before = db.epoch
    while db.epoch < before + epochs:
        insert_orders(db, keys.append(10), rng)
    after = {"spread": median_ms(db, keys.spread, rounds, rng), "append": median_ms(db, keys.append, rounds, rng)}
    found.update(first_ms=first, after_ms=after, epochs=epochs, load_seconds=total)
    for name in first:
        print(
            f"  {engine:6} 10 orders, {name:6} {first[name]:8.1f} ms after the load, "
            f"{after[name]:8.1f} ms after {epochs} epochs, ratio {after[name] / first[name]:.2f}"
        )
    files = {row["name"]: row["files"] for row in db.ls() if row["name"] in ("orders", "lineitem")}
    print(f"  {engine:6} files after {epochs} epochs: {files}")
    db.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--engine", action="append", choices=["sail", "spark"])
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--data", type=Path, default=None, help="where TPC-H files are or go")
    parser.add_argument("--json", type=Path, default=None, help="also write the numbers there")
    options = parser.parse_args()
    data = options.data or data_directory(options.scale)
    generate(options.scale, data)
    print(f"TPC-H SF{options.scale:g}, {platform.machine()}, keys declared: {', '.join(KEYS)}")
    results = []
    for engine in options.engine or ["sail", "spark"]:
        with tempfile.TemporaryDirectory(prefix="viewkeeper-bench-") as place:
            results.append(measure(engine, data, options.epochs, options.rounds, Path(place) / "lake"))
            shutil.rmtree(Path(place) / "lake", ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps({"scale": options.scale, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
