"""Ranges of single columns that a condition implies, for file skipping. Always sound: never too narrow.

Only conjuncts that compare a column with literals of its own type are used.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.algebra.rows import comparable_array
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type
from viewkeeper.sql.conditions import anded
from viewkeeper.sql.dialect import literal_suffix

Range = tuple[Any, Any]


class Bounded(Protocol):
    """The bounds of a file's column."""

    @property
    def nans(self) -> int:
        """How many NaN it holds."""

    def may_overlap(self, low: Any, high: Any) -> bool:
        """Whether a value may lie in a closed range."""


@dataclass(frozen=True)
class Ranges:
    """For some columns, closed ranges; the value must lie in one of them (NULL never does). An end of None is open."""

    columns: tuple[tuple[str, tuple[Range, ...]], ...] = ()

    def may_be_in(self, bounds: Mapping[str, Bounded]) -> bool:
        """Whether a file with these bounds may hold a row inside the ranges."""
        for name, ranges in self.columns:
            bound = bounds.get(name)
            if bound is None or bound.nans:
                continue
            if not any(bound.may_overlap(low, high) for low, high in ranges):
                return False
        return True

    def hold_for(self, table: pa.Table, schema: Schema) -> pa.ChunkedArray | None:
        """For each row whether it may lie inside the ranges; None if they do not restrict the table."""
        mask: Any = None
        for name, ranges in self.columns:
            kind = schema.column(name).type
            if kind.is_float:
                continue  # NaN is not ordered
            values = comparable_array(table.column(name), kind)
            inside: Any = None
            for low, high in (_within(part, values.type) for part in ranges):
                one: Any = pc.is_valid(values)
                if low is not None:
                    one = pc.and_(one, pc.greater_equal(values, pa.scalar(low, values.type)))
                if high is not None:
                    one = pc.and_(one, pc.less_equal(values, pa.scalar(high, values.type)))
                inside = one if inside is None else pc.or_(inside, one)
            mask = inside if mask is None else pc.and_(mask, inside)
        return None if mask is None else pc.fill_null(mask, False)

    def contradictions(self, other: Ranges) -> list[str]:
        """The columns whose ranges do not overlap: if there is one, no row lies inside both."""
        return [
            name
            for name, ours in self.columns
            for same, theirs in other.columns
            if name.lower() == same.lower() and not any(_overlap(a, b) for a in ours for b in theirs)
        ]


def _within(part: Range, kind: pa.DataType) -> Range:
    """A range with ends that an integer type can hold: beyond them it is open, or empty if all of it is beyond."""
    if not pa.types.is_integer(kind):
        return part
    least, most = -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
    low, high = part
    if (low is not None and low > most) or (high is not None and high < least):
        return (1, 0)
    return (None if low is None or low < least else low, None if high is None or high > most else high)


def _overlap(one: Range, other: Range) -> bool:
    lows = [low for low in (one[0], other[0]) if low is not None]
    highs = [high for high in (one[1], other[1]) if high is not None]
    return not lows or not highs or max(lows) <= min(highs)


def ranges_of(condition: exp.Expr, schema: Schema, alias: str) -> Ranges:
    """The ranges that a condition on a table's rows implies."""
    found = []
    for conjunct in anded(condition):
        implied = _range_of(conjunct, schema, alias.lower())
        if implied is not None:
            found.append(implied)
    return Ranges(tuple(found))


_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
}


def _range_of(node: exp.Expr, schema: Schema, alias: str) -> tuple[str, tuple[Range, ...]] | None:
    kind = type(node)
    if kind in _FLIPPED:
        left, right = node.this, node.args["expression"]
        if isinstance(right, exp.Column):
            left, right, kind = right, left, _FLIPPED[kind]
        column = _column(left, schema, alias)
        if column is None:
            return None
        value = literal_value(right, column[1])
        if value is None:
            return None
        low = value if kind in (exp.EQ, exp.NullSafeEQ, exp.GT, exp.GTE) else None
        high = value if kind in (exp.EQ, exp.NullSafeEQ, exp.LT, exp.LTE) else None
        return column[0], ((low, high),)
    if isinstance(node, exp.Between):
        column = _column(node.this, schema, alias)
        if column is None:
            return None
        low, high = literal_value(node.args["low"], column[1]), literal_value(node.args["high"], column[1])
        return None if low is None or high is None else (column[0], ((low, high),))
    if isinstance(node, exp.In) and node.args.get("query") is None and node.expressions:
        column = _column(node.this, schema, alias)
        if column is None:
            return None
        values = [literal_value(part, column[1]) for part in node.expressions]
        return None if any(v is None for v in values) else (column[0], tuple((v, v) for v in values))
    return None


def _column(node: exp.Expr, schema: Schema, alias: str) -> tuple[str, Type] | None:
    if not isinstance(node, exp.Column) or (node.table and node.table.lower() != alias) or node.args.get("db"):
        return None  # something else, or a field of a struct
    found = schema.find(node.name)
    return None if found is None else (found.name, found.type)


def literal_value(node: exp.Expr, kind: Type) -> Any:
    """A literal's value as bounds have it; None if it is not a plain literal of the column's type."""
    sign = 1
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        node, sign = node.this, -1
    if isinstance(node, exp.Literal) and not node.is_string:
        text = str(node.this)
        if not re.fullmatch(r"\d+(\.\d+)?", text):
            return None
        number = sign * decimal.Decimal(text)
        if kind.is_integer:
            return int(number) if number == int(number) else None
        if kind.name == "decimal":
            return number if kind.holds(number) else None  # else engines may round the column to compare the two
        return float(number) if kind.name == "double" and "." not in text else None
    if kind.name == "double" and literal_suffix(node) == "D":
        return sign * float(node.this.name)
    if sign < 0:
        return None
    if kind.name == "date":
        return _date(node)
    if kind.name == "string" and isinstance(node, exp.Literal) and node.is_string and "\\" not in str(node.this):
        return str(node.this)
    return None


def _date(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE:
        node = node.this
    if not (isinstance(node, exp.Literal) and node.is_string):
        return None
    text = str(node.this)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        return (dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days
    except ValueError:
        return None
