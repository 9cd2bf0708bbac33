"""Small files on the driver: read without the engine, and kept, for a file never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.rows import consolidate
from viewkeeper.algebra.schema import EPOCH, Schema
from viewkeeper.store.batch import read_files
from viewkeeper.store.state import DataFile
from viewkeeper.store.storage import Storage

FEW_ROWS = 4_000
"""Relations of so few signed rows are read on the driver."""

KEPT_ROWS = 400_000
"""Rows of small files that are kept in memory."""


class SmallFiles:
    """The newest small files that were read."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._kept: OrderedDict[str, pa.Table] = OrderedDict()
        self._rows = 0
        self._lock = threading.Lock()

    def net_rows(self, files: Sequence[DataFile], schema: Schema, epoch: int) -> pa.Table:
        """The net signed rows of some files up to an epoch."""
        parts = []
        for file in files:
            rows = self._read(file, schema)
            if file.merged and file.last_epoch > epoch:
                rows = rows.filter(pc.less_equal(rows[EPOCH], epoch))
            parts.append(rows.drop_columns([EPOCH]))
        return consolidate(pa.concat_tables(parts)) if parts else schema.signed_arrow.empty_table()

    def _read(self, file: DataFile, schema: Schema) -> pa.Table:
        with self._lock:
            if file.path in self._kept:
                self._kept.move_to_end(file.path)
                return self._kept[file.path]
        rows = read_files(self.storage, [file], schema)
        with self._lock:
            if file.path not in self._kept:
                self._kept[file.path] = rows
                self._rows += rows.num_rows
            while self._rows > KEPT_ROWS:
                _, dropped = self._kept.popitem(last=False)
                self._rows -= dropped.num_rows
        return rows
