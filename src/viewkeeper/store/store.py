"""An open store: the log, the engine that reads and writes its files, scratch files, and user-defined functions."""

from __future__ import annotations

import copy
import os
import re
import shutil
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.algebra.rows import consolidate
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.catalog.data_files import DataFile, place_of
from viewkeeper.catalog.declared_functions import Function, calls, users_of
from viewkeeper.catalog.graph import reading
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.catalog.state import State
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.python_functions import load_function, sent_by_path
from viewkeeper.errors import NotFound, ViewkeeperError
from viewkeeper.log.open_log import OpenLog
from viewkeeper.log.storage import Storage, explain
from viewkeeper.store.batches import BatchWriter
from viewkeeper.store.housekeeping import Housekeeping
from viewkeeper.store.kept_rows import KeptRows
from viewkeeper.store.lookups import Found, Lookups
from viewkeeper.store.scans import Scan
from viewkeeper.store.small_files import SmallFiles

REMEMBERED = 8
"""Epochs after which replaced files are dropped from memory."""


class Store(OpenLog):
    """What transactions and readers of one open database share: its log, an engine, scratch files and functions."""

    def __init__(self, storage: Storage, engine: Engine, state: State) -> None:
        super().__init__(storage, state)
        self.engine = engine
        self.small = SmallFiles(storage, engine.tuning)
        storage.inlined.most = engine.tuning.held_bytes
        self.kept = KeptRows(storage, engine.tuning)
        self.lookups = Lookups(storage, engine, self.small)
        self.housekeeping = Housekeeping(self)
        self.progress: Callable[[str, int, int], None] | None = None
        self._replaced: deque[tuple[int, list[DataFile]]] = deque()
        self._brought: dict[str, Function] = {}  # functions that were imported on demand
        self._scratch = threading.local()
        self._scratch_elsewhere: str | None = None
        engine.put_scratch = self.put_scratch
        engine.supply = self.supply_functions

    def on(self, engine: Engine) -> Store:
        """The same store, read with another engine."""
        other = copy.copy(self)
        other.engine = engine
        engine.put_scratch = self.put_scratch
        return other

    @property
    def tuning(self) -> Tuning:
        """The thresholds of this handle."""
        return self.engine.tuning

    def refresh(self) -> State:
        """The newest state."""
        with self._guard:
            state = super().refresh()
            self._forget_functions()
            return state

    # user-defined functions ----------------------------------------------------------------------

    def known_functions(self) -> dict[str, str]:
        """The functions that this process has or can import, by name in lower case, with the types they return."""
        declared = {key: function.returns for key, function in self.state.functions.items()}
        return declared | {key: returns for key, (_, returns) in self.engine.functions.items()}

    def bring_function(self, key: str) -> None:
        """Imports a function that the database knows by its module path, unless this process has it."""
        function = self.state.functions[key]
        if key not in self.engine.functions:
            loaded = sent_by_path(function.target, load_function(function.target))
            self.engine.declare(function.name, loaded, function.returns)
            self._brought[key] = function

    def bring_functions_of(self, relation: Relation) -> None:
        """Imports the functions that a view calls, through other views too."""
        below = reading(self.state.alive()).all_read([relation.id])
        views = [
            each for each in (relation, *map(self.state.relations.__getitem__, below)) if isinstance(each, Derived)
        ]
        for key in self.state.functions:
            if any(calls(view.definition, key) for view in views):
                self.bring_function(key)

    def _forget_functions(self) -> None:
        """Removes imported functions that were dropped or declared differently since."""
        for key, function in list(self._brought.items()):
            if self.state.functions.get(key) != function:
                del self._brought[key]
                self.engine.forget_function(key)

    def supply_functions(self, problem: ViewkeeperError) -> bool:
        """Registers the functions that the engine lacks; raises if a view needs one that only other processes have."""
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

    def rows_by_key(self, picked: Scan, columns: Sequence[str]) -> Found | None:
        """The net rows of a scan's files by keys, with some columns, without the engine; None if that is to read."""
        found = self.kept.rows_by_key(picked, columns) or self.lookups.net_rows(picked, columns)
        if found is not None:
            return found
        if not self.small.are_few(picked) or any(column.type.has_map() for column in picked.source.schema):
            return None
        return Found(consolidate(self.small.net_rows(picked).select([*columns, WEIGHT])), picked.file_rows)

    def forget_soon(self, files: list[DataFile]) -> None:
        """Drops files from memory some epochs after others have replaced them: commits under way still read them."""
        with self._guard:
            self._replaced.append((self.state.epoch, files))
            while self._replaced[0][0] + REMEMBERED < self.state.epoch:
                gone = self._replaced.popleft()[1]
                self.small.forget(gone)
                self.lookups.forget(gone)
                self.storage.inlined.forget({place_of(file.path)[0] for file in gone if file.is_inlined})

    def writer(self, relation: Relation) -> BatchWriter:
        """Writes batches of a relation under this handle's lease."""
        self.check_writable()
        return BatchWriter(self.storage, self.engine, relation.id, relation.schema, self.lease)

    def scratch_path(self, suffix: str = "") -> str:
        """A new path for an intermediate result of this thread's transaction.

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
        """The scratch files of this thread, which another thread takes over."""
        paths: list[str] = self._scratch.__dict__.pop("paths", [])
        return paths

    def take_scratch(self, paths: list[str]) -> None:
        """Takes over the scratch files of another thread."""
        self._scratch.__dict__.setdefault("paths", []).extend(paths)

    def clear_scratch(self) -> None:
        """Removes the scratch files of this thread's transaction."""
        for path in self.give_scratch():
            if path.endswith(".parquet"):
                self.storage.delete([path])
            else:
                self.storage.remove(path)

    def close(self) -> None:
        """Waits for housekeeping, and gives the lease back."""
        self.housekeeping.close()
        self.storage.remove(f"scratch/{self.lease.id}")
        if self._scratch_elsewhere is not None:
            shutil.rmtree(self._scratch_elsewhere, ignore_errors=True)
        super().close()
