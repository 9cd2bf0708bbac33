"""Net changes of relations: added to the transaction for stored ones, on the driver for virtual ones.

A change that is added to a transaction is strongly minimal: every row once, and no row is deleted that does not exist.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.rows import canonical, consolidate, part_with_sign, row_tuples, weights_in
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.catalog.relations import Relation
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.canonical_frames import canonical_frame
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.lowered import Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import InternalError
from viewkeeper.maintain.situation import Situation
from viewkeeper.maintain.state_reader import StateReader, schema_of
from viewkeeper.store.batches import with_no_epoch
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scans import Scan, Source, pick, signed_frame
from viewkeeper.store.scratch import materialize
from viewkeeper.store.store import Store


def join_change(tx: Situation, relation: Relation, change: Lowered, *, check: bool) -> None:
    """Adds a change to the transaction. `check`: looks up whether the rows it deletes exist."""
    if change.empty:
        return
    engine = tx.store.engine
    small = change.rows if change.rows is not None else engine.collect_small(change.frame)
    if small is not None:
        join_rows(tx, relation, conform(small, schema_of(change.outputs), signed=True), check=check)
        return
    _join_frame(tx, relation, change.frame)


def join_rows(tx: Situation, relation: Relation, rows: pa.Table, *, check: bool = False) -> None:
    """The same for signed rows on the driver, columns in the order of the relation."""
    rows = rows.rename_columns([*relation.schema.names, WEIGHT])
    net = consolidate(_canonical(rows, relation))
    if net.num_rows == 0:
        return
    if check:
        check_minimal(tx, relation, net)
    tx.add_rows(relation, net)


def _canonical(rows: pa.Table, relation: Relation) -> pa.Table:
    plain = canonical(rows.drop_columns([WEIGHT]), relation.schema)
    return plain.append_column(rows.schema.field(WEIGHT), rows[WEIGHT])


def _join_frame(tx: Situation, relation: Relation, frame: Frame) -> None:
    """A change too large for the driver: consolidated and written by the engine."""
    schema = relation.schema
    named = canonical_frame(tx.store.engine, frame.toDF(*schema.names, WEIGHT), schema, WEIGHT)
    kept, rows = materialize(tx.store, consolidated(named, schema), schema, f"{WEIGHT} bigint")
    if rows:
        tx.add_files(relation, tx.store.writer(relation).write_frame(with_no_epoch(kept), rows))


def looked_up_by(relation: Relation) -> tuple[str, ...]:
    """The columns by which `check_minimal` looks up deleted rows in the stored relation."""
    kinds = {name: relation.schema.column(name).type for name in relation.schema.sort_columns}
    return tuple(name for name, kind in kinds.items() if not kind.is_nested and not kind.is_float)


def check_minimal(tx: Situation, relation: Relation, net: pa.Table) -> None:
    """Raises unless every deleted row exists at least as often as it is deleted."""
    deleted = part_with_sign(net, -1)
    if deleted.num_rows == 0:
        return
    schema = relation.schema
    names = list(looked_up_by(relation))
    source = Source(schema, relation.files_at(tx.state.epoch), tx.state.epoch)
    keys = None
    if names:
        distinct = deleted.select(names).group_by(names, use_threads=False).aggregate([])
        keys = Keys(distinct.select(names), schema.subset(names), tx.store.tuning)
    picked = pick(source, keys)
    stored = net_rows(tx.store, picked, schema)
    held, counts = weights_in(deleted.drop_columns([WEIGHT]), stored), deleted[WEIGHT].to_numpy()
    if (held < counts).any():
        place = int((held < counts).argmax())
        (row,) = row_tuples(deleted.drop_columns([WEIGHT]).slice(place, 1))
        raise InternalError(
            f"the change of {relation.name} deletes {row} {counts[place]} times, it is there {held[place]} times",
            detail="nothing was changed",
            hint=f"run VERIFY VIEW {relation.name}, and report this",
        )


def net_rows(store: Store, picked: Scan, schema: Schema) -> pa.Table:
    """The net of what a stored relation holds, on the driver: every row once, with its weight."""
    found = store.rows_by_key(picked, schema.names)
    if found is not None:
        return found.rows
    frame = consolidated(signed_frame(store.engine, store.storage, picked), schema)
    return conform(store.engine.fetch(frame), schema, signed=True)


# virtual views ------------------------------------------------------------------------------------------


def net_change(
    store: Store, relation: Relation, node: n.Node, changed: Collection[str], reader: StateReader
) -> pa.Table:
    """δ of a query between the reader's two states, on the driver, under the relation's names."""
    change = differentiate(node, changed)
    if change is None:
        return relation.schema.signed_arrow.empty_table()
    return collected(store, relation, Lowering(store.engine, reader).lower(change))


def net_difference(
    store: Store, relation: Relation, node: n.Node, before: n.Node | None, reader: StateReader
) -> pa.Table:
    """The rows of one query in the new state less those of another in the old state."""
    after = n.at(node, n.NEW)
    none = n.Rows(node.outputs, ())
    difference = less(after, n.at(before, n.OLD) if before is not None else none)
    return collected(store, relation, Lowering(store.engine, reader).lower(difference))


def collected(store: Store, relation: Relation, change: Lowered) -> pa.Table:
    """A change on the driver, net, under the relation's names."""
    if change.empty:
        return relation.schema.signed_arrow.empty_table()
    found = change.rows if change.rows is not None else store.engine.fetch(change.frame)
    rows = conform(found, schema_of(change.outputs), signed=True)
    return consolidate(_canonical(rows.rename_columns([*relation.schema.names, WEIGHT]), relation))


def less(after: n.Node, before: n.Node) -> n.Node:
    """after − before, as a change."""
    return n.Union((after, n.Negate(before)), after.outputs)
