"""Changes given as rows: insert, delete by row, delete by key, and upsert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.rows import (
    canonical,
    consolidate,
    is_among,
    negated,
    numbered_rows,
    row_tuples,
    signed,
    take,
    weights_in,
)
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.algebra.values import rows_to_arrow
from viewkeeper.catalog.relations import Relation, Table
from viewkeeper.engine.engine import Frame
from viewkeeper.errors import ConstraintViolation, NotFound, StorageError
from viewkeeper.store.batches import with_no_epoch
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scans import net_frame
from viewkeeper.store.scratch import adopt_scratch, materialize
from viewkeeper.transaction.constraints import check_files, check_rows
from viewkeeper.transaction.ingest import (
    frame_by_name,
    has_columns,
    is_frame,
    rows_from,
    signed_expression,
    store_frame,
)
from viewkeeper.transaction.open_transaction import OpenTransaction

SIGNED = f"{WEIGHT} bigint"


def insert_rows(tx: OpenTransaction, relation: Relation, rows: Any) -> int:
    """Inserts rows given in any form that ingest accepts; returns how many."""
    if is_frame(rows):
        path = tx.store.scratch_path()
        tx.store.engine.write(rows, tx.store.storage.url(path))
        given = tx.store.engine.columns(rows)
        frame, count = _scratch_as(tx, path, given)
        ordered = store_frame(tx.store.engine, frame_by_name(tx.store.engine, frame, relation), relation, tx.zone)
        return change_by_frame(tx, relation, signed_expression(ordered, 1), count, stable=True)
    table = rows_from(rows, relation, tx.zone)
    if table.num_rows > tx.store.tuning.small_rows:
        frame = tx.store.engine.arrow(signed(table, 1), relation.schema, SIGNED)
        return change_by_frame(tx, relation, frame, table.num_rows, stable=True)
    apply_rows(tx, relation, signed(table, 1))
    return int(table.num_rows)


def _scratch_as(tx: OpenTransaction, path: str, given: list[tuple[str, str]]) -> tuple[Frame, int]:
    schema = Schema(tuple(Column(name, parse_type(kind)) for name, kind in given))
    return adopt_scratch(tx.store, path, schema, "")


def apply_rows(tx: OpenTransaction, relation: Relation, change: pa.Table) -> pa.Table:
    """Checks a change held on the driver and adds it to the transaction; returns the net change."""
    net = consolidate(change, relation.schema.key_among(relation.schema.names))
    if net.num_rows:
        tx.pending_of(relation)
        check_rows(tx, relation, net)
        tx.add_rows(relation, net)
    return net


def change_by_frame(
    tx: OpenTransaction, relation: Relation, frame: Frame, rows: int | None, *, stable: bool = False
) -> int:
    """Checks a change given as a signed frame and adds it to the transaction: as rows if small, as files if large.

    `stable`: the frame only reads files, so it can be read several times.
    """
    engine = tx.store.engine
    if rows is None or rows <= engine.tuning.small_rows:
        small = engine.collect_small(frame)
        if small is not None:
            apply_rows(tx, relation, conform(small, relation.schema, signed=True))
            return int(small.num_rows)
    if rows is None or not stable:
        frame, rows = materialize(tx.store, frame, relation.schema, SIGNED)
    files = tx.store.writer(relation).write_frame(with_no_epoch(frame), rows)
    tx.pending_of(relation)
    try:
        written = sum(file.rows for file in files)
        if written != rows:
            raise StorageError(
                f"{rows} rows were to be written for {relation.name}, {written} were",
                hint="a file was lost on the way; nothing was changed, run the statement again",
            )
        check_files(tx, relation, files)
    except BaseException:
        tx.store.storage.delete(file.path for file in files)
        raise
    tx.add_files(relation, files)
    return sum(file.rows for file in files)


def delete_rows(tx: OpenTransaction, relation: Relation, rows: Any, missing: str) -> int:
    """Deletes as many copies of each row as are given. A missing row is an error, unless `missing` is 'ignore'."""
    wanted = consolidate(signed(_given(tx, rows, relation), 1))
    if wanted.num_rows == 0:
        return 0
    key = relation.schema.primary_key
    names = list(key.columns) if key else [c.name for c in relation.schema if not c.type.is_nested]
    columns = names or relation.schema.names
    keys = Keys(_distinct(wanted.select(columns)), relation.schema.subset(columns), tx.store.tuning)
    there = tx.rows_with(relation, keys) if names else _all_rows(tx, relation)
    present = weights_in(wanted.drop_columns([WEIGHT]), there)
    asked = wanted[WEIGHT].to_numpy()
    if missing != "ignore" and (present < asked).any():
        place = int((present < asked).argmax())
        (row,) = row_tuples(wanted.drop_columns([WEIGHT]).slice(place, 1))
        raise not_there(relation, row, int(asked[place]), int(present[place]))
    amounts = pa.array(-np.minimum(asked, present), pa.int64())
    change = wanted.set_column(wanted.num_columns - 1, pa.field(WEIGHT, pa.int64()), amounts)
    apply_rows(tx, relation, change)
    return int(np.minimum(asked, present).sum())


def _all_rows(tx: OpenTransaction, relation: Relation) -> pa.Table:
    """All net rows of a relation, for one whose columns cannot be looked up."""
    frame = net_frame(tx.store.engine, tx.store.storage, tx.scan(relation))
    return conform(tx.store.engine.collect(frame), relation.schema, signed=True)


def _distinct(table: pa.Table) -> pa.Table:
    return consolidate(signed(table, 1)).drop_columns([WEIGHT])


def not_there(relation: Relation, row: tuple[Any, ...], asked: int, present: int) -> NotFound:
    """The error for deleting a row that is not there."""
    shown = ", ".join(repr(value) for value in row)
    if present:
        return NotFound(
            f"{asked} copies of the row ({shown}) were to be deleted from {relation.name}, there are {present}",
            hint="delete fewer, or pass missing='ignore'",
        )
    return NotFound(f"the row ({shown}) is not in {relation.name}", hint="check its values, or pass missing='ignore'")


def delete_by_key(tx: OpenTransaction, relation: Relation, keys: Any, missing: str) -> int:
    """Deletes the rows with some primary keys."""
    table = _keys_from(tx, relation, keys)
    there = tx.rows_with(relation, Keys(_distinct(table), relation.schema.subset(table.column_names), tx.store.tuning))
    if missing != "ignore":
        found = is_among(table, there.select(table.column_names))
        if not found.all():
            (row,) = row_tuples(table.slice(int(found.argmin()), 1))
            shown = ", ".join(f"{n} = {v!r}" for n, v in zip(table.column_names, row, strict=True))
            raise NotFound(
                f"there is no row with {shown} in {relation.name}", hint="pass missing='ignore' if that is fine"
            )
    apply_rows(tx, relation, negated(there))
    return int(there.num_rows)


def upsert(tx: OpenTransaction, relation: Relation, rows: Any) -> int:
    """Inserts rows, replacing those with the same primary key."""
    key = _primary_key(relation)
    table = _given(tx, rows, relation)
    if table.num_rows == 0:
        return 0
    names = list(key)
    backwards = numbered_rows(table.select(names))[::-1]
    last = table.num_rows - 1 - np.unique(backwards, return_index=True)[1]
    table = take(table, np.sort(last))
    keys = Keys(table.select(names), relation.schema.subset(names), tx.store.tuning)
    there = tx.rows_with(relation, keys)
    apply_rows(tx, relation, pa.concat_tables([negated(there), signed(table, 1)]))
    return int(table.num_rows)


def _primary_key(relation: Relation) -> tuple[str, ...]:
    key = relation.schema.primary_key
    if key is None:
        raise ConstraintViolation(
            f"{relation.name} has no PRIMARY KEY", hint="use insert and delete with whole rows, or declare a key"
        )
    return key.columns


def _keys_from(tx: OpenTransaction, relation: Relation, keys: Any) -> pa.Table:
    names = _primary_key(relation)
    schema = relation.schema.subset(names)
    if isinstance(keys, Iterable) and not isinstance(keys, (str, bytes, Mapping)) and not has_columns(keys):
        listed = [key if isinstance(key, (tuple, list, Mapping)) else (key,) for key in keys]
        return canonical(rows_to_arrow(listed, schema, relation.name, tx.zone), schema)
    return _given(tx, keys, Table(relation.id, relation.name, schema, 0))


def _given(tx: OpenTransaction, rows: Any, relation: Relation) -> pa.Table:
    """Rows given by a user, on the driver; those of a Spark frame are fetched."""
    if not is_frame(rows):
        return rows_from(rows, relation, tx.zone)
    engine = tx.store.engine
    frame = store_frame(engine, frame_by_name(engine, rows, relation), relation, tx.zone)
    return conform(engine.collect(frame), relation.schema)
