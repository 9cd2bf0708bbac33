"""Cases that went wrong once: each view must equal its query after every step."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import viewkeeper as vk


def true(db: vk.Database) -> None:
    certificate = db.verify()
    assert certificate.equal, str(certificate)


def test_a_join_that_stops_to_learn_its_keys(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=vk.Tuning(stage_rows=0))
    db.sql("CREATE TABLE a (k INT, v INT); CREATE TABLE b (k INT, v INT); CREATE TABLE c (k INT, v INT)")
    db.sql("INSERT INTO c VALUES (10, 1010), (11, 1011); INSERT INTO b VALUES (5, 10), (6, 11)")
    db.sql(
        "CREATE MATERIALIZED VIEW d WITH (on = 'demand') AS "
        "SELECT a.k, a.v, b.v AS bv, c.v AS cv FROM a JOIN b ON a.k = b.k JOIN c ON b.v = c.k"
    )
    db.sql("INSERT INTO a VALUES (5, 77); REFRESH MATERIALIZED VIEW d")
    assert db.sql("SELECT * FROM d").rows() == [(5, 77, 10, 1010)]
    true(db)


@pytest.mark.spark_long
def test_copies_at_the_end_of_a_prefix(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=vk.Tuning(topk_slack=1))
    db.sql("CREATE TABLE s (a INT)")
    db.sql("CREATE MATERIALIZED VIEW p AS SELECT a FROM s ORDER BY a LIMIT 2")
    db.sql("INSERT INTO s VALUES (1), (2), (3), (9), (9), (9)")
    for change in (
        "DELETE FROM s WHERE a = 9",
        "INSERT INTO s VALUES (9), (9), (9)",
        "DELETE FROM s WHERE a < 3",
        "DELETE FROM s WHERE a = 9",
    ):
        db.sql(change)
        true(db)


def test_minus_zero_and_nan(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id INT, g INT, x DOUBLE, y DOUBLE)")
    db.sql("INSERT INTO t VALUES (1, 1, 0.0D, 1D), (2, 1, 0.0D, -1D), (3, 1, double('NaN'), 1D), (4, 2, 2.5D, 1D)")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT id, count(*) OVER (PARTITION BY x * y) AS r FROM t")
    db.sql("CREATE MATERIALIZED VIEW r AS SELECT id, rank() OVER (PARTITION BY g ORDER BY x * y) AS r FROM t")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT g, min(x) AS low, max(x) AS high FROM t GROUP BY g")
    assert dict(db.sql("SELECT id, r FROM w").rows())[1] == 2
    assert dict(db.sql("SELECT id, r FROM r").rows())[2] == 1
    low, high = next((low, high) for g, low, high in db.sql("SELECT * FROM m").rows() if g == 1)
    assert low == 0.0
    assert math.isnan(high)
    for change in (
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (5, 2, double('NaN'), 1D), (6, 1, -1D, 1D)",
        "DELETE FROM t WHERE id = 3",
        "DELETE FROM t WHERE id = 5",
    ):
        db.sql(change)
        true(db)


def test_sums_of_the_widest_decimals(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (k INT, d DECIMAL(38,0))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(d) AS s FROM t GROUP BY k")
    db.sql("INSERT INTO t VALUES (1, 30000000000000000000000000000000000000), (1, -1)")
    true(db)
    db.sql("DELETE FROM t WHERE d > 0")
    true(db)


@pytest.mark.parametrize("condition", ["k < 3000000000", "k > -99999999999", "y < 300", "y >= -200", "y > 300"])
def test_a_filter_with_a_literal_beyond_its_column(db: vk.Database, condition: str) -> None:
    db.sql("CREATE TABLE t (k INT, y TINYINT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE {condition}")
    db.sql("INSERT INTO t VALUES (1, 1), (NULL, NULL)")
    true(db)


def test_order_by_bytes(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id INT, x BINARY)")
    db.sql("CREATE MATERIALIZED VIEW p AS SELECT id, x FROM t ORDER BY x LIMIT 2")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT id, row_number() OVER (PARTITION BY id ORDER BY x) AS r FROM t")
    db.sql("INSERT INTO t VALUES (1, X'FF'), (2, X'00'), (2, X'01')")
    true(db)
    db.sql("DELETE FROM t WHERE x = X'00'")
    true(db)


@pytest.mark.compiled
def test_a_large_update_to_null(connect: Callable[..., vk.Database], engine: str) -> None:
    many = 100_001 if engine == "sail" else 1_001
    db = connect(tuning=vk.Tuning(small_rows=many - 1))
    db.sql("CREATE TABLE t (k INT, s STRING)")
    db.sql(f"INSERT INTO t SELECT CAST(id AS INT), 'a' FROM range({many}) r(id)")
    db.sql("UPDATE t SET s = NULL")
    assert db.sql("SELECT count(*), count(s) FROM t").rows() == [(many, 0)]
