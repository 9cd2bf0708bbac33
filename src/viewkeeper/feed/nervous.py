"""Nervous changes: of a view without duplicates, nothing is left out, and rows that did not change may be repeated.

    inserted = N(Q)            the touched rows of the new state; some may have been there before
    deleted  = N⁻(Q) − Q@new   the touched rows of the old state, less those that are still there

N is the positive partial differential (`delta/positive.py`), N⁻ the same with old and new exchanged. What is saved is
looking up whether an inserted row was there before.
"""

from __future__ import annotations

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.rows import consolidate, negated, row_tuples, signed
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.relations import Relation, VirtualView
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.lowered import Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.log.open_log import Held
from viewkeeper.maintain.situation import Pending
from viewkeeper.maintain.state_reader import StateReader, schema_of
from viewkeeper.rules.watching import TouchedReader, touched_rows
from viewkeeper.store.scans import Source
from viewkeeper.store.store import Store
from viewkeeper.transaction.open_transaction import change_between


def nervous_change(store: Store, held: Held, relation: VirtualView, since: int, until: int) -> pa.Table:
    """The nervous change of a view after one epoch, up to another, as signed rows; its definition is the same."""
    node = relation.definition_at(until).as_written
    by_id = held.state.relations.__getitem__
    changed: dict[str, Pending] = {}
    for key in sorted({scan.relation for scan in n.scans(node)}):
        rows = change_between(store, held, by_id(key), since, until).rows
        if rows.num_rows:
            changed[key] = Pending(by_id(key), rows)
    forward = TouchedReader(store, by_id, until, since)
    forward.changed = changed
    inserted = touched_rows(store, relation, node, changed, forward)
    backward = Reversed(store, by_id, until, since)
    backward.changed = {key: Pending(pending.relation, negated(pending.rows)) for key, pending in changed.items()}
    before = touched_rows(store, relation, node, changed, backward)
    there = set(row_tuples(_still_there(store, relation, node, before, forward)))
    gone = before.filter(pa.array([row not in there for row in row_tuples(before)], pa.bool_()))
    return consolidate(pa.concat_tables([signed(inserted, 1), signed(gone, -1)]))


def _still_there(store: Store, relation: Relation, node: n.Node, rows: pa.Table, reader: StateReader) -> pa.Table:
    """Those of some rows that a query has in the new state."""
    if not rows.num_rows:
        return rows
    after = n.at(node, n.NEW)
    lowering = Lowering(store.engine, reader)
    given = lowering.given(reader.local(rows.rename_columns([a.label for a in after.outputs]), after.outputs))
    pairs = tuple((a, a) for a in after.outputs if not a.type.has_map())
    lowered = lowering.lower(n.Restrict(after, given, pairs))
    if lowered.empty:
        return rows.slice(0, 0)
    found = store.engine.fetch(lowered.frame.select(*listed(*lowered.columns)))
    return conform(found, schema_of(lowered.outputs)).rename_columns(relation.schema.names)


class Reversed(TouchedReader):
    """Reads relations with old and new exchanged; `changed` are the changes from the new state back to the old."""

    def _source(self, relation: Relation, state: str) -> Source:
        epoch = self.epoch if state == n.OLD else self.since
        return Source(relation.schema, relation.files_at(epoch), epoch)

    def _change(self, scan: n.Scan, relation: Relation) -> Lowered:
        pending = self.changed.get(relation.id)
        if pending is None:
            return self._nothing(scan, weighted=True)
        rows = consolidate(pending.rows.select([*scan.stored_names, WEIGHT]))
        labelled = rows.rename_columns([*(a.label for a in scan.outputs), WEIGHT])
        return self.local(labelled, scan.outputs, weighted=True)
