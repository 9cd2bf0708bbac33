"""Fold: group-bys with stored state; count, sum, min and max from the change alone (Griffin and Libkin, section 5).

    γ@new ⋉ K = (γ@old ⋉ K) ⊕ Σ(δS)        K = the groups of δS

Σ(δS) is a GROUP BY of the changed rows by group and weight, on the engine unless the rows are on the driver already. ⊕
is one more GROUP BY, of those sums and the stored groups, on the driver: counts and sums are multiplied by weights and
added. Every group stores the count of its rows and of the values that are not NULL, so that 5 - 5 is NULL and not 0
when no value is left. An extremum is the better of the stored and the inserted one, unless the stored one was deleted
and no inserted value reaches it: only then the next one is taken from the runners-up, or that group is read again.

Where an aggregate has no such state, or too many groups are touched, the touched groups are computed again:

    δγ = γ(S@new ⋉ K) − γ@old ⋉ K
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import cast_table
from viewkeeper.algebra.expressions import Attribute, Expression, Numbers, cast, column, integer
from viewkeeper.algebra.expressions import call as call_of
from viewkeeper.algebra.extrema import extremum
from viewkeeper.algebra.ordered_values import as_before, in_order
from viewkeeper.algebra.rows import canonical_array, filter_rows, row_tuples, rows_among, signed, take
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import Type
from viewkeeper.catalog.relations import Derived
from viewkeeper.delta.compile import differentiate
from viewkeeper.delta.laws import once
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.lowered import Binding, Lowered, distinct_rows
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import InternalError, TypeMismatch
from viewkeeper.maintain.differentiate import formula_of
from viewkeeper.maintain.neighbors import Neighbors, Percentiles
from viewkeeper.maintain.net_changes import join_change, join_rows, less
from viewkeeper.maintain.runners_up import Followers, RunnersUp
from viewkeeper.maintain.strategy import NOT_REACHED, Task, stored_rows
from viewkeeper.plan.choice import Choice
from viewkeeper.plan.group_state import GroupState, count_of, group_by_of, over
from viewkeeper.plan.neighbor_columns import has_state
from viewkeeper.plan.strategy_names import FOLD

EXTREMA = ("min", "max")


@dataclass(frozen=True)
class Folded:
    """The change of a stored group-by; no table if groups are too many.

    `reread`: how many groups had to be read again. `replaced`: how many lost an extremum that had runners-up.
    `refilled`: how many were read again for percentiles.
    """

    table: pa.Table | None
    reread: int = 0
    replaced: int = 0
    refilled: int = 0


def fold(
    lowering: Lowering,
    state: GroupState,
    stored: n.Scan,
    source: n.Node,
    change: n.Node,
    runners: RunnersUp | None = None,
    neighbors: Neighbors | None = None,
) -> Folded | None:
    """The change of a group-by, whose state is `stored`, when its input changes by `change`; None if that is empty.

    `source` is the input after the change, for groups that have to be read again. The change of `runners` and of
    `neighbors` is recorded in them, if there is a table.
    """
    node, stored = state.node, state.scan(stored)
    if any(call.function in EXTREMA and call.output.type.is_nested for call in node.calls):
        return Folded(None)
    if any(call.function in EXTREMA for call in node.calls) and not isinstance(change, (n.Scan, n.Net)):
        change = n.Net(change)  # a row that is inserted and deleted must not count as an extremum
    below = lowering.lower(change)
    if below.empty:
        return None
    if any(values is not None and not values.is_empty for values in (runners, neighbors)):
        below = lowering.reader.keep(below)  # they follow single values, not extrema or counts of a change
    layout = _Layout(state)
    gains = _gains_of(node, layout, below.rows) if below.rows is not None else _summed(lowering, node, layout, below)
    if gains is None:
        return Folded(None)
    if not gains.num_rows:
        return None
    binding: Binding | None = None
    keyed = [(a, out) for a, out in zip(node.groups, layout.groups, strict=True) if not a.type.has_map()]
    if keyed and lowering.reader.size(stored) > lowering.engine.tuning.whole_rows:
        keys = gains.select([out.label for _, out in keyed]).rename_columns([a.label for a, _ in keyed])
        binding = Binding(tuple(a for a, _ in keyed), distinct_rows(keys))
    before = lowering.reader.keep(lowering.reader.scan(stored, binding)).rows
    if before is None:
        return Folded(None)
    before = _widened(node, before)
    table = _merged(node, layout, before, gains)
    following = _following(runners, layout, table, below.rows)
    shares = _percentiles(neighbors, node, layout, table, below.rows)
    return _as_change(_Fresh(lowering, node, layout, source, runners, neighbors), table, before, following, shares)


def _following(
    runners: RunnersUp | None, layout: _Layout, table: pa.Table, change: pa.Table | None
) -> dict[int, Followers]:
    """The extrema of the touched groups by their runners-up, which follow the change."""
    if runners is None or runners.is_empty:
        return {}
    if change is None:
        runners.forgotten = True
        return {}
    return runners.follow(change, table.select([group.label for group in layout.groups]))


def _percentiles(
    neighbors: Neighbors | None, node: n.Aggregate, layout: _Layout, table: pa.Table, change: pa.Table | None
) -> dict[int, Percentiles]:
    """The percentiles of the touched groups by their neighbors, which follow the change."""
    if neighbors is None or neighbors.is_empty:
        return {}
    if change is None:
        neighbors.forgotten = True
        return {}
    rows = layout.count(node, table, None)
    counts = {index: layout.count(node, table, node.calls[index].argument) for index in neighbors.ranked}
    return neighbors.follow(change, table.select([group.label for group in layout.groups]), rows, counts)


class _Layout:
    """The columns of a touched group: its key and the new value of each aggregate.

    For an extremum also the stored, the best inserted and the best deleted value, one column each. `kept` are the
    aggregates that are maintained from their stored values, with their positions: all but percentiles. `counts`: for
    each aggregate the position of the count of its values, `rows` that of the count of rows.
    """

    def __init__(self, state: GroupState) -> None:
        node, numbers = state.node, Numbers(50_000_000)
        self.rows, self.counts = state.rows, state.counts
        self.groups = [numbers.like(group) for group in node.groups]
        self.new = [numbers.like(call.output, nullable=True) for call in node.calls]
        self.extrema = {
            index: tuple(numbers.like(call.output, nullable=True) for _ in range(3))
            for index, call in enumerate(node.calls)
            if call.function in EXTREMA
        }

        made = zip(node.calls, self.new, strict=True)
        self.kept = [(index, call, new) for index, (call, new) in enumerate(made) if call.share is None]

    def count(self, node: n.Aggregate, table: pa.Table, argument: Attribute | None) -> Any:
        """The number of rows of the touched groups, or of their values of a column that are not NULL."""
        return table.column(self.new[count_of(node, argument)].label).to_numpy()


# Σ(δS) --------------------------------------------------------------------------------------------


def _summed(lowering: Lowering, node: n.Aggregate, layout: _Layout, below: Lowered) -> pa.Table | None:
    """The aggregates of the changed rows, by group and weight, from the engine; None if groups are too many."""
    sums = listed(*[(_sum(call), new.label) for _, call, new in layout.kept])
    frame = below.frame.groupBy(*[group.label for group in node.groups], WEIGHT).agg(*sums)
    found = lowering.engine.collect_small(frame)
    if found is None:
        return None
    types = [(out.label, out.type) for out in layout.groups] + [(WEIGHT, Type("bigint"))]
    types += [(new.label, _kind(call)) for _, call, new in layout.kept]
    return cast_table(found, Schema(tuple(Column(name, kind) for name, kind in types)), "the result", "UTC")


def _sum(call: n.Call) -> Expression:
    if call.argument is None:
        return call_of("count", integer(1))
    if call.function in EXTREMA:
        return extremum(call.function, column(call.argument), call.output.type)
    if call.function == "sum":
        return call_of("sum", cast(call.argument, Type("decimal", 38, call.output.type.scale)))
    return call_of("count", call.argument)


def _kind(call: n.Call) -> Type:
    """The type of an aggregate of the changed rows."""
    if call.function == "count":
        return Type("bigint")
    return Type("decimal", 38, call.output.type.scale) if call.function == "sum" else call.output.type


def _gains_of(node: n.Aggregate, layout: _Layout, rows: pa.Table) -> pa.Table:
    """The same for rows on the driver, not grouped: each row counts as a sum of its own."""
    columns = [rows.column(group.label) for group in node.groups]
    columns.append(rows.column(WEIGHT))
    for _, call, _ in layout.kept:
        if call.argument is None:
            columns.append(pa.chunked_array([pa.array(np.ones(rows.num_rows, dtype=np.int64))]))
        elif call.function == "count":
            columns.append(pc.is_valid(rows.column(call.argument.label)).cast(pa.int64()))
        else:
            columns.append(rows.column(call.argument.label).cast(_kind(call).arrow))
    names = [*(group.label for group in layout.groups), WEIGHT, *(new.label for _, _, new in layout.kept)]
    return pa.table(columns, names=names)


# ⊕ ------------------------------------------------------------------------------------------------


def _merged(node: n.Aggregate, layout: _Layout, before: pa.Table, gains: pa.Table) -> pa.Table:
    """(γ@old ⋉ K) ⊕ Σ(δS): the touched groups with their new values."""
    weights = gains.column(WEIGHT)
    held: dict[str, Any] = {}
    gained: dict[str, Any] = {}
    totals: dict[str, tuple[str, str]] = {}  # output: its column and its aggregate function
    for group, out in zip(node.groups, layout.groups, strict=True):
        held[out.label] = before.column(group.label)
        gained[out.label] = canonical_array(gains.column(out.label), out.type)
    for index, call, new in layout.kept:
        old, gain = before.column(call.output.label), gains.column(new.label)
        if index in layout.extrema:
            stored, inserted, deleted = (a.label for a in layout.extrema[index])
            old, gain = in_order(old), in_order(canonical_array(gain, call.output.type))
            none = pa.scalar(None, gain.type)
            plus = pc.greater(weights, 0)
            held |= {stored: old, inserted: pa.nulls(len(old), old.type), deleted: pa.nulls(len(old), old.type)}
            gained |= {stored: pa.nulls(len(gain), gain.type)}
            gained |= {inserted: pc.if_else(plus, gain, none), deleted: pc.if_else(plus, none, gain)}
            totals |= {name: (name, call.function) for name in (stored, inserted, deleted)}
        else:
            times, zero = weights, pa.scalar(0, pa.int64())
            if call.function == "sum":  # in 76 digits: intermediate results of a sum that fits in 38 do not overflow
                times, gain = times.cast(pa.decimal256(19, 0)), gain.cast(pa.decimal256(38, call.output.type.scale))
                zero = zero.cast(gain.type)
            gained[new.label] = pc.multiply_checked(pc.coalesce(gain, zero), times)
            held[new.label] = pc.coalesce(old.cast(gain.type), zero).cast(gained[new.label].type)
            totals[new.label] = (new.label, "sum")
    held["_vk_touched"] = pa.array(np.zeros(before.num_rows, dtype=np.int64))
    gained["_vk_touched"] = pa.array(np.ones(gains.num_rows, dtype=np.int64))
    both = pa.concat_tables([pa.table(gained), pa.table(held)])
    total = _grouped(both, [out.label for out in layout.groups], {**totals, "_vk_touched": ("_vk_touched", "max")})
    return total.filter(pc.equal(total.column("_vk_touched"), 1))


def _grouped(table: pa.Table, keys: list[str], totals: dict[str, tuple[str, str]]) -> pa.Table:
    """GROUP BY on canonical values. Arrow cannot group by nested ones, so these are numbered first."""
    by = keys
    if any(pa.types.is_nested(table.schema.field(key).type) for key in keys):
        numbers: dict[tuple[Any, ...], int] = {}
        ids = [numbers.setdefault(row, len(numbers)) for row in row_tuples(table.select(keys))]
        first: dict[int, int] = {}
        for index, number in enumerate(ids):
            first.setdefault(number, index)
        shown = take(table.select(keys), list(first.values()))
        table, by = table.append_column("_vk_id", pa.array(ids, pa.int64())), ["_vk_id"]
    grouped = table.combine_chunks().group_by(by, use_threads=False).aggregate(list(totals.values()))
    found = {name: grouped.column(f"{source}_{how}") for name, (source, how) in totals.items()}
    if by is keys:
        return pa.table({**{key: grouped.column(key) for key in keys}, **found})
    order = pc.sort_indices(grouped.column("_vk_id"))
    return pa.table({**{key: shown.column(key) for key in keys}, **{k: v.take(order) for k, v in found.items()}})


def _widened(node: n.Aggregate, rows: pa.Table) -> pa.Table:
    """Stored groups with the types of the group-by."""
    for call in node.calls:
        place, kind = rows.schema.get_field_index(call.output.label), call.output.type.arrow
        if rows.schema.field(place).type != kind:
            rows = rows.set_column(place, call.output.label, rows.column(place).cast(kind))
    return rows


# the change ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fresh:
    """What is needed to read groups again that lost an extremum, or have no neighbors of a percentile."""

    lowering: Lowering
    node: n.Aggregate
    layout: _Layout
    source: n.Node
    runners: RunnersUp | None
    neighbors: Neighbors | None

    def rows(self, keys: pa.Table) -> pa.Table:
        """The group-by of some groups, from its input."""
        source, outputs = self.source, tuple(self.layout.groups)
        if outputs:
            known = self.lowering.reader.local(keys, outputs)
            pairs = tuple(zip(self.node.groups, outputs, strict=True))
            source = n.Restrict(source, self.lowering.given(known), pairs)
        fresh = self.lowering.lower(replace(self.node, input=source))
        return self.lowering.reader.keep(fresh).known[0]

    def extrema(self, runners: RunnersUp, index: int, values: Any, lost: Any, touched: pa.Table, rows: Any) -> Any:
        """The values of an aggregate with those of lost groups from its input; their runners-up are kept."""
        at = np.flatnonzero(lost)
        most = int(rows.to_numpy()[at].max())
        wanted = runners.few if runners.is_empty else runners.more(len(at), most)
        found = runners.read([index], self.source, take(touched, at.tolist()), self.layout.groups, wanted)[index]
        return pc.replace_with_mask(values.combine_chunks(), pa.array(lost), found)

    def percentiles(self, indexes: list[int], table: pa.Table, wanted: Any) -> dict[int, Any]:
        """Percentiles of one argument of some large groups from their input; their neighbors are kept."""
        neighbors, few = self.neighbors, take(table, np.flatnonzero(wanted).tolist())
        assert neighbors is not None
        most = int(self.layout.count(self.node, few, None).max())
        number = neighbors.few if neighbors.is_empty else neighbors.more(few.num_rows, most)
        counts = dict.fromkeys(indexes, self.layout.count(self.node, few, neighbors.argument(indexes[0])))
        keys = few.select([group.label for group in self.layout.groups])
        return neighbors.read(indexes, self.source, keys, self.layout.groups, counts, number)


def _as_change(
    fresh: _Fresh, table: pa.Table, before: pa.Table, following: dict[int, Followers], shares: dict[int, Percentiles]
) -> Folded:
    """The touched groups as a change: old rows deleted, new ones inserted.

    A lost extremum is the one that follows by the runners-up, and a percentile is found among its neighbors. Other
    groups are read again: large ones only to find the extremum and its runners-up, or the percentile's neighbors.
    """
    node, layout, runners = fresh.node, fresh.layout, fresh.runners
    touched = table.select([group.label for group in layout.groups])
    parts = [signed(rows_among(before, [group.label for group in node.groups], touched), -1)]
    rows = table.column(layout.new[layout.rows].label)
    large = pc.greater_equal(rows, fresh.lowering.engine.tuning.large_group).to_numpy(zero_copy_only=False)
    again = np.zeros(table.num_rows, dtype=bool)
    replaced, reread = again.copy(), again.copy()
    best = {}
    for index, (values, lost) in _extrema(node, layout, table, rows).items():
        if index in following:
            found = following[index]
            known = lost & found.found
            values = pc.if_else(pa.array(known), found.values, values)
            replaced, lost = replaced | known, lost & ~known
        wide = lost & large
        if runners is not None and index in runners.ranked and wide.any() and runners.fits(int(wide.sum())):
            values = fresh.extrema(runners, index, values, wide, touched, rows)
            reread, lost = reread | wide, lost & ~wide
        best[index], again = values, again | lost
    among, refilled, unknown = _shared(fresh, table, shares, large & ~again)
    best, again = best | among, again | unknown
    new = _new_rows(node, layout, table, best)
    there = pc.not_equal(rows, 0) if not node.whole else pc.is_valid(rows)
    parts.append(signed(filter_rows(new, pc.and_not(there, pa.array(again)).to_pylist()), 1))
    if again.any():
        parts.append(signed(fresh.rows(filter_rows(touched, again.tolist())), 1))
    replaced, reread = replaced & ~again & ~reread, (again & ~unknown) | reread
    return Folded(pa.concat_tables(parts), int(reread.sum()), int(replaced.sum()), int((refilled | unknown).sum()))


def _extrema(
    node: n.Aggregate, layout: _Layout, table: pa.Table, rows: pa.ChunkedArray
) -> dict[int, tuple[pa.ChunkedArray, np.ndarray[Any, Any]]]:
    """Per aggregate the new extrema, and which stored ones were deleted and no inserted value reaches them."""
    found = {}
    for index, attributes in layout.extrema.items():
        stored, inserted, deleted = (table.column(a.label) for a in attributes)
        pick = pc.min_element_wise if node.calls[index].function == "min" else pc.max_element_wise
        value = pick(stored, inserted)
        was_deleted = pc.fill_null(pc.equal(stored, deleted), False)
        reached = pc.fill_null(pc.equal(inserted, value), False)
        lost = pc.and_(pc.and_not(was_deleted, reached), pc.not_equal(rows, 0))
        values = as_before(value, node.calls[index].output.type.arrow)
        found[index] = (values, lost.to_numpy(zero_copy_only=False))
    return found


def _shared(
    fresh: _Fresh, table: pa.Table, shares: dict[int, Percentiles], large: np.ndarray[Any, Any]
) -> tuple[dict[int, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The new percentiles, which groups were read for their neighbors, and which have to be read again in full."""
    nobody = np.zeros(table.num_rows, dtype=bool)
    refilled, unknown = nobody.copy(), nobody.copy()
    neighbors = fresh.neighbors
    if neighbors is None:
        return {}, refilled, unknown
    there = fresh.layout.count(fresh.node, table, None) > 0
    found: dict[int, Any] = {}
    lacking: dict[tuple[Attribute, bytes], tuple[list[int], Any]] = {}
    for index in neighbors.ranked:
        known = shares[index].found if index in shares else nobody
        found[index] = shares[index].values if index in shares else pa.nulls(table.num_rows, pa.float64())
        missing = there & ~known
        wide = missing & large
        if not wide.any() or not neighbors.fits(int(wide.sum())):
            wide = nobody
        unknown |= missing & ~wide
        lacking.setdefault((neighbors.argument(index), wide.tobytes()), ([], wide))[0].append(index)
    for indexes, wide in lacking.values():
        if wide.any():
            refilled |= wide
            for index, values in fresh.percentiles(indexes, table, wide).items():
                found[index] = pc.replace_with_mask(found[index], pa.array(wide), values)
    return found, refilled & ~unknown, unknown


def _new_rows(node: n.Aggregate, layout: _Layout, table: pa.Table, best: dict[int, pa.ChunkedArray]) -> pa.Table:
    """The groups after the change. A sum of no values and an extremum of no rows are NULL."""
    columns: list[Any] = [table.column(group.label) for group in layout.groups]
    for index, (call, new) in enumerate(zip(node.calls, layout.new, strict=True)):
        values = best[index] if index in best else table.column(new.label)
        if call.function != "count" and call.share is None:
            none = pc.equal(table.column(layout.new[layout.counts[index]].label), 0)
            values = pc.if_else(none, pa.scalar(None, values.type), values)
        try:
            columns.append(pc.cast(values, call.output.type.arrow))
        except pa.ArrowInvalid:
            raise TypeMismatch(f"a sum does not fit in {call.output.type.ddl.upper()}") from None
    return pa.table(columns, names=[a.label for a in node.outputs])


# the strategy -------------------------------------------------------------------------------------


class Fold:
    """Stored group-bys."""

    name = FOLD
    passes = 1

    def maintain(self, task: Task, choice: Choice) -> Choice:
        """Folds δS into the stored groups, or computes the touched groups again."""
        state = _state_of(task.relation)
        node, change = task.input_change(n.Aggregate)
        if change is None:
            return NOT_REACHED
        after = n.at(node.input, n.NEW)
        runners, neighbors = RunnersUp.of(task, node), Neighbors.of(task, node)
        beside = [values for values in (runners, neighbors) if values is not None]
        if task.how is not None:
            for values in beside:
                values.clear(task)  # they are values of the former definition
            runners, neighbors, beside = None, None, []
        if all(call.text is None or (call.share is not None and neighbors is not None) for call in node.calls):
            folded = fold(task.lowering, state, task.stored, after, change, runners, neighbors)
            if folded is None:
                return NOT_REACHED
            if folded.table is not None:
                _join(task, state, folded.table)
                for values in beside:
                    values.join(task)
                return replace(choice, note=_read_again(folded))
        for values in beside:
            values.clear(task)
        places = dict(zip(node.groups, state.group_places, strict=True))
        groups = [group for group in node.groups if not group.type.has_map()]
        if groups:
            change = once(change)
        if task.lowering.lower(change).empty:
            return NOT_REACHED
        touched = n.Restrict(after, change, tuple((group, group) for group in groups)) if groups else after
        fresh = over(task.node, replace(node, input=touched))
        own = tuple((task.stored.attributes[places[group]], group) for group in groups)
        before: n.Node = n.Restrict(task.stored, change, own) if groups else task.stored
        join_change(task.tx, task.relation, task.lowering.lower(less(fresh, before)), check=False)
        return choice

    def computed(self, relation: Derived, node: n.Node, key: str, follows: bool) -> tuple[n.Node, ...]:
        """The stored touched groups, and their input rows where an aggregate has no state, or percentiles no neighbors.

        Groups whose percentile leaves its neighbors are read again, which planning does not foresee.
        """
        below = _state_of(relation).node
        stateless = any(call.text is not None and not (follows and call.share is not None) for call in below.calls)
        return _touched(relation, node, key, (n.at(below.input, n.NEW),) if stateless else ())

    def again(self, relation: Derived, node: n.Node, key: str) -> tuple[n.Node, ...]:
        """The input rows of the touched groups, unless they are read anyway."""
        below = _state_of(relation).node
        if not extrema_of(below) or any(call.text is not None and call.share is None for call in below.calls):
            return ()
        return _touched(relation, node, key, (n.at(below.input, n.NEW),))[-1:]

    def formula(self, node: n.Node, key: str) -> tuple[str, list[str]]:
        """⊕, or the touched groups computed again."""
        below = group_by_of(node)
        if below is None:
            raise InternalError(f"{key} is not read by a group-by")
        text = formula_of(below.input, key)
        if has_state(below):
            more = []
            if extrema_of(below):
                more.append("the groups whose extremum was deleted and not reached again, by group")
            if any(call.share is not None for call in below.calls):
                more.append("the groups that have no neighbors of a percentile, by group")
            return f"(γ@old⋉K ⊕ Σ({text})) − γ@old⋉K", more
        if below.whole:
            return f"γ(S@new) − γ@old if there is any {text}", []
        return f"γ(S@new⋉K) − γ@old⋉K with K from {text}", []


def extrema_of(node: n.Aggregate) -> int:
    """The number of its minima and maxima."""
    return sum(call.function in EXTREMA for call in node.calls)


def _touched(relation: Derived, node: n.Node, key: str, more: tuple[n.Node, ...]) -> tuple[n.Node, ...]:
    """The stored groups that a change of one input touches, and more expressions restricted to them."""
    state = _state_of(relation)
    return picked_by(state.scan(stored_rows(relation, node)), state.node, state.node.groups, key, more)


def _state_of(relation: Derived) -> GroupState:
    """Where a relation of this strategy holds the state of its group-by."""
    state = relation.definition.group_state
    if state is None:
        raise InternalError(f"{relation.name} does not hold the state of a group-by")
    return state


def _join(task: Task, state: GroupState, rows: pa.Table) -> None:
    """Adds the change of a group-by to the transaction, as the change of its projection that is stored."""
    narrowed = _narrowed(state, rows, task.relation.schema)
    if narrowed is not None:
        join_rows(task.tx, task.relation, narrowed)
        return
    given = task.lowering.given(task.lowering.reader.local(rows, state.node.outputs, weighted=True))
    join_change(task.tx, task.relation, task.lowering.lower(over(task.node, given)), check=False)


def _narrowed(state: GroupState, rows: pa.Table, schema: Schema) -> pa.Table | None:
    """Groups as they are stored; None if there are columns beside the state, or a number does not fit."""
    if len(state.places) < len(schema):
        return None
    columns = dict(zip(state.places, rows.columns, strict=False))
    try:
        held = [columns[place].cast(kind.type.arrow) for place, kind in enumerate(schema)]
    except pa.ArrowInvalid:
        return None  # the cast of the view raises
    return pa.table([*held, rows.column(WEIGHT)], names=[*schema.names, WEIGHT])


def picked_by(
    stored: n.Scan, node: n.Aggregate | n.Top, keys: tuple[Attribute, ...], key: str, more: tuple[n.Node, ...]
) -> tuple[n.Node, ...]:
    """The stored rows and more expressions, restricted to the rows that δ of the input selects by some columns."""
    change = differentiate(node.input, {key})
    if change is None:
        return ()
    pairs = tuple((a, a) for a in keys if not a.type.has_map())
    sources: list[n.Node] = [stored, *more]
    if not pairs:
        return (change, *sources)
    change = once(change)
    return tuple(n.Restrict(source, change, pairs) for source in sources)


def _read_again(folded: Folded) -> str:
    """What a report says of groups that lost an extremum or were read for percentiles; nothing if there are none."""
    groups, words = folded.reread, []
    if groups:
        words = [
            f"{groups} group{' lost an extremum and was' if groups == 1 else 's lost an extremum and were'} read again"
        ]
    groups = folded.replaced
    if groups:
        words.append(f"{groups} group{'' if groups == 1 else 's'} lost an extremum: its runner-up followed")
    groups = folded.refilled
    if groups:
        words.append(f"{groups} group{' was' if groups == 1 else 's were'} read again for percentiles")
    return "; ".join(words)
