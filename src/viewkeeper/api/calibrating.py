"""The rates of the cost model, measured on this machine: views over scratch tables are refreshed, incremental and full.

Each rate is what one refresh takes more than another that lacks just that: more rows, a group-by, stored rows to be
compared, a look-up. So it contains all that the product does for such a row. A rate that is lost in the noise of the
others is small: it counts as a tenth of the built-in one.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from viewkeeper.algebra.tuning import Tuning
from viewkeeper.api.database import Database, connect
from viewkeeper.log.stored_costs import StoredCosts, engine_name
from viewkeeper.maintain.topk import PASSES
from viewkeeper.plan.cost import RATES, Rates

ROWS = 300_000
"""Rows of the large scratch table, and of another that it is joined with."""

SMALL = 30
"""The small table has one row in so many: it is read with a query, whose rows hardly matter."""

MANY, STAGED = 15, 5
"""One row in so many is updated, an old and a new one each: the driver takes the first, the others stay in files."""

FEW_ROUNDS, ROUNDS = 3, 6
"""How often a large and a small change are made; the fastest counts."""

HOPS, SPOKES = 200, 150
"""Steps of a recursion that follows a chain, and the edges into and out of a hub, all pairs of which are joined."""

TABLES = """
CREATE TABLE small (id BIGINT PRIMARY KEY, grp INT, price INT);
CREATE TABLE large (id BIGINT PRIMARY KEY, grp INT, price INT);
CREATE TABLE other (id BIGINT PRIMARY KEY, note INT);
CREATE TABLE edges (a INT, b INT, PRIMARY KEY (a, b));
INSERT INTO small SELECT id, CAST(id % 100 AS INT), CAST((id * 7919) % 997 AS INT) FROM range({small});
INSERT INTO large SELECT id, CAST(id % 100 AS INT), CAST((id * 7919) % 997 AS INT) FROM range({large});
INSERT INTO other SELECT id, CAST(id % 7 AS INT) FROM range({large});
INSERT INTO edges SELECT CAST(id AS INT), CAST(id + 1 AS INT) FROM range({hops})
UNION ALL SELECT CAST(-1 - id AS INT), -1000 FROM range({spokes})
UNION ALL SELECT -1000, CAST(-2000 - id AS INT) FROM range({spokes});
"""

NOTHING = "SELECT id, price FROM {} WHERE price = -1"
EVERYTHING = "SELECT id, price FROM {}"
LITTLE = "SELECT id, price FROM {} WHERE price = 7"
GROUPED = "SELECT grp, count(*) AS n, sum(price) AS total FROM {} GROUP BY grp"
FIRST = "SELECT id, price FROM {} ORDER BY price DESC, id LIMIT 100"
JOINED = "SELECT i.id, i.price FROM {} i JOIN other o ON i.id = o.id WHERE i.price + o.note = 7"
CHAIN = "WITH RECURSIVE r (x) AS (SELECT 0 UNION SELECT e.b FROM edges e JOIN r ON e.a = r.x) SELECT x FROM r"
PAIRS = (
    "WITH RECURSIVE r (x, y) AS (SELECT a, b FROM edges WHERE a < 0 "
    "UNION SELECT r.x, e.b FROM r JOIN edges e ON r.y = e.a) SELECT x, y FROM r"
)

Tell = Callable[[str], None]


def calibrate(engine: str, tell: Tell = lambda step: None, rows: int = ROWS) -> StoredCosts:
    """The rates of an engine on this machine, measured in a scratch directory. `tell` is given each step."""
    tuning = Tuning(view_threads=1, small_rows=rows // 3, whole_rows=rows // 75)
    with (
        tempfile.TemporaryDirectory(prefix="viewkeeper-calibrate-") as place,
        connect(Path(place) / "scratch", engine, tuning=tuning, keep="0 seconds") as db,
    ):
        opened = db.store.engine
        rates = _Measuring(db, rows, RATES[opened.kind], tell).rates()
    name = engine_name(opened.kind, is_local=opened.is_local)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return StoredCosts(name, time.time(), machine, rates)


class _Measuring:
    """Refreshes of views over the scratch tables."""

    def __init__(self, db: Database, rows: int, built_in: Rates, tell: Tell) -> None:
        self.db = db
        self.large = rows
        self.built_in = built_in
        self.tell = tell

    def rates(self) -> Rates:
        """All rates; each subtracts those before it."""
        tell, large, small = self.tell, self.large, self.large // SMALL
        many, staged = large // MANY, large // STAGED
        tell("filling scratch tables")
        self.db.sql(TABLES.format(small=small, large=large, hops=HOPS, spokes=SPOKES))
        tell("full refreshes")
        least, nothing = self.full(NOTHING, "small"), self.full(NOTHING, "large")
        row = self.rate("row", (nothing - least) / (large - small))
        query = self.rate("query", (least - small * row) / 2)
        compared = self.rate("compared", (self.full(EVERYTHING, "large") - nothing) / (2 * large))
        tell("full refreshes of group-bys and joins")
        grouped = (self.full(GROUPED, "large") - nothing) / large
        joined = (self.full(JOINED, "large") - nothing - query) / (2 * large) - row / 2
        worked = self.rate("worked", (grouped + joined) / 2)
        tell("incremental refreshes")
        one = self.incremental(EVERYTHING, 1)
        filtered = self.each(LITTLE, many, one)
        followed = self.each(EVERYTHING, many, one)
        tell("incremental refreshes of group-bys, joins and top-ks")
        folded = self.each(GROUPED, many, self.incremental(GROUPED, 1))
        in_files = (self.each(GROUPED, staged, query) - worked + self.each(FIRST, staged, query) - PASSES * worked) / 2
        looked_up = self.incremental(JOINED, 1)
        found = self.each(JOINED, many, looked_up)
        tell("queries by key")
        passed = (self.query("large") - self.query("small")) / (large - small)
        tell("recursions")
        step, on_driver = self.recursions()
        return Rates(
            query=query,
            row=row,
            passed=self.rate("passed", passed),
            worked=worked,
            changed=self.rate("changed", (filtered + folded) / 2),
            staged=self.rate("staged", in_files - row),
            written=self.rate("written", followed - filtered),
            compared=compared,
            on_driver=on_driver,
            step=step,
            look_up=self.rate("look_up", looked_up - one),
            found=self.rate("found", found - filtered),
        )

    def rate(self, name: str, seconds: float) -> float:
        """A measured rate, unless it is lost in noise."""
        return max(seconds, float(asdict(self.built_in)[name]) / 10)

    def refreshes(self, query: str, refresh: str, change: str, rounds: int) -> Iterator[float]:
        """The seconds of each refresh of a view, by commits that make a change; the first is left out."""
        self.db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS {query}")
        for number in range(rounds + 1):
            commit = self.db.sql(change.format(number)).commit
            assert commit is not None
            if number:
                yield commit.report["v"].seconds
        self.db.sql("DROP MATERIALIZED VIEW v")
        self.db.compact()

    def full(self, query: str, table: str) -> float:
        """The least seconds of a full refresh after a row of a table was updated."""
        change = f"UPDATE {table} SET price = price + 1 WHERE id = {{}}"
        return min(self.refreshes(query.format(table), "full", change, ROUNDS))

    def incremental(self, query: str, count: int) -> float:
        """The least seconds of an incremental refresh after so many rows were updated."""
        step = self.large // count
        change = f"UPDATE large SET price = (price * 13 + 1) % 997 WHERE id % {step} = {step // 2}"
        rounds = ROUNDS if count == 1 else FEW_ROUNDS
        return min(self.refreshes(query.format("large"), "incremental", change, rounds))

    def each(self, query: str, count: int, alone: float) -> float:
        """The seconds for each changed row, old or new, of so many updates, beside those that it takes without them."""
        return (self.incremental(query, count) - alone) / (2 * count)

    def query(self, table: str) -> float:
        """The least seconds of a query for rows with a value that every file may have."""
        found = []
        for number in range(ROUNDS + 1):
            began = time.perf_counter()
            self.db.sql(f"SELECT id FROM {table} WHERE price = {number}").rows()
            found.append(time.perf_counter() - began)
        return min(found)

    def recursions(self) -> tuple[float, float]:
        """The seconds of a step of a recursion, and of a row that one joins."""
        chain = min(self.refreshes(CHAIN, "full", "INSERT INTO edges VALUES (5000, {})", ROUNDS))
        step = self.rate("step", chain / HOPS)
        pairs = min(self.refreshes(PAIRS, "full", "INSERT INTO edges VALUES (6000, {})", ROUNDS))
        rows = SPOKES * SPOKES + 2 * SPOKES
        return step, self.rate("on_driver", (pairs - 3 * step) / (2 * rows))
