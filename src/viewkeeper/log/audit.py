"""The audit of a ledger: checks every entry, the chain, and whether snapshots agree. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from viewkeeper.catalog.state import State
from viewkeeper.errors import StorageError
from viewkeeper.log.inlined import split_entry
from viewkeeper.log.ledger import Ledger, missing, unpack
from viewkeeper.log.storage import Storage


@dataclass(frozen=True)
class Fault:
    """Something wrong with a file of the ledger. `derived`: in a snapshot, so that nothing is lost."""

    found: str
    todo: str
    derived: bool = False


def audit_ledger(storage: Storage) -> Iterator[Fault]:
    """The faults of a ledger, in the order of its entries."""
    ledger = Ledger(storage)
    entries, snapshots = ledger.numbers()
    absent = set(missing(entries, snapshots))
    state: State | None = None
    whole = True
    for number in range(1, max((*entries, *snapshots), default=0) + 1):
        try:
            entry = ledger.entry(number)
            if entry is None:
                raise ledger.lost(number, max(entries | snapshots)) if number in absent else ledger.lost(number, number)
            if whole:
                state = _applied(ledger, state, entry)
            yield from _check_data(ledger, number, entry)
        except StorageError as problem:
            whole = False  # what follows a fault cannot be folded, but it can still be read
            yield Fault(problem.message, problem.hint or "")
        if number in snapshots:
            yield from _check_snapshot(ledger, number, state if whole else None)


def _applied(ledger: Ledger, state: State | None, entry: dict[str, Any]) -> State:
    if state is None:
        return State.first(entry)
    ledger.check_chain(state, entry)
    return state.apply(entry)


def _check_data(ledger: Ledger, number: int, entry: dict[str, Any]) -> Iterator[Fault]:
    """Whether as many bytes follow the head of an entry as it says, or none: vacuum removes them all together."""
    path = ledger.entry_path(number)
    _, data = split_entry(ledger.storage.read(path) or b"")
    wanted = entry.get("data", 0)
    if len(data) not in (0, wanted):
        found = f"{path} is damaged: {len(data):,} bytes of data follow its head, which says {wanted:,}"
        yield Fault(found, "restore this file from a backup; the other files are not affected")


def _check_snapshot(ledger: Ledger, number: int, state: State | None) -> Iterator[Fault]:
    """The faults of a snapshot: unreadable, or different from the entries (not checked for an old format)."""
    path = ledger.snapshot_path(number)
    todo = "nothing is lost and it is not used: the entries say what it should"
    try:
        body = unpack(ledger.storage.read(path) or b"", path)
    except StorageError as problem:
        yield Fault(problem.message, todo, derived=True)
        return
    if state is not None and "link" in body and State.from_json(body).to_json() != state.to_json():
        yield Fault(f"{path} does not agree with the entries before it", todo, derived=True)
