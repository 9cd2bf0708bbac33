"""Neighbors: the values around the percentiles of large groups, so that a percentile follows a change without S.

Beside a stored group-by γ[g; percentile(x, p), ...] S stands a relation R: for some groups all values of x from a
first to a last one, with their copies, and how many values are below the first:

    R ⋉ g = γ[g, x; count(*)] σ[first ≤ x ≤ last] (S ⋉ g)        below = |σ[x < first] (S ⋉ g)|

The places of a percentile in the order of values follow from p and the count of values, which the group-by stores. If
they are inside R, so are the values there. R is maintained with the group-by, from the same change: a changed value
below the first one changes the number `below`, one inside changes the copies, and one behind the last changes nothing.
Where S has no values beyond the first or the last one, R grows in that direction. The first and the last value stay
even without copies: they say from where to where R has all values.

A changed row moves a place by one at most. When it leaves R, the group is read again and R has more of its neighbors,
so the number of rows that are read for each changed row is bounded. To drop a group from R is always right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.ordered_values import in_order
from viewkeeper.algebra.rows import signed
from viewkeeper.algebra.shares import percentile, places
from viewkeeper.catalog.relations import Derived, as_derived
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import InternalError
from viewkeeper.maintain.auxiliary_values import MORE, AuxiliaryValues, large_groups
from viewkeeper.maintain.group_values import Groups, Numbering, plain_array
from viewkeeper.maintain.strategy import Task
from viewkeeper.maintain.values_around import Around, values_around
from viewkeeper.plan.group_state import count_of
from viewkeeper.plan.neighbor_columns import neighbor_columns, percentiles

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Percentiles:
    """For some groups, in a given order: one percentile according to R, and whether R has it."""

    values: pa.Array
    found: Any


class Neighbors(AuxiliaryValues):
    """R of a stored group-by, and the change of it that a transaction makes."""

    def __init__(self, lowering: Lowering, node: n.Aggregate, relation: Derived) -> None:
        columns = neighbor_columns(node, Numbers(83_000_000))
        super().__init__(lowering, node, relation, columns, percentiles(node), lowering.engine.tuning.neighbors)
        self.copies, self.below = columns[-2:]

    @staticmethod
    def of(task: Task, node: n.Aggregate) -> Neighbors | None:
        """Those of the task's relation; None if it has none."""
        key = task.relation.definition.neighbors
        return Neighbors(task.lowering, node, as_derived(task.tx.by_id(key))) if key else None

    # the change ---------------------------------------------------------------------------------------

    def follow(
        self, change: pa.Table, touched: pa.Table, rows: Numbering, counts: Mapping[int, Numbering]
    ) -> dict[int, Percentiles]:
        """Adds δS to R; per aggregate the percentiles of the touched groups, in their order.

        `rows` and `counts` are the number of rows of these groups after the change, and per aggregate of values.
        """
        held = self.held(touched.rename_columns([a.label for a in self.groups]))
        if held is None:
            self.forgotten = True
            return {}
        found = {}
        for index in self.ranked:
            there, groups, values, copies = self.beside(index, held, change, touched)
            below = there[self.below.label].fill_null(-1).to_numpy()
            after = _Change(groups, values, copies, below, rows, counts[index])
            found[index] = self._follow(index, after)
        return found

    def _follow(self, index: int, change: _Change) -> Percentiles:
        """The same for one aggregate."""
        if change.is_impossible:
            raise InternalError(f"values are deleted from {self.relation.name} that are not there")
        share = self.node.calls[index].share
        assert share is not None
        groups, of = change.groups, change.of
        around = Around(of, change.keys, change.new, change.new_below)
        first, last = places(share, change.counts)
        known, low, high = around.places(first, last)
        known |= change.counts == 0
        known &= change.has & (change.rows > 0)
        at = np.arange(len(of))
        near = (at >= low[of] - self.few * MORE) & (at <= high[of] + self.few * MORE)
        kept = change.kept & known[of] & (near | (change.counts[of] == 0))
        dropped = np.zeros(groups.count, np.int64)
        np.add.at(dropped, of[~kept & (at < low[of])], change.new[~kept & (at < low[of])])
        below = _of_first(of, kept, (change.new_below + dropped)[of])
        new = np.where(kept, change.new, -1)
        differs = (change.old != new) | (change.old_below != below)
        for counts, beneath, sign in ((change.old, change.old_below, -1), (new, below, 1)):
            chosen = np.flatnonzero(differs & (counts >= 0))
            self._add(index, groups.keys, change.values, change.places[chosen], counts[chosen], beneath[chosen], sign)
        result = percentile(share, change.counts, around.value(low), around.value(high))
        there = known & (change.counts > 0)
        found = (known | (change.counts == 0))[groups.touched]
        return Percentiles(pa.array(result[groups.touched], mask=~there[groups.touched]), found)

    def _add(
        self, index: int, keys: Sequence[Any], values: Any, at: Numbering, copies: Any, below: Any, sign: int
    ) -> None:
        """Rows of R as a part of its change; -1 stands for no number of values below."""
        one = values.take(pa.array(at))
        ranked = [one if i == index else pa.nulls(len(one), a.type.arrow) for i, a in self.ranked.items()]
        columns = [
            *(key.take(pa.array(at)) for key in keys),
            *ranked,
            pa.array(copies),
            pa.array(below, mask=below < 0),
        ]
        self.parts.append(signed(pa.table(columns, names=[a.label for a in self.stored.outputs]), sign))

    # groups that are read again -----------------------------------------------------------------------

    def read(
        self,
        indexes: Sequence[int],
        source: n.Node,
        keys: pa.Table,
        outputs: Sequence[Attribute],
        counts: Mapping[int, Numbering],
        wanted: int,
    ) -> dict[int, pa.Array]:
        """The percentiles of some groups, in their order, from the values around them in S, which become part of R.

        All the aggregates have one argument. `counts` are the numbers of values of the groups.
        """
        shares = {index: self.node.calls[index].share for index in indexes}
        wished = {index: places(share, counts[index]) for index, share in shares.items() if share is not None}
        limits = {index: (first - wanted, last + wanted) for index, (first, last) in wished.items()}
        argument = self.argument(indexes[0])
        rows = values_around(self.lowering, source, self.node.groups, argument, keys, outputs, limits)
        values = plain_array(rows[argument.label], argument)
        copies, upto = (rows[name].to_numpy() for name in ("copies", "upto"))
        tables = [rows.select([a.label for a in self.node.groups]), keys]
        groups = Groups(self.keys(tables), rows.num_rows, rows.num_rows + len(counts[indexes[0]]))
        found = {}
        for index, (low, high) in limits.items():
            count, start, end, first, last = (np.zeros(groups.count, np.int64) for _ in range(5))
            for each, numbers in zip(
                (count, start, end, first, last), (counts[index], low, high, *wished[index]), strict=True
            ):
                each[groups.touched] = numbers
            inside = np.flatnonzero((upto > start[groups.rows]) & (upto - copies <= end[groups.rows]))
            inside = inside[np.lexsort((upto[inside], groups.rows[inside]))]
            of = groups.rows[inside]
            below = _of_first(of, np.ones(len(of), dtype=bool), (upto - copies)[inside])
            self._add(index, groups.keys, values, inside, copies[inside], below, 1)
            beneath = np.zeros(groups.count, np.int64)
            beneath[of[below >= 0]] = below[below >= 0]
            around = Around(of, in_order(values).to_numpy()[inside], copies[inside], beneath)
            known, at, until = around.places(first, last)
            if not known[count > 0].all():
                raise InternalError(f"{self.relation.name}: a group has not the values that were counted")
            share = shares[index]
            assert share is not None
            result = percentile(share, count, around.value(at), around.value(until))
            found[index] = pa.array(result[groups.touched], mask=(count == 0)[groups.touched])
        return found


class _Change:
    """The values of R and of δS in some groups, each once, in order; what R has of them before and after the change.

    `of` is the group of each value, `places` where it is in `values`; `old` and `new` are its copies, -1 in `old` if it
    was not in R. `old_below` is the number of values below where it was the first of a group, else -1. `kept` are those
    that stay in R: with copies, or at an end. Per group: `new_below`, `has`, whether R has it, and its `rows` and
    `counts`. Groups that are not touched are left out of `has`.
    """

    def __init__(
        self, groups: Groups, values: pa.Array, copies: Any, below: Any, rows: Numbering, counts: Numbering
    ) -> None:
        self.groups, self.values = groups, values
        self.rows, self.counts = _of_groups(groups, rows), _of_groups(groups, counts)
        is_touched = np.zeros(groups.count, dtype=bool)
        is_touched[groups.touched] = True
        held = len(below)
        of, keys = groups.rows, in_order(values).to_numpy()
        self.has = np.zeros(groups.count, dtype=bool)
        self.has[of[:held]] = True
        self.has &= is_touched
        least, greatest = np.full(groups.count, GREATEST), np.full(groups.count, LEAST)
        np.minimum.at(least, of[:held], keys[:held])
        np.maximum.at(greatest, of[:held], keys[:held])
        beneath = np.zeros(groups.count, np.int64)
        beneath[of[:held][below >= 0]] = below[below >= 0]
        inside, moved = np.zeros(groups.count, np.int64), np.zeros(groups.count, np.int64)
        np.add.at(inside, of[:held], copies[:held])
        np.add.at(moved, of[held:], copies[held:])
        above = self.counts - moved - beneath - inside
        is_moved = np.arange(len(of)) >= held
        is_below = is_moved & (keys < least[of]) & (beneath[of] > 0)
        is_above = is_moved & (keys > greatest[of]) & (above[of] > 0)
        self.new_below = beneath.copy()
        np.add.at(self.new_below, of[is_below], copies[is_below])
        chosen = np.flatnonzero(self.has[of] & ~is_below & ~is_above)
        chosen = chosen[np.lexsort((keys[chosen], of[chosen]))]
        of, keys = of[chosen], keys[chosen]
        starts = np.ones(len(chosen), dtype=bool)
        starts[1:] = (of[1:] != of[:-1]) | (keys[1:] != keys[:-1])
        number = np.cumsum(starts) - 1
        self.of, self.keys, self.places = of[starts], keys[starts], chosen[starts]
        self.old, self.old_below = (np.full(len(self.of), -1) for _ in range(2))
        self.new = np.zeros(len(self.of), np.int64)
        np.add.at(self.new, number, copies[chosen])
        was = chosen < held
        self.old[number[was]] = copies[chosen[was]]
        self.old_below[number[was]] = below[chosen[was]]
        edge = np.ones(len(self.of) + 1, dtype=bool)
        edge[1:-1] = self.of[1:] != self.of[:-1]
        self.kept = (self.new > 0) | edge[:-1] | edge[1:]
        lost = self.has & ((self.new_below < 0) | (above < 0))
        self.is_impossible = bool((self.new < 0).any() or lost.any())


def _of_groups(groups: Groups, numbers: Numbering) -> Numbering:
    """Numbers of the touched groups by the number of the group."""
    found = np.zeros(groups.count, np.int64)
    found[groups.touched] = numbers
    return found


def _of_first(of: Numbering, kept: Any, below: Numbering) -> Numbering:
    """The numbers of the first kept row of each group; -1 in all others. Rows are in the order of groups."""
    found = np.full(len(of), -1, np.int64)
    at = np.flatnonzero(kept)
    first = at[np.unique(of[at], return_index=True)[1]]
    found[first] = below[first]
    return found


def renew_neighbors(task: Task) -> None:
    """Neighbors after their group-by was computed from its inputs: of all large groups if that was the first time."""
    assert isinstance(task.node, n.Aggregate)
    neighbors = Neighbors.of(task, task.node)
    if neighbors is None:
        return
    neighbors.clear(task)
    large = large_groups(neighbors, task)
    if large is None or not neighbors.fits(large.num_rows):
        return
    keys = large.select(range(len(neighbors.groups))).rename_columns([a.label for a in neighbors.groups])
    arguments: dict[Attribute, list[int]] = {}
    for index in neighbors.ranked:
        arguments.setdefault(neighbors.argument(index), []).append(index)
    for argument, indexes in arguments.items():
        counts = dict.fromkeys(indexes, large[task.node.calls[count_of(task.node, argument)].output.label].to_numpy())
        source = n.at(task.node.input, n.NEW)
        neighbors.read(indexes, source, keys, neighbors.groups, counts, neighbors.few)
    neighbors.join(task)
