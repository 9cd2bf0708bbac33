"""Small files and inlined batches on the driver: read without the engine, and cached, because they never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.rows import consolidate, rows_among
from viewkeeper.algebra.schema import EPOCH, Schema
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.log.storage import Storage
from viewkeeper.store.file_reading import EPOCH_FIELD, read_files, with_epochs
from viewkeeper.store.scans import Scan

NETS = 256
"""Small relations whose net rows are kept; each has at most `whole_rows` signed rows."""

LEAST = 20
"""As how many rows a file counts at least: a table of one row takes as much memory as one of some dozens."""


class SmallFiles:
    """A cache of the small files that were read last."""

    def __init__(self, storage: Storage, tuning: Tuning) -> None:
        self.storage = storage
        self.tuning = tuning
        self._kept: OrderedDict[str, pa.Table] = OrderedDict()
        self._rows = 0
        self._net: OrderedDict[str, tuple[tuple[DataFile, ...], pa.Table]] = OrderedDict()
        self._lock = threading.Lock()

    def are_few(self, picked: Scan) -> bool:
        """Whether the picked files of a relation are better read here in full than on the engine."""
        return picked.file_rows <= (self.tuning.whole_rows if picked.keys is None else self.tuning.picked_rows)

    def net_rows(self, picked: Scan) -> pa.Table:
        """The net signed rows of the picked files up to the epoch, only those with one of the keys if there are any."""
        keys, schema, epoch = picked.keys, picked.source.schema, picked.source.epoch
        if keys is None and not any(file.merged and file.last_epoch > epoch for file in picked.files):
            return self._whole(picked.files, schema)
        parts = []
        for file in picked.files:
            rows = self.read(file, schema)
            if file.merged and file.last_epoch > epoch:
                rows = rows.filter(pc.less_equal(rows[EPOCH], epoch))
            parts.append(rows)
        if not parts:
            return schema.signed_arrow.empty_table()
        rows = pa.concat_tables(parts).drop_columns([EPOCH])
        if keys is not None:  # rows with other keys are incomplete: not all their files were picked
            rows = rows_among(rows, keys.schema.names, keys.table)
        return consolidate(rows)

    def _whole(self, files: tuple[DataFile, ...], schema: Schema) -> pa.Table:
        """The net signed rows of files, all of them: those of the same files without the newest are kept."""
        if not files:
            return schema.signed_arrow.empty_table()
        first = files[0].path
        with self._lock:
            had, net = self._net.get(first, ((), None))
        if net is None or files[: len(had)] != had or net.schema != schema.signed_arrow:
            had, net = (), schema.signed_arrow.empty_table()
        if len(had) < len(files):
            newer = [self.read(file, schema).drop_columns([EPOCH]) for file in files[len(had) :]]
            net = consolidate(pa.concat_tables([net, *newer])).combine_chunks()
            with self._lock:
                self._net[first] = (files, net)
                self._net.move_to_end(first)
                while len(self._net) > NETS:
                    self._net.popitem(last=False)
        return net

    def read(self, file: DataFile, schema: Schema) -> pa.Table:
        """All rows of a file, each with its epoch."""
        with self._lock:
            if file.path in self._kept:
                self._kept.move_to_end(file.path)
                return self._kept[file.path]
        return self._keep(file, read_files(self.storage, [file], schema))

    def remember(self, file: DataFile, rows: pa.Table, schema: Schema) -> None:
        """Keeps the signed rows of a batch that was just committed: the next commit reads them."""
        stored = rows.append_column(EPOCH_FIELD, pa.nulls(rows.num_rows, pa.int64()))
        wanted = schema.stored_arrow
        self._keep(file, with_epochs(stored if stored.schema == wanted else stored.cast(wanted), file))

    def _keep(self, file: DataFile, rows: pa.Table) -> pa.Table:
        with self._lock:
            if file.path not in self._kept:
                self._kept[file.path] = rows
                self._rows += _counted(rows)
            while self._rows > self.tuning.cached_rows and self._kept:
                self._drop(next(iter(self._kept)))
        return rows

    def forget(self, files: Iterable[DataFile]) -> None:
        """Drops files that hardly anybody is going to read: others have replaced them."""
        with self._lock:
            for file in files:
                self._net.pop(file.path, None)
                if file.path in self._kept:
                    self._drop(file.path)

    def _drop(self, path: str) -> None:
        self._rows -= _counted(self._kept.pop(path))


def _counted(rows: pa.Table) -> int:
    return max(int(rows.num_rows), LEAST)
