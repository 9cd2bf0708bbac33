"""Group-by with stored state: count, sum, min and max kept by the change alone (Griffin and Libkin, section 5).

    γ@new ⋉ K = (γ@old ⋉ K) ⊕ Σ(δS)        K = the groups of δS

Sums and counts add up, and every group keeps the count of its rows and of the values that are not NULL. An extremum is
the better of the stored and the inserted one, unless the stored one was deleted and no inserted value reaches it: only
then that group is read again. Weights are never multiplied with values: a change is expanded to single rows and summed
by sign.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import functions as F

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.rows import filter_rows, signed
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import Type
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.lowered import Binding, Lowered, keys_of
from viewkeeper.engine.lowering import STAGE_ROWS, Lowering

EXTREMA = {"min": "<", "max": ">"}
_FLAGS = ("was", "stays", "lost")


@dataclass(frozen=True)
class Folded:
    """The change of a stored group-by (on the driver or as a frame), and how many groups had to be read again."""

    table: pa.Table | None
    frame: Frame | None
    reread: int


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
    sums = Lowered(_sums(below, node), (), known=below.known)
    binding: Binding | None = None
    if keyed and lowering.reader.size(stored) > STAGE_ROWS:
        found = keys_of(below, keyed)
        if found is not None:
            binding = Binding(tuple(found[0]), found[1])
    before = lowering.reader.scan(stored, binding)
    layout = _Layout(node)
    kept = lowering.reader.keep(Lowered(_combined(node, layout, sums.frame, before), layout.outputs))
    if kept.empty:
        return None
    return _as_change(lowering, node, layout, kept, source)


class _Layout:
    """The columns of a touched group: its key, each aggregate before and after, and three flags."""

    def __init__(self, node: n.Aggregate) -> None:
        numbers = Numbers(50_000_000)
        self.groups = [numbers.like(group) for group in node.groups]
        self.old = [numbers.like(call.output) for call in node.calls]
        self.new = [numbers.like(call.output) for call in node.calls]
        self.was, self.stays, self.lost = (
            numbers.attribute(name, Type("boolean")) for name in ("was", "stays", "lost")
        )

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        return (*self.groups, *self.old, *self.new, self.was, self.stays, self.lost)


def _sums(below: Lowered, node: n.Aggregate) -> Frame:
    """Σ(δS): per group, what each aggregate gains and loses."""
    labels = [group.label for group in node.groups]
    arguments = [c.argument.label for c in node.calls if c.argument is not None]
    names = list(dict.fromkeys([*labels, *arguments]))
    copies = f"explode(array_repeat(CAST(signum({WEIGHT}) AS BIGINT), CAST(abs({WEIGHT}) AS INT))) AS _vk_w"
    single = below.frame.selectExpr(*names, copies)
    columns = []
    for index, call in enumerate(node.calls):
        for suffix, text in _gains(call):
            columns.append(F.expr(text).alias(f"_vk_{suffix}{index}"))
    grouped = single.groupBy(*labels).agg(*columns) if labels else single.agg(*columns)
    return grouped.selectExpr(*[f"{label} AS _vk_g{i}" for i, label in enumerate(labels)], *_gain_names(node))


def _gain_names(node: n.Aggregate) -> list[str]:
    return [f"_vk_{suffix}{index}" for index, call in enumerate(node.calls) for suffix, _ in _gains(call)]


def _gains(call: n.Call) -> list[tuple[str, str]]:
    """What is summed up of a change for an aggregate: names and texts."""
    if call.argument is None:
        return [("d", "coalesce(sum(_vk_w), 0)")]
    x = call.argument.label
    if call.function == "count":
        return [("d", f"coalesce(sum(CASE WHEN {x} IS NOT NULL THEN _vk_w ELSE 0 END), 0)")]
    if call.function == "sum":
        wide = f"DECIMAL(37,{call.output.type.scale})"
        value = f"CAST({x} AS DECIMAL(20,0))" if call.argument.type.is_integer else x
        parts = [f"CAST(coalesce(sum(CASE WHEN _vk_w {sign} 0 THEN {value} END), 0) AS {wide})" for sign in (">", "<")]
        return [("d", f"CAST({parts[0]} - {parts[1]} AS {wide})")]
    f = call.function
    return [("i", f"{f}(CASE WHEN _vk_w > 0 THEN {x} END)"), ("x", f"{f}(CASE WHEN _vk_w < 0 THEN {x} END)")]


def _combined(node: n.Aggregate, layout: _Layout, sums: Frame, before: Lowered) -> Frame:
    """One row per touched group."""
    condition = " AND ".join(f"{group.label} <=> _vk_g{i}" for i, group in enumerate(node.groups)) or "true"
    old = before.frame.selectExpr(*before.columns, "1 AS _vk_had")
    joined = sums.join(old, F.expr(condition), "left")
    rows = _count_of(node, None)
    total = f"(coalesce({node.calls[rows].output.label}, 0) + _vk_d{rows})"
    texts = [f"_vk_g{i} AS {group.label}" for i, group in enumerate(layout.groups)]
    texts += [f"{call.output.label} AS {old.label}" for call, old in zip(node.calls, layout.old, strict=True)]
    lost = []
    for index, (call, new) in enumerate(zip(node.calls, layout.new, strict=True)):
        value, gone = _new_value(node, index, call)
        texts.append(f"CAST({value} AS {call.output.type.ddl}) AS {new.label}")
        lost += [gone] if gone else []
    texts.append(f"_vk_had IS NOT NULL AS {layout.was.label}")
    texts.append(f"{'true' if node.whole else f'{total} <> 0'} AS {layout.stays.label}")
    texts.append(f"coalesce(({' OR '.join(lost) or 'false'}) AND {total} <> 0, false) AS {layout.lost.label}")
    return joined.selectExpr(*texts)


def _count_of(node: n.Aggregate, argument: Attribute | None) -> int:
    """Which aggregate counts the rows, or the values of a column that are not NULL."""
    if argument is not None and not argument.nullable:
        argument = None
    return next(i for i, c in enumerate(node.calls) if c.function == "count" and c.argument == argument)


def _new_value(node: n.Aggregate, index: int, call: n.Call) -> tuple[str, str | None]:
    """An aggregate's new value, and when it cannot be told from the old one and the change."""
    old = call.output.label
    if call.function == "count":
        return f"coalesce({old}, 0) + _vk_d{index}", None
    if call.function == "sum":
        wide = f"DECIMAL(37,{call.output.type.scale})"
        added = f"CAST(coalesce({old}, 0) AS {wide}) + CAST(_vk_d{index} AS {wide})"
        counted = _count_of(node, call.argument)
        values = f"coalesce({node.calls[counted].output.label}, 0) + _vk_d{counted}"
        return f"CASE WHEN {values} = 0 THEN NULL ELSE {added} END", None
    better = EXTREMA[call.function]
    reached = f"_vk_i{index} {better}= {old}"
    rows = _count_of(node, None)
    none_left = f"coalesce({node.calls[rows].output.label}, 0) + _vk_d{rows} = 0"
    inserted = f"WHEN {old} IS NULL THEN _vk_i{index} WHEN {reached} THEN _vk_i{index}"
    value = f"CASE WHEN {none_left} THEN NULL {inserted} ELSE {old} END"
    return value, f"(_vk_x{index} <=> {old} AND {old} IS NOT NULL AND NOT coalesce({reached}, false))"


def _as_change(lowering: Lowering, node: n.Aggregate, layout: _Layout, kept: Lowered, source: n.Node) -> Folded:
    """The touched groups as a change: old rows out, new rows in; groups that lost an extremum are read again."""
    pairs = tuple(zip(node.groups, layout.groups, strict=True))
    before, after = [*layout.groups, *layout.old], [*layout.groups, *layout.new]
    if not kept.known:  # too many groups for the driver
        lost = lowering.reader.keep(replace(kept, frame=kept.frame.filter(layout.lost.label)))
        minus = _side(kept.frame.filter(layout.was.label), before, node, -1)
        plus = _side(kept.frame.filter(f"{layout.stays.label} AND NOT {layout.lost.label}"), after, node, 1)
        frames = [minus, plus]
        if not lost.empty:
            again = lowering.lower(replace(node, input=n.Restrict(source, lowering.given(lost), pairs)))
            frames.append(again.frame.selectExpr(*again.columns, f"CAST(1 AS BIGINT) AS {WEIGHT}"))
        return Folded(None, lowering.engine.union(frames), 0 if lost.empty else 1)
    table = kept.known[0]
    gone = filter_rows(table, table[layout.lost.label].to_pylist())
    new = [
        stays and not lost
        for stays, lost in zip(table[layout.stays.label].to_pylist(), table[layout.lost.label].to_pylist(), strict=True)
    ]
    parts = [
        _rows(filter_rows(table, table[layout.was.label].to_pylist()), before, node, -1),
        _rows(filter_rows(table, new), after, node, 1),
    ]
    if gone.num_rows:
        schema = Schema(tuple(Column(a.label, a.type) for a in layout.outputs))
        keys = Lowered(lowering.engine.arrow(gone, schema), layout.outputs, known=(gone,), narrow=True)
        again = lowering.lower(replace(node, input=n.Restrict(source, lowering.given(keys), pairs)))
        parts.append(signed(lowering.reader.keep(again).known[0], 1))
    return Folded(pa.concat_tables(parts), None, gone.num_rows)


def _side(frame: Frame, columns: list[Attribute], node: n.Aggregate, weight: int) -> Frame:
    texts = [f"{a.label} AS {out.label}" for a, out in zip(columns, node.outputs, strict=True)]
    return frame.selectExpr(*texts, f"CAST({weight} AS BIGINT) AS {WEIGHT}")


def _rows(table: pa.Table, columns: list[Attribute], node: n.Aggregate, weight: int) -> pa.Table:
    chosen = table.select([a.label for a in columns])
    return signed(chosen.rename_columns([a.label for a in node.outputs]), weight)
