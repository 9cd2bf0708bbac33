"""Marks inside a transaction: the net change since a mark was set, not only since the transaction began.

    δ since a mark = δ now ⊎ −(δ at the mark)

For a table δ is the change that statements have gathered, for a view the change that propagation has derived from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from viewkeeper.algebra.rows import negated
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Relation
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.open_transaction import OpenTransaction, change_of_files


@dataclass(frozen=True)
class Mark:
    """The changes that a transaction had gathered and derived when the mark was set, and its new definitions."""

    held: Mapping[str, tuple[pa.Table, tuple[DataFile, ...]]]
    seen: Mapping[str, pa.Table]
    defined: Mapping[str, Definition] = field(default_factory=dict)


def set_mark(tx: OpenTransaction) -> Mark:
    """Records what a transaction has changed so far."""
    held = {key: (pending.rows, tuple(pending.staged)) for key, pending in tx.pending.items()}
    tx.marked.update(file.path for _, staged in held.values() for file in staged)
    return Mark(held, dict(tx.seen), dict(tx.defined))


def change_since(tx: OpenTransaction, mark: Mark, relation: Relation) -> Change:
    """The net change of a table, a stored view or a watched virtual view since a mark was set."""
    schema = relation.schema
    empty = schema.signed_arrow.empty_table()
    if relation.id in tx.watched:
        parts = [tx.seen.get(relation.id, empty), negated(mark.seen.get(relation.id, empty))]
        return Change(schema, lambda: pa.concat_tables(parts))
    rows, staged = mark.held.get(relation.id, (empty, ()))
    now = tx.pending_of(relation)
    driver = [now.rows, negated(rows)]
    added = tuple(file for file in now.staged if file not in staged)
    removed = tuple(file for file in staged if file not in now.staged)
    held = tx.store.hold()

    def fetch() -> pa.Table:
        parts = list(driver)
        if added:
            parts.append(change_of_files(tx.store, schema, added, held).rows)
        if removed:
            parts.append(negated(change_of_files(tx.store, schema, removed, held).rows))
        return pa.concat_tables(parts)

    return Change(schema, fetch, held, sum(file.rows for file in (*added, *removed)))
