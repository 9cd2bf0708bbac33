"""An open log: the ledger's newest state, this handle's lease, and which states are still in use here."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.settings import Settings
from viewkeeper.catalog.state import State
from viewkeeper.errors import StorageError
from viewkeeper.log.leases import Lease, lease_of
from viewkeeper.log.ledger import Ledger
from viewkeeper.log.storage import LocalStorage, Storage, explain

LOCK = "ledger/.lock"

_warned: set[str] = set()


class Held:
    """A reference to a state: its files are not vacuumed as long as this object lives."""

    def __init__(self, state: State) -> None:
        self.state = state


class OpenLog:
    """The log of a database, opened under a lease."""

    def __init__(self, storage: Storage, state: State) -> None:
        self.storage = storage
        self.ledger = Ledger(storage)
        self.state = state
        self.lease = Lease(storage, state.number)
        self._in_use: weakref.WeakSet[Any] = weakref.WeakSet()
        self._guard = threading.RLock()
        if self.lease.refused:
            _warn_without_lease(storage.root, self.lease.refused)

    def refresh(self) -> State:
        """The newest state."""
        with self._guard:
            self.state = self.ledger.refresh(self.state)
            self.lease.advance(self._oldest_in_use())
            return self.state

    def hold(self) -> Held:
        """The newest state; its files are not vacuumed as long as the returned object lives."""
        with self._guard:
            held = Held(self.refresh())
            self._in_use.add(held)
            return held

    def _oldest_in_use(self) -> int:
        numbers: list[int] = [user.state.number for user in self._in_use]
        return min([self.state.number, *numbers])

    def oldest_in_use(self) -> int:
        """The number of the oldest state that this process may still read."""
        with self._guard:
            return self._oldest_in_use()

    def write_lease(self) -> None:
        """Writes to the lease at once which states are still in use here."""
        with self._guard:
            self.lease.advance(self._oldest_in_use(), at_once=True)

    def use(self, user: Any) -> None:
        """Records that an object with a `state` may still read that state's files."""
        with self._guard:
            self._in_use.add(user)

    def check_writable(self) -> None:
        """Raises unless this handle may write: without a lease its files could be swept before an entry names them."""
        if self.lease.refused:
            raise StorageError(
                f"the database is open for reading only: {self.lease.refused} ({self.storage.root})",
                hint="make its directory writable, free some space if there is none, and connect again",
            )

    def leave(self, paths: Iterable[str]) -> None:
        """Removes the files of a failed commit, unless its entry exists after all, or may still appear."""
        left = set(paths)
        self.lease.leaves_files = True  # until it is known, also if the ledger cannot be read
        if self.storage.local and not left & self.refresh().named_files():
            self.storage.delete(left)

    def is_revoked(self, state: State, files: Iterable[DataFile]) -> bool:
        """Whether one of these files may have been swept before a ledger entry named it.

        This depends on the files, not on this handle: they may have been written under an earlier lease of it.
        """
        with self._guard:
            if self.lease.id in state.revoked:
                old, self.lease = self.lease, Lease(self.storage, self._oldest_in_use())
                old.close()
        return any(lease_of(file.path) in state.revoked for file in files)

    def close(self) -> None:
        """Closes the lease."""
        self.lease.close()


def _warn_without_lease(root: str, why: str) -> None:
    """Warns once per database that nothing protects the files being read."""
    if root in _warned:
        return
    _warned.add(root)
    print(
        f"viewkeeper: no lease can be written in {root} ({why}), so it is open for reading only, and a vacuum "
        "by another process may delete files while they are read here",
        file=sys.stderr,
    )


def find_state(storage: Storage) -> State | None:
    """The state of the database in a storage; None if there is none yet."""
    if storage.local and os.path.exists(storage.root):
        _check_directory(storage.root)
    return Ledger(storage).load()


def _check_directory(root: str) -> None:
    if not os.path.isdir(root):
        raise StorageError(f"{root} is a file, not a database", hint="give a directory")
    try:
        names = os.listdir(root)
    except OSError as problem:
        raise explain(problem, f"opening {root}") from problem
    if names and "ledger" not in names:
        raise StorageError(
            f"{root} is not a Viewkeeper database: it has files but no ledger",
            hint="give an empty or new directory, or the directory of a database",
        )


def create_database(storage: Storage, settings: Settings, keep: float) -> State:
    """Creates a new database, or opens the one that another process just created."""
    if isinstance(storage, LocalStorage):
        try:
            storage.make_directory(storage.url("ledger"))
        except OSError as problem:
            raise explain(problem, f"creating the database {storage.root}") from problem
    ledger = Ledger(storage)
    ledger.create(settings, keep)
    state = ledger.load()
    assert state is not None
    return state
