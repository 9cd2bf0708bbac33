"""Compaction: the same contents in fewer, key-sorted files. Never makes an epoch.

Every row keeps its epoch, unless that is older than the horizon, the oldest epoch anyone may still read. Older rows get
the horizon as their epoch, and rows that cancel there are dropped.

    merge(F) = Σ over (row, max(epoch, horizon)) of the weights, zeros left out
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.algebra.expressions import BIGINT, Literal, Name, call
from viewkeeper.algebra.rows import consolidate
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Schema
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.algebra.types import quote
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.display_names import display_name
from viewkeeper.catalog.relations import Relation
from viewkeeper.catalog.state import State
from viewkeeper.engine.bags import IS_THERE, grouped
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.log.failpoints import point
from viewkeeper.log.open_log import LOCK
from viewkeeper.log.storage import now
from viewkeeper.store.batches import STORED, stored_frame
from viewkeeper.store.file_reading import read_files
from viewkeeper.store.store import Store


@dataclass(frozen=True)
class Compacted:
    """What compaction did to a relation."""

    relation: str
    files_before: int
    files_after: int
    rows_before: int
    rows_after: int


def tier(file: DataFile, fan: int) -> int:
    """Files of one tier differ in size by less than `fan` times."""
    return int(math.log(max(file.rows, 1), fan))


def is_due(state: State, key: str, tuning: Tuning) -> bool:
    """Whether a relation has enough files of one tier to merge them."""
    relation = state.relations.get(key)
    return relation is not None and relation.dropped is None and _full_tier(relation, tuning) is not None


def _full_tier(relation: Relation, tuning: Tuning) -> list[DataFile] | None:
    tiers: dict[int, list[DataFile]] = {}
    for file in relation.files:
        if file.rows < tuning.file_rows // 2 and not file.is_inlined:
            tiers.setdefault(tier(file, tuning.merged_files), []).append(file)
    return next((files for _, files in sorted(tiers.items()) if len(files) >= tuning.merged_files), None)


def compact_tier(store: Store, key: str) -> None:
    """Merges the files of one full tier of a relation, if there is one; run after commits."""
    relation = store.refresh().relations.get(key)
    if relation is not None and relation.dropped is None and (full := _full_tier(relation, store.tuning)) is not None:
        _replace(store, relation, full)


def compact_relation(store: Store, relation: Relation) -> Compacted | None:
    """Rewrites all of a relation into key-sorted files, if that helps."""
    horizon = store.state.horizon_of(relation, now())
    files = relation.files
    small = sum(file.rows < store.tuning.file_rows // 4 for file in files)
    cancelling = [file for file in files if file.low_weight < 0 and file.first_epoch <= horizon]
    history = any(file.merged and file.first_epoch < horizon for file in cancelling)
    if small < 2 and not (cancelling and len(files) > 1) and not history:
        inlined = [file for file in files if file.is_inlined]
        return _replace(store, relation, inlined) if inlined else None
    return _replace(store, relation, files)


def _replace(store: Store, relation: Relation, files: Sequence[DataFile]) -> Compacted | None:
    merged = written(store, relation, files)
    point("compact-written")
    if not swap(store, [merged]):
        return None
    point("compact-entered")
    after = sum(file.rows for file in merged.added)
    rows = sum(file.rows for file in files)
    return Compacted(display_name(store.state.alive(), relation), len(files), len(merged.added), rows, after)


@dataclass(frozen=True)
class Merged:
    """Some files of a relation and those with the same contents that replace them.

    `horizon` is the epoch up to which they were merged; `alone`: that of this relation only.
    """

    relation: Relation
    files: Sequence[DataFile]
    added: Sequence[DataFile]
    horizon: int
    alone: bool


def written(store: Store, relation: Relation, files: Sequence[DataFile]) -> Merged:
    """Writes files that replace some others of a relation; nobody sees them yet."""
    horizon = store.state.horizon_of(relation, now())
    alone = store.state.folds_alone(relation)
    rows = sum(file.rows for file in files)
    writer = store.writer(relation)
    if rows <= store.tuning.driver_merge_rows:
        added = writer.write_rows(merge(read_files(store.storage, files, relation.schema), horizon), merged=True)
    else:
        added = writer.write_frame(_merged_frame(store, relation.schema, files, horizon), rows, merged=True)
    return Merged(relation, files, added, horizon, alone)


def merge(rows: pa.Table, horizon: int) -> pa.Table:
    """The law of compaction, on the driver."""
    epochs = np.maximum(rows[EPOCH].to_numpy(), horizon)
    columns = [name for name in rows.column_names if name not in (EPOCH, WEIGHT)]
    lifted = rows.select(columns).append_column(pa.field(EPOCH, pa.int64()), pa.array(epochs))
    net = consolidate(lifted.append_column(rows.schema.field(WEIGHT), rows[WEIGHT]))
    return net.select([*columns, WEIGHT, EPOCH])


def _merged_frame(store: Store, schema: Schema, files: Sequence[DataFile], horizon: int) -> Frame:
    """The law of compaction, on the engine."""
    engine, storage = store.engine, store.storage
    frames: list[Frame] = []
    merged = [file for file in files if file.merged]
    if merged:
        frames.append(stored_frame(engine, storage, merged, schema))
    by_epoch: dict[int, list[DataFile]] = {}
    for file in files:
        if not file.merged:
            by_epoch.setdefault(file.first_epoch, []).append(file)
    few: list[DataFile] = []
    names = [quote(name) for name in schema.names]
    for epoch, group in by_epoch.items():
        if sum(file.rows for file in group) < store.tuning.file_rows:
            few.extend(group)
            continue
        frame = stored_frame(engine, storage, group, schema)
        frames.append(frame.select(*listed(*names, WEIGHT, (Literal(epoch, BIGINT), EPOCH))))
    if few:
        frames.append(engine.arrow(read_files(storage, few, schema), schema, STORED))
    union = engine.union(frames)
    lifted = union.select(*listed(*names, WEIGHT, (call("greatest", Name(EPOCH), Literal(horizon, BIGINT)), EPOCH)))
    total = grouped(lifted, schema, (EPOCH,), {WEIGHT: "sum"})
    return total.filter(parsed(IS_THERE)).select(*listed(*names, ("_vk_total", WEIGHT), EPOCH))


def swap(store: Store, replaced: Sequence[Merged]) -> list[Merged]:
    """Enters replacements in the ledger, in one entry; those whose files another process has replaced are left out.

    Returns the ones entered. The entry also records the new horizon: of a relation, or (unless it folds alone) of all.
    """
    try:
        with store.storage.lock(LOCK):
            while True:
                state = store.refresh()
                there = [each for each in replaced if _still_there(store, state, each)]
                if not there:
                    break
                after = store.ledger.append(state, _swap_entry(there))
                if after is not None:
                    store.state = after
                    break
    except BaseException:
        store.leave(file.path for each in replaced for file in each.added)
        raise
    for each in there:
        store.kept.replaced(each.relation.id, each.files, each.added)
    entered = {each.relation.id for each in there}
    store.storage.delete(file.path for each in replaced if each.relation.id not in entered for file in each.added)
    store.forget_soon([file for each in there for file in each.files])
    return there


def _still_there(store: Store, state: State, merged: Merged) -> bool:
    """Whether all the files are still those of the relation, and the new ones were not swept."""
    current = state.relations.get(merged.relation.id)
    there = {file.path for file in current.files} if current else set()
    return there.issuperset(file.path for file in merged.files) and not store.is_revoked(state, merged.added)


def _swap_entry(replaced: Sequence[Merged]) -> dict[str, Any]:
    swapped: dict[str, dict[str, Any]] = {}
    entry: dict[str, Any] = {"kind": "maintenance", "swapped": swapped}
    for each in replaced:
        removed = [file.path for file in each.files]
        added = [file.to_json(each.relation.schema) for file in each.added]
        swapped[each.relation.id] = {"removed": removed, "added": added}
        if any(file.first_epoch < each.horizon for file in each.files):
            place = swapped[each.relation.id] if each.alone else entry
            place["oldest"] = max(each.horizon, place.get("oldest", 0))
    return entry
