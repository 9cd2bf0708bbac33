"""Measures incremental and full refreshes beside what `auto` expects of them: `python benchmarks/calibrate.py`.

For a few shapes of views over a table of --rows rows, and updates of more and more of it: the processor time that a
commit spends on the view and its auxiliary relations, incremental and full, and the estimates of
`viewkeeper.plan.cost`.
The rates there are right if the two ratios lie on the same side of 1 where it matters; the times depend on the machine.
Processor time, because other work on the machine hardly changes it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import viewkeeper as vk
from viewkeeper.algebra import nodes as n
from viewkeeper.maintain import propagation
from viewkeeper.maintain.planning import followed, rows_of, stored_of
from viewkeeper.plan.cost import RATES, full_seconds, incremental_seconds

SHAPES = {
    "filter": "SELECT id, price * 2 AS p FROM items WHERE price > 500",
    "join": "SELECT i.id, d.note, i.price FROM items i JOIN details d ON i.id = d.id WHERE i.price > 900",
    "group": "SELECT grp, count(*) AS n, sum(price) AS total FROM items GROUP BY grp",
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
        self.spent = 0.0
        self.maintain = propagation.maintain
        propagation.maintain = self.timed

    def timed(self, *arguments: Any) -> propagation.Maintained:
        """`maintain`, timed; one view at a time, so that nothing runs beside it."""
        began = processor_time()
        try:
            return self.maintain(*arguments)
        finally:
            self.spent += processor_time() - began


def update(db: vk.Database, clock: Clock, rows: int, count: int) -> tuple[int, float]:
    """Updates so many rows, spread over the table: the number of changed rows, and the time spent on the view."""
    step = max(1, rows // count)
    clock.spent = 0.0
    commit = db.sql(f"UPDATE items SET price = (price * 13 + 1) % 997 WHERE id % {step} = {step // 2}").commit
    took = clock.spent
    assert commit is not None
    db.compact()
    return commit.report["items"].rows_changed, took


def estimates(db: vk.Database, changed: int) -> tuple[float, float]:
    """The expected costs of both refreshes for so many changed rows of items, auxiliary relations included.

    A relation over an auxiliary one is expected to see as many changes as that one writes.
    """
    store = db._store
    state = store.refresh()
    find = state.relations.__getitem__
    view, items = state.find("v"), state.find("items")
    assert view is not None
    assert view.definition is not None
    assert items is not None
    rates = RATES[store.engine.kind]
    coming = {items.id: changed}
    follow = 0.0
    for relation in [*(find(key) for key in view.definition.hidden), view]:
        assert relation.definition is not None
        stored = stored_of(find, relation, coming, store.tuning)
        reached = {scan.relation for scan in n.scans(relation.definition.maintained)} & set(coming)
        changes = followed(store.engine, find, relation, {key: coming[key] for key in reached})
        follow += incremental_seconds(stored, changes, rates)
        coming[relation.id] = min(2 * rows_of(relation), round(stored.moved(changed)) + 1)
    return follow, 0.0 if view.definition.hidden else full_seconds(
        stored_of(find, view, coming, store.tuning), changed, rates
    )


def measure(db: vk.Database, clock: Clock, name: str, rows: int, sizes: list[int], rounds: int) -> None:
    """One shape of view, incremental and full."""
    ways = []
    for index, refresh in enumerate(("incremental", "full")):
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS {SHAPES[name]}")
        update(db, clock, rows, 1)  # the first time is slower
        found = []
        for size in sizes:
            guess = estimates(db, 2 * size)[index]
            done = [update(db, clock, rows, size) for _ in range(rounds)]
            found.append((done[0][0], guess, statistics.median(took for _, took in done)))
        ways.append(found)
        db.sql("DROP MATERIALIZED VIEW v")
    for (changed, guess, took), (_, full_guess, full_took) in zip(*ways, strict=True):
        print(
            f"  {name:7} {changed:>9,} rows changed   "
            f"expected {guess * 1000:7,.0f} and {full_guess * 1000:7,.0f} ms ({guess / full_guess:5.2f})   "
            f"measured {took * 1000:7,.0f} and {full_took * 1000:7,.0f} ms ({took / full_took:5.2f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engine", action="append", choices=["sail", "spark"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=None, help="rows that are updated at a time")
    parser.add_argument("--shape", action="append", choices=list(SHAPES))
    options = parser.parse_args()
    sizes = options.sizes or [1, 1_000, options.rows // 20, options.rows // 4, options.rows]
    print(f"{options.rows:,} rows, {platform.machine()}; by change and anew, and their ratio")
    clock = Clock()
    for engine in options.engine or ["sail", "spark"]:
        print(engine, flush=True)
        with (
            tempfile.TemporaryDirectory(prefix="viewkeeper-calibrate-") as place,
            vk.connect(Path(place) / "lake", engine=engine, keep="0 seconds") as db,
        ):
            db.sql(TABLES.format(rows=options.rows))
            for name in options.shape or list(SHAPES):
                measure(db, clock, name, options.rows, sizes, options.rounds)


if __name__ == "__main__":
    main()
