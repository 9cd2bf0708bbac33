"""What `doctor` looks at in a database: ledger, data files, and what dead processes left behind. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from viewkeeper.cli.checks import Finding, check_space
from viewkeeper.cli.output import count_of, size
from viewkeeper.errors import StorageError, ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.store.state import DataFile, Relation, State
    from viewkeeper.store.storage import Storage

RESTORE = "restore it from a backup of the database"


def check_database(path: str, *, quick: bool) -> Iterator[Finding]:
    """All checks of the database at a path."""
    from viewkeeper.store.storage import open_storage
    from viewkeeper.store.store import find_state

    try:
        storage = open_storage(path, {}, "full")
        if storage.local:
            yield check_space(storage.root, "Disk space")
        state = find_state(storage)
        if state is None:
            yield Finding("Database", "problem", f"there is no database at {path}", "check --db DIR")
            return
    except ViewkeeperError as problem:
        yield Finding("Ledger", "problem", _told(problem), problem.hint or RESTORE)
        return
    kept = f"epochs {state.oldest} to {state.epoch}, {count_of(len(state.names()), 'table')}"
    yield Finding("Ledger", "ok", f"{kept}, made with the engine {state.settings.engine}")
    yield from _check_entries(storage, state)
    yield from _check_files(storage, state, quick=quick)
    yield from _check_leftovers(storage, state)


def _told(problem: ViewkeeperError) -> str:
    return problem.message if problem.detail is None else f"{problem.message} ({problem.detail})"


def _check_entries(storage: Storage, state: State) -> Iterator[Finding]:
    """Entries before the newest snapshot are not needed for the state, but the history is told from them."""
    from viewkeeper.store.ledger import Ledger

    ledger = Ledger(storage)
    for number in range(1, state.number + 1):
        try:
            if ledger.entry(number) is None:
                yield Finding("Ledger entry", "problem", f"{ledger.entry_path(number)} is missing", RESTORE)
        except StorageError as problem:
            yield Finding("Ledger entry", "problem", _told(problem), RESTORE)


def _check_files(storage: Storage, state: State, *, quick: bool) -> Iterator[Finding]:
    count = broken = total = 0
    for relation in state.relations.values():
        for file in relation.files:
            count += 1
            total += file.size
            wrong = _look(storage, relation, file, quick=quick)
            if wrong:
                broken += 1
                yield Finding("Data file", "problem", f"{file.path} of {relation.name}: {wrong}", RESTORE)
    how = "there, with the right number of rows" if quick else "there and read in full"
    if not broken:
        yield Finding("Data files", "ok", f"{count_of(count, 'file')} ({size(total)}), all {how}")


def _look(storage: Storage, relation: Relation, file: DataFile, *, quick: bool) -> str:
    """What is wrong with a file; empty if nothing is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from viewkeeper.store.batch import read_file

    try:
        if quick and storage.local:
            rows = pq.read_metadata(storage.url(file.path)).num_rows
        else:
            rows = read_file(storage, file.path, relation.schema).num_rows
    except FileNotFoundError:
        return "it is missing"
    except ViewkeeperError as problem:
        return "it is missing" if problem.message.endswith("is missing") else f"it cannot be read ({problem.detail})"
    except (OSError, pa.ArrowException) as problem:
        return f"it cannot be read ({str(problem).splitlines()[0][:200]})"
    return "" if rows == file.rows else f"it has {count_of(rows, 'row')}, the ledger says {file.rows:,}"


def _check_leftovers(storage: Storage, state: State) -> Iterator[Finding]:
    from viewkeeper.store.lease import dead_leases, lease_of
    from viewkeeper.store.vacuum import named_files

    try:
        dead = dead_leases(storage)
    except OSError as problem:
        yield Finding("Leases", "note", f"cannot be looked at: {problem.strerror}", "check the directory's permissions")
        return
    if dead:
        todo = "nothing is lost; `viewkeeper vacuum` clears them"
        yield Finding("Leases", "note", f"{count_of(len(dead), 'lease')} of processes that are gone", todo)
    alive = {item.path.split("/")[-1].removesuffix(".json") for item in storage.list("leases") if item.path not in dead}
    named = named_files(state)
    unnamed = [item for item in storage.list("relations") if item.path not in named]
    orphans = [item for item in unnamed if lease_of(item.path) not in alive]
    if orphans:
        found = f"{count_of(len(orphans), 'file')} ({size(sum(item.size for item in orphans))}) that no commit names"
        todo = "they are of unfinished work; `viewkeeper vacuum` deletes them when they are an hour old"
        yield Finding("Leftover files", "note", found, todo)
    if not dead and not orphans:
        yield Finding("Leftovers", "ok", "none")
