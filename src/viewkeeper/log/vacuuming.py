"""Vacuum: removes files that no kept epoch, no live reader and no live writer needs.

First it removes what needs no ledger entry, so that a full disk can be freed: scratch files, files that compaction
replaced, and files left behind by writers that are proven to be dead. Then it writes an entry and removes the rest. The
entry makes that safe: it revokes a writer before its unnamed files are removed. If the writer's own entry came before,
its files are named and stay; if it comes after, the writer sees that it is revoked and does not commit.

The bytes of inlined batches that a flush has replaced are removed by replacing their ledger entry by its head alone.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from viewkeeper.catalog.data_files import is_inlined, place_of
from viewkeeper.catalog.state import State
from viewkeeper.errors import StorageError
from viewkeeper.log.failpoints import point
from viewkeeper.log.inlined import split_entry
from viewkeeper.log.leases import Leases, found_leases, lease_of
from viewkeeper.log.open_log import LOCK, OpenLog
from viewkeeper.log.storage import Listed, Storage, is_full, now
from viewkeeper.log.turns import sweep_turns

GRACE_SECONDS = 3600.0


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum removed."""

    files: int
    bytes: int
    relations: tuple[str, ...]


def vacuum(log: OpenLog, grace: float) -> Vacuumed:
    """Sweeps files that no live process may need: unnamed or replaced for longer than `grace` seconds.

    Files left behind by a writer that is proven to be dead are swept without grace.
    """
    storage = log.storage
    with storage.lock(LOCK):
        log.refresh()
        log.write_lease()
        sweep_turns(storage)
        temporary = [item.path for item in storage.list("ledger") if item.path.endswith(".tmp")]
        scratch = storage.children("scratch")
        listed = {item.path: item for item in storage.list("relations")}
        with found_leases(storage) as leases:
            state = log.refresh()
            for name in scratch:
                if name not in leases.alive:
                    storage.remove(f"scratch/{name}")
            storage.delete(temporary)  # a writer that still wants to link one finds it missing and writes it again
            replaced = _replaced(log, leases, grace)
            named = state.named_files()
            left = [path for path in listed if path not in named and lease_of(path) in leases.dead]
            _delete(storage, [*replaced, *left], "vacuum-half")
            leases.remove_dead(storage)
        unnamed = {path: item for path, item in listed.items() if path not in named and path not in set(left)}
        try:
            forgotten, swept, stripped = _enter_and_sweep(log, replaced, unnamed, grace)
        except StorageError as problem:
            if not is_full(problem):
                raise
            print(
                "viewkeeper: there is still no room to record in the ledger what was deleted; "
                "run vacuum again when there is some",
                file=sys.stderr,
            )
            forgotten, swept, stripped = [], [], 0
        doomed = {path for path in (*replaced, *left, *swept) if not is_inlined(path)}
        for key in {path.split("/")[1] for path in doomed} - set(log.state.relations):
            if not storage.list(f"relations/{key}"):
                storage.remove(f"relations/{key}")
    sizes = [listed[path].size for path in doomed if path in listed]
    return Vacuumed(len(sizes), sum(sizes) + stripped, tuple(forgotten))


def _strip(log: OpenLog, doomed: Collection[str]) -> int:
    """Removes the data of entries all of whose inlined batches are doomed or were before; how many bytes that were.

    This is done before the ledger records that they are gone: after a crash in between, it is done again.
    """
    batches = [path for path in doomed if is_inlined(path)]
    still = {place_of(path)[0] for path in log.state.named_files().difference(batches) if is_inlined(path)}
    freed = 0
    for entry in sorted({place_of(path)[0] for path in batches} - still):
        head, data = split_entry(log.storage.read(entry) or b"")
        if data:
            log.storage.shorten(entry, head, "strip")
            freed += len(data)
    return freed


def _delete(storage: Storage, paths: list[str], mark: str) -> None:
    paths = [path for path in paths if not is_inlined(path)]
    half = len(paths) // 2
    storage.delete(paths[:half])
    point(mark)
    storage.delete(paths[half:])


def _enter_and_sweep(
    log: OpenLog, deleted: Collection[str], unnamed: Mapping[str, Listed], grace: float
) -> tuple[list[str], list[str], int]:
    """Records in the ledger which files were deleted and which writers are revoked, and deletes their files.

    Returns the names of forgotten relations, the files deleted here, and the bytes removed from entries.
    """
    forgotten = _forget_dropped(log)
    log.write_lease()
    with found_leases(log.storage) as leases:
        log.refresh()
        replaced = _replaced(log, leases, grace)
        orphans = {
            path: lease_of(path)
            for path, item in unnamed.items()
            if now() - item.modified >= grace and lease_of(path) not in leases.alive
        }
    swept = {*deleted, *replaced}
    stripped = _strip(log, swept)
    state = _enter(log, sorted(set(orphans.values()) - log.state.revoked), sorted(swept))
    point("vacuum-revoked")
    named = state.named_files()
    doomed = [path for path in {*replaced, *orphans} if path not in named and not is_inlined(path)]
    log.storage.delete(doomed)
    return forgotten, doomed, stripped


def _replaced(log: OpenLog, leases: Leases, grace: float) -> list[str]:
    """Files that compaction replaced longer than `grace` ago and that no live reader may read."""
    oldest_reader = min([log.oldest_in_use(), *leases.alive.values()])
    return [path for path, number, at in log.state.removed if number <= oldest_reader and now() - at >= grace]


def _forget_dropped(log: OpenLog) -> list[str]:
    """Removes relations from the state that were dropped before the promised history begins; returns their names."""
    while True:
        state = log.refresh()
        horizon = state.horizon(now())
        dropped = [r for r in state.relations.values() if r.dropped is not None and r.dropped <= horizon]
        if not dropped:
            return []
        body = {"kind": "maintenance", "forgotten": [relation.id for relation in dropped], "oldest": horizon}
        after = log.ledger.append(state, body)
        if after is not None:
            log.state = after
            return [relation.name for relation in dropped if not relation.is_hidden]


def _enter(log: OpenLog, revoked: list[str], swept: list[str]) -> State:
    while revoked or swept:
        after = log.ledger.append(log.state, {"kind": "maintenance", "revoked": revoked, "swept": swept})
        if after is not None:
            log.state = after
            break
        log.refresh()
    return log.state
