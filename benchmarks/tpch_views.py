"""Maintains TPC-H views and measures it: `python benchmarks/tpch_views.py --scale 1 --engine sail --engine spark`.

For Q1, Q3, Q5, Q10, Q18, the customers without orders, and min/max/avg of o_totalprice per nation: the time of a
commit of N orders with their lineitems (inserted, deleted, and half of each) while the views are maintained
incrementally ("by change"), beside the time of a full refresh ("anew") on the same engine, in one run. One view alone
and all together. For each view it also says from which of the tried sizes on `auto` chose full, and which refresh was
faster there.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import viewkeeper as vk
from tpch_load import ROOT, Keys, generate
from tpch_queries import QUERIES
from tpch_schema import ORDER, create_statement, order_rows

VIEWS = {
    "q1": QUERIES["q1"],
    "q3": QUERIES["q3"],
    "q5": QUERIES["q5"],
    "q10": QUERIES["q10"],
    "q18": QUERIES["q18"],
    "without_orders": "SELECT c_custkey, c_name, c_nationkey FROM customer "
    "WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)",
    "per_nation": "SELECT n_name, count(*) AS orders, min(o_totalprice) AS low, max(o_totalprice) AS high, "
    "avg(o_totalprice) AS mean FROM orders JOIN customer ON o_custkey = c_custkey "
    "JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name",
}

SIZES = (10, 1_000, 15_000)

LARGE = 60_000
"""One more size for each view alone, to see where a full refresh becomes cheaper."""

CLOSE = 1.25
"""A choice is right if that refresh took at most so many times as long as the other."""


class Bench:
    """A loaded database, and orders to insert and delete."""

    def __init__(self, engine: str, data: Path, where: Path) -> None:
        self.rng = random.Random(11)
        self.db = vk.connect(where, engine=engine)
        for table in ORDER:
            self.db.sql(create_statement(table))
            self.db.load(table, str(data / f"{table}.parquet"))
        highest = max(pq.ParquetFile(data / "orders.parquet").read(["o_orderkey"])["o_orderkey"].to_pylist())
        self.keys = Keys(highest, self.rng)
        self.orders: list[Any] = []
        self.lines: list[Any] = []

    def insert(self, count: int) -> tuple[float, Any]:
        """Inserts orders over the whole key range."""
        orders, lines = order_rows(self.keys.spread(count), self.rng)
        began = time.perf_counter()
        with self.db.transaction() as tx:
            tx.insert("orders", orders)
            tx.insert("lineitem", lines)
        took = time.perf_counter() - began
        self.orders += orders
        self.lines += lines
        return took, tx.commit_info

    def delete(self, count: int) -> tuple[float, Any]:
        """Deletes orders that were inserted before."""
        orders, lines = self._take(count)
        began = time.perf_counter()
        with self.db.transaction() as tx:
            tx.delete_by_key("lineitem", [(line[0], line[3]) for line in lines])
            tx.delete_by_key("orders", [order[0] for order in orders])
        return time.perf_counter() - began, tx.commit_info

    def mixed(self, count: int) -> tuple[float, Any]:
        """Inserts half, deletes half."""
        half = max(1, count // 2)
        gone, gone_lines = self._take(half)
        orders, lines = order_rows(self.keys.spread(half), self.rng)
        began = time.perf_counter()
        with self.db.transaction() as tx:
            tx.delete_by_key("lineitem", [(line[0], line[3]) for line in gone_lines])
            tx.delete_by_key("orders", [order[0] for order in gone])
            tx.insert("orders", orders)
            tx.insert("lineitem", lines)
        took = time.perf_counter() - began
        self.orders += orders
        self.lines += lines
        return took, tx.commit_info

    def _take(self, count: int) -> tuple[list[Any], list[Any]]:
        taken, self.orders = self.orders[:count], self.orders[count:]
        keys = {order[0] for order in taken}
        lines = [line for line in self.lines if line[0] in keys]
        self.lines = [line for line in self.lines if line[0] not in keys]
        return taken, lines

    def create(self, names: list[str], refresh: str) -> None:
        """Makes views."""
        for name in names:
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = '{refresh}') AS {VIEWS[name]}")

    def drop(self, names: list[str]) -> None:
        """Drops views."""
        for name in names:
            self.db.sql(f"DROP MATERIALIZED VIEW {name}")


def rounds_of(size: int, rounds: int) -> int:
    """Fewer rounds of the larger transactions."""
    return max(1, rounds if size <= 10 else rounds // 2 if size <= 1_000 else rounds // 4)


def measure_set(
    bench: Bench, names: list[str], rounds: int, sizes: tuple[int, ...], *, anew_once: bool = False
) -> dict[str, Any]:
    """Both refreshes of a set of views: {strategy: {size: {kind: ms}}}. `anew_once`: full for one insertion only."""
    found: dict[str, Any] = {}
    for refresh in ("incremental", "full"):
        bench.create(names, refresh)
        if refresh == "full" and anew_once:
            took = bench.insert(sizes[0])[0] * 1000
            found["full"] = {size: dict.fromkeys(("insert", "mixed", "delete"), took) for size in sizes}
            bench.drop(names)
            continue
        bench.insert(10)
        bench.delete(10)
        found[refresh] = {}
        for size in sizes:
            count = rounds_of(size, rounds) if refresh == "incremental" else 1
            times: dict[str, list[float]] = {"insert": [], "mixed": [], "delete": []}
            for _ in range(count):
                times["insert"].append(bench.insert(size)[0])
                if size < LARGE:
                    times["mixed"].append(bench.mixed(size)[0])
                times["delete"].append(bench.delete(size)[0])
            found[refresh][size] = {kind: statistics.median(each) * 1000 for kind, each in times.items() if each}
        bench.drop(names)
    return found


def measure_auto(bench: Bench, name: str, found: dict[str, Any], sizes: tuple[int, ...]) -> dict[str, Any]:
    """What `auto` chooses for each size of an insertion, whether that was right, and the break-even it expects."""
    bench.create([name], "auto")
    chosen: dict[str, Any] = {}
    for size in sizes:
        _, commit = bench.insert(size)
        report = commit.report.get(name)
        way = report.strategy if report is not None else "none"
        times = {refresh: found[refresh][size]["insert"] for refresh in ("incremental", "full")}
        other = min(times.values())
        chosen[str(size)] = {"way": way, "right": way == "none" or times[way] <= CLOSE * other, **times}
        bench.delete(size)
    body = json.loads(bench.db.explain(name, format="json"))
    parts = [*(part["changes"] for part in body["auxiliary"]), body["changes"]]
    turns = {table: told["cost"]["full from"] for part in parts for table, told in part.items() if table in ORDER}
    bench.drop([name])
    return {"chosen": chosen, "expects to turn at": turns}


def show(engine: str, label: str, found: dict[str, Any]) -> None:
    """Prints both refreshes side by side."""
    for size, kinds in found["incremental"].items():
        for kind, ms in kinds.items():
            full = found["full"][size][kind]
            print(
                f"  {engine:6} {label:15} {size:>7,} orders {kind:7} by change {ms:10,.0f} ms   "
                f"anew {full:10,.0f} ms   {full / ms:6.1f} times",
                flush=True,
            )


def measure(
    engine: str,
    data: Path,
    where: Path,
    rounds: int,
    sizes: tuple[int, ...],
    *,
    together: bool,
    alone: list[str],
    anew_once: bool,
) -> dict[str, Any]:
    """Everything for one engine."""
    bench = Bench(engine, data, where)
    bench.insert(10)
    base = [bench.insert(10)[0] for _ in range(rounds)]
    print(f"  {engine:6} no views        {10:>7} orders insert  {statistics.median(base) * 1000:10,.0f} ms")
    results: dict[str, Any] = {"engine": engine, "no views": statistics.median(base) * 1000}
    if together:
        results["all"] = measure_set(bench, list(VIEWS), rounds, sizes, anew_once=anew_once)
        show(engine, "all seven", results["all"])
    for name in alone:
        tried = (*sizes, LARGE)
        results[name] = measure_set(bench, [name], max(3, rounds // 2), tried)
        show(engine, name, results[name])
        auto = measure_auto(bench, name, results[name], tried)
        results[name]["auto"] = auto
        told = [
            f"{int(size):,} orders {way['way']}{'' if way['right'] else ' (WRONG)'}"
            for size, way in auto["chosen"].items()
        ]
        print(
            f"  {engine:6} {name:15} auto: {', '.join(told)}; expects to turn at {auto['expects to turn at']}",
            flush=True,
        )
    bench.db.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--engine", action="append", choices=["sail", "spark"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--together-only", action="store_true", help="leave out the views one by one")
    parser.add_argument("--view", action="append", choices=list(VIEWS), help="of the views one by one, only this")
    parser.add_argument("--alone-only", action="store_true", help="leave out all views together")
    parser.add_argument("--anew-once", action="store_true", help="all together, compute anew for one insertion only")
    parser.add_argument("--data", type=Path, default=None, help="where TPC-H files are or go")
    parser.add_argument("--json", type=Path, default=None, help="also write the numbers there")
    options = parser.parse_args()
    data = options.data or ROOT.parent / "tpch-data" / f"sf{options.scale:g}"
    generate(options.scale, data)
    print(f"TPC-H SF{options.scale:g}, {platform.machine()}, views {', '.join(VIEWS)}")
    results = []
    for engine in options.engine or ["sail", "spark"]:
        with tempfile.TemporaryDirectory(prefix="viewkeeper-bench-") as place:
            sizes = tuple(options.sizes)
            where = Path(place) / "lake"
            alone = [] if options.together_only else options.view or list(VIEWS)
            together, once = not options.alone_only, options.anew_once
            results.append(
                measure(engine, data, where, options.rounds, sizes, together=together, alone=alone, anew_once=once)
            )
    if options.json:
        options.json.write_text(json.dumps({"scale": options.scale, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
