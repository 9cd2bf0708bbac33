"""Key values as literals: a few are better compared with literals than joined."""

from __future__ import annotations

import datetime as dt
import decimal
import operator
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from viewkeeper.algebra.expressions import Expression, Name, call, cast, string
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type, quote
from viewkeeper.engine.connect_columns import balanced, typed


def literal(value: Any, kind: Type) -> Any | None:
    """A value as a typed literal; None where it would not be exact in every engine."""
    if kind.is_integer or kind.name == "boolean" or isinstance(value, decimal.Decimal):
        return typed(value, kind)
    if kind.name == "date" and isinstance(value, dt.date):
        return typed(value, kind)
    if kind.name == "string" and value.isascii() and value.isprintable():
        return typed(value, kind)
    return None


def distinct_column(keys: pa.Table) -> pa.Table:
    """The distinct values of the first key column."""
    if pa.types.is_nested(keys.schema.field(0).type):
        return keys.select([0])
    return pa.table([keys.column(0).unique()], names=keys.column_names[:1])


def literal_filter(keys: pa.Table, schema: Schema, most: int) -> Any | None:
    """A condition that holds for rows with one of the keys; None if there are more than `most` or no exact literals."""
    if not 0 < keys.num_rows <= most:
        return None
    names = [F.col(quote(name)) for name in schema.names]
    rows: list[list[Any]] = []
    for row in zip(*(column.to_pylist() for column in keys.columns), strict=True):
        if any(value is None for value in row):
            return None
        found = [literal(value, column.type) for value, column in zip(row, schema, strict=True)]
        if any(value is None for value in found):
            return None
        rows.append(found)
    first = names[0].isin(*[row[0] for row in rows])
    if len(names) == 1:
        return first
    tests = [balanced([name == value for name, value in zip(names, row, strict=True)], operator.and_) for row in rows]
    return first & balanced(tests, operator.or_)


def cut_expression(name: str, kind: Type) -> Expression | None:
    """A column in a form whose values can be compared with literals exactly; None if there is none."""
    if kind.is_integer or kind.name in ("date", "decimal", "string"):
        return Name(name)
    if kind.is_float:  # a function's value, so that no file is skipped by statistics, which leave NaN out
        return call("nanvl", Name(name), cast(string("Infinity"), kind))
    if kind.name == "timestamp":
        return call("unix_micros", Name(name))
    return None
