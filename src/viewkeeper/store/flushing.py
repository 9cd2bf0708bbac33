"""Flush: batches inside ledger entries become files, sorted by key. Never makes an epoch.

The batches of all relations are flushed together, with one ledger entry, by the law of compaction. A crash before that
entry leaves files that nobody names; after it, new readers read the files, and vacuum removes the bytes of the batches
from their entries when no reader needs them. Relations that were dropped are left as they are, as by compaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.algebra.tuning import Tuning
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.relations import Relation
from viewkeeper.catalog.state import State
from viewkeeper.log.failpoints import point
from viewkeeper.store.compaction import Merged, swap, written
from viewkeeper.store.store import Store


def inlined_files(relation: Relation) -> list[DataFile]:
    """The batches of a relation that are inside ledger entries."""
    return [file for file in relation.files if file.is_inlined]


def is_flush_due(state: State, keys: Iterable[str], tuning: Tuning) -> bool:
    """Whether one of some relations has so many inlined batches or rows that they should become files."""
    there = [state.relations[key] for key in keys if key in state.relations]
    return any(relation.dropped is None and is_full(relation, tuning) for relation in there)


def is_full(relation: Relation, tuning: Tuning, times: int = 1) -> bool:
    """Whether a relation has that many inlined batches or rows, or so many times as many."""
    batches = inlined_files(relation)
    rows = sum(file.rows for file in batches)
    return len(batches) >= times * tuning.flushed_batches or rows >= times * tuning.flushed_rows


def flush(store: Store) -> list[str]:
    """Flushes the inlined batches of all relations that exist; the ids of those it has flushed."""
    held = store.hold()  # the bytes of the batches stay until they are read
    there = [relation for relation in held.state.relations.values() if relation.dropped is None]
    todo = [(relation, batches) for relation in there if (batches := inlined_files(relation))]
    if not todo:
        return []
    point("flush-before")
    ready: list[Merged] = []
    try:
        for relation, batches in todo:
            ready.append(written(store, relation, batches))
            point("flush-half")
    except BaseException:
        store.leave(file.path for each in ready for file in each.added)
        raise
    point("flush-written")
    entered = swap(store, ready)
    point("flush-entered")
    return [each.relation.id for each in entered]
