"""WITH RECURSIVE: queries and maintained views; what is refused, word for word."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from tests.marks import long

TABLES = """
    CREATE TABLE edge (x INT, y INT);
    CREATE TABLE blocked (y INT);
    INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1), (3, 4), (4, 5);
    INSERT INTO blocked VALUES (4), (NULL)
"""

QUERIES = {
    "linear": "WITH RECURSIVE r(x, y) AS (SELECT x, y FROM edge UNION SELECT r.x, e.y FROM r JOIN edge e ON r.y = e.x) "
    "SELECT * FROM r",
    "non_linear": "WITH RECURSIVE r(x, y) AS (SELECT x, y FROM edge "
    "UNION SELECT a.x, b.y FROM r a JOIN r b ON a.y = b.x) SELECT * FROM r",
    "two_steps": "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT e.y FROM r, edge e WHERE e.x = r.x "
    "UNION SELECT e.x FROM r, edge e WHERE e.y = r.x AND e.x > 2) SELECT x FROM r",
    "counting": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20) SELECT i FROM n",
    "negated": "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT e.y FROM r JOIN edge e ON r.x = e.x "
    "WHERE NOT EXISTS (SELECT 1 FROM blocked b WHERE b.y = e.y)) SELECT x FROM r",
    "two": "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT e.y FROM r JOIN edge e ON r.x = e.x), "
    "s(x) AS (SELECT x FROM r WHERE x > 2 UNION SELECT e.x FROM s JOIN edge e ON e.y = s.x) "
    "SELECT r.x, count(s.x) AS n FROM r LEFT JOIN s ON s.x < r.x GROUP BY r.x",
    "not_recursive": "WITH RECURSIVE q AS (SELECT x FROM edge) SELECT DISTINCT x FROM q",
}


@pytest.mark.parametrize("on_spark", [("non_linear", "negated"), *long(tuple(QUERIES))], ids=len)
def test_queries_and_views_agree_through_changes(db: vk.Database, on_spark: tuple[str, ...]) -> None:
    db.sql(TABLES)
    on_sail = db._store.engine.kind == "sail"
    chosen = QUERIES if on_sail else {name: QUERIES[name] for name in on_spark}
    for name, query in chosen.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.sql(f"CREATE VIEW v_{name} AS {query}")
    steps = (
        "DELETE FROM edge WHERE x = 3 AND y = 1",
        "INSERT INTO edge VALUES (5, 2), (NULL, 1), (1, NULL)",
        "DELETE FROM blocked",
        "UPDATE edge SET y = y + 1 WHERE x < 3",
    )
    for step in steps if on_sail else steps[:1]:
        db.sql(step)
        for name, query in chosen.items():
            stored = sorted(db.sql(f"SELECT * FROM {name}").rows(), key=str)
            assert stored == sorted(db.sql(query).rows(), key=str), (step, name)
            assert stored == sorted(db.sql(f"SELECT * FROM v_{name}").rows(), key=str), (step, name)
    assert db.verify().equal


@pytest.mark.spark_long
def test_the_feed_of_a_virtual_recursion(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(f"CREATE VIEW virtual AS {QUERIES['linear']}; CREATE MATERIALIZED VIEW stored AS {QUERIES['linear']}")
    since = db.epoch
    db.sql("DELETE FROM edge WHERE x = 3 AND y = 1")
    db.sql("INSERT INTO edge VALUES (5, 1)")
    feeds = [
        {epoch: change.weights() for epoch, change in db.view(name).changes(since=since)}
        for name in ("virtual", "stored")
    ]
    assert feeds[0] == feeds[1]
    assert len(feeds[0]) == 2


def test_a_changed_step_is_followed_as_a_change(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW r AS {QUERIES['linear']}")
    other = QUERIES["linear"].replace("SELECT x, y FROM edge UNION", "SELECT x, y FROM edge WHERE x <> 4 UNION")
    commit = db.sql(f"ALTER MATERIALIZED VIEW r AS {other}").commit
    assert commit.changes["r"].weights() == {(4, 5): -1}
    assert "its definition has changed: rule" in commit.report["r"].reason
    assert db.verify().equal


REFUSED = {
    "WITH RECURSIVE r(x) AS (SELECT x FROM edge UNION SELECT max(x) FROM r) SELECT * FROM r": (
        "'r' cannot be read through GROUP BY and aggregates inside its own definition",
        "do that outside of the recursion, over its result",
    ),
    "WITH RECURSIVE r(x) AS (SELECT x FROM edge UNION SELECT y FROM edge e LEFT JOIN r ON r.x = e.x) SELECT * FROM r": (
        "'r' cannot be read through an outer join inside its own definition",
        "do that outside of the recursion, over its result",
    ),
    "WITH RECURSIVE r(x) AS (SELECT x FROM edge UNION ALL SELECT a.x FROM r a JOIN r b ON a.x = b.x) SELECT * FROM r": (
        "'r' stands twice in one branch of UNION ALL",
        "write UNION instead of UNION ALL",
    ),
    "WITH RECURSIVE r(x) AS (SELECT x FROM r) SELECT * FROM r": (
        "the recursive query 'r' is not a UNION",
        "write a start, UNION, and a step",
    ),
    "WITH RECURSIVE r(x) AS (SELECT x FROM r UNION SELECT x + 1 FROM r) SELECT * FROM r": (
        "every branch of 'r' reads 'r', so it has no rows to start from",
        "add a branch that reads other tables only",
    ),
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x * 1.5 FROM r WHERE x < 9) SELECT * FROM r": (
        "column 'x' of 'r' is INT in its start and DECIMAL(13,1) in a step",
        "write a CAST in one of them",
    ),
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x, x FROM r) SELECT * FROM r": (
        "a step of 'r' has 2 columns, its start has 1",
        None,
    ),
}


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("query", REFUSED)
def test_what_is_refused(db: vk.Database, query: str) -> None:
    db.sql(TABLES)
    with pytest.raises(vk.errors.ViewkeeperError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    message, hint = REFUSED[query]
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert caught.value.place is not None


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_an_endless_bag(db: vk.Database) -> None:
    db.sql(TABLES)
    query = QUERIES["linear"].replace("UNION", "UNION ALL")
    with pytest.raises(vk.errors.SqlError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert str(caught.value).startswith("WITH RECURSIVE r never ends: with UNION ALL, rows that lead back")
    assert "write UNION instead of UNION ALL" in str(caught.value)
