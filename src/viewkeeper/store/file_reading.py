"""Data files and inlined batches on the driver, read as a whole. Needs no engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.algebra.schema import EPOCH, Schema
from viewkeeper.catalog.data_files import DataFile, is_inlined
from viewkeeper.errors import StorageError
from viewkeeper.log.checksums import checked_bytes, damaged_file
from viewkeeper.log.storage import Storage

EPOCH_FIELD = pa.field(EPOCH, pa.int64())


def encode_inlined(rows: pa.Table) -> bytes:
    """Signed rows as the bytes of an inlined batch: an Arrow stream, which is read without copying."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    written: bytes = sink.getvalue().to_pybytes()
    return written


def decode(data: bytes | memoryview, path: str, schema: Schema) -> pa.Table:
    """The rows of a whole file or inlined batch, in the stored schema."""
    wanted = schema.stored_arrow
    try:
        if is_inlined(path):
            rows = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
            table = rows.append_column(EPOCH_FIELD, pa.nulls(rows.num_rows, pa.int64()))
        else:
            table = pq.ParquetFile(pa.BufferReader(data)).read(columns=wanted.names)
        return table.select(wanted.names).cast(wanted)
    except (OSError, KeyError, pa.ArrowException) as problem:
        raise unreadable(path, problem) from problem


def unreadable(path: str, problem: Exception) -> StorageError:
    """The error for a file that is no Parquet file of the expected columns."""
    return StorageError(
        f"the data file {path} cannot be read",
        detail=str(problem).splitlines()[0][:300],
        hint="restore it from a backup; `viewkeeper doctor` lists all damaged and missing files",
    )


def read_file(storage: Storage, file: DataFile, schema: Schema) -> pa.Table:
    """All rows of a file or batch that the ledger names, on the driver, in the stored schema."""
    table = decode(checked_bytes(storage, file), file.path, schema)
    if table.num_rows != file.rows:
        raise damaged_file(file, f"it has {table.num_rows:,} rows, the ledger says {file.rows:,}")
    return table


def read_files(storage: Storage, files: Sequence[DataFile], schema: Schema) -> pa.Table:
    """Small files on the driver as one table, every row with its epoch."""
    parts = []
    for file in files:
        table = read_file(storage, file, schema)
        parts.append(with_epochs(table, file))
    return pa.concat_tables(parts) if parts else schema.stored_arrow.empty_table()


def with_epochs(rows: pa.Table, file: DataFile) -> pa.Table:
    """The rows of a file, every row with its epoch; those of a commit's own file belong to one."""
    if file.merged:
        return rows
    numbers = pa.array(np.full(rows.num_rows, file.first_epoch, dtype=np.int64))
    return rows.set_column(rows.num_columns - 1, EPOCH_FIELD, numbers)
