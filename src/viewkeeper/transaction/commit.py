"""The commit protocol.

    files written and fsynced -> conflicts checked against the newest state -> the entry created exclusively

Exactly one writer gets a number. The loser looks at what came in between: if nothing it has read was changed, its
outcome cannot differ, and it tries the next number with the same files; else it reports Conflict.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime as dt
import time
from typing import Any

from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import EPOCH
from viewkeeper.engine.engine import SMALL
from viewkeeper.errors import Conflict, ViewkeeperError
from viewkeeper.store.batch import read_files
from viewkeeper.store.compaction import compact_tiers
from viewkeeper.store.state import DataFile, Relation, State
from viewkeeper.store.store import LOCK
from viewkeeper.transaction.change import Commit, Report
from viewkeeper.transaction.transaction import Pending, Read, Transaction


def commit(tx: Transaction) -> Commit | None:
    """Commits a transaction; None if it has no net effect."""
    began = time.perf_counter()
    try:
        changes = tx.changes()
        touched = [pending for pending in tx.pending.values() if not pending.is_empty]
        files = _write(tx, touched)
    except ViewkeeperError:
        tx.discard()
        raise
    if not files and not tx.created and not tx.dropped:
        tx.discard()
        return None
    try:
        after = _enter(tx, files)
    except Conflict:
        tx.discard()  # after any other problem the entry may be there, and it names the files
        raise
    report = {
        pending.relation.name: Report(
            "change",
            "a base table: its net change was written",
            sum(file.rows for file in files[pending.relation.id]),
            pending.files_read,
            pending.files_total,
            time.perf_counter() - began,
        )
        for pending in touched
    }
    tx.pending.clear()
    tx.store.clear_scratch()
    with contextlib.suppress(ViewkeeperError):  # upkeep only: the commit stands, and the next one tries again
        compact_tiers(tx.store, list(files))
    return Commit(after.epoch, dt.datetime.fromtimestamp(after.committed_at, dt.UTC), changes, report)


def _write(tx: Transaction, touched: list[Pending]) -> dict[str, list[DataFile]]:
    """Writes what is still on the driver, relations side by side."""

    def write(pending: Pending) -> list[DataFile]:
        written = tx.store.writer(pending.relation).write_rows(pending.rows)
        pending.staged.extend(written)
        pending.rows = pending.rows.slice(0, 0)
        return pending.staged

    if len(touched) == 1:
        return {touched[0].relation.id: write(touched[0])}
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip([p.relation.id for p in touched], pool.map(write, touched), strict=True))


def _enter(tx: Transaction, files: dict[str, list[DataFile]]) -> State:
    store = tx.store
    with store.storage.lock(LOCK):
        while True:
            state = store.refresh()
            check_conflicts(tx, state, [file for added in files.values() for file in added])
            after = store.ledger.append(state, _entry(tx, files, state.epoch + 1))
            if after is not None:
                store.state = after
                return after


def _entry(tx: Transaction, files: dict[str, list[DataFile]], epoch: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": "commit", "epoch": epoch}
    if tx.created:
        entry["created"] = [
            {"id": relation.id, "name": relation.name, "schema": relation.schema.to_json()}
            for relation in tx.created.values()
        ]
    if tx.dropped:
        entry["dropped"] = sorted(tx.dropped)
    if files:
        schemas = {key: tx.pending[key].relation.schema for key in files}
        entry["files"] = {key: [file.to_json(schemas[key]) for file in added] for key, added in files.items()}
    return entry


def check_conflicts(tx: Transaction, state: State, files: list[DataFile]) -> None:
    """Raises Conflict if what the transaction did would come out differently on the newest state."""
    if tx.store.is_revoked(state, files):
        raise Conflict(
            "this process was taken for dead and its unfinished work was swept", hint="run the transaction again"
        )
    if state.epoch == tx.state.epoch and state.oldest == tx.state.oldest:
        return
    for relation in tx.created.values():
        taken = state.find(relation.name)
        if taken is not None and taken.id not in tx.dropped:
            raise _conflict(f"another transaction has created a table named '{relation.name}'")
    for name in tx.absent:
        if state.find(name) is not None and tx.state.find(name) is None:
            raise _conflict(f"another transaction has created a table named '{name}', which was not there before")
    for key in {*tx.dropped, *tx.pending}:
        if key not in tx.created:
            _still_there(tx, state, key)
    for read in tx.reads:
        _check_read(tx, state, read)


def _still_there(tx: Transaction, state: State, key: str) -> Relation:
    current = state.relations.get(key)
    if current is None or current.dropped is not None:
        name = tx.state.relations[key].name
        raise _conflict(f"another transaction has dropped the table '{name}'")
    return current


def _check_read(tx: Transaction, state: State, read: Read) -> None:
    current = _still_there(tx, state, read.relation)
    base = tx.state.epoch
    if state.oldest > base and current.files != tx.state.relations[read.relation].files:
        # Rows of the epochs since may have cancelled each other out of the files.
        raise _conflict(f"'{current.name}' was changed and compacted since the transaction began")
    newer = [file for file in current.files if file.last_epoch > base]
    if not newer:
        return
    if read.keys is not None:
        newer = [file for file in newer if read.keys.may_be_in(file.bounds)]
    if read.ranges is not None:
        newer = [file for file in newer if read.ranges.may_be_in(file.bounds)]
    if not newer:
        return
    if read.keys is not None and sum(file.rows for file in newer) <= SMALL:
        rows = read_files(tx.store.storage, newer, current.schema)
        names = read.keys.schema.names
        wanted = set(row_tuples(read.keys.table))
        epochs = rows[EPOCH].to_pylist()
        changed = (row for row, epoch in zip(row_tuples(rows.select(names)), epochs, strict=True) if epoch > base)
        if not any(row in wanted for row in changed):
            return
    raise _conflict(f"another transaction has changed rows of '{current.name}' that this one has read")


def _conflict(what: str) -> Conflict:
    return Conflict(what, detail="nothing was changed", hint="run the transaction again")
