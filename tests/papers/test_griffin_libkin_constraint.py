"""Griffin and Libkin 1995, section 7: the constraint (∀x ∈ R1) x.a = count{| z ∈ R2 : z.b = x.b |} and safe changes."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import viewkeeper as vk
from tests.marks import spark_long

QUERY = "SELECT x.a, x.b FROM r1 x WHERE x.a <> (SELECT count(*) FROM r2 z WHERE z.b = x.b)"
FORMS = {
    "not_exists": f"CHECK (NOT EXISTS ({QUERY}))",
    "for_all": "CHECK ((SELECT count(*) FROM r1 x WHERE x.a <> (SELECT count(*) FROM r2 z WHERE z.b = x.b)) = 0)",
}
"""The constraint as a query that stays empty, and as a condition over a subquery."""

Rows = Counter[tuple[int, int]]


def constrained(db: vk.Database, form: str = "not_exists") -> None:
    """R1 counts the rows of R2 with b = 1, 2 and 3; those with b = 9 are not counted by any row of R1."""
    db.sql("CREATE TABLE r1 (a BIGINT, b INT); CREATE TABLE r2 (b INT, c INT)")
    db.sql("INSERT INTO r1 VALUES (2, 1), (1, 2), (0, 3); INSERT INTO r2 VALUES (1, 10), (1, 10), (2, 20), (9, 90)")
    db.sql(f"CREATE ASSERTION counted {FORMS[form]}")


def refused(db: vk.Database, statements: str) -> str:
    """The error of a transaction that leaves R1 and R2 as they were."""
    before = (db.epoch, sorted(db.sql("SELECT * FROM r1").rows()), sorted(db.sql("SELECT * FROM r2").rows()))
    with pytest.raises(vk.errors.AssertionViolated) as caught, db.transaction() as tx:
        tx.sql(statements)
    assert (db.epoch, sorted(db.sql("SELECT * FROM r1").rows()), sorted(db.sql("SELECT * FROM r2").rows())) == before
    return str(caught.value)


BALANCED = [
    "DELETE FROM r2 WHERE b = 2; INSERT INTO r2 VALUES (2, 21)",  # as many come as go, for every b
    "UPDATE r2 SET c = c + 1",
    "INSERT INTO r2 VALUES (9, 91), (9, 92), (8, 80)",  # no row of R1 has their b
    "DELETE FROM r2 WHERE b > 7",
    "INSERT INTO r2 VALUES (3, 30); UPDATE r1 SET a = 1 WHERE b = 3",  # both sides
    "INSERT INTO r2 VALUES (1, 99); DELETE FROM r2 WHERE c = 99",  # no net effect
    "INSERT INTO r1 VALUES (0, 7), (2, 1)",
    "DELETE FROM r1",
]
UNBALANCED = {
    "INSERT INTO r2 VALUES (3, 30)": "by (a = 0, b = 3)",
    "DELETE FROM r2 WHERE b = 2": "by (a = 1, b = 2)",
    "UPDATE r2 SET b = 3 WHERE b = 2": "by (a = ",  # breaks the counts of 2 and 3
    "UPDATE r1 SET a = 5 WHERE b = 1": "by (a = 5, b = 1)",
    "INSERT INTO r1 VALUES (1, 1)": "by (a = 1, b = 1)",
    "DELETE FROM r2 WHERE b = 1; INSERT INTO r2 VALUES (1, 10), (1, 10), (1, 10)": "by (a = 2, b = 1)",
}


@pytest.mark.spark_long
@pytest.mark.parametrize("form", FORMS)
def test_balanced_changes_pass(db: vk.Database, form: str) -> None:
    constrained(db, form)
    for statements in BALANCED:
        with db.transaction() as tx:
            tx.sql(statements)
        assert db.sql(QUERY).rows() == [], statements
        assert db.sql("SELECT * FROM counted").rows() == [], statements


@pytest.mark.parametrize("form", ["not_exists", *spark_long("for_all")])
def test_unbalanced_changes_are_refused(db: vk.Database, form: str) -> None:
    constrained(db, form)
    for statements, rows in UNBALANCED.items():
        told = refused(db, statements)
        assert told.startswith("the assertion counted is violated\n"), statements
        assert (rows if form == "not_exists" else ")) = 0 is false: count(*) is ") in told, statements


@pytest.mark.spark_long
def test_a_balancing_change_may_come_later_in_the_transaction(db: vk.Database) -> None:
    """The constraint may be violated between assertion points; CHECK is one."""
    constrained(db)
    with db.transaction() as tx:
        tx.sql("INSERT INTO r2 VALUES (3, 30)")
        with pytest.raises(vk.errors.AssertionViolated):
            tx.sql("CHECK")
        tx.sql("UPDATE r1 SET a = a + 1 WHERE b = 3; CHECK; DELETE FROM r2 WHERE b = 9")
    assert tx.commit_info is not None
    assert set(tx.commit_info.changes) == {"r1", "r2"}


@pytest.mark.spark_long
def test_a_rule_keeps_the_counts(db: vk.Database) -> None:
    """Instead of refusing: the deferred rule writes the counts before the assertion is checked."""
    db.sql("CREATE TABLE r1 (a BIGINT, b INT PRIMARY KEY); CREATE TABLE r2 (b INT, c INT)")
    db.sql("INSERT INTO r1 VALUES (2, 1), (0, 3); INSERT INTO r2 VALUES (1, 10), (1, 10)")
    db.sql(f"CREATE ASSERTION counted {FORMS['not_exists']}")
    db.sql(
        "CREATE RULE recount ON counted DO MERGE INTO r1 USING "
        "(SELECT x.b, (SELECT count(*) FROM r2 z WHERE z.b = x.b) AS n FROM inserted x) s ON r1.b = s.b "
        "WHEN MATCHED THEN UPDATE SET a = s.n"
    )
    with db.transaction() as tx:
        tx.sql("INSERT INTO r2 VALUES (3, 30), (3, 31); DELETE FROM r2 WHERE b = 1")
    assert tx.commit_info is not None
    assert sorted(db.sql("SELECT * FROM r1").rows()) == [(0, 1), (2, 3)]


def held(r1: Rows, r2: Rows) -> bool:
    """The constraint, on bags in Python."""
    return all(a == sum(n for (z, _), n in r2.items() if z == b) for a, b in r1.elements())


@pytest.mark.spark_long
def test_random_changes_are_refused_exactly_if_they_break_the_constraint(db: vk.Database, engine: str) -> None:
    rng = random.Random(7)
    constrained(db)
    r1, r2 = Counter({(2, 1): 1, (1, 2): 1, (0, 3): 1}), Counter({(1, 10): 2, (2, 20): 1, (9, 90): 1})
    outcomes = Counter[bool]()
    for _ in range({"sail": 30, "spark": 4}[engine]):
        gone = rng.sample(sorted(r2.elements()), min(rng.randrange(3), r2.total()))
        come = [(row[0] if rng.random() < 0.6 else rng.choice((1, 2, 3, 9)), rng.randrange(3)) for row in gone]
        after = r2 - Counter(gone) + Counter(come)
        wanted = held(r1, after)
        try:
            with db.transaction() as tx:
                tx.delete("r2", gone)
                tx.insert("r2", come)
        except vk.errors.AssertionViolated:
            assert not wanted, (gone, come)
        else:
            assert wanted, (gone, come)
            r2 = after
        outcomes[wanted] += bool(gone)
    assert engine == "spark" or min(outcomes[True], outcomes[False]) > 3
    assert Counter(db.sql("SELECT * FROM r2").rows()) == r2
