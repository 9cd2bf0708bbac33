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

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.ordered_values import in_order
from viewkeeper.algebra.rows import signed
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.relations import Derived, as_derived
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import InternalError
from viewkeeper.maintain.auxiliary_values import AuxiliaryValues, large_groups
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
from viewkeeper.maintain.strategy import Task
from viewkeeper.plan.runner_up_columns import COPIES, ranked_calls, runner_up_columns
from viewkeeper.store.small_files import SmallFiles

COMPARED = 5_000
"""Most changed rows that are compared with the last values of R one by one; with more, all their groups are read."""

Last: TypeAlias = dict[tuple[Any, ...], Any]


@dataclass(frozen=True)
class Followers:
    """For some groups, in a given order: the extremum of one aggregate according to R, and whether R has one."""

    values: pa.Array
    found: Any


class RunnersUp(AuxiliaryValues):
    """R of a stored group-by, and the change of it that a transaction makes."""

    def __init__(self, lowering: Lowering, small: SmallFiles, node: n.Aggregate, relation: Derived) -> None:
        columns = runner_up_columns(node, Numbers(70_000_000))
        super().__init__(lowering, node, relation, columns, ranked_calls(node), lowering.engine.tuning.runners_up)
        self.small = small
        self.copies = columns[-1]

    @staticmethod
    def of(task: Task, node: n.Aggregate) -> RunnersUp | None:
        """Those of the task's relation; None if it has none."""
        key = task.relation.definition.runners_up
        return RunnersUp(task.lowering, task.tx.store.small, node, as_derived(task.tx.by_id(key))) if key else None

    # the change ---------------------------------------------------------------------------------------

    def follow(self, change: pa.Table, touched: pa.Table) -> dict[int, Followers]:
        """Adds δS to R; per aggregate the extrema of the touched groups, in their order; none if R stays."""
        keys = self.keys([change.select([a.label for a in self.node.groups])])
        reached = self._reached(change, keys)
        if not reached:
            return {}
        held = self.held(pa.table([key.take(pa.array(reached)) for key in keys], [a.label for a in self.groups]))
        if held is None:
            self.forgotten = True
            return {}
        found = {}
        for index in self.ranked:
            there, groups, values, copies = self.beside(index, held, change, touched)
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
        most = np.maximum(2 * self.few, np.bincount(of[old > 0], minlength=groups.count))
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

    def _descending(self, index: int) -> bool:
        return self.node.calls[index].function == "max"

    # R@old --------------------------------------------------------------------------------------------

    def _reached(self, change: pa.Table, keys: list[pa.Array]) -> list[int]:
        """The rows of δS that have a value which is not worse than the last of their group in R@old."""
        if change.num_rows > COMPARED:
            return list(range(change.num_rows))
        last = self._last()
        groups = group_tuples(keys, change.num_rows)
        chosen: set[int] = set()
        for index, output in self.ranked.items():
            ends, descending = last[index], self._descending(index)
            values = in_order(plain_array(change[self.argument(index).label], output)).to_pylist()
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
            keys = self.keys([there.select([a.label for a in self.groups])])
            values = in_order(plain_array(there[output.label], output))
            worst = best_places(keys, values, descending=not self._descending(index))
            ends = values.take(pa.array(list(worst.values()), pa.int64())).to_pylist()
            found[index] = dict(zip(worst, ends, strict=True))
        return found

    # groups that are read again -----------------------------------------------------------------------

    def read(
        self, indexes: Sequence[int], source: n.Node, keys: pa.Table, outputs: Sequence[Attribute], wanted: int
    ) -> dict[int, pa.Array]:
        """The extrema of some groups, in their order, from their first values in S, which become part of R.

        All the aggregates have one argument.
        """
        asked = group_tuples(self.keys([keys]), keys.num_rows) if self.groups else [()]
        pairs = tuple(zip(self.node.groups, outputs, strict=True))
        there = n.Restrict(source, given_rows(self.lowering, keys, outputs), pairs) if pairs else source
        calls = {index: self.node.calls[index] for index in indexes}
        found = {}
        for index, rows in first_values(self.lowering, there, self.node.groups, calls, wanted).items():
            values = plain_array(rows[self.argument(index).label], self.ranked[index])
            best = self._keep_first(index, rows, values, one_array(rows[COPIES]), wanted)
            found[index] = values.take(pa.array([best.get(group) for group in asked], pa.int64()))
        return found

    def _keep_first(
        self, index: int, rows: pa.Table, values: pa.Array, copies: pa.Array, wanted: int
    ) -> dict[tuple[Any, ...], int]:
        """Adds the first values of each group to R; where the best one of each is."""
        keys = self.keys([rows.select([a.label for a in self.node.groups])])
        groups, ranks = Groups(keys, len(values), len(values)), ranks_of(values, descending=self._descending(index))
        order = np.lexsort((ranks, groups.rows))
        first = position_in_group(groups.rows[order], np.ones(len(order), dtype=bool), groups.count) <= wanted
        chosen = pa.array(order[first])
        self._add(index, [key.take(chosen) for key in keys], values.take(chosen), copies.take(chosen), 1)
        return best_places(keys, values, descending=self._descending(index))


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
    large = large_groups(runners, task)
    if large is None or not runners.fits(large.num_rows):
        return
    keys = large.select(large.column_names[: len(runners.groups)])
    keys = keys.rename_columns([a.label for a in runners.groups])
    arguments: dict[Attribute | None, list[int]] = {}
    for index in runners.ranked:
        arguments.setdefault(node.calls[index].argument, []).append(index)
    for indexes in arguments.values():
        runners.read(indexes, n.at(node.input, n.NEW), keys, runners.groups, runners.few)
    runners.join(task)
