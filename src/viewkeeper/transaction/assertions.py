"""Assertions: queries that must stay empty.

An assertion holds before a transaction, so what breaks it is what the transaction adds to its query: the inserted rows
of δQ, derived as the change of any view is. One that only warns may be violated before: then the added rows are new
violations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.rows import row_order, row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.relations import AssertionView
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import AssertionViolated, ViewkeeperError
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.transaction.open_transaction import OpenTransaction

SHOWN = 3
"""How many violating rows an error shows."""


@dataclass(frozen=True)
class Assertion:
    """A query that must stay empty.

    `violated` gives the error for some rows that it has, by column name. `warns`: the error is reported and the
    transaction commits. `whole`: all rows of the query count, because it was not checked before the transaction.
    `names` are those of the columns, if the query's own are not different from each other.
    """

    query: n.Node
    violated: Callable[[Sequence[Mapping[str, Any]]], ViewkeeperError]
    warns: bool = False
    whole: bool = False
    names: tuple[str, ...] = ()


def check_assertions(tx: OpenTransaction, assertions: Iterable[Assertion]) -> None:
    """Raises for the first assertion that the transaction breaks; notes the warnings of others."""
    tx.warnings.clear()
    for assertion in assertions:
        rows = _violating(tx, assertion)
        if not rows:
            continue
        problem = assertion.violated(rows)
        if not assertion.warns:
            raise problem
        tx.warnings.append(f"{problem.message}: {problem.detail}" if problem.detail else problem.message)


def _violating(tx: OpenTransaction, assertion: Assertion) -> list[Mapping[str, Any]]:
    """Some of the rows by which the transaction breaks an assertion."""
    query = assertion.query
    changed = tx.changed & {scan.relation for scan in n.scans(query)}
    change = n.at(query, n.NEW) if assertion.whole else differentiate(query, changed)
    if change is None:
        return []
    engine = tx.store.engine
    lowered = Lowering(engine, StateReader.of(tx)).lower(change if assertion.whole else n.Net(change))
    if lowered.empty:
        return []
    frame = lowered.frame if assertion.whole else lowered.frame.filter(parsed(f"{WEIGHT} > 0"))
    broken: pa.Table = engine.fetch(frame.select(*listed(*(a.label for a in query.outputs))).limit(SHOWN + 1))
    names = assertion.names or [a.name for a in query.outputs]
    return [dict(zip(names, row, strict=True)) for row in sorted(row_tuples(broken), key=row_order)]


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
            found.append(Assertion(relation.definition.as_written, _error(relation), warns, whole, names))
    return found


def _error(relation: AssertionView) -> Callable[[Sequence[Mapping[str, Any]]], ViewkeeperError]:
    names = relation.schema.names

    def violated(rows: Sequence[Mapping[str, Any]]) -> AssertionViolated:
        shown = rows_text(names, [tuple(row.values()) for row in rows])
        return AssertionViolated(
            f"the assertion {relation.name} is violated",
            detail=f"by {shown}",
            hint=f"nothing was changed; EXPLAIN ASSERTION {relation.name} says which changes can violate it",
        )

    return violated


def rows_text(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    """Some rows as text, with the names of their columns."""
    shown = [
        "(" + ", ".join(f"{name} = {_shown(value)}" for name, value in zip(names, row, strict=True)) + ")"
        for row in rows
    ]
    return ", ".join(shown[:SHOWN]) + (" and more" if len(shown) > SHOWN else "")


def _shown(value: Any) -> str:
    """A value as it is written in SQL, as far as people need it."""
    return "NULL" if value is None else repr(value) if isinstance(value, (str, bytes)) else str(value)
