"""A small change of a recursion asks the engine for nothing, whatever its rules have; DuckDB computes the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

import viewkeeper as vk
from tests.marks import long

pytestmark = pytest.mark.driver_lane

Row = tuple[Any, ...]

TABLES = "CREATE TABLE edge (x BIGINT, y BIGINT); CREATE TABLE blocked (x BIGINT, why STRING)"

CLOSURE = "SELECT x, y FROM edge UNION SELECT p.x, e.y FROM p JOIN edge e ON p.y = e.x"

VIEWS = {
    "closure": f"WITH RECURSIVE p(x, y) AS ({CLOSURE}) SELECT * FROM p",
    "conditions": "WITH RECURSIVE p(x, y) AS (SELECT x, y FROM edge WHERE y > 1 "
    "UNION SELECT p.x, e.y FROM p JOIN edge e ON p.y = e.x WHERE e.y <> 7 AND e.y - p.x < 6) SELECT * FROM p",
    "computed": "WITH RECURSIVE p(x, d) AS (SELECT y, 0 FROM edge WHERE x = 0 "
    "UNION SELECT e.y, d + 1 FROM p JOIN edge e ON p.x = e.x WHERE d < 8) SELECT * FROM p",
    "negated": f"WITH RECURSIVE p(x, y) AS ({CLOSURE} WHERE NOT EXISTS "
    "(SELECT 1 FROM blocked b WHERE b.x = e.y)) SELECT * FROM p",
    "negated_value": "WITH RECURSIVE p(x, y) AS (SELECT x, y FROM edge UNION SELECT p.x, e.y FROM p "
    "JOIN edge e ON p.y = e.x WHERE NOT EXISTS (SELECT 1 FROM blocked b WHERE b.x = e.y + 1)) SELECT * FROM p",
    "bag": "WITH RECURSIVE p(x, d) AS (SELECT y, 0 FROM edge WHERE x = 0 "
    "UNION ALL SELECT e.y, d + 1 FROM p JOIN edge e ON p.x = e.x WHERE d < 4) SELECT * FROM p",
    "grouped": f"WITH RECURSIVE p(x, y) AS ({CLOSURE}) SELECT x, count(*) AS n FROM p GROUP BY x",
}


class Graph:
    """A database and DuckDB with the same tables and views."""

    def __init__(self, db: vk.Database, views: dict[str, str], seed: int) -> None:
        self.db, self.views, self.draw = db, views, random.Random(seed)
        self.duck = duckdb.connect()
        self.duck.execute(TABLES)
        db.sql(TABLES)
        for name, text in views.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        self.held: dict[str, list[Row]] = {"edge": [], "blocked": []}

    def row(self, table: str) -> Row:
        node = self.draw.choice([*range(10), *range(10), None])
        other = self.draw.choice([*range(10), None]) if table == "edge" else self.draw.choice(["", "shut", None])
        return node, other

    def statements(self) -> list[str]:
        """Some changes of one or both tables: rows in, copies in and out, keys updated."""
        found = []
        for _ in range(self.draw.randint(1, 3)):
            table = self.draw.choice(["edge", "edge", "edge", "blocked"])
            held = self.held[table]
            kind = self.draw.choice(["in", "in", "out", "update"])
            if kind == "in" or not held:
                row = self.draw.choice(held) if held and self.draw.random() < 0.2 else self.row(table)
                held.append(row)
                found.append(f"INSERT INTO {table} VALUES ({', '.join(map(literal, row))})")
                continue
            row = self.draw.choice(held)
            self.held[table] = [other for other in held if other != row]
            names = ("x", "y") if table == "edge" else ("x", "why")
            where = " AND ".join(
                f"{name} IS NULL" if value is None else f"{name} = {literal(value)}"
                for name, value in zip(names, row, strict=True)
            )
            if kind == "out":
                found.append(f"DELETE FROM {table} WHERE {where}")
            else:
                moved = self.draw.choice([0, 3, 5])
                self.held[table] += [(moved, *row[1:])] * held.count(row)
                found.append(f"UPDATE {table} SET x = {moved} WHERE {where}")
        return found

    def commit(self) -> dict[str, str]:
        """A transaction; returns the lane of each view that it reached."""
        statements = self.statements()
        with self.db.transaction() as tx:
            for statement in statements:
                tx.sql(statement)
        for statement in statements:
            self.duck.execute(statement)
        report = tx.commit_info.report if tx.commit_info is not None else {}  # changes may cancel
        return {name: each.lane for name, each in report.items() if name in self.views}

    def compare(self) -> None:
        for name, query in self.views.items():
            stored = Counter(tuple(row) for row in self.db.sql(f"SELECT * FROM {name}").rows())
            assert stored == Counter(self.duck.execute(query).fetchall()), name


def literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


def run(graph: Graph, commits: int, every: int) -> None:
    for number in range(commits):
        lanes = graph.commit()
        assert set(lanes.values()) <= {"driver", ""}, lanes
        if number % every == 0:
            graph.compare()
    graph.compare()


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(*range(2, 20))])
def test_the_driver_alone_on_sail(connect: Callable[..., vk.Database], seed: int) -> None:
    tuning = vk.Tuning(flushed_batches=5, merged_files=3)
    run(Graph(connect(f"lane{seed}", durability="process", tuning=tuning), VIEWS, seed), 40, 4)


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_the_driver_alone_on_spark(connect: Callable[..., vk.Database]) -> None:
    chosen = {name: VIEWS[name] for name in ("computed", "negated", "bag")}
    run(Graph(connect("lane", durability="process"), chosen, 3), 12, 6)


MUTUAL = """
    .decl edge(x:number, y:number)
    .input edge
    .decl odd(x:number, y:number)
    .output odd
    .decl even(x:number, y:number)
    .output even
    odd(x, y) :- edge(x, y).
    odd(x, z) :- even(x, y), edge(y, z).
    even(x, z) :- odd(x, y), odd(y, z).
"""


def test_mutual_and_non_linear_rules(db: vk.Database) -> None:
    db.datalog(MUTUAL)
    with db.transaction() as tx:
        tx.insert("edge", [(i, i + 1) for i in range(8)])
    for statement in (
        "INSERT INTO edge VALUES (8, 9)",
        "DELETE FROM edge WHERE x = 4",
        "INSERT INTO edge VALUES (4, 5)",
    ):
        report = db.sql(statement).commit.report
        assert {report["odd"].lane, report["even"].lane} == {"driver"}
    pairs = [(i, j) for i in range(10) for j in range(i + 1, 10)]
    assert sorted(map(tuple, db.sql("SELECT * FROM odd").rows())) == [p for p in pairs if (p[1] - p[0]) % 2]
    assert sorted(map(tuple, db.sql("SELECT * FROM even").rows())) == [p for p in pairs if (p[1] - p[0]) % 2 == 0]
