"""Relational operators over small tables on the driver, one function per operator.

A table has one column per attribute, named by its label, and `_weight` if it is a change. Every function returns what
the lowered operator returns on an engine, or stops with `LeftToEngine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, conjunction
from viewkeeper.algebra.rows import canonical_array, consolidate, expand, negated, signed
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.driver.arrow_aggregates import by_group
from viewkeeper.driver.arrow_values import evaluate
from viewkeeper.driver.matching import Matching, codes, have_partner, one_chunk, pairs_of
from viewkeeper.driver.numbers import LeftToEngine


class Branch(Protocol):
    """What a branch of a union has."""

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """Its columns."""


def _labels(attributes: Sequence[Attribute]) -> list[str]:
    return [attribute.label for attribute in attributes]


def _has_weights(table: pa.Table) -> bool:
    return WEIGHT in table.column_names


def _weights(table: pa.Table) -> list[Any]:
    return [table.column(WEIGHT)] if _has_weights(table) else []


def _made(columns: Sequence[Any], outputs: Sequence[Attribute], weights: Sequence[Any]) -> pa.Table:
    names = [*_labels(outputs), *([WEIGHT] if weights else [])]
    return pa.table([*columns, *weights], names)


def constant_rows(node: n.Rows) -> pa.Table:
    """Rows written in a query."""
    one = pa.table({"one": [0]})
    columns = []
    for place, attribute in enumerate(node.attributes):
        cells = [_computed(attribute, row[place], one) for row in node.rows]
        columns.append(pa.chunked_array(cells, attribute.type.arrow))
    return _made(columns, node.outputs, [])


# linear -------------------------------------------------------------------------------------------


def projected(node: n.Project, table: pa.Table) -> pa.Table:
    """The computed columns."""
    if not node.columns and not _has_weights(table):
        raise LeftToEngine("a table without columns has no rows on the driver")
    columns = [_computed(attribute, value, table) for attribute, value in node.columns]
    return _made(columns, node.outputs, _weights(table))


def _computed(attribute: Attribute, value: Expression, table: pa.Table) -> Any:
    if value.attribute is not None:
        return table.column(value.attribute.label)
    found = evaluate(value, table)
    return found if found.type == attribute.type.arrow else found.cast(attribute.type.arrow)


def filtered(conditions: Sequence[Expression], table: pa.Table) -> pa.Table:
    """The rows for which all conditions are true, tested in order."""
    return table.filter(_mask(conditions, table)) if conditions else table


def _mask(conditions: Sequence[Expression], table: pa.Table) -> Any:
    """Whether all conditions hold, for each row; NULL where that is not known."""
    found = evaluate(conjunction(conditions), table)
    if found.type != pa.bool_():
        raise LeftToEngine("a condition that is not BOOLEAN")
    return found


def united(
    tables: Sequence[pa.Table], parts: Sequence[Branch], outputs: Sequence[Attribute], weighted: bool
) -> pa.Table:
    """The rows of all branches."""
    found = []
    for table, part in zip(tables, parts, strict=True):
        weights = _weights(table) or ([signed(table, 1).column(WEIGHT)] if weighted else [])
        found.append(_made([table.column(a.label) for a in part.outputs], outputs, weights))
    return pa.concat_tables(found)


# joins --------------------------------------------------------------------------------------------


def inner_joined(
    left: pa.Table, right: pa.Table, equalities: Sequence[n.Equality], ours: Sequence[Attribute], most: int
) -> pa.Table:
    """The pairs of rows of an inner join, side by side; at most `most`."""
    found = _matched(left, right, equalities, ours, most)
    return _beside(left.take(pa.array(found.left)), right.take(pa.array(found.right)))


def _matched(
    left: pa.Table, right: pa.Table, equalities: Sequence[n.Equality], ours: Sequence[Attribute], most: int
) -> Matching:
    """The pairs of rows whose keys are equal; at most `most`."""
    on = pairs_of(equalities, ours)
    if not on and left.num_rows * right.num_rows > most:
        raise LeftToEngine("a join of many rows without equality")
    found = Matching(left, right, on)
    if len(found.left) > most:
        raise LeftToEngine("a join of many rows")
    return found


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    """Two tables of equally many rows as one; the weight, which one of them may have, last."""
    columns = {name: table.column(name) for table in (left, right) for name in table.column_names if name != WEIGHT}
    for table in (left, right):
        if _has_weights(table):
            columns[WEIGHT] = table.column(WEIGHT)
    return pa.table(columns)


def _partners(left: pa.Table, right: pa.Table, node: n.Exists | n.Outer, most: int) -> Matching:
    """The pairs for which all of a join's condition holds."""
    found = _matched(left, right, node.equalities, node.left.outputs, most)
    if node.conditions and len(found.left):
        plain = left.drop_columns([WEIGHT]) if _has_weights(left) else left
        both = _beside(plain.take(pa.array(found.left)), right.take(pa.array(found.right)))
        mask = _mask(node.conditions, both)
        found.kept(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
    return found


def existing(node: n.Exists, left: pa.Table, right: pa.Table, most: int) -> pa.Table:
    """A semi join; negated, an anti join."""
    if not node.conditions:
        here = have_partner(left, right, pairs_of(node.equalities, node.left.outputs))
        return left.filter(pa.array(~here if node.negated else here))
    found = _partners(left, right, node, most)
    return left.take(pa.array(found.left_without if node.negated else np.unique(found.left)))


def outer_joined(node: n.Outer, left: pa.Table, right: pa.Table, most: int) -> pa.Table:
    """A LEFT or FULL join."""
    found = _partners(left, right, node, most)
    lefts = [found.left, found.left_without]
    rights = [found.right, np.full(len(lefts[1]), -1)]
    if node.full:
        rights.append(found.right_without)
        lefts.append(np.full(len(rights[2]), -1))
    one, other = np.concatenate(lefts), np.concatenate(rights)
    columns = [_padded(left.column(a.label), one) for a in node.left.outputs]
    columns += [_padded(right.column(a.label), other) for a in node.right.outputs]
    weights = [left.column(WEIGHT).take(pa.array(one))] if _has_weights(left) else []
    return _made(columns, node.outputs, weights)


def _padded(column: pa.ChunkedArray, places: Any) -> Any:
    """Values by position; NULL where the position is -1."""
    return column.take(pa.array(places, mask=places < 0))


def restricted(left: pa.Table, right: pa.Table, on: Sequence[tuple[Attribute, Attribute]]) -> pa.Table:
    """The left rows that have a partner by <=>."""
    return left.filter(pa.array(have_partner(left, right, [(mine, theirs, True) for mine, theirs in on])))


# by row -------------------------------------------------------------------------------------------


def distinct(outputs: Sequence[Attribute], table: pa.Table) -> pa.Table:
    """Every row once."""
    keys = codes([(one_chunk(table.column(a.label)), a.type) for a in outputs])
    return table.take(pa.array(np.sort(np.unique(keys, return_index=True)[1])))


def counted(node: n.Monus | n.Least, left: pa.Table, right: pa.Table) -> pa.Table:
    """EXCEPT ALL or INTERSECT ALL."""
    one = _made([left.column(a.label) for a in node.left.outputs], node.outputs, [])
    other = _made([right.column(a.label) for a in node.right.outputs], node.outputs, [])
    both = pa.concat_tables([one, other])
    keys = codes([(one_chunk(both.column(a.label)), a.type) for a in node.outputs])
    ours = np.bincount(keys[: left.num_rows], minlength=keys.max(initial=0) + 1)
    theirs = np.bincount(keys[left.num_rows :], minlength=keys.max(initial=0) + 1)
    number = np.minimum(ours, theirs) if isinstance(node, n.Least) else np.maximum(ours - theirs, 0)
    places, first = np.unique(keys, return_index=True)
    return both.take(pa.array(np.repeat(first, number[places])))


# groups -------------------------------------------------------------------------------------------

_SUMS, _EXTREMA = "sum", ("min", "max")


def aggregated(node: n.Aggregate, table: pa.Table) -> pa.Table:
    """The groups with their aggregates. Arrow computes counts, exact sums, and extrema of all but floats."""
    if any(call.text is not None or _is_float_extremum(call) for call in node.calls):
        return by_group(node, table)
    columns: dict[str, Any] = {g.label: canonical_array(table.column(g.label), g.type) for g in node.groups}
    wanted: list[tuple[Any, str]] = []
    for call in node.calls:
        name, argument = call.output.label, call.argument
        if argument is None:
            wanted.append(([], "count_all"))
            continue
        values = table.column(argument.label)
        if call.function == _SUMS:
            if not (argument.type.is_integer or argument.type.name == "decimal"):
                raise LeftToEngine("a sum of floats is left to the engine")
            values = values.cast(pa.decimal256(38, call.output.type.scale))
        columns[name] = values
        wanted.append((name, call.function))
    groups = _labels(node.groups)
    found = pa.table(columns) if columns else None
    if found is None:
        counts = [pa.array([table.num_rows], pa.int64()) for _ in node.calls]
        return _made(counts, node.outputs, [])
    result = found.group_by(groups, use_threads=False).aggregate(wanted)
    made = [result.column(name) for name in groups]
    for call, (name, how) in zip(node.calls, wanted, strict=True):
        try:
            made.append(result.column(f"{name}_{how}" if name else "count_all").cast(call.output.type.arrow))
        except pa.ArrowInvalid as problem:
            raise LeftToEngine(str(problem)) from problem
    return _made(made, node.outputs, [])


def _is_float_extremum(call: n.Call) -> bool:
    """Whether NaN may be among the values, which is greater than all numbers; Arrow would leave it out."""
    return call.function in _EXTREMA and call.argument is not None and call.argument.type.is_float


def net(outputs: Sequence[Attribute], table: pa.Table) -> pa.Table:
    """The net change."""
    columns = [canonical_array(table.column(a.label), a.type) for a in outputs]
    return consolidate(_made(columns, outputs, _weights(table)))


# changes ------------------------------------------------------------------------------------------


def opposite(table: pa.Table) -> pa.Table:
    """The rows with opposite weights."""
    return negated(table) if _has_weights(table) else signed(table, -1)


def both_states(node: n.Both, before: pa.Table, change: pa.Table) -> pa.Table:
    """The rows before and after a change, marked by their state."""
    after = before
    if change.num_rows:
        kept = signed(before, 1)
        moved = change.rename_columns(kept.column_names).cast(kept.schema)
        after = expand(consolidate(pa.concat_tables([kept, moved])))
    marked = [
        rows.append_column(node.state.label, pa.array(np.full(rows.num_rows, mark), node.state.type.arrow))
        for mark, rows in enumerate((before, after))
    ]
    return pa.concat_tables(marked)


def as_change(node: n.Signed, table: pa.Table) -> pa.Table:
    """The rows of both states as a change."""
    states = one_chunk(table.column(node.state.label)).to_numpy(zero_copy_only=False)
    weights = pa.array(np.where(states == 1, 1, -1).astype(np.int64))
    return _made([table.column(a.label) for a in node.outputs], node.outputs, [weights])
