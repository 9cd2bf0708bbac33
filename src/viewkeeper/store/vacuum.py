"""Vacuum: removes files that no kept epoch, no reader at work and no live writer needs.

Safe by the ledger: a writer whose unnamed files are to go is revoked there first. If its entry came before, the files
are named and stay; if it comes after, it sees that it is revoked and does not commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.store.faults import point
from viewkeeper.store.lease import lease_of, live_leases
from viewkeeper.store.state import State
from viewkeeper.store.storage import now
from viewkeeper.store.store import LOCK, Store

GRACE_SECONDS = 3600.0


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum removed."""

    files: int
    bytes: int
    relations: tuple[str, ...]


def vacuum(store: Store, grace: float) -> Vacuumed:
    """Sweeps files that are unnamed for longer than `grace` seconds and that nobody at work may need."""
    storage = store.storage
    with storage.lock(LOCK):
        beside = [item for item in storage.list("ledger") if item.path.endswith(".tmp")]
        scratch = storage.children("scratch")
        forgotten = _forget_dropped(store)
        listed = {item.path: item for item in storage.list("relations")}
        state = store.refresh()
        store.tell_lease()
        leases = live_leases(storage)
        replaced = _replaced(state, leases, grace)
        known = named_files(state)
        orphans = {
            path: lease_of(path)
            for path, item in listed.items()
            if path not in known and now() - item.modified >= grace and lease_of(path) not in leases
        }
        state = _enter(store, state, sorted(set(orphans.values()) - state.revoked), replaced)
        point("vacuum-revoked")
        named = named_files(state)
        doomed = [path for path in {*replaced, *orphans} if path not in named]
        half = len(doomed) // 2
        storage.delete(doomed[:half])
        point("vacuum-half")
        storage.delete(doomed[half:])
        for key in {path.split("/")[1] for path in doomed} - set(state.relations):
            if not storage.list(f"relations/{key}"):
                storage.remove(f"relations/{key}")
        for name in scratch:
            if name not in leases:
                storage.remove(f"scratch/{name}")
        # A writer that still wants to give these bytes a name finds them gone and writes them again.
        storage.delete(item.path for item in beside if now() - item.modified >= grace)
    sizes = [listed[path].size for path in doomed if path in listed]
    return Vacuumed(len(sizes), sum(sizes), tuple(forgotten))


def named_files(state: State) -> set[str]:
    """The files the ledger still knows: those in use, and those replaced but not yet swept."""
    named = {file.path for relation in state.relations.values() for file in relation.files}
    return named | {path for path, _, _ in state.removed}


def _replaced(state: State, leases: dict[str, int], grace: float) -> list[str]:
    """Files that compaction replaced, long enough ago and before what every reader at work reads."""
    oldest_reader = min(leases.values(), default=state.number)
    return [path for path, number, at in state.removed if number <= oldest_reader and now() - at >= grace]


def _forget_dropped(store: Store) -> list[str]:
    """Takes relations out of the state that were dropped before the promised history begins."""
    while True:
        state = store.refresh()
        horizon = state.horizon(now())
        gone = [r for r in state.relations.values() if r.dropped is not None and r.dropped <= horizon]
        if not gone:
            return []
        body = {"kind": "maintenance", "forgotten": [relation.id for relation in gone], "oldest": horizon}
        after = store.ledger.append(state, body)
        if after is not None:
            store.state = after
            return [relation.name for relation in gone]


def _enter(store: Store, state: State, revoked: list[str], swept: list[str]) -> State:
    if not revoked and not swept:
        return state
    while True:
        after = store.ledger.append(store.state, {"kind": "maintenance", "revoked": revoked, "swept": swept})
        if after is not None:
            store.state = after
            return after
        store.refresh()
