"""The checks of `doctor` in a database: ledger, files, functions, rules, leftovers of processes. Changes nothing."""

from __future__ import annotations

import datetime as dt
import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

from viewkeeper.cli.checks import Finding, check_space
from viewkeeper.cli.output import count_of, size
from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.catalog.data_files import DataFile
    from viewkeeper.catalog.relations import Relation
    from viewkeeper.catalog.state import State
    from viewkeeper.log.storage import Storage

RESTORE = "restore it from a backup of the database"


def check_database(path: str, *, quick: bool) -> Iterator[Finding]:
    """All checks of the database at a path."""
    from viewkeeper.log.open_log import find_state
    from viewkeeper.log.storage import open_storage

    faults: list[Finding] = []
    try:
        storage = open_storage(path, {}, "full")
        if storage.local:
            yield check_space(storage.root, "Disk space")
        faults = list(_check_ledger(storage))
        yield from faults
        state = find_state(storage)
    except ViewkeeperError as problem:
        found = Finding("Ledger", "problem", _message(problem), problem.hint or RESTORE)
        if not any(fault.found == problem.message for fault in faults):
            yield found
        return
    if state is None:
        yield Finding("Database", "problem", f"there is no database at {path}", "check --db DIR")
        return
    kept = f"epochs {state.oldest} to {state.epoch}, {count_of(len(state.names()), 'table')}"
    yield Finding("Ledger", "ok", f"{kept}, made with the engine {state.settings.engine}")
    yield from _check_files(storage, state, quick=quick)
    yield from _check_functions(state)
    yield from _check_rules(state)
    yield from _check_costs(storage)
    if not any(fault.status == "problem" for fault in faults):  # else a lost entry may name the unnamed files
        yield from _check_leftovers(storage, state)


def _check_functions(state: State) -> Iterator[Finding]:
    """Whether the modules of declared functions can be found; they are not imported."""
    from viewkeeper.catalog.declared_functions import users_of

    for function in state.functions.values():
        users = ", ".join(users_of(state.alive(), function.name)) or "no view"
        found = f"{function.name} is {function.target}, used by {users}"
        if importlib.util.find_spec(function.target.split(":")[0].split(".")[0]) is None:
            todo = "install its module, or put its directory on PYTHONPATH, where views that use it are maintained"
            yield Finding("Function", "note", f"{found}; its module is not found here", todo)
        else:
            yield Finding("Function", "ok", found)


def _check_rules(state: State) -> Iterator[Finding]:
    """Rules that miss a relation, and firings that are parked: they are not tried again by themselves."""
    there = {relation.id for relation in state.alive()}
    for rule in sorted(state.rules.values(), key=lambda rule: rule.order):
        if not there.issuperset(rule.needs):
            found = f"{rule.name} watches or uses a relation that is not there any more"
            yield Finding("Rule", "problem", found, f"DROP RULE {rule.name}, and create it again")
        parked = [firing for firing in state.waiting if firing.rule == rule.id and firing.parked]
        if parked:
            are = "is parked, of" if len(parked) == 1 else "are parked, the first one of"
            found = (
                f"{count_of(len(parked), 'firing')} of {rule.name} {are} epoch {parked[0].epoch}: {parked[0].parked}"
            )
            yield Finding("Rule", "note", found, f"mend the cause, then RETRY RULE {rule.name}")


def _check_costs(storage: Storage) -> Iterator[Finding]:
    """For which engines measured costs decide between incremental and full refresh, and whether they can be used."""
    from viewkeeper.log.stored_costs import engines_with_costs, stored_costs

    for engine in engines_with_costs(storage):
        costs = stored_costs(storage, engine)
        if costs is None:
            todo = "measure them again: viewkeeper --db DIR bench calibrate; or drop them: --forget"
            yield Finding("Costs", "note", f"those stored for {engine} cannot be used: the built-in ones count", todo)
        else:
            at = dt.datetime.fromtimestamp(costs.measured_at, dt.UTC).strftime("%Y-%m-%d")
            yield Finding("Costs", "ok", f"of {engine}, measured on {at} ({costs.machine})")


def _message(problem: ViewkeeperError) -> str:
    return problem.message if problem.detail is None else f"{problem.message} ({problem.detail})"


def _check_ledger(storage: Storage) -> Iterator[Finding]:
    """Every entry and snapshot, also those that are not needed for the newest state."""
    from viewkeeper.log.audit import audit_ledger

    for fault in audit_ledger(storage):
        yield Finding("Ledger file", "note" if fault.derived else "problem", fault.found, fault.todo)


def _check_files(storage: Storage, state: State, *, quick: bool) -> Iterator[Finding]:
    from viewkeeper.catalog.display_names import display_name

    count = broken = total = 0
    for relation in state.relations.values():
        for file in relation.files:
            count += 1
            total += file.size
            wrong = _check_file(storage, relation, file, quick=quick)
            if wrong:
                broken += 1
                name = display_name(state.relations.values(), relation)
                yield Finding("Data file", "problem", f"{file.path} of {name}: {wrong}", RESTORE)
    how = "there, with the right checksums" if quick else "there, with the right checksums, and read in full"
    if not broken:
        yield Finding("Data files", "ok", f"{count_of(count, 'file')} ({size(total)}), all {how}")


def _check_file(storage: Storage, relation: Relation, file: DataFile, *, quick: bool) -> str:
    """What is wrong with a file; empty if nothing is. Its bytes are always compared with the ledger's checksum."""
    from viewkeeper.log.checksums import checked_bytes
    from viewkeeper.store.file_reading import read_file

    try:
        if quick and file.checksum is not None:
            checked_bytes(storage, file)
        else:
            read_file(storage, file, relation.schema)
    except ViewkeeperError as problem:
        if problem.message.endswith("is missing"):
            return "it is missing"
        return (
            f"{problem.detail}" if problem.message.endswith("is damaged") else f"it cannot be read ({problem.detail})"
        )
    return ""


def _check_leftovers(storage: Storage, state: State) -> Iterator[Finding]:
    from viewkeeper.log.leases import dead_leases, lease_of

    try:
        dead = dead_leases(storage)
    except OSError as problem:
        yield Finding("Leases", "note", f"cannot be checked: {problem.strerror}", "check the directory's permissions")
        return
    if dead:
        todo = "nothing is lost; `viewkeeper vacuum` clears them"
        yield Finding("Leases", "note", f"{count_of(len(dead), 'lease')} of dead processes", todo)
    alive = {item.path.split("/")[-1].removesuffix(".json") for item in storage.list("leases") if item.path not in dead}
    named = state.named_files()
    unnamed = [item for item in storage.list("relations") if item.path not in named]
    orphans = [item for item in unnamed if lease_of(item.path) not in alive]
    if orphans:
        found = f"{count_of(len(orphans), 'file')} ({size(sum(item.size for item in orphans))}) that no commit names"
        todo = "they are of unfinished work; `viewkeeper vacuum` deletes them, some only when they are an hour old"
        yield Finding("Leftover files", "note", found, todo)
    if not dead and not orphans:
        yield Finding("Leftovers", "ok", "none")
