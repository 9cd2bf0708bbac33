"""Group-by with stored state: count, sum, min and max kept by the change alone (Griffin and Libkin, section 5).

    γ@new ⋉ K = (γ@old ⋉ K) ⊕ Σ(δS)        K = the groups of δS

⊕ is one more GROUP BY, over the stored groups and the changed rows together: counts and sums add up. Every group keeps
the count of its rows and of the values that are not NULL, so that 5 - 5 is NULL and not 0 when no value is left. An
extremum is the better of the stored and the inserted ones, unless the stored one was deleted and no inserted value
reaches it: only then that group is read again. Weights are never multiplied with values: a change is expanded to single
rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.rows import filter_rows, row_tuples, signed
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import Type
from viewkeeper.engine.columns import listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.lowered import Binding, Lowered, keys_of
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.texts import extremum_text

EXTREMA = ("min", "max")

WHOLE_ROWS = 4_000
"""Stored groups up to so many are taken as they are; of more only the touched ones are read."""


@dataclass(frozen=True)
class Folded:
    """The change of a stored group-by, and how many groups had to be read again. No table: too many groups."""

    table: pa.Table | None
    reread: int = 0


def fold(lowering: Lowering, node: n.Aggregate, stored: n.Scan, source: n.Node, change: n.Node) -> Folded | None:
    """The change of `node`, whose contents are `stored`, when its input changes by `change`; None if by nothing.

    `source` is the input after the change, for groups that have to be read again.
    """
    if any(call.function in EXTREMA for call in node.calls) and not isinstance(change, (n.Scan, n.Net)):
        change = n.Net(change)  # a row that is inserted and deleted must not count as an extremum
    below = lowering.lower(change)
    if below.empty:
        return None
    keyed = [group for group in node.groups if not group.type.has_map()]
    binding: Binding | None = None
    if keyed and lowering.reader.size(stored) > WHOLE_ROWS:
        found = keys_of(below, keyed)
        if found is None:
            below = lowering.reader.keep(below)
            if below.empty:
                return None
            found = keys_of(below, keyed)
        if found is None:
            return Folded(None)
        binding = Binding(tuple(found[0]), found[1])
    before = lowering.reader.keep(lowering.reader.scan(stored, binding))
    if not before.known:
        return Folded(None)
    layout = _Layout(node)
    kept = lowering.reader.keep(Lowered(_summed(lowering, node, layout, below, before), layout.outputs))
    if kept.empty:
        return None
    return _as_change(lowering, node, layout, kept.known[0], before.known[0], source) if kept.known else Folded(None)


class _Layout:
    """The columns of a touched group: its key, and for each aggregate what the GROUP BY of ⊕ gives."""

    def __init__(self, node: n.Aggregate) -> None:
        numbers = Numbers(50_000_000)
        self.groups = [numbers.like(group) for group in node.groups]
        self.new = [numbers.like(call.output, nullable=True) for call in node.calls]
        self.extrema = {
            index: tuple(numbers.like(call.output, nullable=True) for _ in range(3))
            for index, call in enumerate(node.calls)
            if call.function in EXTREMA
        }
        self.touched = numbers.attribute("touched", Type("bigint"))

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        more = [attribute for triple in self.extrema.values() for attribute in triple]
        return (*self.groups, *self.new, *more, self.touched)


def _summed(lowering: Lowering, node: n.Aggregate, layout: _Layout, below: Lowered, before: Lowered) -> Frame:
    """(γ@old ⋉ K) ⊕ Σ(δS). Beside an extremum stand the stored, the inserted and the deleted one by themselves."""
    names = [*dict.fromkeys([*(g.label for g in node.groups), *(c.argument.label for c in node.calls if c.argument)])]
    copies = f"explode(array_repeat(CAST(signum({WEIGHT}) AS BIGINT), CAST(abs({WEIGHT}) AS INT))) AS _vk_w"
    single = below.frame.select(*listed(*names, copies))
    changed = [f"{g.label} AS {out.label}" for g, out in zip(node.groups, layout.groups, strict=True)]
    held = list(changed)
    sums = []
    for index, (call, new) in enumerate(zip(node.calls, layout.new, strict=True)):
        old = call.output.label
        changed.append(f"{_gain(call)} AS {new.label}")
        held.append(f"{f'CAST({old} AS {_wide(call)})' if call.function == 'sum' else old} AS {new.label}")
        total = f"sum({new.label})" if index not in layout.extrema else _best(call, new)
        sums.append(parsed(total).alias(new.label))
        if index in layout.extrema and call.argument is not None:
            stored, inserted, deleted = layout.extrema[index]
            none = f"CAST(NULL AS {call.output.type.ddl})"
            changed += [f"{none} AS {stored.label}"]
            changed += [f"CASE WHEN _vk_w > 0 THEN {call.argument.label} END AS {inserted.label}"]
            changed += [f"CASE WHEN _vk_w < 0 THEN {call.argument.label} END AS {deleted.label}"]
            held += [f"{old} AS {stored.label}", f"{none} AS {inserted.label}", f"{none} AS {deleted.label}"]
            sums += [parsed(_best(call, a)).alias(a.label) for a in layout.extrema[index]]
    frames = [single.select(*listed(*changed, f"CAST(1 AS BIGINT) AS {layout.touched.label}"))]
    if not before.empty:
        frames.append(before.frame.select(*listed(*held, f"CAST(0 AS BIGINT) AS {layout.touched.label}")))
    sums.append(parsed(f"sum({layout.touched.label})").alias(layout.touched.label))
    rows = lowering.engine.union(frames)
    labels = [group.label for group in layout.groups]
    total = rows.groupBy(*labels).agg(*sums) if labels else rows.agg(*sums)
    return total.filter(parsed(f"{layout.touched.label} > 0")).select(*listed(*[a.label for a in layout.outputs]))


def _best(call: n.Call, attribute: Attribute) -> str:
    return extremum_text(call.function, attribute.label, call.output.type)


def _wide(call: n.Call) -> str:
    return f"DECIMAL(38,{call.output.type.scale})"


def _gain(call: n.Call) -> str:
    """What one changed row adds to an aggregate."""
    if call.argument is None:
        return "_vk_w"
    x = call.argument.label
    if call.function == "count":
        return f"CASE WHEN {x} IS NULL THEN CAST(0 AS BIGINT) ELSE _vk_w END"
    if call.function == "sum":
        value = f"CAST({x} AS {_wide(call)})"
        return f"CASE WHEN _vk_w > 0 THEN {value} ELSE -{value} END"
    return f"CASE WHEN _vk_w > 0 THEN {x} END"


def _count_of(node: n.Aggregate, argument: Attribute | None) -> int:
    """Which aggregate counts the rows, or the values of a column that are not NULL."""
    if argument is not None and not argument.nullable:
        argument = None
    return next(i for i, c in enumerate(node.calls) if c.function == "count" and c.argument == argument)


def _as_change(
    lowering: Lowering, node: n.Aggregate, layout: _Layout, table: pa.Table, before: pa.Table, source: n.Node
) -> Folded:
    """The touched groups as a change: old rows out, new rows in; groups that lost an extremum are read again."""
    keys = row_tuples(table.select([group.label for group in layout.groups]))
    touched = set(keys)
    there = row_tuples(before.select([group.label for group in node.groups]))
    parts = [signed(filter_rows(before, [key in touched for key in there]), -1)]
    rows = table[layout.new[_count_of(node, None)].label].to_pylist()
    lost = _lost(layout, table, rows)
    new = _new_rows(node, layout, table)
    stays = [(node.whole or count != 0) and not gone for count, gone in zip(rows, lost, strict=True)]
    parts.append(signed(filter_rows(new, stays), 1))
    if any(lost):
        gone = filter_rows(table, lost)
        schema = Schema(tuple(Column(a.label, a.type) for a in layout.outputs))
        known = Lowered(lowering.engine.arrow(gone, schema), layout.outputs, known=(gone,), narrow=True)
        pairs = tuple(zip(node.groups, layout.groups, strict=True))
        again = lowering.lower(replace(node, input=n.Restrict(source, lowering.given(known), pairs)))
        parts.append(signed(lowering.reader.keep(again).known[0], 1))
    return Folded(pa.concat_tables(parts), sum(lost))


def _lost(layout: _Layout, table: pa.Table, rows: list[int]) -> list[bool]:
    """For each group whether a stored extremum was deleted and no inserted value reaches it."""
    lost = [False] * table.num_rows
    for index, attributes in layout.extrema.items():
        labels = [layout.new[index].label, *(a.label for a in attributes)]
        for place, (value, stored, inserted, deleted) in enumerate(row_tuples(table.select(labels))):
            reached = inserted is not None and inserted == value
            lost[place] |= stored is not None and deleted == stored and not reached and rows[place] != 0
    return lost


def _new_rows(node: n.Aggregate, layout: _Layout, table: pa.Table) -> pa.Table:
    """The groups after the change. A sum of no values and an extremum of no rows are NULL."""
    columns: list[Any] = [table.column(group.label) for group in layout.groups]
    for call, new in zip(node.calls, layout.new, strict=True):
        values = table.column(new.label)
        if call.function != "count":
            counted = _count_of(node, call.argument if call.function == "sum" else None)
            none = pc.equal(table.column(layout.new[counted].label), 0)
            values = pc.if_else(none, pa.scalar(None, values.type), values)
        columns.append(pc.cast(values, call.output.type.arrow))
    return pa.table(columns, names=[a.label for a in node.outputs])
