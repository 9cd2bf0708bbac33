"""Small relations kept on the driver between commits, as rows with indexes: a look-up takes microseconds.

    net(F ⊎ G) = net(F) ⊎ G        so the batches of a commit are all that is read after it

What is kept is the net of a set of files. It serves readers of exactly these files, and moves on to those with more of
them. A relation is kept once looking up keys in its files has cost as much as reading all of it does. Those that were
not used for longest are dropped first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Schema
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.driver.row_index import ByKey, Columns, Row, RowIndex, is_plain
from viewkeeper.log.storage import Storage
from viewkeeper.store.file_reading import read_file
from viewkeeper.store.lookups import Found
from viewkeeper.store.scans import Scan

LOOKUP_ROWS = 300
"""Looking up a few keys in files takes as long as adding so many rows to an index."""


@dataclass
class _Kept:
    """The net rows of some files. `version` changes whenever the rows do; `lookups` counts those it could not serve."""

    schema: Schema
    rows: RowIndex
    paths: frozenset[str] = frozenset()
    version: int = 0
    lookups: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class KeptState:
    """The rows of a relation in one state."""

    kept: _Kept
    version: int

    def find(self, columns: Columns, keys: Iterable[object]) -> ByKey | None:
        """The rows with some keys, each once; None if what is kept has moved on."""
        with self.kept.lock:
            if self.kept.version != self.version:
                return None
            return self.kept.rows.find(columns, keys)

    def weights(self, rows: Sequence[Row]) -> list[int] | None:
        """How often each of some rows is there; None if what is kept has moved on."""
        with self.kept.lock:
            if self.kept.version != self.version:
                return None
            return [self.kept.rows.weights.get(row, 0) for row in rows]


class KeptRows:
    """The relations of a database that are kept."""

    def __init__(self, storage: Storage, tuning: Tuning) -> None:
        self.storage = storage
        self.tuning = tuning
        self._relations: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def state(self, key: str, schema: Schema, files: Sequence[DataFile], epoch: int) -> KeptState | None:
        """The rows of some files of a relation, up to an epoch; None if they are to be looked up in the files."""
        if self._is_left(files, epoch) or not all(is_plain(column.type) for column in schema):
            return None
        with self._lock:
            kept = self._relations.get(key)
            if kept is None or kept.schema != schema:
                kept = self._relations[key] = _Kept(schema, RowIndex(len(schema)))
            self._relations.move_to_end(key)
        with kept.lock:
            if not self._is_current(kept, files):
                return None
            found = KeptState(kept, kept.version)
        self._drop()
        return found

    def _is_left(self, files: Sequence[DataFile], epoch: int) -> bool:
        """Whether files have too many rows to be kept, or some that are not wanted."""
        return sum(file.rows for file in files) > self.tuning.kept_rows or any(
            file.last_epoch > epoch for file in files
        )

    def rows_by_key(self, picked: Scan, columns: Sequence[str]) -> Found | None:
        """The net rows with the keys of a scan, with some columns, if its relation is kept already."""
        keys, source = picked.keys, picked.source
        if keys is None or source.staged or self._is_left(source.files, source.epoch):
            return None
        paths = {file.path for file in source.files}
        with self._lock:
            kept = next((kept for kept in self._relations.values() if not kept.paths.isdisjoint(paths)), None)
        if kept is None or kept.schema != source.schema:
            return None
        with kept.lock:
            if not kept.paths <= paths:
                return None
            self._add(kept, [file for file in source.files if file.path not in kept.paths])
            places = tuple(source.schema.names.index(name) for name in keys.schema.names)
            found = kept.rows.find(places, _keys_of(row_tuples(keys.table)))
            return _found(kept, [row for rows in found.values() for row in rows], columns)

    def _is_current(self, kept: _Kept, files: Sequence[DataFile]) -> bool:
        """Makes it the net of some files, if that is worth it; returns whether it is."""
        paths = frozenset(file.path for file in files)
        if kept.version and paths == kept.paths:
            return True
        if kept.version and paths > kept.paths:
            self._add(kept, [file for file in files if file.path not in kept.paths])
            return True
        kept.lookups += 1
        if kept.lookups * LOOKUP_ROWS < sum(file.rows for file in files):
            return False
        kept.rows, kept.paths, kept.lookups = RowIndex(len(kept.schema)), frozenset(), 0
        kept.version += 1
        self._add(kept, files)
        return True

    def replaced(self, key: str, gone: Sequence[DataFile], added: Sequence[DataFile]) -> None:
        """Files were replaced by others with the same rows; of those that nobody has read yet, the rows are added."""
        with self._lock:
            kept = self._relations.get(key)
        if kept is None:
            return
        before = {file.path for file in gone}
        with kept.lock:
            if before & kept.paths:
                self._add(kept, [file for file in gone if file.path not in kept.paths])
                kept.paths = (kept.paths - before) | {file.path for file in added}

    def _add(self, kept: _Kept, files: Sequence[DataFile]) -> None:
        tables = [self._read(file, kept.schema) for file in files]  # all of them, before any is added
        for table in tables:
            kept.rows.add(zip(row_tuples(table.drop_columns([WEIGHT])), table[WEIGHT].to_pylist(), strict=True))
        kept.paths |= {file.path for file in files}
        kept.version += bool(files)

    def _read(self, file: DataFile, schema: Schema) -> pa.Table:
        return read_file(self.storage, file, schema).drop_columns([EPOCH])

    def _drop(self) -> None:
        """Drops relations until the others have few enough rows, each counted once more for each of its indexes."""
        with self._lock:
            total = sum(kept.rows.entries for kept in self._relations.values())
            while total > ENTRIES_PER_ROW * self.tuning.kept_rows and len(self._relations) > 1:
                _, dropped = self._relations.popitem(last=False)
                total -= dropped.rows.entries


def _keys_of(rows: Sequence[Row]) -> list[object]:
    return [row[0] if len(row) == 1 else row for row in rows]


def _found(kept: _Kept, rows: Sequence[Row], columns: Sequence[str]) -> Found:
    """Rows as a signed table of some columns."""
    places = [kept.schema.names.index(name) for name in columns]
    weights: dict[Row, int] = {}
    for row in rows:
        seen = tuple(row[place] for place in places)
        weights[seen] = weights.get(seen, 0) + kept.rows.weights[row]
    schema = kept.schema.subset(columns).signed_arrow
    values = zip(*weights, strict=True) if weights else [()] * len(places)
    arrays = [pa.array(column, field.type) for column, field in zip([*values, weights.values()], schema, strict=True)]
    return Found(pa.table(arrays, schema=schema), len(rows))


ENTRIES_PER_ROW = 4
"""Entries that a row is expected to take: its own, and one in each of three indexes."""
