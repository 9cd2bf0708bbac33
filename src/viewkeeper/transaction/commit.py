"""The commit protocol.

    files written and fsynced -> conflicts checked against the newest state -> the entry created exclusively

Exactly one writer gets a number. The loser looks at what came in between: if nothing it has read was changed, its
outcome cannot differ, and it tries the next number with the same files; else it reports Conflict.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import EPOCH
from viewkeeper.catalog.declared_functions import users_of
from viewkeeper.catalog.definition import AUXILIARY, Definition
from viewkeeper.catalog.state import DataFile, Relation, State
from viewkeeper.engine.engine import SMALL
from viewkeeper.engine.running import side_by_side
from viewkeeper.errors import Conflict, ViewkeeperError
from viewkeeper.log.open_log import LOCK
from viewkeeper.maintain.propagation import Maintained, has_views, propagate, summed_up
from viewkeeper.maintain.report import Report
from viewkeeper.maintain.situation import Pending
from viewkeeper.store.compaction import compact_tiers
from viewkeeper.store.file_reading import read_files
from viewkeeper.transaction.change import Change, Commit
from viewkeeper.transaction.foreign_keys import check_references, has_references
from viewkeeper.transaction.open_transaction import OpenTransaction, Read


def commit(tx: OpenTransaction) -> Commit | None:
    """Commits a transaction; None if it has no net effect."""
    began = time.perf_counter()
    try:
        prepared = _prepare(tx)
    except BaseException:
        tx.discard()
        raise
    if not (prepared.files or tx.created or tx.dropped or tx.defined or tx.refreshed or tx.functions or tx.makes_epoch):
        tx.discard()
        return None
    try:
        prepared, after = _enter(tx, prepared)
    except Conflict:
        tx.discard()
        raise
    except BaseException:
        tx.store.leave(file.path for pending in tx.pending.values() for file in pending.staged)
        raise
    report = _report(tx, prepared, time.perf_counter() - began)
    tx.pending.clear()
    tx.store.clear_scratch()
    with contextlib.suppress(ViewkeeperError):  # upkeep only: the commit stands, and the next one tries again
        compact_tiers(tx.store, list(prepared.files))
    at = dt.datetime.fromtimestamp(after.committed_at, dt.UTC)
    return Commit(after.epoch, at, prepared.changes, report)


@dataclass(frozen=True)
class _Prepared:
    """A transaction ready to be entered in the ledger."""

    maintained: list[Maintained]
    changes: dict[str, Change]
    files: dict[str, list[DataFile]]


def _prepare(tx: OpenTransaction) -> _Prepared:
    """Works out the views' changes and writes everything."""
    maintained = tx.store.engine.surviving(lambda: propagate(tx))
    tx.store.engine.surviving(lambda: check_references(tx))
    changes = tx.changes()
    files = _write(tx, [pending for pending in tx.pending.values() if not pending.is_empty])
    return _Prepared(maintained, changes, files)


def _report(tx: OpenTransaction, prepared: _Prepared, seconds: float) -> dict[str, Report]:
    report: dict[str, Report] = {}
    for key, files in prepared.files.items():
        pending = tx.pending[key]
        if key not in tx.derived:
            rows = sum(file.rows for file in files)
            report[pending.relation.name] = Report(
                "change",
                "a base table: its net change was written",
                rows,
                pending.files_read,
                pending.files_total,
                seconds,
            )
    by_id = {done.relation.id: done for done in prepared.maintained}
    for done in prepared.maintained:
        if done.relation.kind == AUXILIARY or done.relation.definition is None:
            continue
        parts = [by_id[key] for key in done.relation.definition.hidden if key in by_id]
        rows = sum(file.rows for file in prepared.files.get(done.relation.id, ()))
        report[done.relation.name] = summed_up(done, parts, rows)
    return report


def _write(tx: OpenTransaction, touched: list[Pending]) -> dict[str, list[DataFile]]:
    """Writes what is still on the driver, relations side by side."""

    def write(pending: Pending) -> list[DataFile]:
        written = tx.store.writer(pending.relation).write_rows(pending.rows)
        pending.staged.extend(written)
        pending.rows = pending.rows.slice(0, 0)
        return pending.staged

    if len(touched) == 1:
        return {touched[0].relation.id: write(touched[0])}
    return dict(zip([p.relation.id for p in touched], side_by_side(write, touched, 8), strict=True))


def _enter(tx: OpenTransaction, prepared: _Prepared) -> tuple[_Prepared, State]:
    """Enters the transaction. If others came in between, views are worked out again on the newest state."""
    store = tx.store
    store.check_writable()
    with store.storage.lock(LOCK):
        while True:
            held = store.hold()
            state = held.state
            check_conflicts(tx, state, [file for added in prepared.files.values() for file in added])
            if state.epoch != tx.state.epoch and (has_views(tx) or has_references(tx) or tx.suspended):
                tx.rebase(held)
                try:
                    prepared = _prepare(tx)
                except BaseException:
                    tx.discard()
                    raise
            after = store.ledger.append(state, _entry(tx, prepared, state.epoch + 1))
            if after is not None:
                store.state = after
                return prepared, after


def _entry(tx: OpenTransaction, prepared: _Prepared, epoch: int) -> dict[str, Any]:
    files = prepared.files
    entry: dict[str, Any] = {"kind": "commit", "epoch": epoch}
    if tx.created:
        entry["created"] = [_created(tx.by_id(key)) for key in tx.created]
    if tx.dropped:
        entry["dropped"] = sorted(tx.dropped)
    if files:
        schemas = {key: tx.pending[key].relation.schema for key in files}
        entry["files"] = {key: [file.to_json(schemas[key]) for file in added] for key, added in files.items()}
    defined = {key: body.to_json() for key, body in tx.defined.items() if key not in tx.created}
    refreshed = {key: until for key, until in tx.refreshed.items() if key not in tx.created}
    decided = {d.relation.id: [d.strategy, d.reason] for d in prepared.maintained if d.relation.kind != AUXILIARY}
    if decided:
        entry["decisions"] = decided
    if defined:
        entry["defined"] = defined
    if refreshed:
        entry["refreshed"] = refreshed
    suspended = {key: _refreshed(tx.by_id(key)) for key in tx.suspended}
    if suspended:
        entry["suspended"] = suspended
    if tx.functions:
        entry["functions"] = {key: function and function.to_json() for key, function in tx.functions.items()}
    return entry


def _refreshed(relation: Relation) -> int:
    assert relation.definition is not None
    return relation.definition.refreshed


def _created(relation: Relation) -> dict[str, Any]:
    body: dict[str, Any] = {"id": relation.id, "name": relation.name, "schema": relation.schema.to_json()}
    if relation.definition is not None:
        body["definition"] = relation.definition.to_json()
    return body


def check_conflicts(tx: OpenTransaction, state: State, files: list[DataFile]) -> None:
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
            raise _conflict(f"another transaction has created a {taken.kind_words} named '{relation.name}'")
    for name in tx.absent:
        taken = state.find(name)
        if taken is not None and tx.state.find(name) is None:
            raise _conflict(
                f"another transaction has created a {taken.kind_words} named '{name}', which was not there before"
            )
    for key in {*tx.dropped, *tx.pending, *tx.defined, *tx.refreshed, *tx.suspended}:
        if key not in tx.created:
            _still_there(tx, state, key)
            _check_views(tx, state, key)
    for key in tx.suspended:
        if _bare(state.relations[key].definition) != _bare(tx.state.relations[key].definition):
            raise _conflict(f"another transaction has altered the view '{tx.state.relations[key].name}'")
    for key in {used for made in tx.alive() if made.id in tx.created or made.id in tx.defined for used in _used(made)}:
        if key not in tx.created:
            _still_there(tx, state, key)
    for read in tx.reads:
        _check_read(tx, state, read)
    _check_functions(tx, state)


def _check_functions(tx: OpenTransaction, state: State) -> None:
    """Functions that the transaction declares, drops or calls in new views are those that it has seen."""
    made = [relation for relation in tx.alive() if relation.id in tx.created or relation.id in tx.defined]
    for key in {*tx.functions, *tx.state.functions}:
        changed = state.functions.get(key) != tx.state.functions.get(key)
        if changed and (key in tx.functions or users_of(made, key)):
            raise _conflict(f"another transaction has declared or dropped the function '{key}'")
        if key in tx.functions and users_of(state.alive(), key) != users_of(tx.state.alive(), key):
            raise _conflict(f"another transaction has created or dropped a view that uses the function '{key}'")


def _still_there(tx: OpenTransaction, state: State, key: str) -> Relation:
    current = state.relations.get(key)
    if current is None or current.dropped is not None:
        before = tx.state.relations[key]
        raise _conflict(f"another transaction has dropped the {before.kind_words} '{before.name}'")
    return current


def _used(relation: Relation) -> tuple[str, ...]:
    return () if relation.definition is None else (*relation.definition.uses, *relation.definition.hidden)


def _check_views(tx: OpenTransaction, state: State, key: str) -> None:
    """Views over a changed relation must be those whose changes this transaction has worked out."""
    before, after = _views_over(tx.state, key), _views_over(state, key)
    for view in set(before) | set(after):
        if before.get(view) != after.get(view):
            name = (state.relations.get(view) or tx.state.relations[view]).name
            raise _conflict(f"another transaction has created, replaced or dropped the view '{name}'")


def _views_over(state: State, key: str) -> dict[str, Definition | None]:
    """The definitions of everything that reads a relation, through other views too, by id."""
    found: dict[str, Definition | None] = {}
    waiting = [key]
    while waiting:
        for relation in state.dependents(waiting.pop()):
            if relation.id not in found and relation.definition is not None:
                found[relation.id] = _bare(relation.definition)
                waiting.append(relation.id)
    return found


def _bare(definition: Definition | None) -> Definition | None:
    """A definition without the epoch of the last refresh: that changes without any other definition."""
    return None if definition is None else replace(definition, refreshed=0)


def _check_read(tx: OpenTransaction, state: State, read: Read) -> None:
    current = _still_there(tx, state, read.relation)
    base = tx.state.epoch
    if max(state.oldest, current.oldest) > base and current.files != tx.state.relations[read.relation].files:
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
