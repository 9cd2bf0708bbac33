"""Statements that change nothing: queries, SHOW, DESCRIBE, EXPLAIN, ANALYZE, VERIFY, and SET."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from viewkeeper.advice.advice import analyze_view
from viewkeeper.catalog.active_rules import PYTHON, ActiveRule
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import AssertionView, MaterializedView, Relation, Table, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.engine.engine import Frame
from viewkeeper.errors import Name, NotFound, Place, SqlError, place_of
from viewkeeper.feed.feeds import Feeds
from viewkeeper.log import listing, rule_listing
from viewkeeper.query.frames import select_frame, select_frame_at
from viewkeeper.query.known_relations import known_relations
from viewkeeper.query.result import Result
from viewkeeper.query.verification import Certificate, certificate_rows, verify
from viewkeeper.rules.activations import activation_counts
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.query_text import QueryText
from viewkeeper.statements import subscribing
from viewkeeper.statements.define_rules import rule_named
from viewkeeper.statements.explain_assertion import explain_assertion
from viewkeeper.statements.explain_rule import explain_rule
from viewkeeper.statements.explain_statement import Change, explain_change, explain_select
from viewkeeper.statements.explain_view import explain
from viewkeeper.statements.subscribing import refuse_in_transaction
from viewkeeper.store.store import Store
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.suspension import remarks_on_query, stale_remarks


class Session(Protocol):
    """The context of statements: a database, or one of its transactions."""

    def store(self) -> Store:
        """The open database."""

    def current(self) -> OpenTransaction | None:
        """The transaction that a query sees, if one is open."""

    def change(self, action: Callable[[OpenTransaction], int | None]) -> Result:
        """Runs an action in the open transaction or in one of its own; the action returns a number of rows."""

    def tried(self, action: Callable[[OpenTransaction], object]) -> list[str]:
        """What an action would do to the views that it defines; changes nothing."""

    def control(self, word: str, place: Place) -> Result:
        """BEGIN, COMMIT or ROLLBACK."""

    def check(self) -> Result:
        """Runs deferred rules and assertions in the middle of a transaction."""

    def feeds(self) -> Feeds:
        """The subscriptions of the database."""

    def has_function(self, rule: ActiveRule) -> bool:
        """Whether the Python function of a rule was registered in this process."""


# queries ------------------------------------------------------------------------------------------


def select(session: Session, statement: sql.Select) -> Result:
    """A query over what the open transaction sees, or over the committed state at an epoch."""
    query = QueryText.of(statement.query)
    tx = session.current()
    if tx is not None and statement.epoch is None:
        return _select_in(tx, query)
    store = session.store()
    held = store.hold()
    state = held.state
    if statement.epoch is not None:
        state.check_epoch(statement.epoch)
    epoch = state.epoch if statement.epoch is None else statement.epoch

    def frame() -> Frame:
        return select_frame_at(store, state, epoch, query)

    made = store.engine.surviving(frame)
    remarks = remarks_on_query(state, epoch, query)
    result = Result(frame=made, engine=store.engine, state=state, query=query, again=frame, remarks=remarks)
    store.use(result)
    return result


def _select_in(tx: OpenTransaction, query: QueryText) -> Result:
    """A query over what the transaction sees; computed at once, because later statements change that."""
    engine = tx.store.engine

    def frame() -> Frame:
        return select_frame(tx, query)

    seen = Result(frame=engine.surviving(frame), engine=engine, state=tx.state, query=query, again=frame)
    return Result(table=seen.arrow(), engine=engine, remarks=remarks_on_query(tx.state, tx.state.epoch, query))


def subscribe(session: Session, statement: sql.Subscribe) -> Result:
    """SUBSCRIBE."""
    if session.current() is not None:
        raise refuse_in_transaction(place_of(statement.what))
    return subscribing.subscribe(session.feeds(), statement)


# listings -----------------------------------------------------------------------------------------


def show(session: Session, statement: sql.Show) -> Result:
    """SHOW TABLES, VIEWS, FUNCTIONS, COMMITS, RULES, RULE FIRINGS or ASSERTIONS."""
    store = session.store()
    state = store.refresh()
    if statement.what == "COMMITS":
        return Result(table=listing.show_commits(listing.history(store.ledger, state, None)))
    if statement.what == "RULES":
        rules = rule_listing.rules_listed(state, activation_counts(store.storage, state))
        return Result(table=rule_listing.show_rules(rules))
    if statement.what == "RULE FIRINGS":
        firings = rule_listing.rule_firings(store.ledger, state, None, missing_functions(session, state))
        return Result(table=rule_listing.show_rule_firings(firings))
    if statement.what == "ASSERTIONS":
        return Result(table=rule_listing.show_assertions(rule_listing.assertions_listed(state)))
    if statement.what == "TABLES":
        return Result(table=listing.show_tables(state))
    if statement.what == "FUNCTIONS":
        return Result(table=listing.show_functions(state, store.known_functions()))
    stale = [relation for relation in state.alive() if isinstance(relation, MaterializedView)]
    return Result(table=listing.show_views(state), remarks=stale_remarks(state, stale, state.epoch))


def missing_functions(session: Session, state: State) -> set[str]:
    """The ids of the rules whose Python function was not registered in this process."""
    return {key for key, rule in state.rules.items() if rule.action.kind == PYTHON and not session.has_function(rule)}


def describe(session: Session, statement: sql.Describe) -> Result:
    """DESCRIBE: the columns of a relation."""
    store = session.store()
    relation = found_relation(store, statement.name)
    state = store.refresh()
    return Result(table=listing.describe(relation), remarks=stale_remarks(state, [relation], state.epoch))


def found_relation(store: Store, name: str, what: str = "table") -> Relation:
    """The relation of a name, or NotFound with the nearest name of a table or a view."""
    state = store.refresh()
    found = state.find(name)
    if found is None:
        views = [relation for relation in state.alive() if isinstance(relation, VirtualView | MaterializedView)]
        wanted = [relation.name for relation in views if not relation.is_hidden]
        raise no_such_table(name, sorted(wanted) if what == "view" else state.names(), None, what)
    return found


def set_limit(session: Session, statement: sql.Set) -> Result:
    """SET: changes a limit for the statements that follow."""
    engine = session.store().engine
    engine.limits = engine.limits.with_value(statement.name, statement.value)
    return Result()


# views --------------------------------------------------------------------------------------------


def analyze(session: Session, statement: sql.Analyze) -> Result:
    """ANALYZE VIEW: the analysis of a view before it is created."""
    known = known_relations(session.store().refresh())
    return lines_of(str(analyze_view("the view", statement.query, statement.query.whole, known)).splitlines())


def verified(session: Session, statement: sql.Verify) -> Result:
    """VERIFY: one row per view."""
    certificate = verify_views(session.store(), statement.name, statement.engine)
    return Result(table=certificate_rows(certificate), remarks=certificate.remarks)


def verify_views(store: Store, name: str | None, engine: str | None) -> Certificate:
    """Recomputes a view, or every materialized one, and compares it with what is stored."""
    held = store.hold()
    if name is not None:
        _check_view(store, name)
        names = [name]
    else:
        names = sorted(relation.name for relation in held.state.alive() if isinstance(relation, MaterializedView))
    return store.engine.surviving(lambda: verify(store, held.state, names, engine))


def explain_view_named(store: Store, name: str, format: str) -> str:
    """How a view is maintained, as text or JSON."""
    if format not in ("text", "json"):
        raise SqlError(f"there is no format '{format}' of an explanation", hint="use format='text' or 'json'")
    _check_view(store, name)
    held = store.hold()
    relation = held.state.find(name)
    if isinstance(relation, AssertionView) and format == "text":
        return "\n".join(explain_assertion(held.state, relation))
    return store.engine.surviving(lambda: explain(store, held.state, name, format))


def explain_rule_named(session: Session, name: str) -> list[str]:
    """What an active rule watches, when, and what it does; then how changes of tables reach it."""
    tx = session.current() or OpenTransaction(session.store())
    return explain_rule(tx, rule_named(tx, name))


def _check_view(store: Store, name: str) -> None:
    relation = found_relation(store, name, "view")
    if isinstance(relation, Table):
        raise NotFound(f"{relation.name} is a table, not a view", hint="SHOW VIEWS lists the views")


# EXPLAIN ------------------------------------------------------------------------------------------


def lines_of(lines: list[str]) -> Result:
    """Lines of text as rows."""
    return Result(table=pa.table({"explanation": pa.array(lines, pa.string())}))


def explain_named(session: Session, name: Name) -> list[str]:
    """EXPLAIN VIEW name, EXPLAIN ASSERTION name."""
    return explain_view_named(session.store(), name, "text").splitlines()


def explain_rule_statement(session: Session, statement: sql.ExplainedRule) -> list[str]:
    """EXPLAIN RULE name."""
    return explain_rule_named(session, statement.name)


def explain_query(session: Session, statement: sql.Select) -> list[str]:
    """EXPLAIN of a query."""
    return explain_select(session.store(), statement)


def explain_changes(session: Session, statement: Change) -> list[str]:
    """EXPLAIN of a change: the views that it would reach."""
    return explain_change(session.current() or OpenTransaction(session.store()), statement)
