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

from viewkeeper.algebra.expressions import (
    BOOLEAN,
    STRING,
    Between,
    Cast,
    Column,
    Comparison,
    Expression,
    In,
    Literal,
    Name,
    conditions_of,
)
from viewkeeper.algebra.rows import comparable_array
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type

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


def ranges_of(condition: Expression) -> Ranges:
    """The ranges that a condition implies for single columns, by their labels or names."""
    found = []
    for conjunct in conditions_of(condition):
        implied = _range_of(conjunct)
        if implied is not None:
            found.append(implied)
    return Ranges(tuple(found))


_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<=>": "<=>"}


def _range_of(node: Expression) -> tuple[str, tuple[Range, ...]] | None:
    match node:
        case Comparison(operator, left, right) if operator in _FLIPPED:
            if named(right) is not None:
                left, right, operator = right, left, _FLIPPED[operator]
            column = named(left)
            value = literal_value(right, column[1]) if column is not None else None
            if column is None or value is None:
                return None
            low = value if operator in ("=", "<=>", ">", ">=") else None
            high = value if operator in ("=", "<=>", "<", "<=") else None
            return column[0], ((low, high),)
        case Between(child, low_end, high_end):
            column = named(child)
            if column is None:
                return None
            low, high = literal_value(low_end, column[1]), literal_value(high_end, column[1])
            return None if low is None or high is None else (column[0], ((low, high),))
        case In(child, options):
            column = named(child)
            if column is None:
                return None
            values = [literal_value(part, column[1]) for part in options]
            return None if any(v is None for v in values) else (column[0], tuple((v, v) for v in values))
        case _:
            return None


def named(node: Expression) -> tuple[str, Type] | None:
    """The label or name of a column, and its type; None for anything else."""
    match node:
        case Column(attribute):
            return attribute.label, attribute.type
        case Name(name, kind) if kind is not None:
            return name, kind
        case _:
            return None


def literal_value(node: Expression, kind: Type) -> Any:
    """A literal's value as bounds have it; None if it is not a plain literal of the column's type."""
    if isinstance(node, Cast) and node.type.ddl == kind.ddl and (node.implicit or kind.name == "date"):
        node = node.child
    if not isinstance(node, Literal) or node.value is None or node.type == BOOLEAN:
        return None
    if node.type == STRING:
        text = str(node.value)
        return _date(text) if kind.name == "date" else text if kind.name == "string" else None
    if node.type.name == "date":
        return _date(str(node.value)) if kind.name == "date" else None
    if node.type.is_float:
        return float(node.value) if kind.name == "double" and node.type.name == "double" else None
    if not (node.type.is_integer or node.type.name == "decimal"):
        return None
    number = decimal.Decimal(str(node.value))
    if kind.is_integer:
        return int(number) if number == int(number) else None
    if kind.name == "decimal":
        return number if kind.holds(number) else None  # else engines may round the column to compare the two
    return float(number) if kind.name == "double" and node.type.is_integer else None


def _date(text: str) -> int | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        return (dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days
    except ValueError:
        return None
