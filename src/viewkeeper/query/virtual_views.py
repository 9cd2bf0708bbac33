"""Virtual views: their rows at an epoch or inside a transaction, and their changes."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.relations import Derived, MaterializedView, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.lowering import Lowering
from viewkeeper.log.open_log import Held
from viewkeeper.maintain.expanding import expanded
from viewkeeper.maintain.past_changes import has_auxiliaries, virtual_change
from viewkeeper.maintain.propagation import affected
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.sql.dialect import OLD_STATE
from viewkeeper.sql.query import Query
from viewkeeper.store.store import Store
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.open_transaction import OpenTransaction, Read, changed_epochs


def virtual_query(relation: Derived) -> Query:
    """The query of a view, as it was translated when the view was defined."""
    return Query(relation.definition.as_written, relation.definition.names)


def virtual_frame(store: Store, state: State, relation: VirtualView, epoch: int) -> Frame:
    """The rows of a virtual view at an epoch."""
    definition = relation.definition_at(epoch)
    reader = StateReader(store, state.relations.__getitem__, epoch, epoch)
    node = definition.maintained if has_auxiliaries(state, definition, epoch) else definition.as_written
    return named_frame(store, Query(node, definition.names), reader)


def stale(tx: OpenTransaction) -> set[str]:
    """The materialized views that the commit may change: until then the transaction computes them on reading."""
    changed = tx.changed
    if not changed and not tx.to_load and not tx.redefined:
        return set()
    reached = [relation for level in affected(tx, {*changed, *tx.to_load, *tx.redefined}) for relation in level]
    return {relation.id for relation in reached if isinstance(relation, MaterializedView)}


def virtual_frame_in(tx: OpenTransaction, relation: Derived) -> Frame:
    """The rows of a view as a transaction sees them, computed from what it sees of the tables."""
    return named_frame(tx.store, seen_query(tx, virtual_query(relation)), StateReader.of(tx))


def seen_query(tx: OpenTransaction, query: Query) -> Query:
    """A query with what a transaction would read for it; remembered, because a conflict would make it wrong."""
    behind = stale(tx)
    node = expanded(query.node, lambda key: as_derived(tx.by_id(key)) if key in behind else None)
    query = Query(node, query.names)
    for scan in n.scans(query.node):
        key = scan.relation.removesuffix(OLD_STATE)
        if key in tx.state.relations:
            tx.reads.append(Read(key))
    return query


def named_frame(store: Store, query: Query, reader: StateReader) -> Frame:
    """The rows of a query, under the user's column names."""
    lowered = Lowering(store.engine, reader).lower(n.at(query.node, n.NEW))
    return lowered.frame.select(*listed(*lowered.columns)).toDF(*query.names)


def virtual_changes(store: Store, held: Held, relation: VirtualView, since: int) -> Iterator[tuple[int, Change]]:
    """The net changes of a virtual view, epoch by epoch, from the states of its inputs.

    The first are its rows when it was created; where its definition was replaced, the difference of the two.
    """
    state = held.state
    epochs = {relation.created, *(until for until, _ in relation.former)}
    for definition in [relation.definition, *(old for _, old in relation.former)]:
        for scan in n.scans(definition.as_written):
            epochs.update(changed_epochs(store, state.relations[scan.relation], since))
    for epoch in sorted(number for number in epochs if number > since and number >= relation.created):
        rows = virtual_change(store, state, relation, epoch)
        if rows.num_rows:
            yield epoch, Change(relation.schema, lambda rows=rows: rows)  # type: ignore[misc]
