"""Rows generated for a table from its schema alone: typed, keys respected, with NULLs and duplicates.

Ordinary expressions accept the values: numbers are small and not zero, texts are years, which can be cast to numbers,
dates and timestamps. Row r holds the r-th value of each type, so that rows of different tables join.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.rows import canonical, consolidate
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.types import Type

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Steps:
    """Signed rows of one table: first contents, then a change with an insert, an update and a delete."""

    first: pa.Table
    then: pa.Table


def generated(schema: Schema, variant: int, *, apart: bool = False, grows: bool = False, once: bool = False) -> Steps:
    """The rows of a table. Variant 0 has all kinds, 1 is NULL in all columns but keys, 2 has one row at a time.

    `apart`: the values of a row increase from left to right, so that rows read as edges of a graph form no cycle.
    `grows`: no key is deleted, because foreign keys refer to it. `once`: no row occurs twice.
    """

    keyed = {name.lower() for key in schema.keys for name in key.columns}
    is_key = [column.name.lower() in keyed for column in schema]

    def row(number: int) -> Row:
        return tuple(
            _value(column.type, number + (index if apart else 0), variant) for index, column in enumerate(schema)
        )

    def mostly_null(number: int) -> Row:
        free = (not key and (column.nullable or variant == 1) for column, key in zip(schema, is_key, strict=True))
        return tuple(None if null else value for value, null in zip(row(number), free, strict=True))

    if variant == 2:
        return _steps(schema, [row(1)], [row(1), row(2)] if grows else [row(2)])
    one, two, four = map(mostly_null if variant == 1 else row, (1, 2, 4))
    empty = mostly_null(3)
    other = tuple(a if key else b for a, b, key in zip(two, row(3), is_key, strict=True))
    twice = [] if schema.keys or once else [one]
    stays = [one] if grows else twice
    return _steps(schema, [one, *twice, two, empty], [*stays, other, empty, four])


def _steps(schema: Schema, before: Sequence[Row], after: Sequence[Row]) -> Steps:
    """The rows before, and the change that turns them into the rows after."""
    before, after = _fitting(schema, before), _fitting(schema, after)
    change = [*((row, -1) for row in before), *((row, 1) for row in after)]
    return Steps(_signed(schema, [(row, 1) for row in before]), _signed(schema, change))


def _fitting(schema: Schema, rows: Sequence[Row]) -> list[Row]:
    """The rows that break no key: a BOOLEAN, for example, has only two values."""
    keys = [[schema.names.index(schema.column(name).name) for name in key.columns] for key in schema.keys]
    seen: set[str] = set()
    kept: list[Row] = []
    for row in rows:
        marks = {f"{index} {[row[column] for column in key]}" for index, key in enumerate(keys)}
        if not marks & seen:
            seen |= marks
            kept.append(row)
    return kept


def _signed(schema: Schema, rows: Sequence[tuple[Row, int]]) -> pa.Table:
    columns = [pa.array([row[index] for row, _ in rows], c.type.arrow) for index, c in enumerate(schema)]
    plain = canonical(pa.table(columns, schema=schema.arrow), schema)
    weights = pa.array([weight for _, weight in rows], pa.int64())
    return consolidate(plain.append_column(pa.field(WEIGHT, pa.int64()), weights))


# values -------------------------------------------------------------------------------------------

_DAY = dt.datetime(2001, 1, 1, 12, tzinfo=dt.UTC)


def _value(kind: Type, number: int, variant: int) -> Any:
    """A value of a type: different for different small numbers, unless the type has fewer values."""
    if kind.name in _SIMPLE:
        return _SIMPLE[kind.name](number, variant)
    match kind.name:
        case "decimal":
            most = 10 ** min(kind.precision, 4) - 1
            return Decimal(1 + (number - 1) % most).scaleb(-min(kind.scale, kind.precision))
        case "string":
            text = _text(number, variant)
            return text if kind.length is None else text[-kind.length :]
        case "array":
            assert kind.element is not None
            return [_value(kind.element, number, variant), _value(kind.element, number + 1, variant)]
        case "map":
            assert kind.key is not None
            assert kind.value is not None
            return [(_value(kind.key, number, variant), _value(kind.value, number, variant))]
        case "struct":
            return {name: _value(part, number, variant) for name, part in kind.fields}
    raise AssertionError(kind.name)


def _whole(number: int, variant: int) -> int:
    return 1 + (number - 1) % 100 + (10 if variant == 1 else 0)


def _text(number: int, variant: int) -> str:
    return ("true", "false")[number % 2] if variant == 1 else str(2000 + number)


_SIMPLE: dict[str, Callable[[int, int], Any]] = {
    "tinyint": _whole,
    "smallint": _whole,
    "int": _whole,
    "bigint": _whole,
    "float": lambda number, variant: _whole(number, variant) + 0.5,
    "double": lambda number, variant: _whole(number, variant) + 0.1,
    "boolean": lambda number, variant: number % 2 == 1,
    "binary": lambda number, variant: _text(number, variant).encode(),
    "date": lambda number, variant: (_DAY + dt.timedelta(days=number)).date(),
    "timestamp": lambda number, variant: _DAY + dt.timedelta(days=number, hours=number),
    "timestamp_ntz": lambda number, variant: (_DAY + dt.timedelta(days=number)).replace(tzinfo=None),
}
