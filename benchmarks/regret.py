"""What `refresh = 'auto'` costs beside the better of incremental and full: `python benchmarks/regret.py`.

For a few shapes of views over a table of --rows rows, and updates of more and more of it: the processor time that a
commit spends on the view and its auxiliary relations, incremental and full, and which of them `auto` chooses. Its
regret is the time of what it chooses over the better of both: 1 is perfect. If it chooses differently for the view and
its auxiliary relations, that is the time measured under `auto`. Processor time, because other work on the machine
hardly changes it; on Apache Spark the compiler's threads are in it too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import viewkeeper as vk
from viewkeeper.maintain import propagation

SHAPES = {
    "filter": "SELECT id, price * 2 AS p FROM items WHERE price > 500",
    "join": "SELECT i.id, d.note, i.price FROM items i JOIN details d ON i.id = d.id WHERE i.price > 900",
    "group": "SELECT grp, count(*) AS n, sum(price) AS total FROM items GROUP BY grp",
    "extrema": "SELECT grp, min(price) AS low, max(price) AS high FROM items GROUP BY grp",
    "spread": "SELECT grp, stddev(price) AS s FROM items GROUP BY grp",
    "top": "SELECT id, price FROM items ORDER BY price DESC, id LIMIT 100",
    "anti": "SELECT id FROM details d WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = d.id AND i.price > 10)",
    "rank": "SELECT id, rank() OVER (PARTITION BY grp ORDER BY price) AS place FROM items WHERE price > 900",
}

TABLES = """
CREATE TABLE items (id BIGINT PRIMARY KEY, grp INT, price INT);
CREATE TABLE details (id BIGINT PRIMARY KEY, note STRING);
INSERT INTO items SELECT id, CAST(id % 1000 AS INT), CAST((id * 7919) % 997 AS INT) FROM range({rows});
INSERT INTO details SELECT id, concat('note ', id) FROM range({rows});
"""

FULL, INCREMENTAL, AUTO = "full", "incremental", "auto"

LEAST = 1e-3
"""Seconds that do not matter: less counts as much."""


def processor_time() -> float:
    """Seconds of processor time of this process (Sail runs in it) and of those it has started (Apache Spark)."""
    parents, spent = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            spent[int(path.parent.name)] = int(fields[11]) + int(fields[12])
    started: set[int] = set()
    while more := {p for p, parent in parents.items() if parent == os.getpid() or parent in started} - started:
        started |= more
    return time.process_time() + sum(spent[process] for process in started) / os.sysconf("SC_CLK_TCK")


class Clock:
    """Adds up the processor time of maintaining stored relations, without the rest of the commit."""

    def __init__(self) -> None:
        self.maintain = propagation.maintain
        propagation.maintain = self.timed
        self.start()

    def start(self) -> None:
        """Forgets what it has measured."""
        self.spent = 0.0
        self.strategies: dict[str, str] = {}

    def timed(self, *arguments: Any) -> propagation.Maintained:
        """`maintain`, timed; one view at a time, so that nothing runs beside it."""
        began = processor_time()
        done = self.maintain(*arguments)
        self.spent += processor_time() - began
        self.strategies[done.relation.id] = done.strategy
        return done


@dataclass(frozen=True)
class Commit:
    """How a commit refreshed the view and its auxiliary relations, those that read tables first; why; and its cost."""

    strategies: tuple[str, ...]
    reason: str
    seconds: float

    @property
    def way(self) -> str:
        """One strategy for all of them; else "mixed". What no changed row reaches counts as incremental."""
        if FULL not in self.strategies:
            return INCREMENTAL
        return FULL if set(self.strategies) == {FULL} else "mixed"


def update(db: vk.Database, clock: Clock, rows: int, count: int) -> Commit:
    """Updates so many rows, spread over the table."""
    step = max(1, rows // count)
    clock.start()
    commit = db.sql(f"UPDATE items SET price = (price * 13 + 1) % 997 WHERE id % {step} = {step // 2}").commit
    done = tuple(clock.strategies.values())
    spent = max(clock.spent, LEAST)
    assert commit is not None
    db.compact()
    report = commit.report.get("v")
    return Commit(done, report.reason if report else "no row of the view changed", spent)


def measure(db: vk.Database, clock: Clock, name: str, rows: int, sizes: list[int], rounds: int) -> list[float]:
    """The regret for one shape of view and each size of change."""
    found: dict[tuple[str, int], Commit] = {}
    for refresh in (INCREMENTAL, FULL, AUTO):
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS {SHAPES[name]}")
        update(db, clock, rows, 1)  # the first time is slower
        for size in sizes:
            done = [update(db, clock, rows, size) for _ in range(rounds)]
            found[refresh, size] = replace(done[0], seconds=statistics.median(commit.seconds for commit in done))
        db.sql("DROP MATERIALIZED VIEW v")
    regrets = []
    for size in sizes:
        auto, times = found[AUTO, size], [found[refresh, size].seconds for refresh in (INCREMENTAL, FULL)]
        regrets.append(found.get((auto.way, size), auto).seconds / min(times))
        print(
            f"  {name:7} {size:>9,} rows updated   incremental {times[0] * 1000:7,.0f} ms   "
            f"full {times[1] * 1000:7,.0f} ms   auto {auto.seconds * 1000:7,.0f} ms, "
            f"{auto.way:11}   regret {regrets[-1]:5.2f}   {auto.reason}",
            flush=True,
        )
    return regrets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engine", action="append", choices=["sail", "spark"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=None, help="rows that are updated at a time")
    parser.add_argument("--shape", action="append", choices=list(SHAPES))
    options = parser.parse_args()
    sizes = options.sizes or [1, 1_000, options.rows // 20, options.rows // 4, options.rows]
    print(f"{options.rows:,} rows, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    clock = Clock()
    for engine in options.engine or ["sail", "spark"]:
        print(engine, flush=True)
        regrets: list[float] = []
        with (
            tempfile.TemporaryDirectory(prefix="viewkeeper-regret-") as place,
            vk.connect(Path(place) / "lake", engine=engine, keep="0 seconds") as db,
        ):
            db.sql(TABLES.format(rows=options.rows))
            for name in options.shape or list(SHAPES):
                regrets += measure(db, clock, name, options.rows, sizes, options.rounds)
        print(f"  regret {statistics.geometric_mean(regrets):.2f} in the mean, {max(regrets):.2f} at most", flush=True)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
