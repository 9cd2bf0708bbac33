"""What lies in a database's directory, against what its ledger says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import viewkeeper as vk
from viewkeeper.catalog.state import State


def disk_files(path: str | Path, below: str) -> set[str]:
    """All files below a directory of the database, with their paths as the ledger writes them."""
    root = Path(path)
    return {os.path.relpath(file, root) for file in (root / below).rglob("*") if file.is_file()}


def check_nothing_left_over(db: vk.Database) -> None:
    """After a vacuum without grace: exactly the named files are there, and nobody's traces but this handle's own."""
    store = db._store
    state = store.refresh()
    named = {file.path for relation in state.relations.values() for file in relation.files}
    assert disk_files(db.path, "relations") == named
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
