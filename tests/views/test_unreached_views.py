"""Views that no changed row can reach are left out before a plan is made, and only those."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import INT, Arithmetic, Attribute, Column, comparison, integer
from viewkeeper.algebra.schema import Column as StoredColumn
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.analysis.ranges import Ranges
from viewkeeper.analysis.relevance import FewRows, filters_of
from viewkeeper.maintain import propagation

KINDS = {"i": "int", "s": "string", "d": "date", "m": "decimal(12,2)", "x": "double", "b": "boolean"}
SCHEMA = Schema(tuple(StoredColumn(name, parse_type(kind)) for name, kind in KINDS.items()))


def some_row(chance: random.Random) -> list[Any]:
    day = dt.date(2026, 1, 1) + dt.timedelta(chance.randint(-5, 5))
    number = chance.randint(-5, 5)
    values = [number, chance.choice(["", "a", "ä", "ab"]), day, Decimal(number) / 4, number / 2, number > 0]
    return [value if chance.random() < 0.8 else None for value in values]


@pytest.mark.parametrize("seed", range(30))
def test_values_lie_in_ranges_as_rows_do(seed: int) -> None:
    """Asking the sorted values of single columns finds what testing every row finds."""
    chance = random.Random(seed)
    columns = zip(*[some_row(chance) for _ in range(chance.randint(1, 6))], strict=True)
    table = pa.table([pa.array(c, k.type.arrow) for c, k in zip(columns, SCHEMA, strict=True)], names=list(KINDS))
    for name in ("i", "s", "d", "m"):
        one, other = some_row(chance), some_row(chance)
        place = list(KINDS).index(name)
        ends = [(end - dt.date(1970, 1, 1)).days if name == "d" and end else end for end in (one[place], other[place])]
        ranges = Ranges(((name, ((ends[0], ends[1]), (ends[1], ends[1]))),))
        mask = ranges.hold_for(table, SCHEMA)
        assert mask is not None
        assert ranges.may_be_in(FewRows(table, SCHEMA)) == any(mask.to_pylist())


def test_nan_may_lie_anywhere() -> None:
    table = pa.table({"x": pa.array([float("nan")])})
    assert Ranges((("x", ((1.0, 2.0),)),)).may_be_in(FewRows(table, SCHEMA))


VIEWS = {
    "keyed": "SELECT k, v FROM t WHERE g = -5",
    "grouped": "SELECT k, sum(v) AS s FROM t WHERE v BETWEEN 100 AND 110 GROUP BY k",
    "joined": "SELECT t.k, u.w FROM t JOIN u ON t.k = u.k WHERE t.g = -5",
    "twice": "SELECT a.k FROM t a JOIN t b ON a.g = b.v WHERE a.g = -5",
    "above": "SELECT count(*) AS n FROM keyed",
    "missing": "SELECT k FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND t.g = -5)",
    "reached": "SELECT g, count(*) AS n FROM t GROUP BY g",
}


@pytest.fixture
def views(db: vk.Database) -> vk.Database:
    with db.transaction() as tx:
        tx.sql("CREATE TABLE t (k INT, g INT, v INT); CREATE TABLE u (k INT, w INT)")
        tx.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id % 7 AS INT), CAST(id AS INT) FROM range(50)")
        tx.sql("INSERT INTO u SELECT CAST(id AS INT), 1 FROM range(50)")
        for name, query in VIEWS.items():
            tx.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


@pytest.mark.driver_lane
@pytest.mark.spark_long
def test_views_beyond_every_filter_make_no_plan(views: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    maintained: list[str] = []
    original = propagation.maintain

    def noted(*arguments: Any) -> Any:
        maintained.append(arguments[1].name)
        return original(*arguments)

    monkeypatch.setattr(propagation, "maintain", noted)
    commit = views.sql("INSERT INTO t VALUES (1, 3, 5), (NULL, NULL, NULL), (2, 4, 200)").commit
    assert commit is not None
    assert not set(maintained) & (VIEWS.keys() - {"reached", "twice"})
    reasons = {name: report.reason for name, report in commit.report.items() if report.strategy == "none"}
    assert reasons["keyed"] == reasons["missing"] == "no changed row can reach it"
    assert reasons["above"] == reasons["grouped"] == "nothing that it reads has changed"
    assert "joined" in reasons
    assert commit.changes["reached"].weights() == {(3, 7): -1, (3, 8): 1, (4, 7): -1, (4, 8): 1, (None, 1): 1}
    assert views.verify().equal


@pytest.mark.spark_long
def test_views_are_maintained_once_a_row_enters_or_leaves(views: vk.Database) -> None:
    steps = [
        "INSERT INTO t VALUES (1, -5, 105), (1, 0, -5)",
        "UPDATE t SET g = 0 WHERE g = -5",
        "UPDATE t SET g = -5 WHERE k = 7",
        "UPDATE t SET v = 110 WHERE k = 8",
        "INSERT INTO u VALUES (7, 2); UPDATE t SET v = NULL WHERE v = 110",
        "DELETE FROM t WHERE g = -5",
    ]
    for step in steps:
        views.sql(step)
        assert views.verify().equal


def test_filters_above_one_that_can_raise_imply_nothing() -> None:
    k, v = Attribute(1, "k", INT), Attribute(2, "v", INT)
    scan = n.Scan("t", "t", (k, v), n.OLD, ("k", "v"))
    five = comparison("=", Column(k), integer(5))
    fallible = comparison(">", Arithmetic("/", integer(10), Column(v), INT, True), integer(1))
    assert filters_of(n.Filter(n.Filter(scan, five), fallible), "t") == [Ranges((("k", ((5, 5),)),))]
    assert filters_of(n.Filter(n.Filter(scan, fallible), five), "t") == [Ranges()]


@pytest.mark.spark_long
def test_a_full_refresh_that_is_asked_for_is_done(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (k INT, v INT)")
    db.sql("CREATE MATERIALIZED VIEW w WITH (refresh = 'full') AS SELECT k FROM t WHERE k = -5")
    commit = db.sql("INSERT INTO t VALUES (1, 0)").commit
    assert commit is not None
    assert commit.report["w"].strategy == "full"
