"""Constraints: NOT NULL, lengths, PRIMARY KEY and UNIQUE, checked set-wise on the state after a statement.

The state before is valid, so a key can only be broken by an inserted row, and only keys of inserted rows are looked
up: after = before + Σ weights of the change, and it must not exceed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.cast import YEARS
from viewkeeper.algebra.expressions import Name, call, comparison, conjunction, integer, is_null, not_null, same
from viewkeeper.algebra.rows import is_among, numbered_rows, row_tuples, take
from viewkeeper.algebra.schema import WEIGHT, Column, Key
from viewkeeper.algebra.types import quote
from viewkeeper.analysis.ranges import Ranges
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.relations import Relation
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.errors import ConstraintViolation, TypeMismatch
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scans import Source, pick, signed_frame
from viewkeeper.transaction.open_transaction import OpenTransaction


def check_rows(tx: OpenTransaction, relation: Relation, change: pa.Table) -> None:
    """Checks a net change held on the driver. The caller has checked that the rows it deletes exist."""
    plus = pc.greater(change[WEIGHT], 0)
    for column in relation.schema:
        values = change[column.name]
        if not column.nullable and values.null_count and pc.any(pc.and_(pc.is_null(values), plus)).as_py():
            raise _null(relation, column.name)
        if column.type.length is not None:
            too_long = pc.greater(pc.utf8_length(values), column.type.length)
            if pc.any(pc.and_(too_long, plus)).as_py():
                raise _too_long(relation, column.name, values.filter(too_long)[0].as_py(), column.type.length)
    for key in relation.schema.keys:
        _check_key(tx, relation, key, change)


def _check_key(tx: OpenTransaction, relation: Relation, key: Key, change: pa.Table) -> None:
    names = list(key.columns)
    keys = _only_new(change, names)
    if keys is None:
        keys = _new_keys(relation, key, change)
    if not key.primary:
        keys = keys.drop_null()
    if not keys.num_rows:
        return
    there = tx.key_weights(relation, Keys(keys, relation.schema.subset(names), tx.store.tuning))
    taken = is_among(keys, there.filter(pc.greater(there[WEIGHT], 0)).select(names))
    if taken.any():
        raise _duplicate(relation, key, row_tuples(keys.slice(int(taken.argmax()), 1))[0])


def _only_new(change: pa.Table, names: list[str]) -> pa.Table | None:
    """The keys of a change that only inserts, each key once (the usual case); None for any other change."""
    keys = change.select(names)
    if any(pa.types.is_nested(field.type) for field in keys.schema) or not pc.all(pc.equal(change[WEIGHT], 1)).as_py():
        return None
    return keys if keys.group_by(names, use_threads=False).aggregate([]).num_rows == keys.num_rows else None


def _new_keys(relation: Relation, key: Key, change: pa.Table) -> pa.Table:
    """The keys that a change inserts and does not delete; raises if it inserts one twice."""
    keys = change.select(list(key.columns))
    numbers, weights = numbered_rows(keys), change[WEIGHT].to_numpy()
    if not key.primary:  # NULL is no value of a UNIQUE key
        for column in keys.columns:
            weights = np.where(column.is_null().to_numpy(), 0, weights)
    _, first = np.unique(numbers, return_index=True)
    plus, minus = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    np.add.at(plus, numbers, np.maximum(weights, 0))
    np.add.at(minus, numbers, np.maximum(-weights, 0))
    twice = plus - minus > (minus == 0)
    if twice.any():
        raise _duplicate(relation, key, row_tuples(keys.slice(int(twice[numbers].argmax()), 1))[0])
    return take(keys, first[(plus > 0) & (minus == 0)])


def check_files(tx: OpenTransaction, relation: Relation, files: Sequence[DataFile]) -> None:
    """Checks a change that was written as files, on the engine. The caller has checked that deleted rows exist."""
    engine, storage, schema = tx.store.engine, tx.store.storage, relation.schema
    for column in schema:
        if not column.nullable and any(
            bound.nulls for file in files if (bound := file.bounds.get(column.name)) is not None
        ):
            raise _null(relation, column.name)
        _check_years(relation, column, files)
    staged = Source(schema, (), tx.state.epoch, tuple(files))
    for column in schema:
        if not column.nullable and any(column.name not in file.bounds for file in files):
            frame = signed_frame(engine, storage, pick(staged)).filter(parsed(is_null(Name(column.name))))
            if engine.collect(frame.limit(1)).num_rows:
                raise _null(relation, column.name)
        if column.type.length is not None:
            frame = signed_frame(engine, storage, pick(staged)).filter(
                parsed(comparison(">", call("length", Name(column.name)), integer(column.type.length)))
            )
            found = engine.collect(frame.select(quote(column.name)).limit(1))
            if found.num_rows:
                raise _too_long(relation, column.name, found.column(0)[0].as_py(), column.type.length)
    for key in schema.keys:
        _check_key_of_files(tx, relation, key, files)


def _check_years(relation: Relation, column: Column, files: Sequence[DataFile]) -> None:
    limits = YEARS.get(column.type.name)
    bounds = [file.bounds.get(column.name) for file in files] if limits is not None else []
    for bound in bounds:
        if limits and bound and bound.low is not None and (bound.low < limits[0] or bound.high > limits[1]):
            raise TypeMismatch(
                f"a {column.type} does not fit column '{column.name}' of {relation.name}, which is {column.type}",
                detail="it lies outside the years 1 to 9999",
            )


def _check_key_of_files(tx: OpenTransaction, relation: Relation, key: Key, files: Sequence[DataFile]) -> None:
    engine, storage = tx.store.engine, tx.store.storage
    names = [quote(name) for name in key.columns]
    before = signed_frame(engine, storage, tx.scan(relation, ranges=_key_range(key, files)))
    change = signed_frame(engine, storage, pick(Source(relation.schema, (), tx.state.epoch, tuple(files))))
    frame = engine.union(
        [before.select(*listed("*", (integer(0), "_vk_new"))), change.select(*listed("*", (integer(1), "_vk_new")))]
    )
    if not key.primary:
        frame = frame.filter(parsed(conjunction(not_null(Name(name)) for name in key.columns)))
    total = frame.groupBy(*names).agg({WEIGHT: "sum", "_vk_new": "max"})
    total = total.select(*listed(*names, (f"`sum({WEIGHT})`", "_vk_total"), ("`max(_vk_new)`", "_vk_touched")))
    # Files were picked for the touched keys only, so the sums of other keys are incomplete.
    one = integer(1)
    twice = conjunction((comparison(">", Name("_vk_total"), one), same(Name("_vk_touched"), one)))
    broken = engine.collect(total.filter(parsed(twice)).limit(1))
    if broken.num_rows:
        raise _duplicate(relation, key, row_tuples(broken.select(list(key.columns)))[0])


def _key_range(key: Key, files: Sequence[DataFile]) -> Ranges:
    """The range of the first key column in some files: no file outside it can hold the same keys."""
    name = key.columns[0]
    bounds = [file.bounds.get(name) for file in files]
    if not bounds or any(bound is None or bound.low is None or bound.nulls or bound.nans for bound in bounds):
        return Ranges()
    low = min(bound.low for bound in bounds if bound is not None)
    high = max(bound.high for bound in bounds if bound is not None)
    return Ranges(((name, ((low, high),)),))


def _null(relation: Relation, column: str) -> ConstraintViolation:
    key = relation.schema.primary_key
    why = " (it is in the PRIMARY KEY)" if key is not None and column in key.columns else ""
    return ConstraintViolation(
        f"column '{column}' of {relation.name} cannot be NULL{why}",
        hint="give it a value, or declare it without NOT NULL",
    )


def _too_long(relation: Relation, column: str, value: str, length: int) -> ConstraintViolation:
    shown = value if len(value) <= 60 else value[:57] + "..."
    return ConstraintViolation(
        f"{shown!r} is too long for column '{column}' of {relation.name}, which is VARCHAR({length})",
        detail=f"it has {len(value)} letters",
    )


def _duplicate(relation: Relation, key: Key, row: tuple[Any, ...]) -> ConstraintViolation:
    shown = ", ".join(f"{name} = {value!r}" for name, value in zip(key.columns, row, strict=True))
    return ConstraintViolation(
        f"{key} of {relation.name} is broken: there would be two rows with {shown}",
        hint="change the key, or replace the row with upsert or MERGE",
    )
