"""Views that get another query: what is maintained incrementally, what in full, and how EXPLAIN shows it beforehand."""

from __future__ import annotations

from collections import Counter

import pytest

import viewkeeper as vk

TABLES = """
    CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT, y INT);
    CREATE TABLE s (id INT PRIMARY KEY, g STRING, x INT);
    INSERT INTO t VALUES (1, 'a', 1, 10), (2, 'a', NULL, 20), (3, 'b', 3, 30), (4, 'b', 4, 40), (5, NULL, 5, 50);
    INSERT INTO s VALUES (1, 'a', 1), (2, 'b', 3), (3, 'c', 3), (4, NULL, NULL)
"""

FOLLOWED = {
    "a condition": (
        "SELECT id, x FROM t WHERE x > 3",
        "SELECT id, x FROM t WHERE y < 30",
        "its condition x > 3 became y < 30",
    ),
    "a first condition": ("SELECT id, x FROM t", "SELECT id, x FROM t WHERE x > 1", "its condition true became x > 1"),
    "a branch more": (
        "SELECT id, x FROM t",
        "SELECT id, x FROM t UNION ALL SELECT id, x FROM s WHERE x = 3",
        "a union branch added",
    ),
    "a branch less": (
        "SELECT id, x FROM s UNION ALL SELECT id, x FROM t UNION ALL SELECT y, x FROM t",
        "SELECT id, x FROM t",
        "2 union branches removed",
    ),
    "a condition in a branch": (
        "SELECT id, x FROM s UNION ALL SELECT id, x FROM t WHERE x > 3",
        "SELECT id, x FROM s UNION ALL SELECT id, x FROM t WHERE x > 2",
        "its condition x > 3 became x > 2",
    ),
    "a set": (
        "SELECT x FROM t UNION SELECT x FROM s",
        "SELECT x FROM t UNION SELECT x FROM s UNION SELECT y FROM t",
        "a union branch added",
    ),
    "below a group-by": (
        "SELECT g, count(*) AS n, sum(x) AS total, max(y) AS most FROM t WHERE y > 10 GROUP BY g",
        "SELECT g, count(*) AS n, sum(x) AS total, max(y) AS most FROM t WHERE y < 50 GROUP BY g",
        "its condition y > 10 became y < 50",
    ),
    "HAVING": (
        "SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 1",
        "SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 0",
        "its condition count(*) > 1 became count(*) > 0",
    ),
    "a join": (
        "SELECT t.id, s.g FROM t JOIN s ON t.x = s.x",
        "SELECT t.id, s.g FROM t JOIN s ON t.g = s.g",
        "its condition x = x became g = g",
    ),
    "below an outer join": (
        "SELECT t.id, r.id AS other FROM t LEFT JOIN (SELECT * FROM s WHERE id > 1) r ON t.x = r.x",
        "SELECT t.id, r.id AS other FROM t LEFT JOIN (SELECT * FROM s WHERE id > 2) r ON t.x = r.x",
        "its condition id > 1 became id > 2",
    ),
    "inside NOT EXISTS": (
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.x = t.x AND s.id > 1)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.x = t.x AND s.id > 2)",
        "its condition id > 1 became id > 2",
    ),
    "below LIMIT": (
        "SELECT id, y FROM t WHERE x > 1 ORDER BY y DESC LIMIT 2",
        "SELECT id, y FROM t WHERE x < 5 ORDER BY y DESC LIMIT 2",
        "its condition x > 1 became x < 5",
    ),
}

ANEW = {
    "another column": (
        "SELECT id, x FROM t",
        "SELECT id, y AS x FROM t",
        "t became t, which is more than a condition or a branch",
    ),
    "another order": (
        "SELECT id, y FROM t ORDER BY y DESC LIMIT 2",
        "SELECT id, y FROM t ORDER BY y LIMIT 2",
        "τ[y desc limit 2] became τ[y limit 2], which is more than a condition or a branch",
    ),
    "another table": (
        "SELECT id, x FROM t",
        "SELECT id, x FROM s",
        "t became s, which is more than a condition or a branch",
    ),
    "no branch in common": (
        "SELECT id, x FROM t UNION ALL SELECT y, x FROM t",
        "SELECT id, x FROM s",
        "no branch of its union stayed the same",
    ),
}


def told(db: vk.Database, text: str) -> list[str]:
    return [line for (line,) in db.sql(f"EXPLAIN {text}").rows()]


@pytest.mark.spark_long
@pytest.mark.parametrize("case", FOLLOWED)
def test_followed(db: vk.Database, case: str) -> None:
    before, after, difference = FOLLOWED[case]
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS {before}")
    alter = f"ALTER MATERIALIZED VIEW v AS {after}"
    assert told(db, alter) == [f"v is maintained incrementally: {difference}"]
    old = Counter(db.view("v").read().rows())
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (6, 'c', 3, 15), (7, 'a', 9, 60)")
        tx.sql(alter)
        tx.sql("DELETE FROM t WHERE id = 4; UPDATE s SET x = 4 WHERE id = 2; DELETE FROM s WHERE id = 1")
    assert tx.commit_info is not None
    report = tx.commit_info.report["v"]
    assert report.strategy == "incremental", report
    assert difference in report.reason
    new = Counter(db.view("v").read().rows())
    changed = {row: new[row] - old[row] for row in {*new, *old}}
    assert tx.commit_info.changes["v"].weights() == {row: weight for row, weight in changed.items() if weight}
    assert db.verify().equal
    db.sql("INSERT INTO t VALUES (8, 'b', 1, 25), (9, 'a', 3, 5)")
    assert db.verify().equal


@pytest.mark.spark_long
@pytest.mark.parametrize("case", ANEW)
def test_computed_anew(db: vk.Database, case: str) -> None:
    before, after, difference = ANEW[case]
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {before}")
    assert told(db, f"ALTER MATERIALIZED VIEW v AS {after}") == [f"v is refreshed in full: {difference}"]
    commit = db.sql(f"ALTER MATERIALIZED VIEW v AS {after}").commit
    assert commit.report["v"].strategy == "full"
    assert commit.report["v"].reason == f"its definition has changed: {difference}"
    assert db.verify().equal


def test_views_over_a_virtual_one_follow_it(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE VIEW low AS SELECT id, g FROM t WHERE y < 30")
    db.sql("CREATE MATERIALIZED VIEW per_g AS SELECT g, count(*) AS n FROM low GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW ids AS SELECT id FROM low")
    alter = "ALTER VIEW low AS SELECT id, g FROM t WHERE y < 50"
    assert told(db, alter) == [
        "ids is maintained incrementally: its condition y < 30 became y < 50",
        "low stores nothing: it shows its new query from then on",
        "per_g is maintained incrementally: its condition y < 30 became y < 50",
    ]
    changes = db.sql(alter).commit.changes
    assert changes["ids"].weights() == {(3,): 1, (4,): 1}
    assert changes["per_g"].weights() == {("b", 2): 1}
    assert db.verify().equal


def test_nothing_is_kept_of_what_is_explained(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    epoch = db.epoch
    assert told(db, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id FROM t WHERE x > 1") == [
        "v is maintained incrementally: its condition true became x > 1"
    ]
    assert told(db, "CREATE MATERIALIZED VIEW w AS SELECT id FROM t") == ["w is new: it is computed from its query"]
    assert told(db, "CREATE VIEW w AS SELECT id FROM t") == ["w is new and stores nothing"]
    assert db.epoch == epoch
    assert db.view("v").sql == "SELECT id FROM t"


def test_a_condition_that_may_fail_is_not_tried_on_rows_that_go(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id INT, x INT); INSERT INTO t VALUES (1, 0), (2, 5)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    with db.transaction() as tx:
        tx.sql("ALTER MATERIALIZED VIEW v AS SELECT id FROM t WHERE 10 / x > 1; DELETE FROM t WHERE x = 0")
    assert tx.commit_info is not None
    assert tx.commit_info.report["v"].strategy == "full"
    assert "may fail for rows that were inserted or deleted with it" in tx.commit_info.report["v"].reason
    assert db.sql("SELECT * FROM v").rows() == [(2,)]
