"""Assertions checked together, after pruning, against each of their queries computed in full before and after."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import viewkeeper as vk
from tests.marks import long
from viewkeeper.algebra.rows import row_order
from viewkeeper.transaction.assertions import SHOWN, rows_text

ASSERTIONS = {
    "a_range": "SELECT k, n FROM s WHERE n > 3",
    "a_null": "SELECT k FROM s WHERE x IS NULL AND n < 2",
    "a_list": "SELECT k, x FROM s WHERE x NOT IN ('a', 'b')",
    "a_columns": "SELECT k FROM s WHERE n > m",
    "a_arithmetic": "SELECT k, m * 2 - n AS d FROM s WHERE m * 2 - n > 4 OR NOT (m + n < 6)",
    "a_bag": "SELECT x FROM s WHERE n = 1",
    "a_join": "SELECT s.k, t.v FROM s JOIN t ON s.k = t.k WHERE s.n < t.v",
    "a_null_safe": "SELECT s.k, t.v FROM s JOIN t ON s.n <=> t.v WHERE t.v IS NULL OR t.v > 2",
    "a_strings": "SELECT s.k, u.x FROM s JOIN u ON s.x = u.x WHERE u.x <> 'a'",
    "a_three": "SELECT s.k FROM s JOIN t ON s.k = t.k JOIN u ON s.x = u.x WHERE t.v > 2",
    "a_reference": "SELECT k FROM t WHERE k IS NOT NULL AND NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k)",
    "a_two_columns": "SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k AND s.n = t.v)",
    "a_condition": "SELECT k FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND t.v >= s.n)",
    "a_not_in": "SELECT k FROM s WHERE n NOT IN (SELECT v FROM t)",
    "a_exists": "SELECT x FROM u WHERE EXISTS (SELECT 1 FROM s WHERE s.x = u.x AND s.n > 2)",
    "a_outer": "SELECT s.k, t.v FROM s LEFT JOIN t ON s.k = t.k WHERE t.v IS NULL",
    "a_count": "SELECT k FROM t GROUP BY k HAVING count(*) > 2",
    "a_sum": "SELECT x, sum(n) AS total FROM s GROUP BY x HAVING sum(n) > 5",
    "a_distinct": "SELECT DISTINCT x FROM s WHERE n > 1",
    "a_except": "SELECT x FROM s EXCEPT ALL SELECT x FROM u",
    "a_union": "SELECT k FROM s WHERE n > 3 UNION ALL SELECT k FROM t WHERE v > 3",
    "a_view": "SELECT k, total FROM totals WHERE total > 6",
    "a_view_join": "SELECT s.k FROM s JOIN totals q ON s.k = q.k WHERE q.total > s.n + 4",
    "a_window": "SELECT k, v FROM (SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM t) WHERE r > 2",
}

NAMES = ["a", "b", "c", None]


def schema(db: vk.Database) -> None:
    with db.transaction() as tx:
        tx.sql("CREATE TABLE s (k INT PRIMARY KEY, x STRING, n INT, m INT)")
        tx.sql("CREATE TABLE t (k INT, v INT)")
        tx.sql("CREATE TABLE u (x STRING, y INT)")
        tx.sql("CREATE MATERIALIZED VIEW totals AS SELECT k, sum(v) AS total FROM t GROUP BY k")
        for name, query in ASSERTIONS.items():
            tx.sql(f"CREATE ASSERTION {name} ON VIOLATION WARN CHECK (NOT EXISTS ({query}))")


def value(rng: random.Random) -> str:
    return rng.choice(["NULL", "0", "1", "2", "3", "4"])


def name(rng: random.Random) -> str:
    found = rng.choice(NAMES)
    return "NULL" if found is None else f"'{found}'"


def statement(rng: random.Random, free: int) -> str:
    one, other = rng.randrange(8), rng.randrange(8)
    return rng.choice(
        [
            f"INSERT INTO s VALUES ({free}, {name(rng)}, {value(rng)}, {value(rng)})",
            f"INSERT INTO t VALUES ({rng.choice([str(one), 'NULL'])}, {value(rng)}), ({other}, {value(rng)})",
            f"INSERT INTO u VALUES ({name(rng)}, 1), ({name(rng)}, 2)",
            f"UPDATE s SET k = {free} WHERE k = {one}",
            f"UPDATE s SET n = {value(rng)} WHERE k = {one}",
            f"UPDATE s SET m = {value(rng)}, x = {name(rng)} WHERE k IN ({one}, {other})",
            f"UPDATE t SET v = {value(rng)} WHERE k = {one}",
            f"UPDATE u SET y = y + 1 WHERE x = {name(rng)}",
            f"DELETE FROM s WHERE k = {one}",
            f"DELETE FROM t WHERE k = {one} OR v = {rng.randrange(5)}",
            f"DELETE FROM u WHERE x = {name(rng)}",
        ]
    )


def in_full(db: vk.Database) -> dict[str, Counter[Any]]:
    return {each: Counter(db.sql(f"SELECT * FROM {each}").rows()) for each in ASSERTIONS}


def added(before: dict[str, Counter[Any]], after: dict[str, Counter[Any]]) -> dict[str, list[Any]]:
    found = {each: sorted(after[each] - before[each], key=row_order) for each in ASSERTIONS}
    return {each: rows for each, rows in found.items() if rows}


@pytest.mark.spark_long
@pytest.mark.parametrize("seed", [1, *long(*range(2, 12))])
def test_random_transactions(db: vk.Database, engine: str, seed: int) -> None:
    rng = random.Random(seed)
    schema(db)
    columns = {each: db.sql(f"SELECT * FROM {each}").columns for each in ASSERTIONS}
    before = in_full(db)
    told = 0
    for step in range(15 if engine == "sail" else 4):
        with db.transaction() as tx:
            for _ in range(rng.choice([1, 1, 2, 4])):
                tx.sql(statement(rng, 100 + step * 10 + rng.randrange(10)) if rng.random() < 0.5 else _few(rng, tx))
        after = in_full(db)
        expected = added(before, after)
        warnings = tx.commit_info.warnings if tx.commit_info is not None else ()
        assert {warning.split()[2] for warning in warnings} == set(expected), f"step {step}"
        for warning in warnings:
            called = warning.split()[2]
            if len(expected[called]) <= SHOWN:
                assert warning.endswith(f"by {rows_text(columns[called], expected[called])}")
        told += len(warnings)
        before = after
    assert told > 10 or engine == "spark"  # where a few steps may violate nothing


def _few(rng: random.Random, tx: vk.Transaction) -> str:
    """A statement over few keys, so that rows meet; a key that is there already is not inserted again."""
    there = {row[0] for row in tx.sql("SELECT k FROM s").rows()}
    free = next(key for key in rng.sample(range(20), 20) if key not in there)
    return statement(rng, free)
