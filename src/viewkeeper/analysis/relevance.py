"""Relevance: changes that cannot pass a filter are found by looking at them, before anything large is read."""

from __future__ import annotations

import functools

import pyarrow as pa

from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.analysis.ranges import Ranges, ranges_of
from viewkeeper.errors import SqlError
from viewkeeper.sql.references import parse_expression


@functools.lru_cache(maxsize=4096)
def implied_ranges(condition: Expression) -> Ranges:
    """What a condition says about single attributes, which are named by their labels."""
    schema = Schema(tuple(Column(a.label, a.type) for a in condition.attributes))
    try:
        return ranges_of(parse_expression(condition.sql, condition.sql), schema, "")
    except SqlError:
        return Ranges()


def rows_that_may_pass(table: pa.Table, attributes: tuple[Attribute, ...], condition: Expression) -> pa.Table:
    """The rows of a table (columns named by labels) that a condition may hold for; never fewer."""
    ranges = implied_ranges(condition)
    named = set(table.column_names)
    usable = Ranges(tuple(part for part in ranges.columns if part[0] in named))
    schema = Schema(tuple(Column(a.label, a.type) for a in attributes if a.label in named))
    mask = usable.hold_for(table, schema)
    return table if mask is None else table.filter(mask)
