"""Parquet files as batches of rows, one file after the other, each with the columns that it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.errors import TypeMismatch
from viewkeeper.sources.files import SourceFile, unreadable

ROWS = 50_000
"""Rows that are read at a time."""


def open_parquet(file: SourceFile) -> Any:
    """A Parquet file; one that is none, or is cut off, is named."""
    try:
        return pq.ParquetFile(file.open(), coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError) as problem:
        raise unreadable(file.path, problem) from problem


def parquet_schema(file: SourceFile) -> pa.Schema:
    """The columns of a file."""
    return open_parquet(file).schema_arrow.remove_metadata()


def parquet_batches(file: SourceFile, constants: Mapping[str, Any], kinds: pa.Schema) -> Iterator[pa.Table]:
    """A file's rows, with columns that have one value in all of them; their types are in `kinds`."""
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
