"""Aggregates computed from the distinct values of their arguments, and EXISTS without an equality: what they read, what
EXPLAIN says, and what is still refused under refresh = 'incremental'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.errors import NotMaintainable

ROWS = 500


def make(db: vk.Database, views: Mapping[str, str]) -> None:
    """A table of some rows, an empty one, and views kept by change alone."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x INT)")
    db.sql("INSERT INTO t VALUES " + ", ".join(f"({i}, {i % 3}, {i % 7})" for i in range(ROWS)))
    db.sql("CREATE TABLE u (a INT)")
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")


def commit(db: vk.Database, *statements: str) -> Any:
    with db.transaction() as tx:
        for text in statements:
            tx.sql(text)
    return tx.commit_info


def rows(db: vk.Database, name: str) -> list[tuple[Any, ...]]:
    return sorted(db.view(name).read().rows(), key=repr)


def tables_read(report: Any) -> set[str]:
    return {name for name in report.read if name.startswith(("t@", "u@"))}


def hidden(db: vk.Database) -> int:
    """How many auxiliary relations there are."""
    return sum(1 for entry in db.ls(hidden=True) if entry["kind"] == "auxiliary relation")


@pytest.mark.spark_long
def test_the_table_is_not_read(db: vk.Database) -> None:
    views = {
        "different": "SELECT count(DISTINCT x) AS n, sum(DISTINCT x) AS s FROM t",
        "middle": "SELECT percentile(x, array(0.5)) AS p, count(*) AS n FROM t",
        "per_group": "SELECT g, count(*) AS n, count(DISTINCT x) AS d FROM t GROUP BY g",
    }
    make(db, views)
    assert rows(db, "different") == [(7, 21)]
    assert rows(db, "middle") == [([3.0], ROWS)]
    done = commit(db, "INSERT INTO t VALUES (1000, 0, 7), (1001, 0, 7)", "DELETE FROM t WHERE x = 1")
    for name in views:
        assert done.report[name].strategy == "incremental"
        assert not tables_read(done.report[name]), name
    assert done.report["different"].rows_read == 0
    assert done.report["middle"].rows_read < 40, "the different values with their counts, and a total"
    assert rows(db, "different") == [(7, 27)]
    assert rows(db, "middle") == [([3.5], ROWS + 2 - 72)]
    gone = [sum(1 for i in range(ROWS) if i % 3 == g and i % 7 != 1) for g in range(3)]
    assert rows(db, "per_group") == [(0, gone[0] + 2, 7), (1, gone[1], 6), (2, gone[2], 6)]
    assert db.verify().equal


def test_another_copy_of_a_value_changes_no_distinct_count(db: vk.Database) -> None:
    make(db, {"different": "SELECT count(DISTINCT x) AS n FROM t"})
    done = commit(db, "INSERT INTO t VALUES (1000, 0, 5)", "DELETE FROM t WHERE id = 6")
    assert set(done.changes) == {"t"}
    assert rows(db, "different") == [(7,)]


def test_many_copies_of_a_value(db: vk.Database) -> None:
    """More copies than are made by one array, and an exact number of such arrays."""
    make(
        db,
        {"middle": "SELECT percentile(x, array(0.5)) AS p, collect_list(x) AS l FROM (SELECT x FROM t WHERE id > 999)"},
    )
    assert rows(db, "middle") == [(None, [])]
    commit(db, "INSERT INTO t SELECT id + 10000, 0, 3 FROM range(2000)")
    assert rows(db, "middle") == [([3.0], [3] * 2000)]
    commit(db, "INSERT INTO t SELECT id + 20000, 0, 4 FROM range(2001)")
    assert rows(db, "middle") == [([4.0], [3] * 2000 + [4] * 2001)]
    commit(db, "DELETE FROM t WHERE id >= 22000")
    assert rows(db, "middle") == [([3.5], [3] * 2000 + [4] * 2000)]


@pytest.mark.spark_long
def test_nothing_is_read_while_there_is_a_row(db: vk.Database) -> None:
    views = {
        "some": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE a > 3)",
        "none": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE a > 3)",
        "value": "SELECT id, EXISTS (SELECT 1 FROM u WHERE a > 3) AS f FROM t",
        "absent": "SELECT id FROM t WHERE x NOT IN (SELECT a FROM u)",
    }
    make(db, views)
    flip = commit(db, "INSERT INTO u VALUES (60)")
    assert len(flip.changes["some"].weights()) == len(flip.changes["none"].weights()) == ROWS
    assert all("t@old" in flip.report[name].read for name in views)
    for statement in ("INSERT INTO u VALUES (61), (62)", "DELETE FROM u WHERE a = 60", "UPDATE u SET a = 70"):
        done = commit(db, statement)
        assert set(done.changes) == {"u"}
        assert not any(tables_read(done.report[name]) for name in views if name in done.report), statement
    assert len(rows(db, "some")) == ROWS
    assert rows(db, "none") == []
    commit(db, "DELETE FROM u")
    assert rows(db, "some") == []
    assert len(rows(db, "none")) == ROWS
    assert db.verify().equal


@pytest.mark.spark_long
def test_explain_says_that_the_values_are_read_in_full(db: vk.Database) -> None:
    make(db, {"middle": "SELECT percentile(x, array(0.5)) AS p FROM t"})
    told = [line.strip() for line in db.explain("middle").splitlines()]
    assert "γ[x; count(*)]" in told
    assert "auxiliary 1@new: reads all 7 rows" in told


@pytest.mark.spark_long
def test_auxiliary_relations_are_shared_and_dropped(db: vk.Database) -> None:
    make(
        db,
        {
            "one": "SELECT count(DISTINCT x) AS n FROM t",
            "two": "SELECT percentile(x, array(0.5)) AS p FROM t",
        },
    )
    assert hidden(db) == 3, "the values with their counts, and one result for each view"
    db.sql("DROP VIEW one")
    assert hidden(db) == 2
    db.sql("DROP VIEW two")
    assert hidden(db) == 0


@pytest.mark.spark_long
def test_on_demand(db: vk.Database) -> None:
    make(db, {})
    for name, query in {"n": "count(DISTINCT x) AS n", "p": "percentile(x, 0.5) AS p"}.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (on = 'demand') AS SELECT {query} FROM t")
    commit(db, "DELETE FROM t WHERE x < 4")
    commit(db, "INSERT INTO t VALUES (1000, 1, 1), (1001, 1, NULL)")
    assert (rows(db, "n"), rows(db, "p")) == ([(7,)], [(3.0,)])
    db.sql("REFRESH n")
    db.sql("REFRESH p")
    assert (rows(db, "n"), rows(db, "p")) == ([(4,)], [(5.0,)])
    assert db.verify().equal


def test_a_scalar_subquery_of_two_rows_changes_nothing(db: vk.Database) -> None:
    make(db, {"only": "SELECT (SELECT a FROM u WHERE a > 5) AS a FROM t WHERE id = 1"})
    commit(db, "INSERT INTO u VALUES (3), (7)")
    assert rows(db, "only") == [(7,)]
    for statement in ("INSERT INTO u VALUES (7)", "INSERT INTO u VALUES (8)"):
        with pytest.raises(vk.errors.ViewkeeperError, match="a scalar subquery gave more than one row"):
            commit(db, statement)
    assert sorted(db.sql("SELECT a FROM u").rows()) == [(3,), (7,)]
    commit(db, "DELETE FROM u WHERE a = 7")
    assert rows(db, "only") == [(None,)]


@pytest.mark.spark_long
@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (
            "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE a < x)",
            "NOT EXISTS, NOT IN or ALL without an equality (▷[a < x]) compares all rows",
            "correlate by a key",
        ),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE a < x)",
            "EXISTS, IN or ANY without an equality (⋉[a < x]) compares all rows",
            "correlate by a key",
        ),
        (
            "SELECT id, rank() OVER (ORDER BY x) AS r FROM t",
            "a window without PARTITION BY is computed over all rows",
            "add PARTITION BY",
        ),
        (
            "SELECT id FROM t ORDER BY id OFFSET 3",
            "OFFSET without LIMIT is computed over all rows",
            "add LIMIT",
        ),
        (
            "SELECT (SELECT map(a, a) FROM u)[1] AS m FROM t",
            "a scalar subquery without GROUP BY, of a MAP, is computed over all rows",
            "take map_entries of it",
        ),
    ],
)
def test_what_is_still_refused(db: vk.Database, query: str, message: str, hint: str) -> None:
    make(db, {})
    with pytest.raises(NotMaintainable) as problem:
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS {query}")
    assert problem.value.message == f"v cannot be maintained incrementally: {message}"
    assert problem.value.hint == f"{hint}, or leave the choice to refresh = 'auto'"
