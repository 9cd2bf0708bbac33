"""Equal group-bys of several views are stored once: whatever the names and the order of what they compute."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from tests.oracle import Oracle, bag, transpiled

TABLES = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, h INT, x INT, y INT)",
    "CREATE TABLE s (h INT PRIMARY KEY, name STRING)",
)

FIRST = "SELECT g, sum(x) AS xs, avg(y) AS ys, max(x) AS hi FROM t GROUP BY g"

EQUAL = {
    "names": "SELECT g AS a, sum(x) AS b, avg(y) AS c, max(x) AS d FROM t GROUP BY g",
    "order": "SELECT max(x) AS hi, avg(y) AS ys, g, sum(x) AS xs FROM t GROUP BY g",
    "fewer": "SELECT g, max(x) AS hi FROM t GROUP BY g",
    "only_the_mean": "SELECT avg(y) AS ys, g FROM t GROUP BY g",
    "distinct": "SELECT DISTINCT g FROM t",
    "filtered": "SELECT g FROM t GROUP BY g HAVING sum(y) > 3",
    "below": "SELECT xs, max(g) AS g FROM (SELECT g, sum(x) AS xs FROM t GROUP BY g) AS q GROUP BY xs",
    "inside": "SELECT s.name, q.hi FROM (SELECT g, max(x) AS hi FROM t GROUP BY g) AS q JOIN s ON q.hi = s.h",
}

OTHER = {
    "more": "SELECT g, min(x) AS lo, max(x) AS hi FROM t GROUP BY g",
    "other_groups": "SELECT h, sum(x) AS xs FROM t GROUP BY h",
    "some_rows": "SELECT g, sum(x) AS xs FROM t WHERE h > 1 GROUP BY g",
    "values": "SELECT g, sum(x + 1) AS xs FROM t GROUP BY g",
    "joined": "SELECT g, sum(x) AS xs FROM t JOIN s ON t.h = s.h GROUP BY g",
    "all": "SELECT sum(x) AS xs FROM t",
    "lane": "SELECT g, sum(x) AS xs FROM t GROUP BY g",
    "demand": "SELECT g, sum(x) AS xs FROM t GROUP BY g",
}


def hidden(db: vk.Database) -> list[str]:
    there = [listed["name"] for listed in db.ls(hidden=True) if listed["kind"].startswith("auxiliary")]
    return [name for name in there if "runners-up" not in name]


def fill(db: vk.Database, oracle: Oracle | None = None) -> None:
    for text in (
        "INSERT INTO s VALUES (1, 'one'), (2, 'two'), (5, 'five')",
        "INSERT INTO t VALUES (1, 'a', 1, 1, 1), (2, 'a', 2, 5, NULL), (3, 'b', 2, NULL, 4), (4, NULL, 1, 2, 2)",
        "UPDATE t SET g = 'b', x = x + 1 WHERE id < 3",
        "DELETE FROM t WHERE g IS NULL",
        "INSERT INTO t VALUES (5, 'a', 1, 2, 9), (6, 'c', 1, NULL, NULL)",
    ):
        db.sql(text)
        if oracle is not None:
            oracle.run(text)


@pytest.mark.spark_long
def test_they_are_stored_once(db: vk.Database) -> None:
    oracle = Oracle()
    for text in TABLES:
        db.sql(text)
        oracle.create_table(text)
    db.sql(f"CREATE MATERIALIZED VIEW f AS {FIRST}")
    assert len(hidden(db)) == 1
    for name, query in EQUAL.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    assert len(hidden(db)) == 2  # one view counts the groups by a sum
    fill(db, oracle)
    for name, query in EQUAL.items():
        assert bag(db.sql(f"SELECT * FROM {name}").rows()) == oracle.query(transpiled(query)), name
    db.sql("DROP MATERIALIZED VIEW f; DELETE FROM t WHERE x = 2; INSERT INTO t VALUES (9, 'b', 1, 1, 1)")
    for name in EQUAL:
        assert db.verify(name).equal, name
        assert hidden(db)
        db.sql(f"DROP MATERIALIZED VIEW {name}")
    assert not hidden(db)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_others_have_their_own(db: vk.Database) -> None:
    for text in TABLES:
        db.sql(text)
    db.sql(f"CREATE MATERIALIZED VIEW f AS {FIRST}")
    for number, (name, query) in enumerate(OTHER.items(), start=2):
        option = {"lane": "WITH (lane = 'engine')", "demand": "WITH (on = 'demand')"}.get(name, "")
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} {option} AS {query}")
        assert len(hidden(db)) == number, name
    fill(db)
    db.sql("REFRESH MATERIALIZED VIEW v_demand")
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_within_one_view(db: vk.Database) -> None:
    """Also if it is refreshed on demand."""
    for text in TABLES:
        db.sql(text)
    db.sql(
        "CREATE MATERIALIZED VIEW v WITH (on = 'demand') AS "
        "SELECT a.g, a.xs, a.hi, b.hi AS same FROM (SELECT g, sum(x) AS xs, max(x) AS hi FROM t GROUP BY g) AS a "
        "JOIN (SELECT max(x) AS hi, g FROM t GROUP BY g) AS b ON a.g = b.g"
    )
    assert len(hidden(db)) == 1
    fill(db)
    db.sql("REFRESH MATERIALIZED VIEW v")
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_the_same_columns_of_another_join_are_not_equal(db: vk.Database) -> None:
    for text in TABLES:
        db.sql(text)
    joined = "CREATE MATERIALIZED VIEW {} AS SELECT {} FROM t JOIN s ON {} GROUP BY name"
    db.sql(joined.format("a", "name, sum(x) AS xs, max(y) AS hi", "t.h = s.h"))
    db.sql(joined.format("b", "max(y) AS hi, name", "t.h = s.h"))
    assert len(hidden(db)) == 1
    db.sql(joined.format("c", "max(y) AS hi, name", "t.x = s.h"))
    db.sql(joined.format("d", "max(x) AS hi, name", "t.h = s.h"))
    assert len(hidden(db)) == 3
    fill(db)
    assert db.verify().equal
