"""Casts from and to strings, of values whose text engines agree about. Every other text is left to them."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.types import Type
from viewkeeper.driver.numbers import LeftToEngine, rescaled

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,16})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def read(found: Any, wanted: Type) -> Any:
    """Strings as numbers or dates."""
    if wanted.name == "decimal":
        return rescaled(_each(found, _decimal, pa.decimal128(36, 16)), wanted.scale, wanted.precision)
    if wanted.name == "double":
        return _each(found, _double, pa.float64())
    if wanted.name == "date":
        return _each(found, _date, pa.date32())
    try:
        return _each(found, _integer, pa.int64()).cast(wanted.arrow)
    except pa.ArrowInvalid as problem:
        raise LeftToEngine(str(problem)) from problem


def written(found: Any) -> Any:
    """Decimals, or dates of the years 1 to 9999, as strings."""
    return _each(found, _text, pa.string())


def _each(found: Any, function: Callable[[Any], Any], kind: pa.DataType) -> Any:
    """A function of single values that are not NULL."""
    if isinstance(found, pa.Scalar):
        value = found.as_py()
        return pa.scalar(None if value is None else function(value), kind)
    return pa.array([None if value is None else function(value) for value in found.to_pylist()], kind)


def _integer(text: str) -> int:
    return int(_matched(_INTEGER, text))


def _decimal(text: str) -> decimal.Decimal:
    return decimal.Decimal(_matched(_DECIMAL, text))


def _double(text: str) -> float:
    return float(_matched(_DECIMAL, text))


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(_matched(_DATE, text))
    except ValueError as problem:
        raise LeftToEngine("no such date") from problem


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise LeftToEngine("a string that may be no such value")
    return text


def _text(value: Any) -> str:
    return f"{value:f}" if isinstance(value, decimal.Decimal) else str(value.isoformat())
