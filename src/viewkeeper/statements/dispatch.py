"""Which function runs which statement: one table for changes and definitions, one for questions, one for EXPLAIN.

A statement that changes or defines something runs in a transaction. All others run in a session, which is a database
or one of its transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewkeeper.catalog.active_rules import ActiveRule
from viewkeeper.errors import InternalError, Name, Place, ViewkeeperError
from viewkeeper.query.frames import at_place, select_frame
from viewkeeper.query.result import Result
from viewkeeper.rules.actions import CONDITION_BEGINS
from viewkeeper.rules.transitions import RuleChange
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.tokens import Statement, split
from viewkeeper.statements import asking
from viewkeeper.statements.asking import Session
from viewkeeper.statements.changes import delete, insert, truncate, update
from viewkeeper.statements.define_assertions import alter_assertion, create_assertion, drop_assertion
from viewkeeper.statements.define_functions import drop_function
from viewkeeper.statements.define_rules import activate, alter_rule, create_rule, drop_rule, retry
from viewkeeper.statements.define_tables import create_table, drop_table
from viewkeeper.statements.define_views import alter_view, create_view, drop_view
from viewkeeper.statements.merge import merge
from viewkeeper.statements.subscribing import explain_subscribe
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.suspension import refresh, suspend

CHANGES: dict[type, Callable[[OpenTransaction, Any], int | None]] = {
    sql.Insert: insert,
    sql.Update: update,
    sql.Delete: delete,
    sql.Merge: merge,
    sql.Truncate: truncate,
    sql.CreateTable: create_table,
    sql.DropTable: drop_table,
    sql.CreateView: create_view,
    sql.AlterView: alter_view,
    sql.DropView: drop_view,
    sql.SuspendView: suspend,
    sql.Refresh: refresh,
    sql.DropFunction: drop_function,
    sql.CreateRule: lambda tx, statement: create_rule(tx, statement, StatementActions()),
    sql.AlterRule: alter_rule,
    sql.DropRule: drop_rule,
    sql.Activate: activate,
    sql.RetryRule: retry,
    sql.CreateAssertion: create_assertion,
    sql.AlterAssertion: alter_assertion,
    sql.DropAssertion: drop_assertion,
}
"""Statements that change or define something: each returns the number of rows it touched, if it touches rows."""

QUESTIONS: dict[type, Callable[[Session, Any], Result]] = {
    sql.Select: asking.select,
    sql.Subscribe: asking.subscribe,
    sql.Show: asking.show,
    sql.Describe: asking.describe,
    sql.Analyze: asking.analyze,
    sql.Verify: asking.verified,
    sql.Set: asking.set_limit,
    sql.Check: lambda session, statement: session.check(),
}
"""Statements that ask something, and SET."""

EXPLAINED: dict[type, Callable[[Session, Any], list[str]]] = {
    Name: asking.explain_named,
    sql.ExplainedRule: asking.explain_rule_statement,
    sql.Select: asking.explain_query,
    sql.Subscribe: lambda session, statement: explain_subscribe(session.feeds(), statement),
    sql.Insert: asking.explain_changes,
    sql.Update: asking.explain_changes,
    sql.Delete: asking.explain_changes,
    sql.Merge: asking.explain_changes,
    sql.CreateView: lambda session, statement: session.tried(lambda tx: create_view(tx, statement)),
    sql.AlterView: lambda session, statement: session.tried(lambda tx: alter_view(tx, statement)),
}
"""Statements that EXPLAIN explains, as lines of text."""


class StatementActions:
    """Carries out the SQL of active rules inside a transaction."""

    def statements(self, tx: OpenTransaction, text: str) -> None:
        """Runs statements one after the other."""
        for statement in split(text):
            parsed = sql.parse(statement)
            CHANGES[type(parsed)](tx, parsed)

    def holds(self, tx: OpenTransaction, condition: str) -> bool:
        """Whether a condition is true."""
        query = QueryText.of(f"{CONDITION_BEGINS}{condition})")
        frame = select_frame(tx, query)
        try:
            return bool(tx.store.engine.fetch(frame).num_rows)
        except ViewkeeperError as problem:
            raise at_place(problem, query) from None

    def call(self, tx: OpenTransaction, rule: ActiveRule, change: RuleChange) -> None:
        """Refuses: only a database object knows functions of the user's."""
        raise InternalError(f"the rule {rule.name} calls a function where there is none")


def run(session: Session, statement: Statement) -> Result:
    """Runs a statement."""
    parsed = sql.parse(statement)
    kind = type(parsed)
    if isinstance(parsed, sql.Control):
        return session.control(parsed.word, Place.at(statement.text, statement.start, len(parsed.word)))
    if isinstance(parsed, sql.Explain):
        return asking.lines_of(EXPLAINED[type(parsed.what)](session, parsed.what))
    if kind in QUESTIONS:
        return QUESTIONS[kind](session, parsed)
    return session.change(lambda tx: CHANGES[kind](tx, parsed))
