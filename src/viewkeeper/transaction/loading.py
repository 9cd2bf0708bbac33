"""Loads a user's files and directories into a table: read on the driver in batches, or by the engine.

The engine reads plain Parquet files, in parallel. Everything else is read by one reader for all engines (`sources`),
so that a file means the same everywhere; many rows go through scratch files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pyarrow as pa

from viewkeeper.algebra.rows import canonical, signed
from viewkeeper.algebra.schema import Column, Schema, make_schema
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.algebra.types import parse_type
from viewkeeper.catalog.relations import Relation
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.problems import UNREADABLE
from viewkeeper.errors import StorageError
from viewkeeper.sources.files import unreadable
from viewkeeper.sources.source import Source, open_source
from viewkeeper.transaction.ingest import frame_by_name, signed_expression, store_frame
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.row_changes import SIGNED, apply_rows, change_by_frame, upsert

_GLOB = set("*?[]{}\\")
"""Engines read a path with one of these characters as a glob pattern."""


def schema_of_file(tx: OpenTransaction, path: str, form: str | None, options: Mapping[str, str]) -> Schema:
    """The schema of a new table for a file: the file's columns, no keys."""
    source = open_source(path, form, options, tx.store.engine.storage)
    return make_schema([Column(name, parse_type(kind)) for name, kind in source.columns(tx.zone)], [])


def load_file(tx: OpenTransaction, relation: Relation, path: str, form: str | None, options: Mapping[str, str]) -> int:
    """Loads a Parquet, CSV or JSON file, a directory of them, or a Delta table; returns the number of rows."""
    engine = tx.store.engine
    source = open_source(path, form, options, engine.storage)
    frame = _by_engine(tx, source)
    if frame is None:
        return _by_driver(tx, relation, source)
    try:
        ordered = store_frame(engine, frame_by_name(engine, frame, relation), relation, tx.zone)
        signed_rows = signed_expression(ordered, 1)
        if any(column.type.is_nested for column in relation.schema):
            return change_by_frame(tx, relation, signed_rows, None)
        rows = int(frame.count())  # from the footers: cheap, and the file can be read twice
        return change_by_frame(tx, relation, signed_rows, rows, stable=True)
    except StorageError as problem:
        if problem.message == UNREADABLE:  # the user's file, not one of the database
            raise unreadable(path, Exception(problem.detail or "")) from problem
        raise


def upsert_file(
    tx: OpenTransaction, relation: Relation, path: str, form: str | None, options: Mapping[str, str]
) -> int:
    """Upserts the rows of a file, a part of bounded size at a time; of several with one key the last stays."""
    source = open_source(path, form, options, tx.store.engine.storage)
    tables = source.tables(relation.schema, relation.name, tx.zone)
    return sum(upsert(tx, relation, chunk) for chunk in _chunks(tables, tx.store.tuning))


def _by_engine(tx: OpenTransaction, source: Source) -> Frame | None:
    """A frame over files that the engine can read directly; None if the driver has to read them."""
    files = source.plain_files()
    if not files or any(_GLOB & set(file.path) for file in files):
        return None
    local = any(file.storage is None for file in files)
    if local and not tx.store.engine.is_local:
        return None
    return tx.store.engine.outside([os.path.abspath(file.path) if local else file.path for file in files])


def _by_driver(tx: OpenTransaction, relation: Relation, source: Source) -> int:
    """Loads batches that the driver reads: in one step if the rows are few, else through scratch files."""
    schema = relation.schema
    tables = (canonical(table, schema) for table in source.tables(schema, relation.name, tx.zone))
    chunks = _chunks(tables, tx.store.tuning)
    first = next(chunks, None)
    if first is None:
        return 0
    following = next(chunks, None)
    if following is None and first.num_rows <= tx.store.tuning.small_rows:
        apply_rows(tx, relation, signed(first, 1))
        return int(first.num_rows)
    paths, rows = [], 0
    chunk: pa.Table | None = first
    while chunk is not None:
        paths.append(tx.store.put_scratch(signed(chunk, 1)))
        rows += chunk.num_rows
        chunk, following = following, next(chunks, None)
    frame = tx.store.engine.files(paths, schema, SIGNED)
    return change_by_frame(tx, relation, frame, rows, stable=True)


def _chunks(tables: Iterator[pa.Table], tuning: Tuning) -> Iterator[pa.Table]:
    """Tables concatenated until they are large enough for a file."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= tuning.load_rows or size >= tuning.load_bytes:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)
