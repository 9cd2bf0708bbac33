"""EXPLAIN ASSERTION, word for word: what cannot break it, and the derived check of the rest."""

from __future__ import annotations

from textwrap import dedent

import pytest

import viewkeeper as vk
from tests.rules.test_explain_rule import LEGEND

pytestmark = pytest.mark.spark_long

TABLES = "CREATE TABLE r1 (a BIGINT, b INT, note STRING); CREATE TABLE r2 (b INT, c INT);"
COUNTED = (
    "CREATE ASSERTION counted CHECK (NOT EXISTS "
    "(SELECT r1.a, r1.b FROM r1 WHERE r1.a <> (SELECT count(*) FROM r2 WHERE r2.b = r1.b)))"
)


def explained(db: vk.Database, name: str) -> str:
    text = "\n".join(line for (line,) in db.sql(f"EXPLAIN ASSERTION {name}").rows())
    assert text == db.explain(name)
    return text


def lines(text: str) -> str:
    return dedent(text).strip().replace("LEGEND", LEGEND)


def test_the_count_constraint_of_griffin_and_libkin(db: vk.Database) -> None:
    db.sql(TABLES + COUNTED)
    assert explained(db, "counted") == lines(
        """
        counted: an assertion, ON VIOLATION ABORT
        holds while this query has no row:
          SELECT r1.a, r1.b FROM r1 WHERE r1.a <> (SELECT count(*) FROM r2 WHERE r2.b = r1.b)
        checked before anything is written, by the rows that a transaction adds to the query
        r1
          DELETE cannot break it: deletes from r1 can only delete rows of the query
          UPDATE of note cannot break it: the query does not read it
          INSERT and UPDATE of a, b are checked:
            δ = σ[a <> coalesce(count(*), CAST(0L AS BIGINT))](π[a, b, coalesce(count(*), CAST(0L AS BIGINT))]((δr1 ⟕ γ[b; count(*)](σ[b IS NOT NULL](r2@new)))[b = b]))
            reads r2@new by b
        r2
          UPDATE of c cannot break it: the query does not read it
          INSERT, DELETE and UPDATE of b are checked:
            δ = σ[a <> coalesce(count(*), CAST(0L AS BIGINT))](π[a, b, coalesce(count(*), CAST(0L AS BIGINT))](new−old ((r1@old⋉K[b] ⟕ γ[b; count(*)](σ[b IS NOT NULL](r2@old))⋉K[b] | ⊎ new−old (γ[b, state; count(*)](σ[b IS NOT NULL](r2@old)⋉K[b] | ⊎ σ[b IS NOT NULL](δr2))))[b = b ∧ state = state])))
            looks only at groups of r2 by b whose count changes
            reads r2@old by b
            reads r1@old by b
        LEGEND
        """  # noqa: E501
    )


def test_the_count_constraint_is_kept(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("INSERT INTO r1 VALUES (2, 1, NULL), (1, 2, NULL); INSERT INTO r2 VALUES (1, 10), (1, 11), (2, 20)")
    db.sql(COUNTED)
    db.sql("UPDATE r2 SET c = c + 1")
    with db.transaction() as tx:
        tx.sql("DELETE FROM r2 WHERE b = 1")
        tx.sql("INSERT INTO r2 VALUES (1, 0), (1, 0), (7, 7)")
    with pytest.raises(vk.errors.AssertionViolated, match="the assertion counted is violated"):
        db.sql("UPDATE r2 SET b = 2 WHERE b = 7")
    with pytest.raises(vk.errors.AssertionViolated, match="the assertion counted is violated"):
        db.sql("INSERT INTO r2 VALUES (NULL, 1), (2, 1)")
    assert sorted(db.sql("SELECT b, c FROM r2").rows()) == [(1, 0), (1, 0), (2, 21), (7, 7)]


def test_kinds_columns_and_filters_that_cannot_break_it(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(
        "CREATE ASSERTION known ON VIOLATION WARN CHECK (NOT EXISTS (SELECT r2.b FROM r2 "
        "WHERE r2.c > 10 AND NOT EXISTS (SELECT 1 FROM r1 WHERE r1.b = r2.b)))"
    )
    assert explained(db, "known") == lines(
        """
        known: an assertion, ON VIOLATION WARN
        holds while this query has no row:
          SELECT r2.b FROM r2 WHERE r2.c > 10 AND NOT EXISTS (SELECT 1 FROM r1 WHERE r1.b = r2.b)
        checked before anything is written, by the rows that a transaction adds to the query
        r2
          DELETE cannot break it: deletes from r2 can only delete rows of the query
          INSERT and UPDATE are checked:
            only changed rows with c > 10 are looked at
            δ = (σ[c > 10](δr2) ▷ r1@new)[b = b]
            reads r1@new by b
        r1
          INSERT cannot break it: inserts into r1 can only delete rows of the query
          UPDATE of a, note cannot break it: the query does not read them
          DELETE and UPDATE of b are checked:
            δ = new−old ((σ[c > 10](r2@old)⋉K[b] ▷ r1@old⋉K[b] | ⊎ δr1)[b = b ∧ state = state])
            reads r2@old by b
            reads r1@old by b
        LEGEND
        """
    )
