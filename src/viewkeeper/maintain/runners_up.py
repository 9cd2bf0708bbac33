"""Runners-up: the values that follow the extrema of large groups, so that one that is deleted is replaced without S.

Beside a stored group-by γ[g; min(x), ...] S stands a relation R: for some groups the best values of x, with copies,

    R ⊆ γ[g, x; count(*)] S        with a value, R has all better ones of its group

so the best value of a group in R is its extremum. R is maintained with the group-by, from the same change:

    R@new ⋉ g = those values of (R@old ⊎ γ[g, x; count(*)] δS) ⋉ g that are not worse than the last of R@old ⋉ g

Only the groups that such a value of δS reaches are read. Where R has no values of a group, the group is read again when
it loses an extremum; if it is large, its first values are kept then. Those of all large groups are when the group-by is
first computed. To drop values is always right, but of a group only the last ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.ordered_values import in_order
from viewkeeper.algebra.rows import signed
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.relations import Derived, as_derived
from viewkeeper.engine.lowered import Binding, distinct_rows
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import InternalError
from viewkeeper.maintain.first_values import first_values, given_rows
from viewkeeper.maintain.group_values import (
    Groups,
    best_places,
    group_tuples,
    not_null_rows,
    one_array,
    plain_array,
    position_in_group,
    ranks_of,
)
from viewkeeper.maintain.net_changes import join_change, join_rows
from viewkeeper.maintain.strategy import Task
from viewkeeper.plan.runner_up_columns import COPIES, ranked_calls, runner_up_columns
from viewkeeper.store.small_files import SmallFiles

MORE, SHARE = 16, 100
"""Groups that have used up their runners-up get up to so many times as many, but at most one of so many rows."""

COMPARED = 5_000
"""Most changed rows that are compared with the last values of R one by one; with more, all their groups are read."""

Last: TypeAlias = dict[tuple[Any, ...], Any]


@dataclass(frozen=True)
class Followers:
    """For some groups, in a given order: the extremum of one aggregate according to R, and whether R has one."""

    values: pa.Array
    found: Any


class RunnersUp:
    """R of a stored group-by, and the change of it that a transaction makes."""

    def __init__(self, lowering: Lowering, small: SmallFiles, node: n.Aggregate, relation: Derived) -> None:
        self.lowering = lowering
        self.small = small
        self.node = node
        self.relation = relation
        self.tuning = lowering.engine.tuning
        columns = runner_up_columns(node, Numbers(70_000_000))
        self.groups, self.copies = columns[: len(node.groups)], columns[-1]
        self.ranked = dict(zip(ranked_calls(node), columns[len(node.groups) : -1], strict=True))
        self.stored = n.Scan(relation.id, relation.name, columns, n.OLD, tuple(relation.schema.names))
        self.parts: list[pa.Table] = []
        self.forgotten = False

    @staticmethod
    def of(task: Task, node: n.Aggregate) -> RunnersUp | None:
        """Those of the task's relation; None if it has none."""
        key = task.relation.definition.runners_up
        return RunnersUp(task.lowering, task.tx.store.small, node, as_derived(task.tx.by_id(key))) if key else None

    @property
    def is_empty(self) -> bool:
        """Whether it holds no values."""
        return not self.relation.files

    # the change ---------------------------------------------------------------------------------------

    def follow(self, change: pa.Table, touched: pa.Table) -> dict[int, Followers]:
        """Adds δS to R; per aggregate the extrema of the touched groups, in their order; none if R stays."""
        keys = self._keys([change.select([a.label for a in self.node.groups])])
        reached = self._reached(change, keys)
        if not reached:
            return {}
        held = self._held(pa.table([key.take(pa.array(reached)) for key in keys], [a.label for a in self.groups]))
        if held is None:
            self.forgotten = True
            return {}
        found = {}
        for index, output in self.ranked.items():
            there, moved = not_null_rows(held, output.label), not_null_rows(change, self._argument(index).label)
            tables = [there.select([a.label for a in self.groups]), moved.select([a.label for a in self.node.groups])]
            added = plain_array(moved[self._argument(index).label], output)
            values = pa.concat_arrays([plain_array(there[output.label], output), added])
            copies = np.concatenate([there[self.copies.label].to_numpy(), moved[WEIGHT].to_numpy()])
            groups = Groups(self._keys([*tables, touched]), len(values), len(values) + touched.num_rows)
            found[index] = self._follow(index, groups, there.num_rows, values, copies)
        return found

    def _follow(
        self, index: int, groups: Groups, held: int, values: pa.Array, copies: np.ndarray[Any, Any]
    ) -> Followers:
        """The same for one aggregate: `values` and `copies` are those `held` by R, then those of δS."""
        ranks = ranks_of(values, descending=self._descending(index))
        each = 1 + int(ranks.max(initial=0))
        places, first, inverse = np.unique(groups.rows * each + ranks, return_index=True, return_inverse=True)
        of, rank = places // each, places % each
        old, new = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
        np.add.at(old, inverse[:held], copies[:held])
        np.add.at(new, inverse, copies)
        last = np.full(groups.count, -1)
        np.maximum.at(last, groups.rows[:held], ranks[:held])
        new = np.where(rank <= last[of], new, 0)
        if (new < 0).any():
            raise InternalError(f"values are deleted from {self.relation.name} that are not there")
        most = np.maximum(2 * self.tuning.runners_up, np.bincount(of[old > 0], minlength=groups.count))
        new = np.where(position_in_group(of, new > 0, groups.count) <= most[of], new, 0)
        for counts, sign in ((old, -1), (new, 1)):
            chosen = np.flatnonzero((old != new) & (counts > 0))
            at = pa.array(first[chosen])
            self._add(index, [key.take(at) for key in groups.keys], values.take(at), pa.array(counts[chosen]), sign)
        best = np.full(groups.count, -1)
        alive = np.flatnonzero(new > 0)[::-1]
        best[of[alive]] = first[alive]
        at = best[groups.touched]
        return Followers(values.take(pa.array(at, mask=at < 0)), at >= 0)

    def _add(self, index: int, keys: Sequence[Any], values: Any, copies: Any, sign: int) -> None:
        ranked = [values if i == index else pa.nulls(len(values), a.type.arrow) for i, a in self.ranked.items()]
        names = [a.label for a in self.stored.outputs]
        self.parts.append(signed(pa.table([*keys, *ranked, copies], names=names), sign))

    def _keys(self, tables: Sequence[pa.Table]) -> list[pa.Array]:
        """The columns of the groups in some tables, one table below the other."""
        return [pa.concat_arrays([plain_array(t.column(i), own) for t in tables]) for i, own in enumerate(self.groups)]

    def _argument(self, index: int) -> Attribute:
        argument = self.node.calls[index].argument
        assert argument is not None
        return argument

    def _descending(self, index: int) -> bool:
        return self.node.calls[index].function == "max"

    # R@old --------------------------------------------------------------------------------------------

    def _held(self, groups: pa.Table) -> pa.Table | None:
        """R@old of some groups; None if that is too much for the driver."""
        reader, binding = self.lowering.reader, None
        if self.groups and reader.size(self.stored) > self.tuning.whole_rows:
            binding = Binding(self.groups, distinct_rows(groups))
        return reader.keep(reader.scan(self.stored, binding)).rows

    def _reached(self, change: pa.Table, keys: list[pa.Array]) -> list[int]:
        """The rows of δS that have a value which is not worse than the last of their group in R@old."""
        if change.num_rows > COMPARED:
            return list(range(change.num_rows))
        last = self._last()
        groups = group_tuples(keys, change.num_rows)
        chosen: set[int] = set()
        for index, output in self.ranked.items():
            ends, descending = last[index], self._descending(index)
            values = in_order(plain_array(change[self._argument(index).label], output)).to_pylist()
            for place, (group, value) in enumerate(zip(groups, values, strict=True)):
                end = ends.get(group)
                if value is not None and end is not None and (value >= end if descending else value <= end):
                    chosen.add(place)
        return sorted(chosen)

    def _last(self) -> dict[int, Last]:
        """Per aggregate the last value of each group in the files of R, as `in_order` has it.

        Deleted rows count too: R may end earlier. What a file holds is remembered, so that a change that reaches no
        runner-up reads nothing.
        """
        known = _of_files.setdefault(self.small, {})
        before = known.get(self.relation.id, {})
        ends = {file.path: before.get(file.path) or self._ends_of(file) for file in self.relation.files}
        known[self.relation.id] = ends
        found: dict[int, Last] = {index: {} for index in self.ranked}
        for of_file in ends.values():
            for index, last in of_file.items():
                worse = min if self._descending(index) else max
                for group, value in last.items():
                    found[index][group] = worse(found[index].get(group, value), value)
        return found

    def _ends_of(self, file: DataFile) -> dict[int, Last]:
        """The same for one file."""
        names = self.relation.schema.names
        rows = self.small.read(file, self.relation.schema).select(names)
        rows = rows.rename_columns([a.label for a in self.stored.outputs])
        found: dict[int, Last] = {}
        for index, output in self.ranked.items():
            there = not_null_rows(rows, output.label)
            keys = self._keys([there.select([a.label for a in self.groups])])
            values = in_order(plain_array(there[output.label], output))
            worst = best_places(keys, values, descending=not self._descending(index))
            ends = values.take(pa.array(list(worst.values()), pa.int64())).to_pylist()
            found[index] = dict(zip(worst, ends, strict=True))
        return found

    # groups that are read again -----------------------------------------------------------------------

    def more(self, groups: int, rows: int) -> int:
        """How many runners-up some groups get that have used up theirs, the largest of which has so many rows."""
        wanted = self.tuning.runners_up
        fitting = self.tuning.small_rows // (groups * len(self.ranked))
        return max(wanted, min(wanted * MORE, rows // SHARE, fitting))

    def fits(self, groups: int) -> bool:
        """Whether the runners-up of so many groups are few enough for the driver."""
        return groups * len(self.ranked) * self.tuning.runners_up <= self.tuning.small_rows

    def read(
        self, indexes: Sequence[int], source: n.Node, keys: pa.Table, outputs: Sequence[Attribute], wanted: int
    ) -> dict[int, pa.Array]:
        """The extrema of some groups, in their order, from their first values in S, which become part of R.

        All the aggregates have one argument.
        """
        asked = group_tuples(self._keys([keys]), keys.num_rows) if self.groups else [()]
        pairs = tuple(zip(self.node.groups, outputs, strict=True))
        there = n.Restrict(source, given_rows(self.lowering, keys, outputs), pairs) if pairs else source
        calls = {index: self.node.calls[index] for index in indexes}
        found = {}
        for index, rows in first_values(self.lowering, there, self.node.groups, calls, wanted).items():
            values = plain_array(rows[self._argument(index).label], self.ranked[index])
            best = self._keep_first(index, rows, values, one_array(rows[COPIES]), wanted)
            found[index] = values.take(pa.array([best.get(group) for group in asked], pa.int64()))
        return found

    def _keep_first(
        self, index: int, rows: pa.Table, values: pa.Array, copies: pa.Array, wanted: int
    ) -> dict[tuple[Any, ...], int]:
        """Adds the first values of each group to R; where the best one of each is."""
        keys = self._keys([rows.select([a.label for a in self.node.groups])])
        groups, ranks = Groups(keys, len(values), len(values)), ranks_of(values, descending=self._descending(index))
        order = np.lexsort((ranks, groups.rows))
        first = position_in_group(groups.rows[order], np.ones(len(order), dtype=bool), groups.count) <= wanted
        chosen = pa.array(order[first])
        self._add(index, [key.take(chosen) for key in keys], values.take(chosen), copies.take(chosen), 1)
        return best_places(keys, values, descending=self._descending(index))

    # the transaction ----------------------------------------------------------------------------------

    def clear(self, task: Task) -> None:
        """Drops all values."""
        task.tx.derived.add(self.relation.id)
        if not self.is_empty:
            join_change(task.tx, self.relation, task.lowering.lower(n.Negate(self.stored)), check=False)

    def join(self, task: Task) -> None:
        """Adds the recorded change to the transaction."""
        task.tx.derived.add(self.relation.id)
        if self.forgotten:
            self.clear(task)
        if self.parts:
            join_rows(task.tx, self.relation, pa.concat_tables(self.parts))


_of_files: weakref.WeakKeyDictionary[SmallFiles, dict[str, dict[str, dict[int, Last]]]] = weakref.WeakKeyDictionary()
"""The last values of each file of each R."""


def renew(task: Task) -> None:
    """Runners-up after their group-by was computed from its inputs: of all large groups if that was the first time."""
    state = task.relation.definition.group_state
    assert state is not None, task.node
    node = state.node
    runners = RunnersUp.of(task, node)
    if runners is None:
        return
    runners.clear(task)
    pending = task.tx.pending_of(task.relation)
    if task.relation.files or pending.staged:
        return
    rows = pending.rows.column(state.places[len(node.groups) + state.rows])
    large = pending.rows.filter(pc.greater_equal(rows, runners.tuning.large_group))
    if not large.num_rows or not runners.fits(large.num_rows):
        return
    keys = large.select([large.column_names[place] for place in state.group_places])
    keys = keys.rename_columns([a.label for a in runners.groups])
    arguments: dict[Attribute | None, list[int]] = {}
    for index in runners.ranked:
        arguments.setdefault(node.calls[index].argument, []).append(index)
    for indexes in arguments.values():
        runners.read(indexes, n.at(node.input, n.NEW), keys, runners.groups, runners.tuning.runners_up)
    runners.join(task)
