"""Arithmetic over Arrow as Apache Spark's ANSI mode has it. What would raise there stops with `LeftToEngine`."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.types import Type

_MOST_DIGITS, _WIDEST, _SIGNED_DIGITS = 76, 38, 34
_QUOTIENT_SCALE = 39
"""Digits after the point to which Apache Spark rounds a quotient of decimals, before it rounds to those of its type."""


class LeftToEngine(Exception):
    """The driver does not compute these rows: the engine does, or says what is wrong with them."""


def as_values(found: Any, count: int) -> Any:
    """Values as an array; a scalar stands for all rows."""
    if isinstance(found, pa.Scalar):
        return pa.repeat(found, count)
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks == 1 else pa.concat_arrays(found.chunks)
    return found


_CHECKED: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_PLAIN: dict[str, Callable[[Any, Any], Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def integer_operation(operator: str, left: Any, right: Any) -> Any:
    """+, - or * of integers of one type."""
    try:
        return _CHECKED[operator](left, right)
    except pa.ArrowInvalid as problem:
        raise LeftToEngine(str(problem)) from problem


def float_operation(operator: str, left: Any, right: Any) -> Any:
    """+, - or * of floats of one type."""
    return _PLAIN[operator](left, right)


def _divisor(left: Any, right: Any) -> Any:
    """A divisor without zeros: those beside a NULL are NULL, which the quotient is; others raise."""
    zero = pc.equal(right, pa.scalar(0, right.type))
    if pc.any(_array(pc.and_(pc.is_valid(left), pc.fill_null(zero, False)))).as_py():
        raise LeftToEngine("division by zero")
    return pc.if_else(pc.fill_null(zero, False), pa.scalar(None, right.type), right)


def _array(found: Any) -> Any:
    return pa.array([found.as_py()]) if isinstance(found, pa.Scalar) else found


def divided(left: Any, right: Any) -> Any:
    """A quotient of floats, or a whole one of integers, cut off towards zero."""
    try:
        return pc.divide_checked(left, _divisor(left, right))
    except pa.ArrowInvalid as problem:
        raise LeftToEngine(str(problem)) from problem


def remainder(left: Any, right: Any) -> Any:
    """What a whole division leaves, with the sign of the dividend."""
    divisor = _divisor(left, right)
    ones = pc.equal(divisor, pa.scalar(-1, divisor.type))
    divisor = pc.if_else(ones, pa.scalar(1, divisor.type), divisor)  # the least number has no opposite
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


def positive_remainder(left: Any, right: Any) -> Any:
    """The remainder of a whole division by a positive number: never negative."""
    found = remainder(left, right)
    if pc.any(_array(pc.less(right, pa.scalar(0, right.type)))).as_py():
        raise LeftToEngine("a remainder of a division by a negative number")
    negative = pc.less(found, pa.scalar(0, found.type))
    return pc.if_else(pc.fill_null(negative, False), pc.add(found, right), found)


def signs(found: Any) -> Any:
    """-1, 0 or 1 as DOUBLE."""
    if pa.types.is_decimal(found.type):
        return pc.sign(found).cast(pa.int64()).cast(pa.float64())
    return pc.sign(found).cast(pa.float64())


def whole_numbers(function: Callable[[Any], Any], found: Any) -> Any:
    """Numbers rounded down or up to whole ones."""
    if pa.types.is_integer(found.type):
        return found.cast(pa.int64())
    if not found.type.scale:
        return rescaled(found, 0, min(_WIDEST, found.type.precision + 1))
    wide = found.cast(pa.decimal256(found.type.precision + 1, found.type.scale))
    return rescaled(function(wide), 0, min(_WIDEST, found.type.precision - found.type.scale + 1))


# decimals -----------------------------------------------------------------------------------------


def rescaled(found: Any, scale: int, precision: int = _MOST_DIGITS) -> Any:
    """Numbers as decimals with so many digits after the point, rounded half up; one with more digits raises."""
    try:
        if pa.types.is_integer(found.type):
            found = found.cast(pa.decimal256(20, 0))
        if found.type.scale > scale:
            wide = found.cast(pa.decimal256(_MOST_DIGITS, found.type.scale))
            found = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
        wanted = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        return found.cast(wanted)
    except pa.ArrowInvalid as problem:
        raise LeftToEngine(str(problem)) from problem


def decimal_operation(operator: str, left: Any, right: Any, result: Type) -> Any:
    """+, - or * of decimals, exact, then rounded to a type."""
    try:
        wide = [value.cast(pa.decimal256(value.type.precision, value.type.scale)) for value in (left, right)]
        found = _CHECKED[operator](*wide)
    except pa.ArrowInvalid as problem:
        raise LeftToEngine(str(problem)) from problem
    if result.precision == _WIDEST:
        _check_room(found, found.type.scale)
    return rescaled(found, result.scale, result.precision)


def _check_room(found: Any, scale: int, digits: int = _WIDEST - 1) -> None:
    """Decimals near the limit of what an engine computes with are left to it: it may raise, or round."""
    limit = pa.scalar(decimal.Decimal(10) ** max(0, digits - scale), pa.decimal128(_WIDEST, 0))
    if pc.any(_array(pc.greater_equal(pc.abs(found), limit.cast(found.type)))).as_py():
        raise LeftToEngine("a decimal near its limit")


def with_sign(function: Callable[[Any], Any], found: Any) -> Any:
    """The opposite of numbers, or their absolute values. Apache Spark rounds those of decimals to 34 digits."""
    if pa.types.is_decimal(found.type) and found.type.precision > _SIGNED_DIGITS:
        _check_room(found, found.type.scale, _SIGNED_DIGITS - 1)
    try:
        return function(found)
    except pa.ArrowInvalid as problem:
        raise LeftToEngine(str(problem)) from problem


def decimal_quotient(left: Any, right: Any, result: Type) -> Any:
    """A quotient of decimals: rounded to 39 digits after the point, then to those of the type, both half up."""
    shift = _QUOTIENT_SCALE + right.type.scale - left.type.scale
    room = max(0, result.scale + 1 + right.type.scale - left.type.scale)
    found: list[int | None] = []
    for dividend, divisor in zip(digits_of(left), digits_of(right), strict=True):
        if dividend is None or divisor is None:
            found.append(None)
            continue
        if not divisor:
            raise LeftToEngine("division by zero")
        if result.precision == _WIDEST and abs(dividend) * 10**room >= 10 ** (_WIDEST - 1):
            raise LeftToEngine("a decimal near its limit")
        quotient = _half_up(dividend * 10**shift, divisor)
        found.append(_half_up(quotient, 10 ** (_QUOTIENT_SCALE - result.scale)))
    if any(value is not None and abs(value) >= 10**result.precision for value in found):
        raise LeftToEngine(f"a quotient has more than {result.precision} digits")
    return decimals(found, result)


def digits_of(values: Any) -> list[int | None]:
    """Decimals as integers: all their digits. Integers as they are."""
    if pa.types.is_integer(values.type):
        return list(values.to_pylist())
    scale = values.type.scale
    return [None if value is None else int(value.scaleb(scale)) for value in values.to_pylist()]


def _half_up(dividend: int, divisor: int) -> int:
    negative = (dividend < 0) != (divisor < 0)
    whole, rest = divmod(abs(dividend), abs(divisor))
    whole += 2 * rest >= abs(divisor)
    return -whole if negative else whole


def decimals(digits: list[int | None], kind: Type) -> Any:
    """Decimals from all their digits."""
    exact = decimal.Context(prec=_MOST_DIGITS)
    values = [None if one is None else exact.scaleb(decimal.Decimal(one), -kind.scale) for one in digits]
    return pa.array(values, kind.arrow)
