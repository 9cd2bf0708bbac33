"""What runners-up and neighbors have in common: values of large groups in an auxiliary relation beside a group-by.

Such a relation is changed by the fold of its group-by, and by nothing else. It holds a part of the values of S that any
smaller part could replace: to drop what it has of a group is always right, and the group is read again when needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.relations import Derived
from viewkeeper.engine.lowered import Binding, distinct_rows
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.group_values import Groups, not_null_rows, plain_array
from viewkeeper.maintain.net_changes import join_change, join_rows
from viewkeeper.maintain.strategy import Task

MORE, SHARE = 16, 100
"""Groups that have used up their values get up to so many times as many, but at most one of so many rows."""


class AuxiliaryValues:
    """Such a relation, and the change of it that a transaction makes.

    Its columns are the groups, one for the values of each of some `aggregates`, by their position, and others. `few` is
    how many values a group has at first.
    """

    copies: Attribute
    """The column that says how often a value occurs."""

    def __init__(
        self,
        lowering: Lowering,
        node: n.Aggregate,
        relation: Derived,
        columns: tuple[Attribute, ...],
        aggregates: Sequence[int],
        few: int,
    ) -> None:
        self.lowering = lowering
        self.node = node
        self.relation = relation
        self.few = few
        self.tuning = lowering.engine.tuning
        self.groups, rest = columns[: len(node.groups)], columns[len(node.groups) :]
        self.ranked = dict(zip(aggregates, rest, strict=False))
        self.stored = n.Scan(relation.id, relation.name, columns, n.OLD, tuple(relation.schema.names))
        self.parts: list[pa.Table] = []
        self.forgotten = False

    @property
    def is_empty(self) -> bool:
        """Whether it holds no values."""
        return not self.relation.files

    def argument(self, index: int) -> Attribute:
        """The argument of an aggregate."""
        argument = self.node.calls[index].argument
        assert argument is not None
        return argument

    def keys(self, tables: Sequence[pa.Table]) -> list[pa.Array]:
        """The columns of the groups in some tables, one table below the other."""
        return [pa.concat_arrays([plain_array(t.column(i), own) for t in tables]) for i, own in enumerate(self.groups)]

    def held(self, groups: pa.Table) -> pa.Table | None:
        """The rows of some groups before the change; None if that is too much for the driver."""
        reader, binding = self.lowering.reader, None
        if self.groups and reader.size(self.stored) > self.tuning.whole_rows:
            binding = Binding(self.groups, distinct_rows(groups))
        return reader.keep(reader.scan(self.stored, binding)).rows

    def beside(
        self, index: int, held: pa.Table, change: pa.Table, touched: pa.Table
    ) -> tuple[pa.Table, Groups, pa.Array, np.ndarray[Any, Any]]:
        """What is held of the values of an aggregate, without NULLs; the groups of these, of the values of a change and
        the touched ones; the values of the two, and their copies."""
        output, argument = self.ranked[index], self.argument(index)
        there, moved = not_null_rows(held, output.label), not_null_rows(change, argument.label)
        tables = [there.select([a.label for a in self.groups]), moved.select([a.label for a in self.node.groups])]
        values = pa.concat_arrays(
            [plain_array(there[output.label], output), plain_array(moved[argument.label], output)]
        )
        copies = np.concatenate([there[self.copies.label].to_numpy(), moved[WEIGHT].to_numpy()])
        groups = Groups(self.keys([*tables, touched]), len(values), len(values) + touched.num_rows)
        return there, groups, values, copies

    # groups that are read again -----------------------------------------------------------------------

    def more(self, groups: int, rows: int) -> int:
        """How many values some groups get that have used up theirs, the largest of which has so many rows."""
        fitting = self.tuning.small_rows // (groups * len(self.ranked))
        return max(self.few, min(self.few * MORE, rows // SHARE, fitting))

    def fits(self, groups: int) -> bool:
        """Whether the values of so many groups are few enough for the driver."""
        return groups * len(self.ranked) * self.few <= self.tuning.small_rows

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


def large_groups(values: AuxiliaryValues, task: Task) -> pa.Table | None:
    """The stored rows of all large groups after a group-by was first computed; None if it was not, or there are none.

    Otherwise values are kept from the next change on that needs them.
    """
    state, pending = task.relation.definition.group_state, task.tx.pending_of(task.relation)
    assert state is not None, task.node
    if task.relation.files or pending.staged:
        return None
    rows = pending.rows.column(state.places[len(values.groups) + state.rows]).to_numpy()
    found = pending.rows.filter(pa.array(rows >= values.tuning.large_group)).select(list(state.places))
    return found.rename_columns([a.label for a in values.node.outputs]) if found.num_rows else None
