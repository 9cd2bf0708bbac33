"""Conditions tested on the driver, as far as it knows them: for which rows of a table one may be true.

Comparisons of strings, of dates, and of integers (also decimals without a fraction) with their sums, differences and
products are known, also IS NULL, IN with a list, AND, OR and NOT, and all of them exactly: a condition made of them is
decided here. Any other part may be true or false for each row, also one that would overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.algebra.rows import comparable_array
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type
from viewkeeper.analysis.ranges import literal_value
from viewkeeper.sql.conditions import unwrapped

Mask = Any
"""A boolean array without NULL; None stands for all rows."""

_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


_ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}

_BITS = {
    exp.DataType.Type.TINYINT: 8,
    exp.DataType.Type.SMALLINT: 16,
    exp.DataType.Type.INT: 32,
    exp.DataType.Type.BIGINT: 64,
}


def may_be_true(condition: exp.Expr, table: pa.Table, schema: Schema) -> Mask:
    """For which rows a condition may be true; None if that is not known of any part of it."""
    return _Rows(table, schema).may_be(condition, truth=True)


def integers(value: exp.Expr, table: pa.Table, schema: Schema) -> pa.ChunkedArray | pa.Array | None:
    """The values of an integer expression for each row as 64-bit integers; None if the driver does not know them."""
    found = _Rows(table, schema).number(value)
    return None if found is None or isinstance(found[0], pa.Scalar) else found[0]


class _Rows:
    def __init__(self, table: pa.Table, schema: Schema) -> None:
        self.table = table
        self.schema = schema

    def may_be(self, node: exp.Expr, *, truth: bool) -> Mask:
        """For which rows a condition may be true, or may be false."""
        node = unwrapped(node)
        match node:
            case exp.Not():
                return self.may_be(node.this, truth=not truth)
            case exp.And() | exp.Or():
                parts = [self.may_be(part, truth=truth) for part in (node.left, node.right)]
                return _both(*parts) if isinstance(node, exp.And) == truth else _either(*parts)
            case _:
                found = self._exact(node)
        if found is None:
            return None
        return pc.fill_null(found if truth else pc.invert(found), False)

    def _exact(self, node: exp.Expr) -> Any:
        """The value of a known condition for each row, NULL included; None if it is not known."""
        match node:
            case exp.Is() if isinstance(node.expression, exp.Null):
                column = self._column(node.this)
                return None if column is None else pc.is_null(column[0])
            case exp.In() if node.args.get("query") is None and node.expressions:
                return self._in_list(node)
            case _ if type(node) in _COMPARISONS:
                return self._compared(node)
            case _:
                return None

    def _compared(self, node: exp.Expr) -> Any:
        kind, left, right = type(node), unwrapped(node.this), unwrapped(node.args["expression"])
        numbers = self.number(left), self.number(right)
        if numbers[0] is not None and numbers[1] is not None:
            return _COMPARISONS[kind](numbers[0][0], numbers[1][0]) if self._is_column_in(node) else None
        if not isinstance(left, exp.Column):
            left, right, kind = right, left, _FLIPPED.get(kind, kind)
        column = self._column(left)
        if column is None:
            return None
        other = self._column(right)
        if other is not None:
            return _COMPARISONS[kind](column[0], other[0]) if other[1] == column[1] else None
        value = self._literal(right, column)
        return None if value is None else _COMPARISONS[kind](column[0], value)

    @staticmethod
    def _is_column_in(node: exp.Expr) -> bool:
        """Whether a comparison has a value for each row, not one for all."""
        return node.find(exp.Column) is not None

    def number(self, node: exp.Expr) -> tuple[Any, int] | None:
        """An integer expression as 64-bit values, and the bits of its own type; None where they may overflow."""
        node = unwrapped(node)
        match node:
            case exp.Column():
                column = self._column(node)
                if column is None or not (column[1].is_integer or column[1].name == "decimal"):
                    return None
                return _within(lambda array: pc.cast(array, pa.int64()), 0, (column[0], column[0].type.bit_width))
            case exp.Literal() if not node.is_string and str(node.this).isdigit() and int(node.this) < 1 << 63:
                value = int(node.this)
                return pa.scalar(value, pa.int64()), 32 if value < 1 << 31 else 64
            case exp.Neg():
                return _within(pc.negate_checked, 32, self.number(node.this))
            case exp.Anonymous() if node.name.lower() == "nullif" and isinstance(node.expressions[-1], exp.Null):
                return self.number(node.expressions[0])
            case exp.Cast():
                bits = _bits(node.to)
                return None if bits is None else _within(lambda value: value, bits, self.number(node.this))
            case _ if type(node) in _ARITHMETIC:
                return _within(_ARITHMETIC[type(node)], 0, self.number(node.this), self.number(node.expression))
            case _:
                return None

    def _in_list(self, node: exp.In) -> Any:
        column = self._column(node.this)
        if column is None:
            return None
        values = [self._literal(part, column) for part in node.expressions]
        if any(value is None for value in values):
            return None
        found = pc.equal(column[0], values[0])
        for value in values[1:]:
            found = pc.or_(found, pc.equal(column[0], value))
        return found

    def _column(self, node: exp.Expr) -> tuple[Any, Type] | None:
        """A column as an array that compares as the engines do, with its type."""
        node = unwrapped(node)
        if not isinstance(node, exp.Column) or node.table:
            return None
        found = self.schema.find(node.name)
        if found is None or not (found.type.is_integer or found.type.name in ("string", "date", "decimal")):
            return None
        if found.type.scale:
            return None
        return comparable_array(self.table.column(found.name), found.type), found.type

    @staticmethod
    def _literal(node: exp.Expr, column: tuple[Any, Type]) -> pa.Scalar | None:
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


def _bits(kind: exp.DataType) -> int | None:
    """The bits of an integer type; decimals without a fraction count as wide integers, others as none."""
    if kind.this in _BITS:
        return _BITS[kind.this]
    sizes = [int(part.name) for part in kind.expressions]
    return 128 if kind.this == exp.DataType.Type.DECIMAL and sizes[1:] == [0] and sizes[0] > 18 else None


def _both(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return other if one is None else one
    return pc.and_(one, other)


def _either(one: Mask, other: Mask) -> Mask:
    return None if one is None or other is None else pc.or_(one, other)
