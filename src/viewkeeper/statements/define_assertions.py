"""Assertions as definitions: creating, changing and dropping them. An assertion is a view of what violates it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.rows import row_order, row_tuples
from viewkeeper.algebra.serial import to_json
from viewkeeper.catalog.definition import ASSERTION, Definition
from viewkeeper.catalog.name_errors import already_exists, no_such_table, refuse_reserved, wrong_kind
from viewkeeper.catalog.relations import AssertionView
from viewkeeper.errors import AssertionViolated, Name, SqlError, ViewkeeperError
from viewkeeper.query.view_queries import define
from viewkeeper.query.virtual_views import virtual_frame_in
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.dialect import moved_place, parse_after
from viewkeeper.sql.rule_statements import VIOLATED, condition_of
from viewkeeper.statements.define_views import create_made, drop_named
from viewkeeper.transaction.assertions import SHOWN, violation_text
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.trial import try_definitions


def create_assertion(tx: OpenTransaction, statement: sql.CreateAssertion) -> None:
    """CREATE ASSERTION: checked in full once."""
    refuse_reserved(statement.name)
    there = tx.find(statement.name)
    if there is not None:
        problem = already_exists(there, statement.name, AssertionView)
        problem.place = statement.name.place
        raise problem
    if statement.query is not None:
        made = define(tx, statement.query, statement.query.whole, None, statement.name)
        text = str(statement.query)
    else:
        text = f"{VIOLATED}{statement.condition})"
        if len(list(parse_after(VIOLATED, statement.condition, ")").find_all(exp.Select))) < 2:
            raise _reads_nothing(statement)
        try:
            made = define(tx, text, text, None, statement.name)
        except ViewkeeperError as problem:
            place = problem.place if problem.place and problem.place.text == text else None
            problem.place = moved_place(place, statement.condition, len(VIOLATED)) or statement.name.place
            raise
    if not any(True for _ in n.scans(made.node)):
        raise _reads_nothing(statement)
    definition = Definition(
        ASSERTION,
        text,
        made.names,
        to_json(made.node),
        uses=made.uses,
        engine=tx.store.engine.kind,
        violation=statement.violation,
    )
    with tx.defining():
        create_made(tx, str(statement.name), definition, made)
        try_definitions(tx, lambda _: statement.name.place)
        if statement.violation == "abort":
            _check_in_full(tx, statement.name)


def _reads_nothing(statement: sql.CreateAssertion) -> SqlError:
    return SqlError(
        "the condition of the assertion reads no table",
        place=statement.name.place,
        hint="CHECK (NOT EXISTS (SELECT ...)), or a condition over subqueries",
    )


def _check_in_full(tx: OpenTransaction, name: Name) -> None:
    """Raises if an assertion is violated now."""
    relation = tx.relation(name)
    assert isinstance(relation, AssertionView)
    engine = tx.store.engine
    found = engine.fetch(virtual_frame_in(tx, relation).limit(SHOWN + 1))
    if found.num_rows:
        hint = f"repair these rows first, or ON VIOLATION WARN; then SELECT * FROM {relation.name} lists them"
        if condition_of(relation.definition.sql) is not None:
            hint = "make it true first, or ON VIOLATION WARN"
        raise AssertionViolated(
            f"the assertion {relation.name} does not hold now",
            place=name.place,
            detail=f"violated {violation_text(tx, relation, sorted(row_tuples(found), key=row_order))}",
            hint=hint,
        )


def alter_assertion(tx: OpenTransaction, statement: sql.AlterAssertion) -> None:
    """ALTER ASSERTION name ON VIOLATION ABORT | WARN."""
    relation = _assertion(tx, statement.name, "ALTER")
    if relation.definition.violation == statement.violation:
        return
    with tx.defining():
        tx.defined[relation.id] = replace(relation.definition, violation=statement.violation)
        if statement.violation == "abort":
            _check_in_full(tx, statement.name)


def drop_assertion(tx: OpenTransaction, statement: sql.DropAssertion) -> None:
    """DROP ASSERTION [IF EXISTS]."""
    if statement.if_exists and tx.find(statement.name) is None:
        return
    drop_named(tx, _assertion(tx, statement.name, "DROP"), statement.name.place)


def _assertion(tx: OpenTransaction, name: Name, verb: str) -> AssertionView:
    found = tx.find(name)
    if found is None:
        names = sorted(relation.name for relation in tx.alive() if isinstance(relation, AssertionView))
        raise no_such_table(name, names, name.place, "assertion")
    if not isinstance(found, AssertionView):
        problem = wrong_kind(found, verb, name.place)
        problem.hint = problem.hint if verb == "DROP" else "SHOW ASSERTIONS lists the assertions"
        raise problem
    return found
