"""Conditions tested on the driver, as far as it knows them: for which rows of a table one may be true.

Comparisons of strings, of dates, and of integers (also decimals without a fraction) with their sums, differences and
products are known, also IS NULL, IN with a list, AND, OR and NOT, and all of them exactly: a condition made of them is
decided here. Any other part may be true or false for each row, also one that would overflow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.expressions import (
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Name,
    Negative,
    Not,
    Or,
)
from viewkeeper.algebra.rows import comparable_array
from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.analysis.ranges import literal_value, named

Mask = Any
"""A boolean array without NULL; None stands for all rows."""

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def may_be_true(condition: Expression, table: pa.Table) -> Mask:
    """For which rows of a table a condition may be true; None if that is not known of any part of it.

    The table's columns have the labels or names of those in the condition; it need not have all of them.
    """
    return _Rows(table).may_be(condition, truth=True)


class _Rows:
    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.names = set(table.column_names)

    def may_be(self, node: Expression, *, truth: bool) -> Mask:
        """For which rows a condition may be true, or may be false."""
        match node:
            case Not(child):
                return self.may_be(child, truth=not truth)
            case And(conditions) | Or(conditions):
                parts = [self.may_be(part, truth=truth) for part in conditions]
                return functools.reduce(_both if isinstance(node, And) == truth else _either, parts)
            case _:
                found = self._exact(node)
        if found is None:
            return None
        return pc.fill_null(found if truth else pc.invert(found), False)

    def _exact(self, node: Expression) -> Any:
        """The value of a known condition for each row, NULL included; None if it is not known."""
        match node:
            case IsNull(child, negated):
                column = self._column(child)
                if column is None:
                    return None
                return pc.is_valid(column[0]) if negated else pc.is_null(column[0])
            case In(child, options):
                return self._in_list(child, options)
            case Comparison(operator, left, right) if operator in _COMPARISONS:
                return self._compared(operator, left, right)
            case _:
                return None

    def _compared(self, operator: str, left: Expression, right: Expression) -> Any:
        numbers = self.number(left), self.number(right)
        if numbers[0] is not None and numbers[1] is not None:
            one, other = numbers[0][0], numbers[1][0]
            if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar):
                return None  # one value for all rows
            return _COMPARISONS[operator](one, other)
        if named(left) is None:
            left, right, operator = right, left, _FLIPPED.get(operator, operator)
        column = self._column(left)
        if column is None:
            return None
        beside = self._column(right)
        if beside is not None:
            return _COMPARISONS[operator](column[0], beside[0]) if beside[1] == column[1] else None
        value = self._literal(right, column)
        return None if value is None else _COMPARISONS[operator](column[0], value)

    def number(self, node: Expression) -> tuple[Any, int] | None:
        """An integer expression as 64-bit values, and the bits of its own type; None where they may overflow."""
        match node:
            case Column() | Name():
                column = self._column(node)
                if column is None or not (column[1].is_integer or column[1].name == "decimal"):
                    return None
                return _within(lambda array: pc.cast(array, pa.int64()), 0, (column[0], column[0].type.bit_width))
            case Literal(int() as value, kind) if kind.is_integer:
                return pa.scalar(value, pa.int64()), INTEGERS[kind.name]
            case Negative(child):
                return _within(pc.negate_checked, 0, self.number(child))
            case Call("nullif", (child, Literal(None))):
                return self.number(child)
            case Cast(child, kind):
                bits = _bits(kind)
                return None if bits is None or node.tries else _within(lambda value: value, bits, self.number(child))
            case Arithmetic(operator, left, right, kind) if operator in _ARITHMETIC:
                bits = 0 if kind is None else _bits(kind)
                if bits is None:
                    return None
                return _within(_ARITHMETIC[operator], bits, self.number(left), self.number(right))
            case _:
                return None

    def _in_list(self, child: Expression, options: tuple[Expression, ...]) -> Any:
        column = self._column(child)
        if column is None:
            return None
        values = [self._literal(part, column) for part in options]
        if any(value is None for value in values):
            return None
        found = pc.equal(column[0], values[0])
        for value in values[1:]:
            found = pc.or_(found, pc.equal(column[0], value))
        return found

    def _column(self, node: Expression) -> tuple[Any, Type] | None:
        """A column as an array that compares as the engines do, with its type."""
        found = named(node)
        if found is None or found[0] not in self.names:
            return None
        name, kind = found
        if not (kind.is_integer or kind.name in ("string", "date", "decimal")) or kind.scale:
            return None
        return comparable_array(self.table.column(name), kind), kind

    @staticmethod
    def _literal(node: Expression, column: tuple[Any, Type]) -> pa.Scalar | None:
        value = literal_value(node, column[1])
        if value is None:
            return None
        try:
            return pa.scalar(value, column[0].type)
        except (OverflowError, pa.ArrowInvalid):
            return None  # a number that the column's type does not hold


def _within(work: Callable[..., Any], bits: int, *given: tuple[Any, int] | None) -> tuple[Any, int] | None:
    """The result of an integer operation, with its bits: the given ones, or those of the widest operand."""
    if any(part is None for part in given):
        return None
    bits = bits or max(part[1] for part in given if part is not None)
    try:
        found = work(*(part[0] for part in given if part is not None))
        if bits < 64:
            ends = pc.min_max(found) if isinstance(found, (pa.Array, pa.ChunkedArray)) else {"min": found, "max": found}
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is not None and (low < -(1 << (bits - 1)) or high >= 1 << (bits - 1)):
                return None
    except pa.ArrowInvalid:
        return None
    return found, bits


def _bits(kind: Type) -> int | None:
    """The bits of an integer type; decimals without a fraction count as wide integers, others as none."""
    if kind.is_integer:
        return INTEGERS[kind.name]
    return 128 if kind.name == "decimal" and not kind.scale and kind.precision > 18 else None


def _both(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return other if one is None else one
    return pc.and_(one, other)


def _either(one: Mask, other: Mask) -> Mask:
    return None if one is None or other is None else pc.or_(one, other)
