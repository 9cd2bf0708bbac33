"""The values around some places of the order of a group: from a query, or on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    BIGINT,
    Attribute,
    Expression,
    Numbers,
    column,
    comparison,
    conjunction,
    disjunction,
    not_null,
    plain,
)
from viewkeeper.algebra.expressions import call as call_of
from viewkeeper.algebra.ordered_values import as_before
from viewkeeper.engine.canonical_frames import canonical_value
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.operator_parts import ROWS_SO_FAR
from viewkeeper.maintain.first_values import given_rows
from viewkeeper.maintain.group_values import Numbering


class Around:
    """Some values of groups in order, `of` their groups, with copies; `below`: how many of its values each group has
    before them. Per group, a place of the order is where the value is in these arrays."""

    def __init__(self, of: Numbering, keys: Numbering, copies: Numbering, below: Numbering) -> None:
        self.keys = keys
        self.below = below
        self.upto = np.cumsum(copies)
        inside = np.zeros(len(below), np.int64)
        np.add.at(inside, of, copies)
        self.inside = inside
        self.before = np.cumsum(inside) - inside

    def places(self, first: Numbering, last: Numbering) -> tuple[Any, Numbering, Numbering]:
        """Per group whether two places are among these values, and where; somewhere if they are not."""
        known = (first >= self.below) & (last < self.below + self.inside)
        most = max(len(self.upto) - 1, 0)
        low, high = (
            np.minimum(np.searchsorted(self.upto, self.before + place - self.below, side="right"), most)
            for place in (first, last)
        )
        return known, low, high

    def value(self, at: Numbering) -> Any:
        """The values there, as floats."""
        if not len(self.keys):
            return np.zeros(len(at))
        return as_before(pa.chunked_array([pa.array(self.keys[at])]), pa.float64()).to_numpy()


def values_around(
    lowering: Lowering,
    source: n.Node,
    groups: tuple[Attribute, ...],
    argument: Attribute,
    keys: pa.Table,
    outputs: Sequence[Attribute],
    limits: Mapping[int, tuple[Numbering, Numbering]],
) -> pa.Table:
    """The values of some groups that have one of the places between some limits, with their `copies` and how many
    values of the group are not greater (`upto`). The `keys` of the groups are columns of `outputs`."""
    numbers = Numbers(81_000_000)
    copies, upto = (numbers.attribute(name, BIGINT, nullable=False) for name in ("copies", "upto"))
    pairs = tuple(zip(groups, outputs, strict=True))
    there = n.Restrict(source, given_rows(lowering, keys, outputs), pairs) if pairs else source
    value = numbers.like(argument)
    made = canonical_value(column(argument), argument.type)
    values = n.Project(n.Filter(there, not_null(argument)), (*((a, column(a)) for a in groups), (value, made)))
    counted = n.Aggregate(values, (*groups, value), (n.Call(copies, "count"),))
    running = n.WindowCall(upto, call_of("sum", copies, kind=BIGINT), ROWS_SO_FAR)
    ordered = n.Window(counted, groups, (n.Order(value),), (running,))
    inside: list[Expression] = []
    ends: dict[Attribute, Numbering] = {}
    for low, high in limits.values():
        start, end = (numbers.attribute(name, BIGINT, nullable=False) for name in ("start", "end"))
        ends |= {start: low, end: high}
        before = plain("-", upto, copies, BIGINT)
        inside.append(conjunction([comparison(">", upto, start), comparison("<=", before, end)]))
    own = tuple(map(numbers.like, groups))
    columns = [*(keys.column(i) for i in range(len(own))), *(pa.array(each) for each in ends.values())]
    given_columns = (*own, *ends)
    given = given_rows(lowering, pa.table(columns, [a.label for a in given_columns]), given_columns)
    equalities = tuple(n.Equality(mine, a, True) for mine, a in zip(own, groups, strict=True))
    joined = n.Join((given, ordered), equalities, (disjunction(inside),))
    wanted = (*groups, value, copies, upto)
    found = lowering.reader.keep(lowering.lower(n.Project(joined, tuple((a, column(a)) for a in wanted))))
    rows = found.rows if found.rows is not None else lowering.engine.fetch(found.frame)
    labels = [a.label for a in wanted]
    return rows.select(labels).rename_columns([*labels[:-3], argument.label, "copies", "upto"])
