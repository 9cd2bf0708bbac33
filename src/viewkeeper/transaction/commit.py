"""The commit, stage by stage.

    1 stage        statements have gathered their changes in the transaction
    2 settle       the changes are consolidated
    3 rounds       they are propagated to views; hooks (active rules) react; repeated until nothing changes
    4 assertions   queries that must stay empty are checked (foreign keys)
    5 write        files are written and fsynced; few rows are encoded to be part of the entry
    6 enter        conflicts are checked against the newest state, the entry is created exclusively
    7 after        hooks (feeds) are notified, effects run, housekeeping begins

Exactly one writer gets an entry number. The loser checks what was committed in between: if nothing it has read was
changed, its outcome cannot differ, and it tries the next number with the same files; else it reports Conflict.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from typing import Any

from viewkeeper.catalog.active_rules import rule_changes
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.relations import Auxiliary, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.engine.running import side_by_side
from viewkeeper.errors import Conflict, RuleLoop
from viewkeeper.log.open_log import LOCK
from viewkeeper.maintain.propagation import Maintained, has_views, propagate, summed_up
from viewkeeper.maintain.report import WRITTEN, Report
from viewkeeper.maintain.situation import Pending
from viewkeeper.store.batches import can_inline, inlined
from viewkeeper.store.flushing import is_full
from viewkeeper.transaction import foreign_keys
from viewkeeper.transaction.assertions import Assertion, check_assertions, declared_assertions
from viewkeeper.transaction.change import Change, Commit
from viewkeeper.transaction.conflicts import check_conflicts
from viewkeeper.transaction.open_transaction import OpenTransaction

FLUSH_LATE = 4
"""How many times as many inlined batches a relation may have as a flush waits for: beyond, files are written."""

MOST_ROUNDS = 100
"""Rounds after which a commit is given up, times the rules there are: reactions that set each other off for ever."""


def commit(tx: OpenTransaction) -> Commit | None:
    """Commits a transaction; None if it has no net effect."""
    began = time.perf_counter()
    try:
        prepared = _prepare(tx)
    except BaseException:
        tx.discard()
        raise
    if not (prepared.files or tx.has_definitions or tx.makes_epoch):
        tx.discard()
        return None
    try:
        prepared, state = _enter(tx, prepared)
    except Conflict:
        tx.discard()
        raise
    except BaseException:
        tx.store.leave(file.path for pending in tx.pending.values() for file in pending.staged)
        raise
    report = _report(tx, prepared, time.perf_counter() - began)
    at = dt.datetime.fromtimestamp(state.committed_at, dt.UTC)
    fired = tuple(each["name"] for each in tx.fired)
    done = Commit(state.epoch, at, prepared.changes, report, tuple(tx.warnings), fired)
    _after(tx, prepared, done)
    return done


@dataclass(frozen=True)
class Prepared:
    """A transaction ready to be entered in the ledger. `data` are the inlined batches among its files."""

    maintained: list[Maintained]
    changes: dict[str, Change]
    files: dict[str, list[DataFile]]
    data: bytes


def _prepare(tx: OpenTransaction) -> Prepared:
    """Stages 2 to 5. They are run again if others have committed meanwhile."""
    surviving = tx.store.engine.surviving
    surviving(tx.settle)
    maintained = _rounds(tx)
    surviving(lambda: check_assertions(tx, _assertions(tx)))
    changes = tx.changes()
    files, data = _write(tx, [p for p in tx.pending.values() if not p.is_empty])
    return Prepared(maintained, changes, files, data)


def check_now(tx: OpenTransaction) -> None:
    """Stage 4 in the middle of a transaction: raises for what is violated now."""
    try:
        tx.store.engine.surviving(lambda: propagate(tx))
        tx.store.engine.surviving(lambda: check_assertions(tx, _assertions(tx)))
    finally:
        tx.drop_derived()


def _assertions(tx: OpenTransaction) -> list[Assertion]:
    return [*foreign_keys.assertions(tx), *declared_assertions(tx)]


def _rounds(tx: OpenTransaction) -> list[Maintained]:
    """Stage 3. Propagates the changes of tables to views and lets hooks react, until no hook changes anything.

    Touches the transaction's changes and effects only. When it is run again, it first undoes what hooks have changed
    and collects effects again, so that both happen once.
    """
    tx.effects.clear()
    if tx.hooks:
        tx.drop_reactions()
        for hook in tx.hooks:
            hook.begin(tx)
    for _ in range(MOST_ROUNDS * (1 + len(tx.state.rules))):
        maintained = tx.store.engine.surviving(lambda: propagate(tx))
        reacted = [hook.before_writing(tx) for hook in tx.hooks]
        if not any(reacted):
            return maintained
    raise RuleLoop(
        f"what reacts to the transaction was still changing it after {MOST_ROUNDS} rounds",
        detail="nothing was changed",
        hint="look for reactions that trigger each other",
    )


def _after(tx: OpenTransaction, prepared: Prepared, done: Commit) -> None:
    """Stage 7. Notifies hooks, runs effects, starts housekeeping. The commit is final: nothing here undoes it."""
    tx.drop_marks()
    tx.pending.clear()
    tx.store.clear_scratch()
    for hook in tx.hooks:
        hook.after_entry(tx, done)
    for effect in tx.effects:
        effect(done)
    tx.store.housekeeping.compact(prepared.files)


def _report(tx: OpenTransaction, prepared: Prepared, seconds: float) -> dict[str, Report]:
    report: dict[str, Report] = {}
    for key, files in prepared.files.items():
        pending = tx.pending[key]
        if key not in tx.derived and not pending.relation.is_hidden:
            rows = sum(file.rows for file in files)
            report[pending.relation.name] = Report(
                WRITTEN,
                "a base table: its net change was written",
                rows,
                pending.files_read,
                pending.files_total,
                seconds,
            )
    by_id = {done.relation.id: done for done in prepared.maintained}
    for done in prepared.maintained:
        if isinstance(done.relation, Auxiliary):
            continue
        parts = [by_id[key] for key in done.relation.definition.hidden if key in by_id]
        rows = sum(file.rows for file in prepared.files.get(done.relation.id, ()))
        report[done.relation.name] = summed_up(done, parts, rows)
    return report


def _write(tx: OpenTransaction, touched: list[Pending]) -> tuple[dict[str, list[DataFile]], bytes]:
    """Stage 5. The files of relations with their changes, which nobody sees yet, and the data of the entry.

    Few rows on the driver become inlined batches in that data; others are written to files, relations in parallel.
    """
    small = _to_inline(tx, touched)
    batches, data = inlined({p.relation.id: (p.relation.schema, p.rows) for p in small})

    def write(pending: Pending) -> list[DataFile]:
        pending.staged.extend(tx.store.writer(pending.relation).write_rows(pending.rows))
        pending.rows = pending.rows.slice(0, 0)
        return pending.staged

    many = [pending for pending in touched if pending.relation.id not in batches]
    threads = len([pending for pending in many if pending.rows.num_rows])
    written = [write(pending) for pending in many] if threads < 2 else side_by_side(write, many, min(threads, 8))
    files = dict(zip([pending.relation.id for pending in many], written, strict=True))
    return {p.relation.id: files.get(p.relation.id) or [batches[p.relation.id]] for p in touched}, data


def _to_inline(tx: OpenTransaction, touched: list[Pending]) -> list[Pending]:
    """The changes to inline: the smallest of those on the driver, as long as they are few together.

    Not of a relation that has many inlined batches already because a flush is late, so that they stay bounded.
    """
    tuning = tx.store.tuning
    chosen: list[Pending] = []
    rows = size = 0
    for pending in sorted(touched, key=lambda pending: pending.rows.num_rows):
        schema = pending.relation.schema
        if pending.staged or not can_inline(schema) or is_full(pending.relation, tuning, FLUSH_LATE):
            continue
        rows += pending.rows.num_rows
        size += pending.rows.nbytes
        if rows > tuning.inlined_rows or size > tuning.inlined_bytes:
            break
        chosen.append(pending)
    return chosen


def _enter(tx: OpenTransaction, prepared: Prepared) -> tuple[Prepared, State]:
    """Stage 6. Creates the ledger entry, the single atomic point; touches the ledger only.

    If others have committed meanwhile and derived changes could differ, stages 2 to 5 run again on the newest state.
    """
    store = tx.store
    store.check_writable()
    with store.storage.lock(LOCK):
        while True:
            held = store.hold()
            state = held.state
            check_conflicts(tx, state, [file for pending in tx.pending.values() for file in pending.staged])
            if state.epoch != tx.state.epoch and _depends_on_state(tx):
                tx.rebase(held)
                try:
                    prepared = _prepare(tx)
                except BaseException:
                    tx.discard()
                    raise
            after = store.ledger.append(state, _entry(tx, prepared, state.epoch + 1), prepared.data, prepared.files)
            if after is not None:
                store.state = after
                _remember(tx, prepared, after)
                return prepared, after


def _remember(tx: OpenTransaction, prepared: Prepared, after: State) -> None:
    """Keeps the rows of inlined batches, which the next commits read."""
    for key, files in prepared.files.items():
        if len(files) == 1 and files[0].is_inlined:
            relation = after.relations[key]
            tx.store.small.remember(relation.files[-1], tx.pending[key].rows, relation.schema)


def _depends_on_state(tx: OpenTransaction) -> bool:
    """Whether something was derived from the state that the transaction began with."""
    return bool(has_views(tx) or _assertions(tx) or tx.suspended or tx.hooks or tx.watched)


def _entry(tx: OpenTransaction, prepared: Prepared, epoch: int) -> dict[str, Any]:
    files = prepared.files
    entry: dict[str, Any] = {"kind": "commit", "epoch": epoch}
    if tx.created:
        entry["created"] = [tx.by_id(key).declaration() for key in tx.created]
    if tx.dropped:
        entry["dropped"] = sorted(tx.dropped)
    if files:
        schemas = {key: tx.pending[key].relation.schema for key in files}
        entry["files"] = {key: [file.to_json(schemas[key]) for file in added] for key, added in files.items()}
    defined = {key: body.to_json() for key, body in tx.defined.items() if key not in tx.created}
    refreshed = {key: until for key, until in tx.refreshed.items() if key not in tx.created}
    views = [done for done in prepared.maintained if not isinstance(done.relation, Auxiliary)]
    decided = {done.relation.id: [done.strategy, done.reason] for done in views if done.strategy != "none"}
    if decided:
        entry["decisions"] = decided
    if defined:
        entry["defined"] = defined
    if refreshed:
        entry["refreshed"] = refreshed
    suspended = {key: as_derived(tx.by_id(key)).definition.refreshed for key in tx.suspended}
    if suspended:
        entry["suspended"] = suspended
    if tx.rules:
        entry["rules"] = {key: rule and rule.to_json() for key, rule in tx.rules.items()}
        entry["rule_changes"] = rule_changes(tx.state.rules, tx.rules)
    if tx.fired:
        entry["fired"] = tx.fired
    if tx.warned:
        entry["warned"] = dict(tx.warned)
    if tx.waiting:
        entry["waiting"] = [{**change, "epoch": epoch} if change.get("epoch") == 0 else change for change in tx.waiting]
    if tx.functions:
        entry["functions"] = {key: function and function.to_json() for key, function in tx.functions.items()}
    return entry
