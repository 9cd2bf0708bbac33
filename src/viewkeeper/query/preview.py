"""The preview of a transaction: what it would change, derived without committing anything."""

from __future__ import annotations

from viewkeeper.catalog.relations import VirtualView
from viewkeeper.maintain.propagation import propagate
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.open_transaction import OpenTransaction


def preview(tx: OpenTransaction) -> dict[str, Change]:
    """The net change of every table and view that the transaction reaches, virtual ones included."""
    before = set(tx.watched)
    tx.watched |= {r.id for r in tx.alive() if isinstance(r, VirtualView) and r.id not in tx.created}
    try:
        propagate(tx)
        found = tx.changes()
        for change in found.values():
            _ = change.rows  # fetched now, because the files of a preview are deleted
        for key, rows in tx.seen.items():
            relation = tx.by_id(key)
            found[relation.name] = Change(relation.schema, lambda rows=rows: rows)  # type: ignore[misc]
    finally:
        tx.watched = before
        tx.drop_derived()
    return found
