"""An open store: the ledger's newest state, this handle's lease, and what is in use here."""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.engine.engine import Engine
from viewkeeper.engine.settings import Settings
from viewkeeper.errors import StorageError
from viewkeeper.store.batch import BatchWriter
from viewkeeper.store.lease import Lease, lease_of
from viewkeeper.store.ledger import Ledger
from viewkeeper.store.small import SmallFiles
from viewkeeper.store.state import DataFile, Relation, State
from viewkeeper.store.storage import LocalStorage, Storage, explain

LOCK = "ledger/.lock"


class Held:
    """Something that reads a state's files: they stay as long as it lives."""

    def __init__(self, state: State) -> None:
        self.state = state


class Store:
    """What transactions and readers share of one open database."""

    def __init__(self, storage: Storage, engine: Engine, state: State) -> None:
        self.storage = storage
        self.engine = engine
        self.ledger = Ledger(storage)
        self.state = state
        self.lease = Lease(storage, state.number)
        self.small = SmallFiles(storage)
        self.progress: Callable[[str, int, int], None] | None = None
        self._in_use: weakref.WeakSet[Any] = weakref.WeakSet()
        self._guard = threading.RLock()
        self._scratch = threading.local()
        engine.put_scratch = self._put_scratch

    def refresh(self) -> State:
        """The newest state."""
        with self._guard:
            self.state = self.ledger.refresh(self.state)
            self.lease.advance(self._oldest_in_use())
            return self.state

    def hold(self) -> Held:
        """The newest state, whose files stay until what is given here is let go."""
        with self._guard:
            held = Held(self.refresh())
            self._in_use.add(held)
            return held

    def _oldest_in_use(self) -> int:
        numbers: list[int] = [user.state.number for user in self._in_use]
        return min([self.state.number, *numbers])

    def tell_lease(self) -> None:
        """Writes at once which states are still in use here."""
        with self._guard:
            self.lease.advance(self._oldest_in_use(), at_once=True)

    def use(self, user: Any) -> None:
        """Remembers that an object with a `state` may still read that state's files."""
        with self._guard:
            self._in_use.add(user)

    def writer(self, relation: Relation) -> BatchWriter:
        """Writes batches of a relation under this handle's lease."""
        return BatchWriter(self.storage, self.engine, relation.id, relation.schema, self.lease.id)

    def scratch_path(self, suffix: str = "") -> str:
        """A new path for something that this thread's transaction computes on the way."""
        path = f"scratch/{self.lease.id}/{uuid.uuid4().hex}{suffix}"
        paths: list[str] = self._scratch.__dict__.setdefault("paths", [])
        paths.append(path)
        if self.storage.local:
            try:
                os.makedirs(os.path.dirname(self.storage.url(path)), exist_ok=True)
            except OSError as problem:
                raise explain(problem, "making a scratch directory") from problem
        return path

    def _put_scratch(self, table: pa.Table) -> str:
        """Rows from the driver as a scratch file, for the engine to read."""
        path = self.scratch_path(".parquet")
        # statistics of floats leave NaN out; an Arrow schema inside would not merge with other writers' on Sail
        how = {"write_statistics": False, "store_schema": False}
        if self.storage.local:
            pq.write_table(table, self.storage.url(path), **how)
        else:
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, **how)
            self.storage.write(path, sink.getvalue().to_pybytes(), "scratch")
        return self.storage.url(path)

    def give_scratch(self) -> list[str]:
        """What this thread has put into scratch, from now on to be removed by another."""
        paths: list[str] = self._scratch.__dict__.pop("paths", [])
        return paths

    def take_scratch(self, paths: list[str]) -> None:
        """Takes over what another thread has put into scratch."""
        self._scratch.__dict__.setdefault("paths", []).extend(paths)

    def clear_scratch(self) -> None:
        """Removes what this thread's transaction has put into scratch."""
        for path in self.give_scratch():
            if path.endswith(".parquet"):
                self.storage.delete([path])
            else:
                self.storage.remove(path)

    def is_revoked(self, state: State, files: Iterable[DataFile]) -> bool:
        """Whether one of these files may have been swept before a ledger entry named it.

        Asked of the files, not of this handle: they may have been written under a lease that was renewed since.
        """
        with self._guard:
            if self.lease.id in state.revoked:
                old, self.lease = self.lease, Lease(self.storage, self._oldest_in_use())
                old.close()
        return any(lease_of(file.path) in state.revoked for file in files)

    def close(self) -> None:
        """Gives the lease back."""
        self.storage.remove(f"scratch/{self.lease.id}")
        self.lease.close()


def find_state(storage: Storage) -> State | None:
    """The state of the database at a place; None if there is none yet."""
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
    """Makes a new database, or opens the one that another process just made."""
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
