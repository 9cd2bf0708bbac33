"""What a transaction would change, worked out without writing anything."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.definition import VIEW
from viewkeeper.maintain.propagation import net_change, propagate
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.query.virtual_views import virtual_query
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.open_transaction import OpenTransaction


def preview(tx: OpenTransaction) -> dict[str, Change]:
    """The net change of every table and view that the transaction reaches."""
    propagate(tx)
    found = tx.changes()
    for change in found.values():
        _ = change.rows  # fetched now: the files of a preview do not stay
    changed = tx.changed
    for relation in tx.alive():
        if relation.kind == VIEW and relation.id not in tx.created:
            node = virtual_query(relation).node
            mine = {scan.relation for scan in n.scans(node)} & changed
            if mine:
                rows = net_change(tx.store, relation, node, mine, StateReader.of(tx))
                if rows.num_rows:
                    found[relation.name] = Change(relation.schema, lambda rows=rows: rows)  # type: ignore[misc]
    tx.drop_derived()
    return found
