"""What lies in a database's directory, against what its ledger says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import viewkeeper as vk
from viewkeeper.catalog.data_files import is_inlined, place_of
from viewkeeper.catalog.state import State
from viewkeeper.log.inlined import split_entry

FILES = vk.Tuning(inlined_rows=0)
"""Every commit writes files of its own, as large ones do."""

MIXED = vk.Tuning(inlined_rows=20, flushed_batches=4, large_group=3, runners_up=2)
"""Commits of some rows are part of their ledger entry, larger ones write files, and flushes are frequent.

Groups of three rows are large, so that many have runners-up, which are soon used up.
"""


def disk_files(path: str | Path, below: str) -> set[str]:
    """All files below a directory of the database, with their paths as the ledger writes them."""
    root = Path(path)
    return {os.path.relpath(file, root) for file in (root / below).rglob("*") if file.is_file()}


def entries_with_data(path: str | Path) -> set[str]:
    """The ledger entries that hold more than a head."""
    entries = (name for name in disk_files(path, "ledger") if re.fullmatch(r"ledger/\d{12}\.json", name))
    return {name for name in entries if split_entry(Path(path, name).read_bytes())[1]}


def check_nothing_left_over(db: vk.Database) -> None:
    """After a vacuum without grace: exactly the named files are there, and nobody's traces but this handle's own."""
    store = db._store
    state = store.refresh()
    named = {file.path for relation in state.relations.values() for file in relation.files}
    assert disk_files(db.path, "relations") == {path for path in named if not is_inlined(path)}
    assert entries_with_data(db.path) == {place_of(path)[0] for path in named if is_inlined(path)}
    assert state.removed == ()
    strange = [
        name for name in os.listdir(Path(db.path) / "ledger") if not re.fullmatch(r"\d{12}.*\.json|\.lock", name)
    ]
    assert strange == []
    assert disk_files(db.path, "leases") == {store.lease.path}
    assert set(store.storage.children("scratch")) <= {store.lease.id}


def check_ledger(db: vk.Database) -> None:
    """The state that was loaded, perhaps from a snapshot, is what all the entries say; epochs have no gaps."""
    store = db._store
    loaded = store.ledger.load()
    first = store.ledger.entry(1)
    assert loaded is not None
    assert first is not None
    folded = State.first(first)
    epochs = []
    for number in range(2, loaded.number + 1):
        entry = store.ledger.entry(number)
        assert entry is not None
        assert entry["number"] == number
        folded = folded.apply(entry)
        if entry["kind"] == "commit":
            epochs.append(entry["epoch"])
    assert folded.to_json() == loaded.to_json()
    assert epochs == list(range(1, loaded.epoch + 1))
