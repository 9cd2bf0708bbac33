"""Key values as engine text, where a few of them are better written than joined."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type, quote

FEW = 20
"""Engines prune by lists of literals up to about this length."""


def literal(value: Any, kind: Type) -> str | None:
    """A value as a typed literal; None where its spelling would not be exact in every engine."""
    if value is None:
        return f"CAST(NULL AS {kind.ddl})"
    if kind.is_integer or kind.name == "boolean":
        return f"CAST({str(value).lower()} AS {kind.ddl})" if value != -(1 << 63) else None
    if isinstance(value, decimal.Decimal):
        return f"CAST('{value:f}' AS {kind.ddl})"
    if kind.name == "date" and isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    if kind.name == "string" and value.isascii() and value.isprintable() and not set("'\\\\{}$") & set(value):
        return f"'{value}'"
    return None


def distinct_column(keys: pa.Table) -> pa.Table:
    """The different values of the first key column."""
    if pa.types.is_nested(keys.schema.field(0).type):
        return keys.select([0])
    return pa.table([keys.column(0).unique()], names=keys.column_names[:1])


def literal_filter(keys: pa.Table, schema: Schema) -> str | None:
    """A condition that holds for rows with one of a few keys; None if they are many or cannot be spelled."""
    if not 0 < keys.num_rows <= FEW:
        return None
    names = [quote(name) for name in schema.names]
    rows: list[list[str]] = []
    for row in zip(*(column.to_pylist() for column in keys.columns), strict=True):
        spelled = [literal(value, column.type) for value, column in zip(row, schema, strict=True)]
        if any(text is None for text in spelled) or any(value is None for value in row):
            return None
        rows.append([str(text) for text in spelled])
    if len(names) == 1:
        return f"{names[0]} IN ({', '.join(text for (text,) in rows)})"
    tests = [" AND ".join(f"{name} = {text}" for name, text in zip(names, row, strict=True)) for row in rows]
    first = f"{names[0]} IN ({', '.join(dict.fromkeys(row[0] for row in rows))})"
    return f"{first} AND ({' OR '.join(f'({test})' for test in tests)})"


def cut_expression(name: str, kind: Type) -> str | None:
    """A column in a form whose values can be compared with literals exactly; None if there is none."""
    if kind.is_integer or kind.name in ("date", "decimal", "string"):
        return name
    if kind.is_float:  # as a function's value no file is skipped for it: statistics leave NaN out
        return f"nanvl({name}, CAST('Infinity' AS {kind.ddl}))"
    if kind.name == "timestamp":
        return f"unix_micros({name})"
    return None
