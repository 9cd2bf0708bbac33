"""Whether a constant can be a value of a column."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal

from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.datalog.terms import Boolean, Constant, Number, Real, Text

_FAMILIES = {"string": "symbol", "timestamp_ntz": "timestamp"}

_DATE = r"\d{4}-\d{2}-\d{2}"
_TIMES = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(_DATE + r"([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?"),
}

HINTS = {
    "number": "write a number, without quotes",
    "symbol": 'write a string, in quotes: "..."',
    "boolean": "write true or false",
    "date": 'write a date as a string: "2024-12-31"',
    "timestamp": 'write a time as a string: "2024-12-31 23:59:59"',
    "binary": "bind a variable instead: there are no constants of this type",
}
"""What to write where a value of a family is wanted."""


def family_of_type(kind: Type) -> str:
    """The family of a type's values: 'number', 'symbol', 'boolean', 'date', 'timestamp', or another type's name."""
    if kind.is_integer or kind.is_float or kind.name == "decimal":
        return "number"
    return _FAMILIES.get(kind.name, kind.name)


@dataclass(frozen=True)
class Unfit:
    """Why a constant is no value of a column, and what to write."""

    why: str
    hint: str


def unfit(constant: Constant, kind: Type, spelling: str) -> Unfit | None:
    """Why a constant is no value of a type, or nothing when it is one."""
    family = family_of_type(kind)
    match constant:
        case Number() | Real() if family == "number":
            return _unfit_number(Decimal(constant.value), kind, spelling)
        case Text() if family in _TIMES:
            return _unfit_time(constant.value, family)
        case Text() if family == "symbol":
            return None
        case Boolean() if family == "boolean":
            return None
        case _:
            own = {Text: "symbol", Boolean: "boolean"}.get(type(constant), "number")
            return Unfit(f"it is a {own}", HINTS.get(family, HINTS["binary"]))


def _unfit_number(value: Decimal, kind: Type, spelling: str) -> Unfit | None:
    decimals = len(f"{value:f}".partition(".")[2].rstrip("0"))
    if spelling == "unsigned" and value < 0:
        return Unfit("it is negative", "write a number that is not negative, or declare the column as number")
    if kind.is_integer:
        half = 2 ** (INTEGERS[kind.name] - 1)
        if decimals:
            return Unfit("it is not a whole number", "write a whole number, or declare the column as float")
        return None if -half <= value < half else Unfit("it is too large", f"write one from {-half} to {half - 1}")
    if kind.name == "decimal":
        before = kind.precision - kind.scale
        if decimals > kind.scale:
            return Unfit("it has too many decimals", f"write at most {kind.scale} digits after the point")
        return (
            None
            if abs(value) < 10**before
            else Unfit("it is too large", f"write at most {before} digits before the point")
        )
    return None


def _unfit_time(value: str, family: str) -> Unfit | None:
    if not _TIMES[family].fullmatch(value):
        return Unfit(f"it does not read as a {family}", HINTS[family])
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return Unfit(f"there is no such {family}", HINTS[family])
    return None
