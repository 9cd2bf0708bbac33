"""Chains of hundreds of operators, deep nesting, and tables of a thousand columns, on both engines."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from tests.marks import long, spark_long

TERMS = 150
NESTED = 60


def _nested_case(depth: int) -> str:
    made = "-1"
    for number in reversed(range(depth)):
        made = f"CASE WHEN k = {number} THEN {number * 10} ELSE {made} END"
    return made


def _nested_calls(depth: int) -> str:
    return "abs(" * depth + "k - 5" + ")" * depth


def _views(terms: int) -> dict[str, str]:
    some = " OR ".join(f"(k = {i} AND s = 'a')" for i in range(terms))
    none = " AND ".join(f"(k <> {i} OR s <> 'a')" for i in range(terms))
    summed = " + ".join(f"CASE WHEN k = {i} THEN 1 ELSE 0 END" for i in range(terms))
    return {
        "ored": f"SELECT k, s FROM t WHERE {some}",
        "anded": f"SELECT k, s FROM t WHERE {none}",
        "added": f"SELECT k, {' + '.join(['k'] * terms)} AS n FROM t",
        "joined_text": f"SELECT k, length({' || '.join(['s'] * terms)}) AS n FROM t",
        "cases": f"SELECT k, {_nested_case(NESTED)} AS n FROM t",
        "calls": f"SELECT k, {_nested_calls(NESTED)} AS n FROM t",
        "summed": f"SELECT sum({summed}) AS n FROM t",
    }


def _expected(rows: list[tuple[int | None, str | None]], terms: int) -> dict[str, set[tuple[object, ...]]]:
    """What the views hold, by Python. Rows are different, and neither column is NULL without the other."""
    full = [(k, s) for k, s in rows if k is not None and s is not None]
    none: list[tuple[object, ...]] = [(None, None)] if len(full) < len(rows) else []
    low = [k for k, _ in full if 0 <= k < terms]
    return {
        "ored": {(k, s) for k, s in full if 0 <= k < terms and s == "a"},
        "anded": {(k, s) for k, s in full if not (0 <= k < terms and s == "a")},
        "added": {(k, k * terms) for k, _ in full} | set(none),
        "joined_text": {(k, len(s) * terms) for k, s in full} | set(none),
        "cases": {(k, k * 10 if 0 <= k < NESTED else -1) for k, _ in full} | {(None, -1) for _ in none},
        "calls": {(k, abs(k - 5)) for k, _ in full} | set(none),
        "summed": {(len(low),)},
    }


@pytest.mark.parametrize("terms", [100, *long(TERMS, 2 * TERMS)])
def test_views_with_many_terms_in_a_row_and_deep_nesting_follow_changes(db: vk.Database, terms: int) -> None:
    db.sql("CREATE TABLE t (k INT, s STRING)")
    with db.transaction() as tx:
        for name, query in _views(terms).items():
            tx.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    rows: list[tuple[int | None, str | None]] = [(1, "a"), (2, "b"), (terms + 7, "a"), (None, None)]
    with db.transaction() as tx:
        tx.insert("t", rows)
    _compare(db, rows, terms)
    db.sql(f"DELETE FROM t WHERE {' OR '.join(f'k = {i} AND s <> {chr(39)}z{chr(39)}' for i in range(1, terms))}")
    _compare(db, rows[2:], terms)


def _compare(db: vk.Database, rows: list[tuple[int | None, str | None]], terms: int) -> None:
    for name, wanted in _expected(rows, terms).items():
        assert set(db.sql(f"SELECT * FROM {name}").rows()) == wanted, name


def test_update_and_select_with_hundreds_of_terms(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (k INT, s STRING)")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    db.sql(f"UPDATE t SET k = {' + '.join(['k'] * TERMS)} WHERE {' OR '.join(f'k = {i}' for i in range(2, TERMS))}")
    assert sorted(db.sql("SELECT * FROM t").rows()) == [(1, "a"), (2 * TERMS, "b")]
    chain = " AND ".join(f"k <> {i}" for i in range(2, TERMS))
    assert db.sql(f"SELECT s FROM t WHERE {chain} AND k < 100").rows() == [("a",)]


@pytest.mark.parametrize("columns", [*spark_long(60), *long(1_000)])
def test_set_operations_and_deletion_by_row_over_many_columns(db: vk.Database, columns: int) -> None:
    names = ", ".join(f"c{i} INT" for i in range(columns))
    db.sql(f"CREATE TABLE a ({names}); CREATE TABLE b ({names})")
    with db.transaction() as tx:
        tx.sql("CREATE MATERIALIZED VIEW less AS SELECT * FROM a EXCEPT SELECT * FROM b")
        tx.sql("CREATE MATERIALIZED VIEW shared AS SELECT * FROM a INTERSECT ALL SELECT * FROM b")
    ascending, nothing = tuple(range(columns)), (None,) * columns
    with db.transaction() as tx:
        tx.insert("a", [ascending, ascending, nothing])
        tx.insert("b", [nothing, ascending])
    assert db.sql("SELECT * FROM less").rows() == []
    assert sorted(db.sql("SELECT * FROM shared").rows(), key=str) == sorted([ascending, nothing], key=str)
    with db.transaction() as tx:
        tx.delete("b", [nothing])
        tx.delete("a", [ascending])
    assert db.sql("SELECT * FROM less").rows() == [nothing]
    assert db.sql("SELECT * FROM shared").rows() == [ascending]


def test_a_statement_nested_too_deep_is_said_to_be_so(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (k INT, s STRING)")
    with pytest.raises(vk.errors.SqlError, match="nested too deep"):
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {_nested_calls(3_000)} AS n FROM t")
    assert [row["name"] for row in db.ls()] == ["t"]
