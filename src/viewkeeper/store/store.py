"""An open store: the ledger's newest state, this handle's lease, and what is in use here."""

from __future__ import annotations

import copy
import os
import re
import shutil
import sys
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.engine.engine import Engine
from viewkeeper.engine.python_functions import load_function, sent_by_place
from viewkeeper.engine.settings import Settings
from viewkeeper.errors import NotFound, StorageError, ViewkeeperError
from viewkeeper.store.batch import BatchWriter
from viewkeeper.store.functions import Function, calls, users_of
from viewkeeper.store.lease import Lease, lease_of
from viewkeeper.store.ledger import Ledger
from viewkeeper.store.small import SmallFiles
from viewkeeper.store.state import DataFile, Relation, State
from viewkeeper.store.storage import LocalStorage, Storage, explain

LOCK = "ledger/.lock"

_warned: set[str] = set()


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
        self._brought: dict[str, Function] = {}  # functions that were imported because something needed them
        self._in_use: weakref.WeakSet[Any] = weakref.WeakSet()
        self._guard = threading.RLock()
        self._scratch = threading.local()
        self._scratch_elsewhere: str | None = None
        engine.put_scratch = self.put_scratch
        engine.supply = self.supply_functions
        if self.lease.refused:
            _warn_without_lease(storage.root, self.lease.refused)

    def on(self, engine: Engine) -> Store:
        """The same store, read with another engine."""
        other = copy.copy(self)
        other.engine = engine
        engine.put_scratch = self.put_scratch
        return other

    def refresh(self) -> State:
        """The newest state."""
        with self._guard:
            self.state = self.ledger.refresh(self.state)
            self._forget_functions()
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

    def oldest_in_use(self) -> int:
        """The number of the oldest state that something here may still read."""
        with self._guard:
            return self._oldest_in_use()

    def tell_lease(self) -> None:
        """Writes at once which states are still in use here."""
        with self._guard:
            self.lease.advance(self._oldest_in_use(), at_once=True)

    def use(self, user: Any) -> None:
        """Remembers that an object with a `state` may still read that state's files."""
        with self._guard:
            self._in_use.add(user)

    def check_writable(self) -> None:
        """Raises unless this handle may write: without a lease its files could be swept before they are named."""
        if self.lease.refused:
            raise StorageError(
                f"the database is open for reading only: {self.lease.refused} ({self.storage.root})",
                hint="make its directory writable, free some space if there is none, and connect again",
            )

    # functions of the user's ---------------------------------------------------------------------

    def known_functions(self) -> dict[str, str]:
        """The functions that this process has or can import, by name in lower case, with the types they return."""
        declared = {key: function.returns for key, function in self.state.functions.items()}
        return declared | {key: returns for key, (_, returns) in self.engine.functions.items()}

    def bring_function(self, key: str) -> None:
        """Imports a function that the database knows by its place, unless this process has it."""
        function = self.state.functions[key]
        if key not in self.engine.functions:
            loaded = sent_by_place(function.target, load_function(function.target))
            self.engine.declare(function.name, loaded, function.returns)
            self._brought[key] = function

    def bring_functions_of(self, relation: Relation) -> None:
        """Imports the functions that a view calls, through other views too."""
        for key in relation.definition.uses if relation.definition is not None else ():
            self.bring_functions_of(self.state.relations[key])
        for key in self.state.functions:
            if relation.definition is not None and calls(relation.definition, key):
                self.bring_function(key)

    def _forget_functions(self) -> None:
        """Forgets functions that were imported and that others have dropped or declared otherwise since."""
        for key, function in list(self._brought.items()):
            if self.state.functions.get(key) != function:
                del self._brought[key]
                self.engine.forget_function(key)

    def supply_functions(self, problem: ViewkeeperError) -> bool:
        """Brings the functions that the engine complains about; raises for those of views that only others have."""
        text = f"{problem.message} {problem.detail}".lower()
        words = set(re.findall(r"\w+", text))
        brought = [key for key in self.state.functions if key in words and key not in self.engine.functions]
        for key in brought:
            self.bring_function(key)
        if brought:
            return True
        for name in re.findall(r"(?:routine |function:? )[`'\"]?(\w+)", text):
            users = users_of(self.state.alive(), name)
            if users and name not in self.engine.functions:
                declare = f'declare it for all processes: db.function("{name}", "package.module:{name}", returns=...)'
                raise NotFound(
                    f"this process does not have the function {name}, which {users[0]} uses",
                    detail="it was declared as a Python object, which only the process that declared it has",
                    hint=f"{declare}; or {problem.hint}" if problem.view is not None and problem.hint else declare,
                    place=problem.place,
                ) from problem
        return False

    def writer(self, relation: Relation) -> BatchWriter:
        """Writes batches of a relation under this handle's lease."""
        self.check_writable()
        return BatchWriter(self.storage, self.engine, relation.id, relation.schema, self.lease)

    def leave(self, paths: Iterable[str]) -> None:
        """Removes the files of an entry that failed, unless it is there after all, or may still come."""
        left = set(paths)
        self.lease.leaves_files = True  # until it is known, also if the ledger cannot be read
        if self.storage.local and not left & self.refresh().named_files():
            self.storage.delete(left)

    def scratch_path(self, suffix: str = "") -> str:
        """A new path for something that this thread's transaction computes on the way.

        Where the database cannot be written, it is an absolute one in this machine's directory for temporary files.
        """
        directory = f"scratch/{self.lease.id}"
        if self.lease.refused and self.storage.local:
            with self._guard:
                self._scratch_elsewhere = self._scratch_elsewhere or tempfile.mkdtemp(prefix="viewkeeper-")
            directory = self._scratch_elsewhere
        path = f"{directory}/{uuid.uuid4().hex}{suffix}"
        paths: list[str] = self._scratch.__dict__.setdefault("paths", [])
        paths.append(path)
        if self.storage.local:
            try:
                os.makedirs(os.path.dirname(self.storage.url(path)), exist_ok=True)
            except OSError as problem:
                raise explain(problem, "making a scratch directory") from problem
        return path

    def put_scratch(self, table: pa.Table) -> str:
        """Rows from the driver as a scratch file, for the engine to read."""
        return self.storage.url(self.write_scratch(table))

    def write_scratch(self, table: pa.Table) -> str:
        """The path of a new scratch file with rows from the driver."""
        path = self.scratch_path(".parquet")
        # statistics of floats leave NaN out; an Arrow schema inside would not merge with other writers' on Sail
        how = {"write_statistics": False, "store_schema": False}
        if self.storage.local:
            try:
                pq.write_table(table, self.storage.url(path), **how)
            except OSError as problem:
                raise explain(problem, "writing a scratch file") from problem
        else:
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, **how)
            self.storage.write(path, sink.getvalue().to_pybytes(), "scratch")
        return path

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
        if self._scratch_elsewhere is not None:
            shutil.rmtree(self._scratch_elsewhere, ignore_errors=True)
        self.lease.close()


def _warn_without_lease(root: str, why: str) -> None:
    """Says once that nothing holds the files that are read."""
    if root in _warned:
        return
    _warned.add(root)
    print(
        f"viewkeeper: no lease can be written in {root} ({why}), so it is open for reading only, and a vacuum "
        "by another process may delete files while they are read here",
        file=sys.stderr,
    )


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
