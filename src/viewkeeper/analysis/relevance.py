"""Relevance: changed rows that cannot pass a filter are dropped on the driver, before anything large is read."""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Comparison, Expression, conditions_of
from viewkeeper.algebra.expressions import Column as AttributeColumn
from viewkeeper.algebra.rows import comparable_array
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import same_family
from viewkeeper.analysis.possible_rows import may_be_true
from viewkeeper.analysis.ranges import Ranges, ranges_of


@functools.lru_cache(maxsize=4096)
def implied_ranges(condition: Expression) -> Ranges:
    """The ranges that a condition implies for single attributes, named by their labels."""
    return ranges_of(condition)


def fixed_values(condition: Expression) -> dict[Attribute, Any]:
    """The attributes that a condition fixes to one value, and the values."""
    labels = {a.label: a for a in condition.attributes}
    single = [(label, ranges[0]) for label, ranges in implied_ranges(condition).columns if len(ranges) == 1]
    return {labels[label]: low for label, (low, high) in single if low is not None and low == high}


@functools.lru_cache(maxsize=4096)
def equal_columns(condition: Expression) -> tuple[tuple[Attribute, Attribute], ...]:
    """The pairs of attributes that a condition makes equal without casts."""
    found = []
    for part in conditions_of(condition):
        match part:
            case Comparison("=" | "<=>", AttributeColumn(one), AttributeColumn(other)) if same_family(
                one.type, other.type
            ):
                found.append((one, other))
    return tuple(found)


def filters_of(node: n.Node, relation: str) -> list[Ranges]:
    """For each scan of a relation in a query, the ranges that the filters right above it imply.

    From a filter that can raise on, nothing is implied: who left rows out by what is above it would hide an error.
    """
    found: list[Ranges] = []

    def look(part: n.Node, above: tuple[Expression, ...]) -> None:
        if isinstance(part, n.Scan):
            if part.relation == relation:
                usable = itertools.takewhile(lambda condition: not condition.raises, reversed(above))
                named = {a.label: name for a, name in zip(part.attributes, part.stored_names, strict=True)}
                columns = [(named[label], ranges) for c in usable for label, ranges in implied_ranges(c).columns]
                found.append(Ranges(tuple(columns)))
            return
        for below in part.inputs:
            look(below, (*above, part.condition) if isinstance(part, n.Filter) else ())

    look(node, ())
    return found


class ColumnValues:
    """The values of a column in a few rows, asked like the bounds of a file: sorted once for all questions."""

    def __init__(self, array: pa.ChunkedArray) -> None:
        known = pc.drop_null(pc.unique(array))
        self.nans = pc.sum(pc.is_nan(known)).as_py() or 0 if pa.types.is_floating(known.type) else 0
        self._sorted: list[Any] = [] if self.nans else sorted(known.to_pylist())

    def may_overlap(self, low: Any, high: Any) -> bool:
        """Whether a value lies in a closed range; an end of None is open."""
        first = 0 if low is None else bisect_left(self._sorted, low)
        return first < len(self._sorted) and (high is None or self._sorted[first] <= high)


class FewRows(Mapping[str, ColumnValues]):
    """The values of the columns of a few rows, each column looked at when it is asked for."""

    def __init__(self, table: pa.Table, schema: Schema) -> None:
        self._table = table
        self._schema = schema
        self._known: dict[str, ColumnValues] = {}

    def __getitem__(self, name: str) -> ColumnValues:
        if name not in self._known:
            kind = self._schema.column(name).type
            self._known[name] = ColumnValues(comparable_array(self._table.column(name), kind))
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema.names)

    def __len__(self) -> int:
        return len(self._schema.names)


def rows_that_may_pass(table: pa.Table, condition: Expression) -> pa.Table:
    """The rows of a table (columns named by labels) that a condition may hold for; never fewer."""
    there = set(table.column_names)
    named = [a for a in condition.attributes if a.label in there]
    if not named or not table.num_rows:
        return table
    schema = Schema(tuple(Column(a.label, a.type) for a in named))
    possible = may_be_true(condition, table)
    if possible is not None:
        table = table.filter(possible)
    ranges = implied_ranges(condition)
    usable = Ranges(tuple(part for part in ranges.columns if part[0] in there))
    mask = usable.hold_for(table, schema) if table.num_rows else None
    return table if mask is None else table.filter(mask)
