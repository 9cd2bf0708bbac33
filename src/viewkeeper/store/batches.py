"""Writing batches: immutable Parquet files of signed rows, sorted by key, each with its exact bounds.

Small batches are written by the driver, large ones by the engine in parallel. Neither is visible to anyone until a
ledger entry names the files. The batches of a small commit have no files at first: they are inlined in its entry.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from viewkeeper.algebra.expressions import BIGINT, null_of
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Schema
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import COMPRESSION, Engine, Frame
from viewkeeper.errors import StorageError
from viewkeeper.log.checksums import check_files, checksum, remember_written
from viewkeeper.log.failpoints import point
from viewkeeper.log.leases import Lease
from viewkeeper.log.storage import Storage
from viewkeeper.store.bounds import measure
from viewkeeper.store.file_reading import decode, encode_inlined, read_file

STORED = f"{WEIGHT} bigint, {EPOCH} bigint"


class BatchWriter:
    """Writes files for one relation under one lease."""

    def __init__(self, storage: Storage, engine: Engine, relation: str, schema: Schema, lease: Lease) -> None:
        self.storage = storage
        self.engine = engine
        self.relation = relation
        self.schema = schema
        self.lease = lease

    def _new_path(self, suffix: str) -> str:
        return f"relations/{self.relation}/{self.lease.id}-{uuid.uuid4().hex}{suffix}"

    def write_rows(self, rows: pa.Table, *, merged: bool = False) -> list[DataFile]:
        """Writes signed rows from the driver; a merged file holds the epochs of its rows, a commit's own does not."""
        if rows.num_rows == 0:
            return []
        if EPOCH not in rows.column_names:
            rows = rows.append_column(pa.field(EPOCH, pa.int64()), pa.nulls(rows.num_rows, pa.int64()))
        rows = sort_rows(rows, self.schema)
        files: list[DataFile] = []
        most = self.engine.tuning.file_rows
        for start in range(0, rows.num_rows, most):
            part = rows.slice(start, most)
            data = self._parquet(part)
            path = self._new_path(".parquet")
            with self._leaving_nothing(path, *(file.path for file in files)):
                self.storage.write(path, data, "batch")
            files.append(describe(part, self.schema, path, data, merged=merged))
            remember_written(self.storage, files[-1])
        return files

    def _parquet(self, rows: pa.Table) -> bytes:
        """Rows as a Parquet file, without an embedded Arrow schema, which Sail cannot merge with other writers'."""
        sink = pa.BufferOutputStream()
        pq.write_table(
            rows,
            sink,
            compression=COMPRESSION.removesuffix("_raw"),
            write_statistics=_measured(self.schema),
            store_schema=False,
            write_page_index=True,
            write_page_checksum=True,
            max_rows_per_page=self.engine.tuning.page_rows,
            dictionary_pagesize_limit=self.engine.tuning.dictionary_bytes,
        )
        written: bytes = sink.getvalue().to_pybytes()
        return written

    def write_frame(self, frame: Frame, rows: int, *, merged: bool = False) -> list[DataFile]:
        """Writes signed rows of a frame (columns, weight, epoch): the engine writes them in key ranges."""
        directory = self._new_path("")
        parts = max(1, -(-rows // self.engine.tuning.file_rows))
        with self._leaving_nothing(directory):
            self.engine.write_in_key_ranges(
                frame, self.storage.url(directory), self.schema, self.schema.sort_columns, parts, rows
            )
            point("batch-written")
            return self._adopt(directory, merged=merged)

    @contextlib.contextmanager
    def _leaving_nothing(self, *paths: str) -> Iterator[None]:
        """Removes files and directories again if writing them fails: nobody has seen them.

        An engine may still be writing, so the lease remains to mark what it adds.
        """
        try:
            yield
        except BaseException:
            self.lease.leaves_files = True
            for path in paths:
                if path.endswith(".parquet"):
                    self.storage.delete([path])
                else:
                    self.storage.remove(path)
            raise

    def _adopt(self, directory: str, *, merged: bool) -> list[DataFile]:
        """The files that the engine wrote, synced and measured; its other files are removed."""
        listed = self.storage.list(directory)
        data = sorted(item.path for item in listed if item.path.endswith(".parquet") and item.size)
        self.storage.delete(item.path for item in listed if item.path not in set(data))
        self.storage.sync(data)
        point("batch-synced")
        again = self.engine.kind == "sail" and any(column.type.has_map() for column in self.schema)

        def look(path: str) -> DataFile:
            written = self.storage.read(path)
            if written is None:
                raise StorageError(f"the engine's file {path} is missing", hint="run the statement again")
            rows = decode(written, path, self.schema)
            if again:  # Sail names the entries of a map differently from other writers, and cannot read both together
                written = self._parquet(rows)
                self.storage.delete([path])
                path = self._new_path(".parquet")
                self.storage.write(path, written, "batch")
            file = describe(rows, self.schema, path, written, merged=merged)
            remember_written(self.storage, file)
            return file

        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
            return [file for file in pool.map(look, data) if file.rows]


def _measured(schema: Schema) -> list[str]:
    """The columns with statistics in the file. Not floats: statistics leave NaN out, so engines would skip NaN rows."""
    return [c.name for c in schema if not c.type.is_nested and not c.type.is_float] + [WEIGHT, EPOCH]


def sort_rows(rows: pa.Table, schema: Schema) -> pa.Table:
    """Rows in the order of files: by key, NULLs last."""
    names = [name for name in schema.sort_columns if not schema.column(name).type.is_nested]
    if not names or rows.num_rows < 2:
        return rows
    order = pc.sort_indices(rows.select(names), sort_keys=[(name, "ascending") for name in names])
    try:
        return rows.take(order)
    except pa.ArrowNotImplementedError:  # Arrow cannot sort rows with maps; such a file stays unsorted
        return rows


def describe(part: pa.Table, schema: Schema, path: str, data: bytes, *, merged: bool) -> DataFile:
    """The ledger's description of a file with these rows and bytes."""
    low, high = _ends(part[WEIGHT])
    first, last = _ends(part[EPOCH]) if merged else (0, 0)
    return DataFile(
        path,
        part.num_rows,
        len(data),
        low,
        high,
        measure(part, schema),
        first,
        last,
        merged,
        checksum(data),
    )


def _ends(numbers: pa.ChunkedArray) -> tuple[int, int]:
    """The least and the greatest of numbers, or zeros."""
    values = numbers.to_numpy()
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def can_inline(schema: Schema) -> bool:
    """Whether batches of a relation may be inlined. Not with nested columns: an engine has to read those from files."""
    return not any(column.type.is_nested for column in schema)


def inlined(batches: Mapping[str, tuple[Schema, pa.Table]]) -> tuple[dict[str, DataFile], bytes]:
    """Signed rows of relations, by id, as the inlined batches of one entry; and the data of the entry.

    The path of each is its position in the data, until the ledger adds that of the entry.
    """
    files: dict[str, DataFile] = {}
    parts: list[bytes] = []
    position = 0
    for key, (schema, rows) in batches.items():
        data = encode_inlined(rows)
        files[key] = describe(rows, schema, f"#{position}", data, merged=False)
        parts.append(data)
        position += len(data)
    return files, b"".join(parts)


def stored_frame(
    engine: Engine, storage: Storage, files: Sequence[DataFile], schema: Schema, *, late: bool = False
) -> Frame:
    """The stored rows of some files as a frame: columns, weight, and an epoch if the file is merged.

    The rows of inlined batches are sent with the query, so that the frame depends on no scratch file.
    """
    frames: list[Frame] = []
    own = [file for file in files if not file.is_inlined]
    if own:
        check_files(storage, own, far=engine.kind != "sail")
        frames.append(engine.files([storage.url(file.path) for file in own], schema, STORED, late=late))
    if len(own) < len(files):
        rows = pa.concat_tables([read_file(storage, file, schema) for file in files if file.is_inlined])
        frames.append(engine.arrow(rows, schema, STORED, direct=True))
    return engine.union(frames)


def with_no_epoch(frame: Frame) -> Frame:
    """Signed rows as a batch file holds them: the epoch comes from the ledger."""
    return frame.select(*listed("*", (null_of(BIGINT), EPOCH)))
