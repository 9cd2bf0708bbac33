"""Relevance: changed rows that cannot pass a filter are dropped on the driver, before anything large is read."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.analysis.possible_rows import integers, may_be_true
from viewkeeper.analysis.ranges import Ranges, ranges_of
from viewkeeper.errors import SqlError
from viewkeeper.sql.conditions import anded
from viewkeeper.sql.dialect import parse_expression
from viewkeeper.sql.equations import same_family


@functools.lru_cache(maxsize=4096)
def _tree(condition: Expression) -> exp.Expr | None:
    """The syntax of a condition over labels; None if it cannot be read."""
    try:
        return parse_expression(condition.sql)
    except SqlError:
        return None


@functools.lru_cache(maxsize=4096)
def implied_ranges(condition: Expression) -> Ranges:
    """The ranges that a condition implies for single attributes, named by their labels."""
    schema = Schema(tuple(Column(a.label, a.type) for a in condition.attributes))
    tree = _tree(condition)
    return Ranges() if tree is None else ranges_of(tree, schema, "")


def fixed_values(condition: Expression) -> dict[Attribute, Any]:
    """The attributes that a condition fixes to one value, and the values."""
    labels = {a.label: a for a in condition.attributes}
    single = [(label, ranges[0]) for label, ranges in implied_ranges(condition).columns if len(ranges) == 1]
    return {labels[label]: low for label, (low, high) in single if low is not None and low == high}


@functools.lru_cache(maxsize=4096)
def equal_columns(condition: Expression) -> tuple[tuple[Attribute, Attribute], ...]:
    """The pairs of attributes that a condition makes equal without casts."""
    labels = {a.label: a for a in condition.attributes}
    tree = _tree(condition) if len(labels) > 1 else None
    if tree is None:
        return ()
    sides = [(part.this, part.expression) for part in anded(tree) if isinstance(part, (exp.EQ, exp.NullSafeEQ))]
    found = [(_attribute(one, labels), _attribute(other, labels)) for one, other in sides]
    return tuple((one, other) for one, other in found if one and other and same_family(one.type, other.type))


def _attribute(node: exp.Expr, labels: Mapping[str, Attribute]) -> Attribute | None:
    """The attribute of a syntax node; None if it is anything else, or a field of a struct."""
    return labels.get(node.name) if isinstance(node, exp.Column) and not node.table else None


def filters_of(node: n.Node, relation: str) -> list[Ranges]:
    """For each scan of a relation in a query, the ranges that the filters right above it imply."""
    found: list[Ranges] = []

    def look(part: n.Node, above: tuple[Expression, ...]) -> None:
        if isinstance(part, n.Scan):
            if part.relation == relation:
                named = {a.label: name for a, name in zip(part.attributes, part.stored_names, strict=True)}
                columns = [(named[label], ranges) for c in above for label, ranges in implied_ranges(c).columns]
                found.append(Ranges(tuple(columns)))
            return
        for below in part.inputs:
            look(below, (*above, part.condition) if isinstance(part, n.Filter) else ())

    look(node, ())
    return found


def rows_that_may_pass(table: pa.Table, condition: Expression) -> pa.Table:
    """The rows of a table (columns named by labels) that a condition may hold for; never fewer."""
    there = set(table.column_names)
    named = [a for a in condition.attributes if a.label in there]
    tree = _tree(condition) if named and table.num_rows else None
    if tree is None:
        return table
    schema = Schema(tuple(Column(a.label, a.type) for a in named))
    possible = may_be_true(tree, table, schema)
    if possible is not None:
        table = table.filter(possible)
    ranges = implied_ranges(condition)
    usable = Ranges(tuple(part for part in ranges.columns if part[0] in there))
    mask = usable.hold_for(table, schema) if table.num_rows else None
    return table if mask is None else table.filter(mask)


def computed(table: pa.Table, column: Attribute, value: Expression) -> pa.ChunkedArray | pa.Array | None:
    """A column computed from those of a table (named by labels) on the driver; None if only the engine can."""
    if value.attribute is not None:
        return table.column(value.attribute.label) if value.attribute.label in table.column_names else None
    tree = _tree(value) if column.type.is_integer else None
    if tree is None or not {a.label for a in value.attributes} <= set(table.column_names):
        return None
    found = integers(tree, table, Schema(tuple(Column(a.label, a.type) for a in value.attributes)))
    return None if found is None else pc.cast(found, column.type.arrow)
