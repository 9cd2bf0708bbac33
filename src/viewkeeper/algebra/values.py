"""Ingest of Python values: rows as tuples or dicts become Arrow columns of the declared types, or are refused."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.errors import TypeMismatch

_WIDE = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)


Where = Callable[[int], str]
"""Describes where a row is, by its number, which counts from 1."""


def _row(number: int) -> str:
    return f"row {number}"


def rows_to_arrow(rows: Iterable[Any], schema: Schema, relation: str, zone: str, where: Where = _row) -> pa.Table:
    """Rows given as tuples or dicts, as an Arrow table of the schema.

    Dicts: names without regard to case, a missing name is NULL, an unknown one is a TypeMismatch.
    """
    position = {column.name.lower(): index for index, column in enumerate(schema)}
    listed: list[Sequence[Any]] = []
    width = len(schema)
    for number, row in enumerate(rows, start=1):
        if isinstance(row, tuple) and len(row) == width:
            listed.append(row)
        elif isinstance(row, Mapping):
            listed.append(_from_mapping(row, schema, position, relation, number, where))
        elif isinstance(row, Sequence) and not isinstance(row, (str, bytes)):
            if len(row) != width:
                raise TypeMismatch(
                    f"{where(number)} for {relation} has {len(row)} values, the table has {width} columns",
                    detail=f"the row is {tuple(row)!r}",
                    hint=f"the columns are {', '.join(schema.names)}; a dict may leave some out",
                )
            listed.append(row)
        else:
            raise TypeMismatch(
                f"{where(number)} for {relation} is a {type(row).__name__}, not a row",
                hint="give tuples in column order, or dicts with column names",
            )
    columns = zip(*listed, strict=True) if listed else [()] * width
    arrays = [_array(values, column, relation, zone, where) for values, column in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema.arrow)


def _array(values: Sequence[Any], column: Column, relation: str, zone: str, where: Where) -> pa.Array:
    """One column. Arrow converts values that are all of the type's own Python class; if it refuses them, they are
    converted one by one."""
    classes = set(map(type, values)) - {type(None)}
    try:
        if classes <= {_PLAIN.get(column.type.name)}:
            return pa.array(values, type=column.type.arrow)
        if column.type.name == "decimal" and classes <= {int, float, decimal.Decimal}:
            return pa.array([None if value is None else str(value) for value in values]).cast(column.type.arrow)
        if column.type.name == "double" and classes <= {int, float, decimal.Decimal}:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        if column.type.name in ("date", "timestamp", "timestamp_ntz") and classes == {str}:
            from viewkeeper.algebra.text_values import read_texts

            return read_texts(pa.array(values, pa.string()), column.type, zone, blank_is_null=False)
    except (pa.ArrowException, OverflowError, ValueError):
        pass
    checked = [_checked(value, column, relation, number, zone, where) for number, value in enumerate(values, start=1)]
    return pa.array(checked, type=column.type.arrow)


def _from_mapping(
    row: Mapping[Any, Any], schema: Schema, position: dict[str, int], relation: str, number: int, where: Where
) -> list[Any]:
    values: list[Any] = [None] * len(schema)
    for name, value in row.items():
        index = position.get(str(name).lower())
        if index is None:
            raise TypeMismatch(
                f"{where(number)} names a column '{name}' that {relation} does not have",
                hint=f"its columns are {', '.join(schema.names)}",
            )
        values[index] = value
    return values


def _checked(value: Any, column: Column, relation: str, number: int, zone: str, where: Where) -> Any:
    try:
        return convert(value, column.type, zone)
    except (ValueError, TypeError, ArithmeticError) as problem:
        raise TypeMismatch(
            f"{value!r} does not fit column '{column.name}' of {relation}, which is {column.type}",
            detail=f"in {where(number)}: {problem}" if str(problem) else f"in {where(number)}",
        ) from None


def convert(value: Any, kind: Type, zone: str) -> Any:
    """One Python value as the value of a type; ValueError, TypeError or ArithmeticError if it does not fit."""
    if value is None:
        return None
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        value = value.item()
    match kind.name:
        case "array":
            assert kind.element is not None
            if isinstance(value, (str, bytes, Mapping)):
                raise TypeError("an array is given as a list")
            return [convert(part, kind.element, zone) for part in value]
        case "map":
            assert kind.key is not None
            assert kind.value is not None
            pairs = value.items() if isinstance(value, Mapping) else value
            out = [(convert(k, kind.key, zone), convert(v, kind.value, zone)) for k, v in pairs]
            if any(key is None for key, _ in out):
                raise ValueError("a map key cannot be NULL")
            return out
        case "struct":
            return _struct(value, kind, zone)
        case _:
            return _SCALAR[kind.name](value, kind, zone)


def _struct(value: Any, kind: Type, zone: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        given = {str(name).lower(): part for name, part in value.items()}
        known = {name.lower() for name, _ in kind.fields}
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(f"the struct has no field '{unknown[0]}'")
        return {name: convert(given.get(name.lower()), part, zone) for name, part in kind.fields}
    parts = list(value)
    if len(parts) != len(kind.fields):
        raise ValueError(f"the struct has {len(kind.fields)} fields, {len(parts)} were given")
    return {name: convert(part, type_, zone) for part, (name, type_) in zip(parts, kind.fields, strict=True)}


def _integer(value: Any, kind: Type, zone: str) -> int:
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    if isinstance(value, (float, decimal.Decimal)):
        if value != int(value):
            raise ValueError("it is not a whole number")
        value = int(value)
    if not isinstance(value, int):
        raise TypeError(f"it is a {type(value).__name__}, not a whole number")
    limit = 1 << (INTEGERS[kind.name] - 1)
    if not -limit <= value < limit:
        raise ValueError(f"it is out of range: {-limit} to {limit - 1}")
    return value


def _floating(value: Any, kind: Type, zone: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        raise TypeError(f"it is a {type(value).__name__}, not a number")
    if kind.name == "float" and not isinstance(value, float):
        float(value)  # raises for a whole number beyond every float
        return float(pa.array([str(value)]).cast(pa.float32())[0].as_py())  # rounded once, not by way of a double
    return float(value)


def _decimal(value: Any, kind: Type, zone: str) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        raise TypeError(f"it is a {type(value).__name__}, not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it is not finite")
    exact = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    if not exact.is_finite():
        raise ValueError("it is not finite")
    rounded = exact.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_WIDE)
    if rounded and rounded.adjusted() >= kind.precision - kind.scale:
        raise ValueError(f"it needs more than {kind.precision - kind.scale} digits before the point")
    return rounded


def _text(value: Any, kind: Type, zone: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"it is a {type(value).__name__}, not a string")
    value.encode("utf-8")
    return value


def _bytes(value: Any, kind: Type, zone: str) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"it is a {type(value).__name__}, not bytes")
    return bytes(value)


def _boolean(value: Any, kind: Type, zone: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"it is a {type(value).__name__}, not True or False")
    return value


def _date(value: Any, kind: Type, zone: str) -> dt.date:
    if isinstance(value, str):
        return dt.date.fromisoformat(value)
    if isinstance(value, dt.datetime):
        if value.time() != dt.time():
            raise ValueError("it has a time of day")
        return value.date()
    if not isinstance(value, dt.date):
        raise TypeError(f"it is a {type(value).__name__}, not a date")
    return value


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if hasattr(value, "to_pydatetime"):
        if getattr(value, "nanosecond", 0):
            raise ValueError("it is finer than a microsecond")
        value = value.to_pydatetime()
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if not isinstance(value, dt.datetime):
        raise TypeError(f"it is a {type(value).__name__}, not a date and time")
    return value


def _timestamp(value: Any, kind: Type, zone: str) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC if zone == "UTC" else zoneinfo.ZoneInfo(zone))
    return moment.astimezone(dt.UTC)


def _timestamp_ntz(value: Any, kind: Type, zone: str) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is not None:
        raise ValueError("it has a time zone, the column has none")
    return moment


_SCALAR = {
    **dict.fromkeys(INTEGERS, _integer),
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "string": _text,
    "binary": _bytes,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}

_PLAIN: dict[str, type] = {
    **dict.fromkeys(INTEGERS, int),
    "float": float,
    "double": float,
    "decimal": decimal.Decimal,
    "string": str,
    "binary": bytes,
    "boolean": bool,
    "date": dt.date,
}
"""The Python class of which Arrow converts every value exactly or refuses it."""
