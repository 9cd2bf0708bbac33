"""Parquet files as batches of rows, each file with its own columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.errors import TypeMismatch
from viewkeeper.sources.files import SourceFile, unreadable

ROWS = 50_000
"""Rows read at a time."""


def open_parquet(file: SourceFile) -> Any:
    """An open Parquet file; the error names a file that is truncated or not Parquet."""
    try:
        return pq.ParquetFile(file.open(), coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError) as problem:
        raise unreadable(file.path, problem) from problem


def parquet_schema(file: SourceFile) -> pa.Schema:
    """The columns of a file."""
    return open_parquet(file).schema_arrow.remove_metadata()


def parquet_batches(file: SourceFile, constants: Mapping[str, Any], kinds: pa.Schema) -> Iterator[pa.Table]:
    """A file's rows, with constant columns added, whose types are in `kinds`."""
    opened = open_parquet(file)
    there = {name.lower() for name in opened.schema_arrow.names}
    for name in constants:
        if name.lower() in there:
            raise TypeMismatch(
                f"the column '{name}' is in {file.path} and in the name of its folder", hint="load the file alone"
            )
    try:
        for batch in opened.iter_batches(batch_size=ROWS):
            table = pa.Table.from_batches([batch])
            for name, value in constants.items():
                table = table.append_column(name, pa.array([value] * table.num_rows, kinds.field(name).type))
            yield table
    except (pa.ArrowException, OSError) as problem:
        raise unreadable(file.path, problem) from problem
