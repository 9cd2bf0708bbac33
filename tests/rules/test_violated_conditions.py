"""What an error says of a condition that is false: its text, and the values of aggregates that it compares."""

from __future__ import annotations

import pytest

import viewkeeper as vk

CONDITIONS = [
    ("(SELECT count(*) FROM t) <= 1", "(SELECT count(*) FROM t) <= 1 is false: count(*) is 2"),
    (
        "(SELECT sum(b) FROM t) <= (SELECT sum(b) FROM u)",
        "(SELECT sum(b) FROM t) <= (SELECT sum(b) FROM u) is false: sum(b) is 30, sum(b) is 15",
    ),
    (
        "\n  (SELECT n FROM counted) = 1  \n  AND (SELECT max(b) FROM t) < 100\n",
        "(SELECT n FROM counted) = 1 AND (SELECT max(b) FROM t) < 100 is false: n is 2, max(b) is 20",
    ),
    (
        "EXISTS (SELECT * FROM u WHERE b > 99) OR (SELECT min(name) FROM t) >= 'f'",
        "EXISTS (SELECT * FROM u WHERE b > 99) OR (SELECT min(name) FROM t) >= 'f' is false: min(name) is 'e'",
    ),
    (
        "(SELECT max(b) FROM t) IN (SELECT b FROM u UNION ALL SELECT 10)",
        "(SELECT max(b) FROM t) IN (SELECT b FROM u UNION ALL SELECT 10) is false",
    ),
    (
        "NOT EXISTS (SELECT * FROM t WHERE b > 10) AND true",
        "NOT EXISTS (SELECT * FROM t WHERE b > 10) AND true is false",
    ),
    ("NOT EXISTS (SELECT true AS violated WHERE NOT (1 = 2) AND (SELECT count(*) FROM t) > 1)", None),
]


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    """Tables, and a view that counts the rows of one."""
    db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT, name STRING); CREATE TABLE u (b INT)")
    db.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM t")
    db.sql("INSERT INTO t VALUES (1, 10, 'f'); INSERT INTO u VALUES (15)")
    return db


@pytest.mark.spark_long
def test_the_condition_and_what_it_compares(shop: vk.Database) -> None:
    """In the error of a commit, in a preview, in a warning, and when the assertion is created over such rows."""
    for condition, said in CONDITIONS:
        told = f"because {said}" if said else "by (violated = True)"
        shop.sql(f"CREATE ASSERTION one CHECK ({condition})")
        with pytest.raises(vk.errors.AssertionViolated) as caught:
            shop.sql("INSERT INTO t VALUES (2, 20, 'e')")
        detail, led = str(caught.value.detail).split("; led to by ")
        assert (detail, led) == (told, "t: inserted (a = 2, b = 20, name = 'e')")
        with shop.transaction() as tx:
            tx.sql("INSERT INTO t VALUES (2, 20, 'e')")
            assert tx.preview().assertions == [f"the assertion one is violated {told}"]
            tx.sql("DROP ASSERTION one")
            with pytest.raises(vk.errors.AssertionViolated) as caught:
                tx.sql(f"CREATE ASSERTION two CHECK ({condition})")
            assert caught.value.detail == f"violated {told}"
            assert ("make it true first" in str(caught.value.hint)) == bool(said)
            tx.rollback()
        shop.sql("ALTER ASSERTION one ON VIOLATION WARN")
        assert shop.sql("INSERT INTO t VALUES (2, 20, 'e')").remarks == [f"the assertion one is violated: {told}"]
        shop.sql("DELETE FROM t WHERE a = 2; DROP ASSERTION one")


def test_the_values_are_those_after_the_rules(shop: vk.Database) -> None:
    shop.sql("CREATE ASSERTION few CHECK ((SELECT count(*) FROM t) <= 2 AND (SELECT n FROM counted) <= 2)")
    shop.sql("CREATE RULE twice ON t DO INSERT INTO t SELECT a + 10, b, name FROM inserted WHERE a < 10")
    with pytest.raises(vk.errors.AssertionViolated, match=r"is false: count\(\*\) is 3, n is 3; led to by t"):
        shop.sql("INSERT INTO t VALUES (2, 20, 'e')")
