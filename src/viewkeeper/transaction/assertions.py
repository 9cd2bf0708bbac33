"""Assertions: queries that must stay empty.

An assertion holds before a transaction, so what breaks it is what the transaction adds to its query: the inserted rows
of δQ, derived as the change of any view is. One that only warns may be violated before: then the added rows are new
violations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.expressions import Name, column, comparison, integer
from viewkeeper.algebra.rows import part_with_sign, row_order, row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.catalog.relations import AssertionView
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Engine, Frame
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import AssertionViolated, ViewkeeperError
from viewkeeper.maintain.state_reader import StateReader, schema_of
from viewkeeper.maintain.watched_queries import WatchedChanges, WatchedQuery, with_rows
from viewkeeper.sql.rule_statements import condition_of
from viewkeeper.transaction.causes import Cause, causes_of, down_to_tables
from viewkeeper.transaction.open_transaction import OpenTransaction

SHOWN = 3
"""How many violating rows an error shows."""

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Assertion:
    """A query that must stay empty.

    `violated` gives the error for some rows that it has, by column name. `warns`: the error is reported and the
    transaction commits. `whole`: all rows of the query count, because it was not checked before the transaction.
    `name`: the user's name of it, for which the error also says what led to the rows. `names` are those of the columns,
    if the query's own are not different from each other.
    """

    query: n.Node
    violated: Callable[[Sequence[Row]], ViewkeeperError]
    warns: bool = False
    whole: bool = False
    name: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    """An assertion that a transaction breaks, some of the rows by which it does, and all of them as a frame."""

    assertion: Assertion
    rows: pa.Table
    frame: Frame

    def problem(self) -> ViewkeeperError:
        """The error that names some of the rows."""
        names = self.assertion.names or [a.name for a in self.assertion.query.outputs]
        rows = sorted(row_tuples(self.rows), key=row_order)
        return self.assertion.violated([dict(zip(names, row, strict=True)) for row in rows])

    def explained(self, tx: OpenTransaction) -> ViewkeeperError:
        """The same with the changed rows of tables that have led to these."""
        found = self.problem()
        if self.assertion.name and not self.assertion.whole:
            led = causes_text(causes_of(tx, self.assertion.query, self.rows, SHOWN + 1))
            found.detail = f"{found.detail}; {led}" if led else found.detail
        return found

    def count(self, engine: Engine) -> int:
        """By how many rows it is broken."""
        return self.rows.num_rows if self.rows.num_rows <= SHOWN else engine.count(self.frame)


def check_assertions(tx: OpenTransaction, assertions: Iterable[Assertion]) -> None:
    """Raises for the first assertion that the transaction breaks; notes the warnings of others."""
    tx.warnings.clear()
    tx.warned.clear()
    for violation in violations(tx, list(assertions)):
        if not violation.assertion.warns:
            raise violation.explained(tx)
        problem = violation.problem()
        tx.warnings.append(f"{problem.message}: {problem.detail}" if problem.detail else problem.message)
        tx.warned[violation.assertion.name] = violation.count(tx.store.engine)


def violations(tx: OpenTransaction, assertions: Sequence[Assertion]) -> Iterator[Violation]:
    """The assertions that the transaction breaks, in order.

    One query for many of them says which are broken; only for those are rows fetched.
    """
    queries = [
        WatchedQuery(str(number), assertion.query, Kinds.ADDITIONS, assertion.whole)
        for number, assertion in enumerate(assertions)
    ]
    engine = tx.store.engine
    frames = {
        query.name: lowered.frame.filter(parsed(comparison(">", Name(WEIGHT), integer(0))))
        if lowered.weighted
        else lowered.frame
        for query, lowered in WatchedChanges(tx, queries, tx.changed).lowered()
    }
    for name in with_rows(engine, frames) if len(frames) > 1 else frames:
        assertion = assertions[int(name)]
        outputs = assertion.query.outputs
        found = engine.fetch(frames[name].select(*listed(*(a.label for a in outputs))).limit(SHOWN + 1))
        if found.num_rows:
            yield Violation(assertion, conform(found, schema_of(outputs)), frames[name])


def declared_assertions(tx: OpenTransaction) -> list[Assertion]:
    """The assertions that the transaction may break."""
    found = []
    for relation in tx.alive():
        if not isinstance(relation, AssertionView):
            continue
        whole = relation.id in tx.created or relation.id in tx.defined
        read = {scan.relation for scan in n.scans(relation.definition.as_written)}
        if whole or read & tx.changed:
            warns = relation.definition.violation == "warn"
            names = tuple(relation.schema.names)
            query = relation.definition.as_written
            found.append(Assertion(query, _error(tx, relation), warns, whole, relation.name, names))
    return found


def _error(tx: OpenTransaction, relation: AssertionView) -> Callable[[Sequence[Row]], ViewkeeperError]:
    def violated(rows: Sequence[Row]) -> AssertionViolated:
        return AssertionViolated(
            f"the assertion {relation.name} is violated",
            detail=violation_text(tx, relation, [tuple(row.values()) for row in rows]),
            hint=f"nothing was changed; EXPLAIN ASSERTION {relation.name} says which changes can violate it",
        )

    return violated


def violation_text(tx: OpenTransaction, relation: AssertionView, rows: Sequence[tuple[Any, ...]]) -> str:
    """By which rows an assertion is violated; of one without rows, its condition and the values that it compares."""
    condition = condition_of(relation.definition.sql)
    if condition is None:
        return f"by {rows_text(relation.schema.names, rows)}"
    values = ", ".join(f"{name} is {_shown(value)}" for name, value in _compared(tx, relation))
    return f"because {condition} is false{f': {values}' if values else ''}"


def _compared(tx: OpenTransaction, relation: AssertionView) -> list[tuple[str, Any]]:
    """The values of the subqueries in a condition that are aggregates over all rows, where these are compared at once.

    The query is then π[true](A ⋈ B ...), A and B of one row each in the order of the text, so the values stand in what
    it projects.
    """
    query = down_to_tables(tx, relation.definition.as_written)
    joined = query.input if isinstance(query, n.Project) else query
    parts = joined.inputs if isinstance(joined, n.Join) else ()
    values = tuple(a for part in parts if _is_one_row(part) for a in part.outputs)
    if not values:
        return []
    engine = tx.store.engine
    node = n.Project(joined, tuple((a, column(a)) for a in values))
    lowered = Lowering(engine, StateReader.of(tx)).lower(node)
    found = conform(engine.fetch(lowered.frame.select(*listed(*(a.label for a in values)))), schema_of(values))
    return [(a.name, found.column(number)[0].as_py()) for number, a in enumerate(values)] if found.num_rows else []


def _is_one_row(node: n.Node) -> bool:
    """Whether a query is an aggregate over all rows, which may be projected and filtered."""
    while isinstance(node, (n.Project, n.Filter)):
        node = node.input
    return isinstance(node, n.Aggregate) and node.whole


def rows_text(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    """Some rows as text, with the names of their columns."""
    shown = [
        "(" + ", ".join(f"{name} = {_shown(value)}" for name, value in zip(names, row, strict=True)) + ")"
        for row in rows
    ]
    return ", ".join(shown[:SHOWN]) + (" and more" if len(shown) > SHOWN else "")


def causes_text(causes: Sequence[Cause]) -> str:
    """What led to a violation, table by table; empty if nothing is known."""
    texts = [f"{cause.relation.name}: {_changed_text(cause)}" for cause in causes]
    return f"led to by {', and by '.join(texts)}" if texts else ""


def _changed_text(cause: Cause) -> str:
    if cause.rows is None:
        return "many changed rows"
    names = cause.relation.schema.names
    parts = []
    for word, sign in (("inserted", 1), ("deleted", -1)):
        rows = sorted(row_tuples(part_with_sign(cause.rows, sign).select(names)), key=row_order)
        if rows:
            parts.append(f"{word} {rows_text(names, rows)}")
    return ", ".join(parts)


def _shown(value: Any) -> str:
    """A value as it is written in SQL, as far as people need it."""
    return "NULL" if value is None else repr(value) if isinstance(value, (str, bytes)) else str(value)
