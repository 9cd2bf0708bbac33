"""Recursions that never end are given up soon, in the words they were written in; those that end are not."""

from __future__ import annotations

import time

import pytest

import viewkeeper as vk

WALK = """
    WITH RECURSIVE walk AS (
        SELECT a, b, 1 AS depth FROM e WHERE a = 1 {union}
        SELECT walk.a, e.b, {value} FROM walk JOIN e ON walk.b = e.a {where}
    ) SELECT * FROM walk
"""
SETS = "WITH RECURSIVE walk never ends: some rows lead back to themselves, and depth grows each time"
BAGS = "WITH RECURSIVE walk never ends: with UNION ALL, rows that lead back to themselves come again and again"


def walk(union: str = "UNION", value: str = "depth + 1", where: str = "") -> str:
    return WALK.format(union=union, value=value, where=where)


@pytest.fixture
def chain(db: vk.Database) -> vk.Database:
    """One path of five nodes."""
    db.sql(
        "CREATE TABLE e (a BIGINT, b BIGINT, w INT); INSERT INTO e VALUES (1, 2, 5), (2, 3, 1), (3, 4, 2), (4, 5, 1)"
    )
    return db


@pytest.mark.spark_long
def test_a_commit_that_closes_a_cycle_is_refused_and_says_which_view(chain: vk.Database) -> None:
    chain.sql(f"CREATE MATERIALIZED VIEW v AS {walk()}")
    before = chain.epoch
    began = time.monotonic()
    with pytest.raises(vk.errors.SqlError) as caught:
        chain.sql("INSERT INTO e VALUES (5, 1, 1)")
    assert time.monotonic() - began < 60  # ten thousand rounds would take many minutes
    assert str(caught.value) == (
        f"v cannot be maintained, so nothing was committed\ndetail: {SETS}\n"
        "hint: add a condition to its step that ends it, such as WHERE depth < 100; "
        "or ALTER MATERIALIZED VIEW v SUSPEND; lets the tables change without it"
    )
    assert chain.epoch == before
    assert "  depth grows with every round and has no bound: a change that makes rows" in chain.explain("v")
    chain.sql("CREATE TABLE node (n BIGINT PRIMARY KEY)")
    chain.sql("CREATE TABLE link (a BIGINT REFERENCES node (n), b BIGINT REFERENCES node (n))")
    chain.sql(
        f"CREATE MATERIALIZED VIEW linked AS {walk().replace(' e ', ' link AS e ')}"
    )  # tried over rows that cycle
    chain.sql(f"ALTER MATERIALIZED VIEW v AS {walk(where='WHERE depth < 7')}")
    chain.sql("INSERT INTO e VALUES (5, 1, 1)")
    assert len(chain.sql("SELECT * FROM v").rows()) == 7
    with pytest.raises(vk.errors.DatalogError) as datalog:
        chain.datalog(".decl d(x:number, n:number)\n.output d\nd(1, 0).\nd(y, n + 1) :- d(x, n), e(x, y, _).")
    assert datalog.value.message == (
        "the recursion of d never ends: some rows lead back to themselves, and n grows each time"
    )
    assert datalog.value.hint == "add a condition that ends it to the rule, such as n < 100"


CYCLE = "INSERT INTO e VALUES (5, 1, 1)"


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(
    ("query", "message"),
    [
        (walk(), SETS),
        (walk(value="depth + e.w"), SETS),
        (walk(value="depth - 1"), SETS),
        (walk("UNION ALL"), BAGS),
        (walk("UNION ALL", "depth % 3"), BAGS),
        (
            "WITH RECURSIVE p AS (SELECT a, CAST(a AS STRING) AS path FROM e UNION "
            "SELECT e.b, path || '>' || e.b FROM p JOIN e ON p.a = e.a) SELECT * FROM p",
            "WITH RECURSIVE p never ends: some rows lead back to themselves, and path grows each time",
        ),
    ],
)
def test_queries_over_a_cycle_that_never_end(chain: vk.Database, query: str, message: str) -> None:
    chain.sql(CYCLE)
    with pytest.raises(vk.errors.SqlError) as caught:
        chain.sql(query)
    assert caught.value.message == message
    assert caught.value.hint is not None
    assert ("length(path) < 100" if "path" in query else "depth < 100") in caught.value.hint


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (walk(where="WHERE depth < 12"), 12),
        (walk("UNION ALL", where="WHERE depth < 12"), 12),
        (walk(value="least(depth + 1, 9)"), 13),
        (walk(value="(depth + 1) % 3"), 15),
        (walk(value="depth + nullif(e.w, e.w)"), 6),  # NULL does not grow
        (walk(value="depth"), 5),
        (
            "WITH RECURSIVE r AS (SELECT a, b FROM e UNION SELECT r.a, e.b FROM r JOIN e ON r.b = e.a) SELECT * FROM r",
            25,
        ),
    ],
)
def test_queries_over_a_cycle_that_end(chain: vk.Database, query: str, rows: int) -> None:
    chain.sql(CYCLE)
    chain.sql("SET max_rounds = 20")
    assert len(chain.sql(query).rows()) == rows


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_closures_of_long_chains_have_no_limit_of_rounds(db: vk.Database) -> None:
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT); INSERT INTO e SELECT id, id + 1 FROM range(300); SET max_rounds = 10")
    reach = "SELECT b FROM e WHERE a = 0 UNION SELECT e.b FROM r JOIN e ON r.b = e.a"
    assert db.sql(f"WITH RECURSIVE r AS ({reach}) SELECT count(*) FROM r").rows() == [(300,)]
    counted = "SELECT b, 1 AS n FROM e WHERE a = 0 UNION SELECT e.b, n + 1 FROM r JOIN e ON r.b = e.a"
    with pytest.raises(vk.errors.SqlError) as caught:
        db.sql(f"WITH RECURSIVE r AS ({counted}) SELECT count(*) FROM r")
    assert str(caught.value) == (
        "WITH RECURSIVE r did not end after 10 rounds\n"
        "hint: add a condition to its step that ends it, such as WHERE n < 100; "
        "if it needs more rounds: SET max_rounds = 100"
    )
    db.sql("SET max_rounds = 1000")
    assert db.sql(f"WITH RECURSIVE r AS ({counted}) SELECT max(n) FROM r").rows() == [(300,)]
    db.sql("SET max_rows = 50")
    with pytest.raises(vk.errors.SqlError) as caught:
        db.sql(f"WITH RECURSIVE r AS ({reach}) SELECT count(*) FROM r")
    assert caught.value.message == "WITH RECURSIVE r has more than 50 rows"
