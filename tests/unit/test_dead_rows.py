"""Rows that were deleted but not yet compacted away take part in nothing: no condition is tested on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.sql.dialect import parse
from viewkeeper.sql.fallible_queries import may_raise

QUERIES = {
    "SELECT x FROM t WHERE 10 / x > 1": [(5,)],
    "SELECT x FROM t WHERE CAST(s AS INT) > 1": [(5,)],
    "SELECT x FROM t WHERE s > 1": [(5,)],
    "SELECT t.x FROM t JOIN t AS u ON CAST(t.s AS INT) = u.x": [(5,)],
    "SELECT x FROM (SELECT x, CAST(s AS INT) AS n FROM t) q WHERE n > 1": [(5,)],
    "SELECT x FROM t WHERE x > 1": [(5,)],
}


@pytest.fixture
def cleaned(connect: Callable[..., vk.Database]) -> vk.Database:
    """A table from which the rows were deleted that cannot be divided by or cast."""
    db = connect()
    db.sql("CREATE TABLE t (x INT, s STRING); INSERT INTO t VALUES (0, 'none'), (5, '5'), (0, 'none')")
    db.sql("DELETE FROM t WHERE x = 0")
    return db


def test_a_query_does_not_see_them(cleaned: vk.Database) -> None:
    assert {query: cleaned.sql(query).rows() for query in QUERIES} == QUERIES


@pytest.mark.spark_long
def test_changes_do_not_see_them(cleaned: vk.Database) -> None:
    cleaned.sql("UPDATE t SET x = 6 WHERE CAST(s AS INT) = 5")
    cleaned.sql("MERGE INTO t USING (SELECT 5 AS n) q ON CAST(t.s AS INT) = q.n WHEN MATCHED THEN UPDATE SET s = '7'")
    assert cleaned.sql("SELECT * FROM t").rows() == [(6, "7")]
    cleaned.sql("DELETE FROM t WHERE 12 / x = 2")
    assert cleaned.sql("SELECT * FROM t").rows() == []


SAFE = [
    "x = 1",
    "x > -1 AND s = 'a'",
    "x BETWEEN 1 AND 2 OR NOT (s IN ('a', 'b'))",
    "d < DATE '2020-01-01'",
    "x IS NULL",
    "CASE WHEN x > 1 THEN true END OR s LIKE 'a%'",
]
UNSAFE = ["s = 1", "x + 1 = 2", "CAST(s AS INT) = 1", "length(s) = 1", "x = s", "unknown = 1", "x IN (SELECT x FROM t)"]


@pytest.mark.parametrize("condition", SAFE + UNSAFE)
def test_which_conditions_may_raise(condition: str) -> None:
    columns = [("x", "int"), ("s", "string"), ("d", "date")]
    schema = Schema(tuple(Column(name, parse_type(kind)) for name, kind in columns))
    tree = parse(f"SELECT * FROM t WHERE {condition}")
    assert may_raise(tree, [schema]) is (condition in UNSAFE)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM g WHERE k = 5 AND 10 / x > 1",
        "UPDATE g SET k = 6 WHERE 10 / x > 1 AND k = 5",
        "MERGE INTO g USING (SELECT 5 AS k) s ON g.k = s.k AND 10 / g.x > 1 WHEN MATCHED THEN DELETE",
        "MERGE INTO g USING (SELECT 5 AS k) s ON g.k = s.k WHEN MATCHED AND 10 / g.x > 1 THEN DELETE",
    ],
)
def test_a_bound_change_does_not_see_them(db: vk.Database, change: str) -> None:
    db.sql("CREATE TABLE g (k INT PRIMARY KEY, x INT); INSERT INTO g VALUES (5, 1), (7, 0)")
    db.sql("DELETE FROM g WHERE k = 7")
    assert db.sql(change).count == 1


def test_a_field_of_a_deleted_struct(db: vk.Database) -> None:
    db.sql("CREATE TABLE r (k INT PRIMARY KEY, y INT, s STRUCT<y: STRING, t: STRUCT<z: STRING>>)")
    with db.transaction() as tx:
        tx.insert("r", [(1, 0, {"y": "abc", "t": {"z": "abc"}}), (2, 0, {"y": "7", "t": {"z": "7"}}), (3, 0, None)])
    db.sql("DELETE FROM r WHERE k = 1")
    assert db.sql("SELECT k FROM r WHERE CAST(s.y AS INT) > 5").rows() == [(2,)]
    assert db.sql("SELECT k FROM r WHERE s.t.z > 5").rows() == [(2,)]
    assert db.sql("SELECT k FROM r WHERE s IS NULL").rows() == [(3,)]
    assert db.sql("DELETE FROM r WHERE CAST(s.y AS INT) > 5").count == 1
