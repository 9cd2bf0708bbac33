"""Maintains recursive relations on graphs: `python benchmarks/datalog_graphs.py --engine sail --engine spark`.

Transitive closure, same generation and a points-to analysis over generated graphs (chain, grid, tree, scale-free, and
many components). For 1, 10 and 1,000 edges inserted and deleted: rounds, rows proposed, filtered, removed and added,
and the time of the whole durable commit, by EPF and by DRed, beside that of a commit with a full refresh ("anew"), in
one run. "only read" is the time of computing the relation without storing it.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import viewkeeper as vk
from viewkeeper.maintain import propagation
from viewkeeper.maintain import recursions as recursive
from viewkeeper.plan.choice import Choice

Edge = tuple[int, int]

CLOSURE = """
    .decl edge(x:number, y:number)
    .input edge
    .decl derived(x:number, y:number)
    .output derived
    derived(x, y) :- edge(x, y).
    derived(x, z) :- derived(x, y), edge(y, z).
"""
SAME_GENERATION = """
    .decl edge(x:number, y:number)
    .input edge
    .decl derived(x:number, y:number)
    .output derived
    derived(x, y) :- edge(p, x), edge(p, y).
    derived(x, y) :- edge(p, x), derived(p, q), edge(q, y).
"""
POINTS_TO = """
    .decl edge(x:number, y:number)
    .input edge
    .decl new(v:number, o:number)
    .input new
    .decl derived(v:number, o:number)
    .output derived
    derived(v, o) :- new(v, o).
    derived(v, o) :- edge(v, w), derived(w, o).
"""
PROGRAMS = {"closure": CLOSURE, "same generation": SAME_GENERATION, "points to": POINTS_TO}


def chain(length: int) -> Iterator[Edge]:
    """One node after the other."""
    return ((i, i + 1) for i in range(length))


def grid(side: int) -> Iterator[Edge]:
    """Right and down."""
    for i in range(side):
        for j in range(side):
            node = i * side + j
            if j + 1 < side:
                yield node, node + 1
            if i + 1 < side:
                yield node, node + side


def tree(nodes: int, width: int) -> Iterator[Edge]:
    """From parents to children."""
    return (((i - 1) // width, i) for i in range(1, nodes))


def scale_free(nodes: int, rng: random.Random) -> Iterator[Edge]:
    """New nodes point to old ones, to those most that many point to."""
    ends = [0]
    for node in range(1, nodes):
        for target in {rng.choice(ends) for _ in range(2)}:
            yield node, target
            ends.append(target)
        ends.append(node)


def components(count: int, nodes: int, rng: random.Random) -> Iterator[Edge]:
    """Strongly connected random graphs, apart from each other: the closure of each has nodes x nodes rows."""
    for component in range(count):
        base = component * nodes
        found: set[Edge] = {(base + i, base + (i + 1) % nodes) for i in range(nodes)}
        found |= {(base + rng.randrange(nodes), base + rng.randrange(nodes)) for _ in range(2 * nodes)}
        yield from sorted(found)


def graphs(rng: random.Random, scale: float) -> dict[str, tuple[str, list[Edge]]]:
    """What is measured: a program and a graph each."""

    def sized(number: float) -> int:
        return max(4, int(number * scale))

    return {
        "closure, 100 components": ("closure", list(components(max(2, sized(100)), 100, rng))),
        "closure, chain": ("closure", list(chain(sized(400)))),
        "closure, grid": ("closure", list(grid(sized(24)))),
        "closure, tree": ("closure", list(tree(sized(30_000), 3))),
        "same generation, tree": ("same generation", list(tree(sized(1_000), 3))),
        "points to, scale-free": ("points to", list(scale_free(sized(50_000), rng))),
    }


class Bench:
    """One program over one graph, in one database."""

    def __init__(self, engine: str, place: Path, program: str, edges: list[Edge], rng: random.Random) -> None:
        self.rng = rng
        self.edges = list(dict.fromkeys(edges))
        self.db = vk.connect(place, engine=engine)
        self.db.datalog(PROGRAMS[program])
        with self.db.transaction() as tx:
            if program == "points to":
                nodes = sorted({node for edge in self.edges for node in edge})
                tx.insert("new", [(node, -1 - i) for i, node in enumerate(rng.sample(nodes, min(200, len(nodes))))])
            columns = [pa.array(column, pa.int64()) for column in zip(*self.edges, strict=True)]
            tx.insert("edge", pa.table(columns, names=["x", "y"]))
        self.rows = self.db.sql("SELECT count(*) FROM derived").rows()[0][0]

    def commit(self, action: Callable[[Any], None]) -> tuple[float, Any]:
        """The time of a transaction, and its report on the relation."""
        began = time.perf_counter()
        with self.db.transaction() as tx:
            action(tx)
        took = time.perf_counter() - began
        return took, tx.commit_info.report.get("derived") if tx.commit_info is not None else None

    def anew(self) -> float:
        """The time of a commit that deletes one edge, with a full refresh."""
        chosen = self.rng.sample(self.edges, 1)
        picked = propagation.decide
        propagation.decide = lambda *_: Choice("full", "asked for")  # type: ignore[assignment]
        try:
            took, _ = self.commit(lambda tx: tx.delete("edge", chosen))
        finally:
            propagation.decide = picked
        self.commit(lambda tx: tx.insert("edge", chosen))
        return took

    def only_read(self) -> float:
        """The time of computing the relation from its tables."""
        query = "SELECT count(*) FROM derived"
        began = time.perf_counter()
        with self.db.transaction() as tx:
            tx.sql("INSERT INTO edge VALUES (-1, -2)")  # the stored relation is behind then, so it is computed
            tx.sql(query).rows()
            tx.rollback()
        return time.perf_counter() - began

    def change(self, count: int) -> dict[str, Any]:
        """Deletes edges and inserts them again."""
        chosen = self.rng.sample(self.edges, min(count, len(self.edges)))
        gone, told_gone = self.commit(lambda tx: tx.delete("edge", chosen))
        back, told_back = self.commit(lambda tx: tx.insert("edge", chosen))
        return {
            "delete": gone * 1000,
            "insert": back * 1000,
            "deleted": told_gone.reason if told_gone else "nothing changed",
            "inserted": told_back.reason if told_back else "nothing changed",
        }


def measure(engine: str, name: str, program: str, edges: list[Edge], sizes: list[int], rounds: int) -> dict[str, Any]:
    """Everything for one graph."""
    with tempfile.TemporaryDirectory(prefix="viewkeeper-graphs-") as place:
        bench = Bench(engine, Path(place) / "lake", program, edges, random.Random(5))
        print(f"{engine}: {name}: {len(bench.edges):,} edges, {bench.rows:,} rows derived", flush=True)
        fresh = statistics.median(bench.anew() for _ in range(3)) * 1000
        read = statistics.median(bench.only_read() for _ in range(3)) * 1000
        print(f"  anew {fresh:10,.0f} ms, only read {read:10,.0f} ms", flush=True)
        found: dict[str, Any] = {"edges": len(bench.edges), "rows": bench.rows, "anew": fresh, "only read": read}
        picked = recursive.strategy_for
        for how in ("epf", "dred"):
            recursive.strategy_for = lambda *_, how=how: recursive.Strategy(how, "asked for")  # type: ignore[assignment]
            try:
                bench.change(1)
                for size in sizes:
                    tries = [bench.change(size) for _ in range(rounds if size < 100 else 1)]
                    for kind in ("delete", "insert"):
                        ms = statistics.median(each[kind] for each in tries)
                        told = tries[-1]["deleted" if kind == "delete" else "inserted"].split("; ")[-1]
                        print(f"  {how:5}{size:>6,} {kind} {ms:10,.0f} ms {fresh / ms:7.1f} times   {told}", flush=True)
                    found[f"{how} {size}"] = tries
            finally:
                recursive.strategy_for = picked
        bench.db.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=["sail", "spark"])
    parser.add_argument("--graph", action="append", help="only graphs whose name has this in it")
    parser.add_argument("--scale", type=float, default=1.0, help="smaller graphs for a try")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1, 10, 1_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None, help="also write the numbers there")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for engine in options.engine or ["sail", "spark"]:
        for name, (program, edges) in graphs(random.Random(7), options.scale).items():
            if options.graph and not any(part in name for part in options.graph):
                continue
            results[f"{engine}: {name}"] = measure(engine, name, program, edges, options.sizes, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
