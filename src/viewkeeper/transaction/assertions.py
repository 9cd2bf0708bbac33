"""Assertions: queries that must stay empty.

An assertion holds before a transaction, so only rows that the transaction adds to its query can break it: the inserted
rows of δQ, derived like the change of any view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.connect_columns import parsed
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import ViewkeeperError
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.transaction.open_transaction import OpenTransaction


@dataclass(frozen=True)
class Assertion:
    """A query that must stay empty, and what makes the error for a row of it (values by column name)."""

    query: n.Node
    violated: Callable[[Mapping[str, Any]], ViewkeeperError]


def check_assertions(tx: OpenTransaction, assertions: Iterable[Assertion]) -> None:
    """Raises for the first assertion that the transaction breaks."""
    for assertion in assertions:
        change = differentiate(assertion.query, tx.changed & {scan.relation for scan in n.scans(assertion.query)})
        if change is None:
            continue
        engine = tx.store.engine
        lowered = Lowering(engine, StateReader.of(tx)).lower(n.Net(change))
        if lowered.empty:
            continue
        broken = engine.fetch(lowered.frame.filter(parsed(f"{WEIGHT} > 0")).limit(1))
        if broken.num_rows:
            row = {a.name: broken.column(a.label)[0].as_py() for a in assertion.query.outputs}
            raise assertion.violated(row)
