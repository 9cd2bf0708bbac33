"""Signed bags of rows on the driver: canonical values, consolidation, and rows as hashable Python tuples.

A signed table has the relation's columns and `_weight`. Rows are equal as in Spark's GROUP BY: NULL equals NULL and
NaN equals NaN. Canonical values make that plain equality: -0.0 is 0.0, there is one NaN, map entries are sorted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.row_codes import Codes, can_code, codes_of_both, codes_of_columns
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.types import Type, type_of_arrow

NAN = ("NaN",)
"""Stands for NaN in row tuples used as dictionary keys, where NaN would not equal itself."""


Mask = npt.NDArray[np.bool_]


def canonical(table: pa.Table, schema: Schema) -> pa.Table:
    """The same rows with canonical values."""
    for index, column in enumerate(schema):
        if any(part.is_float or part.name == "map" for part in column.type.parts()):
            fixed = canonical_array(table.column(index).combine_chunks(), column.type)
            table = table.set_column(index, pa.field(column.name, column.type.arrow), fixed)
    return table


def canonical_array(array: Any, kind: Type) -> Any:
    """An Arrow array with canonical values of its type."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if kind.is_float:
        zero, nan = pa.scalar(0.0, kind.arrow), pa.scalar(math.nan, kind.arrow)
        array = pc.if_else(pc.equal(array, zero), zero, array)
        return pc.if_else(pc.is_nan(array), nan, array)
    if kind.is_nested and any(part.is_float or part.name == "map" for part in kind.parts()):
        return pa.array([_canonical_value(value, kind) for value in array.to_pylist()], kind.arrow)
    return array


def _canonical_value(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if kind.is_float:
        return 0.0 if value == 0 else value
    if kind.name == "array" and kind.element is not None:
        return [_canonical_value(part, kind.element) for part in value]
    if kind.name == "struct":
        return {name: _canonical_value(value[name], part) for name, part in kind.fields}
    if kind.name == "map" and kind.key is not None and kind.value is not None:
        pairs = [(_canonical_value(k, kind.key), _canonical_value(v, kind.value)) for k, v in value]
        return sorted(pairs, key=lambda pair: _order(hashable(pair[0])))
    return value


def _order(value: Any) -> Any:
    """A sortable stand-in for a hashable value of one type: NaN last, parts in order."""
    if isinstance(value, tuple):
        return (1,) if value == NAN else (0, tuple((part is not None, _order(part)) for part in value))
    return (0, value) if not isinstance(value, bool) else (0, int(value))


def hashable(value: Any) -> Any:
    """A value as a dictionary key: nested values are tuples, NaN is the NAN mark."""
    if isinstance(value, float) and math.isnan(value):
        return NAN
    if isinstance(value, dict):
        return tuple(hashable(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(hashable(part) for part in value)
    return value


def row_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as hashable tuples, in order."""
    columns = [_hashable_column(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def row_order(row: tuple[Any, ...]) -> tuple[tuple[bool, str, Any], ...]:
    """A key that orders rows of any values: NULLs last, values of one type by themselves."""

    def one(value: Any) -> tuple[bool, str, Any]:
        plain = isinstance(value, (bool, int, float, str))
        return (value is None, type(value).__name__, value if plain else repr(value))

    return tuple(one(value) for value in row)


def _hashable_column(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return [hashable(value) for value in values]
    return values


def signed(table: pa.Table, weight: int) -> pa.Table:
    """Plain rows with one weight for all."""
    return table.append_column(pa.field(WEIGHT, pa.int64()), pa.array(np.full(table.num_rows, weight, dtype=np.int64)))


def negated(table: pa.Table) -> pa.Table:
    """A signed table with every weight negated."""
    index = table.schema.get_field_index(WEIGHT)
    return table.set_column(index, table.schema.field(index), pc.negate(table.column(index)))


def consolidate(table: pa.Table, key: Sequence[str] = ()) -> pa.Table:
    """The net of a signed table: every row at most once, no zero weights. A GROUP BY, on canonical values.

    `key`: columns that may tell all rows apart; if they do, no row occurs twice.
    """
    if table.num_rows < 2:
        return table if table.num_rows and table[WEIGHT][0].as_py() else table.slice(0, 0)
    names = table.column_names[:-1]
    if key and table.num_rows > FEW and numbered_rows(table.select(key)).max() + 1 == table.num_rows:
        return table.filter(pc.not_equal(table[WEIGHT], 0))
    if table.num_rows <= FEW:
        return table if _is_net(table) else _consolidate_in_python(table)
    if any(pa.types.is_nested(table.schema.field(name).type) for name in names):
        return _consolidate_in_python(table)
    numbered = [f"c{index}" for index in range(len(names))]
    plain = table.rename_columns([*numbered, "w"]).combine_chunks()
    grouped = plain.group_by(numbered, use_threads=False).aggregate([("w", "sum")])
    grouped = grouped.filter(pc.not_equal(grouped["w_sum"], 0))
    return (
        grouped.select([*numbered, "w_sum"])
        .cast(
            pa.schema(
                [pa.field(f"c{i}", table.schema.field(i).type) for i in range(len(names))] + [("w_sum", pa.int64())]
            )
        )
        .rename_columns([*names, WEIGHT])
    )


FEW = 64
"""Rows for which a loop in Python takes a fifth of the time that Arrow needs to set up a GROUP BY."""


TOLD_APART_BY = 3
"""So many columns of integers mostly tell all rows of a change apart; reading them costs next to nothing."""


def _is_net(table: pa.Table) -> bool:
    """Whether a few rows are net already, as far as columns of integers show: these differ, and no weight is zero."""
    integers = [i for i, kind in enumerate(table.schema.types[:-1]) if pa.types.is_integer(kind)][:TOLD_APART_BY]
    values = [table.column(index).to_pylist() for index in integers]
    return bool(values) and len({*zip(*values, strict=True)}) == table.num_rows and 0 not in table[WEIGHT].to_pylist()


def _without_years(table: pa.Table) -> pa.Table:
    """A table with dates and times as integers: beyond the year 9999 they are no Python values."""
    for index, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type):
            kind = pa.int32() if pa.types.is_date32(field.type) else pa.int64()
            table = table.set_column(index, field.name, table.column(index).cast(kind))
    return table


def _consolidate_in_python(table: pa.Table) -> pa.Table:
    plain = table.drop_columns([WEIGHT])
    totals: dict[tuple[Any, ...], int] = {}
    first: dict[tuple[Any, ...], int] = {}
    values = row_tuples(_without_years(plain))
    for index, (row, weight) in enumerate(zip(values, table[WEIGHT].to_pylist(), strict=True)):
        totals[row] = totals.get(row, 0) + weight
        first.setdefault(row, index)
    kept = [row for row, weight in totals.items() if weight]
    if len(kept) == table.num_rows:
        return table
    rows = take(plain, [first[row] for row in kept])
    return rows.append_column(pa.field(WEIGHT, pa.int64()), pa.array([totals[row] for row in kept], pa.int64()))


def without_balanced(table: pa.Table, groups: list[str], counted: list[str], summed: list[str]) -> pa.Table:
    """A signed table without groups whose weights sum up to 0, also of rows where an argument is not NULL, and where
    the summed arguments times their weights do; the same object if there are none."""
    weights = table[WEIGHT].to_numpy()
    if (weights > 0).all() or (weights < 0).all():
        return table
    numbers = numbered_rows(table.select(groups)) if groups else np.zeros(len(weights), np.int64)
    moving = np.zeros(numbers.max() + 1, bool)
    for valid in (True, *(table[name].is_valid().to_numpy() for name in counted)):
        totals = np.zeros(len(moving), np.int64)
        np.add.at(totals, numbers, np.where(valid, weights, 0))
        moving |= totals != 0
    for name in summed:
        moving |= _sums_are_not_zero(table[name], weights, numbers)
    return table if moving.all() else take(table, np.flatnonzero(moving[numbers]))


def _sums_are_not_zero(column: pa.ChunkedArray, weights: npt.NDArray[np.int64], numbers: Codes) -> Mask:
    """For each group, whether the exact numbers of a column times their weights sum up to another number than 0."""
    scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    values = column.cast(pa.decimal256(38, scale))
    times = pa.chunked_array([pa.array(weights).cast(pa.decimal256(19, 0))])
    amounts = pc.fill_null(pc.multiply_checked(values, times), pa.scalar(0, pa.decimal256(58, scale)))
    sums = pa.table([pa.array(numbers), amounts], ["group", "amount"]).group_by("group", use_threads=False)
    sums = sums.aggregate([("amount", "sum")]).sort_by("group")
    return np.asarray(pc.not_equal(sums["amount_sum"], pa.scalar(0, sums["amount_sum"].type)).to_numpy())


def take(table: pa.Table, indices: Sequence[int] | npt.NDArray[Any]) -> pa.Table:
    """Rows by position (maps, which Arrow's take refuses, included)."""
    try:
        return table.take(pa.array(indices, pa.int64()))
    except pa.ArrowNotImplementedError:
        slices = [table.slice(int(index), 1) for index in indices]
        return pa.concat_tables(slices) if slices else table.slice(0, 0)


def expand(table: pa.Table) -> pa.Table:
    """A signed table with positive weights as plain rows, duplicates repeated."""
    plain = table.drop_columns([WEIGHT])
    weights = table[WEIGHT].to_numpy()
    if (weights == 1).all():
        return plain
    return take(plain, np.repeat(np.arange(len(weights)), np.maximum(weights, 0)))


def filter_rows(table: pa.Table, mask: Iterable[bool]) -> pa.Table:
    """The rows where the mask holds."""
    return take(table, [index for index, keep in enumerate(mask) if keep])


def rows_among(table: pa.Table, names: list[str], keys: pa.Table) -> pa.Table:
    """The rows whose values in some columns are a row of `keys`."""
    there = is_among(table.select(names), keys)
    return table if there.all() else take(table, np.flatnonzero(there))


def is_among(rows: pa.Table, keys: pa.Table) -> Mask:
    """Whether each row is a row of `keys`; both have the same columns, in order, under any names."""
    types = rows.schema.types
    if rows.num_rows + keys.num_rows <= FEW or not can_code(rows.schema) or types != keys.schema.types or not types:
        wanted = set(row_tuples(keys))
        return np.fromiter((row in wanted for row in row_tuples(rows)), bool, rows.num_rows)
    if len(types) == 1:
        found = pc.is_in(rows.column(0), value_set=keys.column(0).combine_chunks())
        return np.asarray(found.to_numpy())
    ours, theirs = codes_of_both(rows, keys)
    wanted_codes = np.zeros(max(ours.max(initial=-1), theirs.max(initial=-1)) + 1, bool)
    wanted_codes[theirs] = True
    return wanted_codes[ours]


def weights_in(rows: pa.Table, net: pa.Table) -> npt.NDArray[np.int64]:
    """The weight that each row has in a net table with the same columns; 0 where it is not there."""
    plain, weights = net.drop_columns([WEIGHT]), net[WEIGHT].to_numpy()
    if rows.num_rows + net.num_rows <= FEW or not can_code(rows.schema):
        held = dict(zip(row_tuples(plain), weights.tolist(), strict=True))
        return np.array([held.get(row, 0) for row in row_tuples(rows)], np.int64)
    ours, theirs = codes_of_both(rows, plain)
    found = np.zeros(max(ours.max(initial=-1), theirs.max(initial=-1)) + 1, np.int64)
    found[theirs] = weights
    return found[ours]


def numbered_rows(rows: pa.Table) -> Codes:
    """A number for each row, from 0 on, equal for equal rows."""
    if rows.num_rows > FEW and can_code(rows.schema):
        return codes_of_columns([column.combine_chunks() for column in rows.columns])
    numbers: dict[tuple[Any, ...], int] = {}
    return np.array([numbers.setdefault(row, len(numbers)) for row in row_tuples(rows)], np.int64)


def part_with_sign(table: pa.Table, sign: int) -> pa.Table:
    """The rows of one sign, with positive weights: ∇ for -1, Δ for +1."""
    weights = table[WEIGHT].to_numpy()
    chosen = np.flatnonzero(weights * sign > 0)
    if len(chosen) == table.num_rows:
        rows = table
    else:
        rows = take(table, chosen)
    amount = pa.array(np.abs(rows[WEIGHT].to_numpy()), pa.int64())
    return rows.set_column(rows.num_columns - 1, pa.field(WEIGHT, pa.int64()), amount)


def schema_of_arrow(schema: pa.Schema) -> list[tuple[str, Type]]:
    """Names and column types of an Arrow schema."""
    return [(field.name, type_of_arrow(field.type)) for field in schema]


def comparable_array(array: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """A column in the form bounds compare: dates and timestamps as integers."""
    if kind.name == "date":
        return array.cast(pa.int32())
    if kind.name in ("timestamp", "timestamp_ntz"):
        return array.cast(pa.int64())
    if kind.name == "boolean":
        return array.cast(pa.int8())
    return array
