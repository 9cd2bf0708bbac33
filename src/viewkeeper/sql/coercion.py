"""Common types: what the columns of set operations and VALUES are cast to."""

from __future__ import annotations

from viewkeeper.algebra.expressions import Expression, text
from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.errors import ViewkeeperError
from viewkeeper.sql.context import Context

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_TIMES = ("date", "timestamp_ntz", "timestamp")


def common_type(context: Context, one: Type, other: Type) -> Type | None:
    """The type that values of both types are cast to, as Apache Spark chooses it; None if there is none."""
    if one.ddl == other.ddl:
        return Type(one.name) if one.name == "string" else one
    if one.is_integer and other.is_integer:
        return one if INTEGERS[one.name] >= INTEGERS[other.name] else other
    numbers = [kind.is_integer or kind.is_float or kind.name == "decimal" for kind in (one, other)]
    if all(numbers):
        return _number(one, other)
    if one.name in _TIMES and other.name in _TIMES:
        return one if _TIMES.index(one.name) >= _TIMES.index(other.name) else other
    return _asked(context, one, other)


def _number(one: Type, other: Type) -> Type:
    if one.is_float or other.is_float:
        both_float = {one.name, other.name} <= {"float", *INTEGERS}
        small = all(kind.is_float or kind.is_integer for kind in (one, other))
        return Type("float") if both_float and small else Type("double")
    left, right = _as_decimal(one), _as_decimal(other)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale > 38:  # as Spark: digits before the point are kept, then as many after it as there is room for
        scale = max(min(scale, 6), 38 - whole) if whole < 38 else 0
        return Type("decimal", 38, max(0, min(scale, 38 - whole)))
    return Type("decimal", whole + scale, scale)


def _as_decimal(kind: Type) -> Type:
    return Type("decimal", _DIGITS[kind.name], 0) if kind.is_integer else kind


def _asked(context: Context, one: Type, other: Type) -> Type | None:
    numbers = context.numbers
    pair = [numbers.attribute("a", one), numbers.attribute("b", other)]
    try:
        return context.types([text("coalesce({}, {})", *pair, raises=True)])[0]
    except ViewkeeperError:
        return None


def cast_to(expression: Expression, has: Type, wanted: Type) -> Expression:
    """An expression cast to a type, if it is not of that type already."""
    if has.ddl == wanted.ddl:
        return expression
    return text(f"CAST({{}} AS {wanted.ddl})", expression, raises=not _is_widening(has, wanted))


def _is_widening(has: Type, wanted: Type) -> bool:
    """Whether the cast is possible for every value."""
    if has.is_integer and wanted.is_integer:
        return INTEGERS[has.name] <= INTEGERS[wanted.name]
    if wanted.is_float:
        return has.is_integer or has.is_float or has.name == "decimal"
    if wanted.name == "decimal" and (has.is_integer or has.name == "decimal"):
        left = _as_decimal(has)
        return left.scale <= wanted.scale and left.precision - left.scale <= wanted.precision - wanted.scale
    return wanted.name == "string"
