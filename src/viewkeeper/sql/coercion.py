"""Type coercion: the common type of several values, and the types that operators cast operands to and return.

The rules are Apache Spark's in ANSI mode: the branches of CASE and coalesce, set operations, IN lists and comparisons
have one common type; decimals keep every digit before the point and, where 38 digits do not do, at least six after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlglot import exp

from viewkeeper.algebra.expressions import BIGINT, DOUBLE, VOID, Expression, cast
from viewkeeper.algebra.types import INTEGERS, Type, as_decimal

MOST_DIGITS = 38
_LEAST_SCALE = 6
_TIMES = ("date", "timestamp_ntz", "timestamp")


def is_number(kind: Type) -> bool:
    """Whether values are numbers."""
    return kind.is_integer or kind.is_float or kind.name == "decimal"


# branches ---------------------------------------------------------------------------------------


def common_type(one: Type, other: Type) -> Type | None:
    """The type that values of both types are cast to, as Apache Spark chooses it; None if there is none."""
    if one.ddl == other.ddl:
        return Type(one.name) if one.name == "string" else one
    if VOID in (one, other):
        return other if one == VOID else one
    if is_number(one) and is_number(other):
        return _number(one, other)
    if one.name in _TIMES and other.name in _TIMES:
        return one if _TIMES.index(one.name) >= _TIMES.index(other.name) else other
    if one.name == "string" or other.name == "string":
        return _beside_string(other if one.name == "string" else one)
    if one.name == other.name and one.is_nested:
        return _nested(one, other)
    return None


def common_type_of(kinds: Iterable[Type]) -> Type | None:
    """The type that values of all types are cast to. Strings come last: the other types decide."""
    ordered = sorted(dict.fromkeys(kinds), key=lambda kind: kind.name == "string")
    found: Type | None = VOID
    for kind in ordered:
        found = common_type(found, kind) if found is not None else None
    return found


def _number(one: Type, other: Type) -> Type:
    if one.is_integer and other.is_integer:
        return one if INTEGERS[one.name] >= INTEGERS[other.name] else other
    if one.is_float or other.is_float:
        return DOUBLE  # also of FLOAT and an integer: FLOAT would lose digits
    left, right = as_decimal(one), as_decimal(other)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return Type("decimal", min(MOST_DIGITS, whole + scale), max(0, min(scale, MOST_DIGITS - whole)))


def _beside_string(kind: Type) -> Type | None:
    """The type that a string is cast to beside another type."""
    if kind.is_integer:
        return BIGINT
    if is_number(kind):
        return DOUBLE
    return None if kind.is_nested else kind


def _nested(one: Type, other: Type) -> Type | None:
    """The common type of two arrays, maps or structs: that of their parts."""
    if one.name == "struct":
        if [name.lower() for name, _ in one.fields] != [name.lower() for name, _ in other.fields]:
            return None
        fields = [(name, common_type(a, b)) for (name, a), (_, b) in zip(one.fields, other.fields, strict=True)]
        found = tuple((name, kind) for name, kind in fields if kind is not None)
        return Type("struct", fields=found) if len(found) == len(fields) else None
    pairs = [(one.element, other.element)] if one.name == "array" else [(one.key, other.key), (one.value, other.value)]
    parts = [common_type(a, b) for a, b in pairs if a is not None and b is not None]
    if None in parts:
        return None
    return Type("array", element=parts[0]) if one.name == "array" else Type("map", key=parts[0], value=parts[1])


# operators --------------------------------------------------------------------------------------


class Operation(NamedTuple):
    """An arithmetic operator between two types: the types its operands are cast to, and the type of its result."""

    left: Type
    right: Type
    result: Type


def operation(operator: type[exp.Expr], left: Type, right: Type) -> Operation | None:
    """The operation of an operator between numbers, or strings read as numbers; None if it is not arithmetic."""
    if left.name == "string" and is_number(right):
        left = _beside_string(right) or left
    elif right.name == "string" and is_number(left):
        right = _beside_string(left) or right
    if VOID in (left, right) and left != right:
        left, right = (right, right) if left == VOID else (left, left)
    if not (is_number(left) and is_number(right)):
        return None
    if "decimal" in (left.name, right.name) and not (left.is_float or right.is_float):
        return _decimal_operation(operator, as_decimal(left), as_decimal(right))
    kind = _number(left, right) if left != right else left
    if operator is exp.Div:
        return Operation(DOUBLE, DOUBLE, DOUBLE)
    if operator is exp.IntDiv:
        return Operation(BIGINT, BIGINT, BIGINT) if kind.is_integer else None
    return Operation(kind, kind, kind)


def _decimal_operation(operator: type[exp.Expr], left: Type, right: Type) -> Operation:
    if operator is exp.IntDiv:
        return Operation(left, right, BIGINT)
    whole, scale = max(left.precision - left.scale, right.precision - right.scale) + 1, max(left.scale, right.scale)
    if operator is exp.Mul:
        scale = left.scale + right.scale
        whole = left.precision + right.precision + 1 - scale
    elif operator is exp.Div:
        scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
        whole = left.precision - left.scale + right.scale
    elif operator is exp.Mod:
        whole = min(left.precision - left.scale, right.precision - right.scale)
    return Operation(left, right, _bounded(whole, scale))


def _bounded(whole: int, scale: int) -> Type:
    """A decimal type with these digits before and after the point; beyond 38 in all, fewer after it, down to six."""
    if whole + scale <= MOST_DIGITS:
        return Type("decimal", max(1, whole + scale), scale)
    return Type("decimal", MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE)))


# casts ------------------------------------------------------------------------------------------


def cast_to(expression: Expression, has: Type, wanted: Type) -> Expression:
    """An expression cast to a type, if it is not of that type already."""
    return expression if has.ddl == wanted.ddl else cast(expression, wanted)
