"""The first values of large groups, from the input of a group-by: two scans, and nothing large is sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    BIGINT,
    INT,
    Attribute,
    Expression,
    Numbers,
    column,
    comparison,
    disjunction,
    integer,
    is_null,
    not_null,
)
from viewkeeper.algebra.expressions import call as call_of
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.engine.lowered import Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.group_values import Groups, plain_array, position_in_group, ranks_of
from viewkeeper.plan.runner_up_columns import COPIES


def first_values(
    lowering: Lowering, source: n.Node, groups: tuple[Attribute, ...], calls: Mapping[int, n.Call], wanted: int
) -> dict[int, pa.Table]:
    """Per aggregate at least the so many best values of each group, with their copies. All have one argument."""
    argument = _argument(calls)
    copies = n.Call(Numbers(75_000_000).attribute(COPIES, BIGINT, nullable=False), "count")
    near = _not_behind(lowering, n.Filter(source, not_null(argument)), groups, calls, wanted)
    whole = lowering.reader.keep(lowering.lower(n.Aggregate(near, (*groups, argument), (copies,))))
    labels = [a.label for a in (*groups, argument, copies.output)]
    found = {}
    for index, call in calls.items():
        rows = whole.rows
        if rows is None:
            order = (n.Order(argument, descending=call.function == "max"),)
            rows = lowering.engine.fetch(lowering.lower(n.Top(lowering.given(whole), groups, order, wanted)).frame)
        found[index] = rows.select(labels).rename_columns([*labels[:-1], COPIES])
    return found


def _not_behind(
    lowering: Lowering, source: n.Node, groups: tuple[Attribute, ...], calls: Mapping[int, n.Call], wanted: int
) -> n.Node:
    """Rows of S without most of those that have no value among the first of their group.

    The best value of each of some buckets, by a hash, is a value of the group. So of these the m-th is not better
    than the m-th of the group, and few values lie between them: only those are kept, not the whole group.
    """
    argument = _argument(calls)
    numbers = Numbers(76_000_000)
    bucket = numbers.attribute("bucket", INT)
    number = call_of("pmod", call_of("hash", argument, kind=INT), integer(2 * wanted), kind=INT)
    below = n.Project(source, (*((a, column(a)) for a in source.outputs), (bucket, number)))
    bests = [replace(call, output=numbers.like(argument)) for call in calls.values()]
    grouped = n.Aggregate(below, (*groups, bucket), tuple(bests))
    rows = lowering.reader.keep(lowering.lower(grouped)).rows
    if rows is None or not rows.num_rows:
        return source
    keys = [plain_array(rows[a.label], a) for a in groups]
    numbered = Groups(keys, rows.num_rows, rows.num_rows)
    inside: list[Expression] = []
    limits: list[tuple[Attribute, Any]] = []
    for best in bests:
        end, descending = numbers.like(argument, nullable=True), best.function == "max"
        limits.append((end, _ends(numbered, plain_array(rows[best.output.label], argument), wanted, descending)))
        inside += [is_null(end), comparison(">=" if descending else "<=", argument, end)]
        if descending and argument.type.is_float:
            inside.append(call_of("isnan", argument))
    one = pa.array(np.unique(numbered.rows, return_index=True)[1])
    own = tuple(map(numbers.like, groups))
    columns = [*(key.take(one) for key in keys), *(values for _, values in limits)]
    outputs = (*own, *(end for end, _ in limits))
    given = given_rows(lowering, pa.table(columns, [a.label for a in outputs]), outputs)
    equalities = tuple(n.Equality(mine, a, True) for mine, a in zip(own, groups, strict=True))
    joined = n.Join((given, source), equalities, (disjunction(inside),))
    return n.Project(joined, tuple((a, column(a)) for a in source.outputs))


def _ends(groups: Groups, values: pa.Array, wanted: int, descending: bool) -> pa.Array:
    """Per group its so many-th best value of some; NULL if there are fewer, or it is not a number."""
    ranks = ranks_of(values, descending=descending)
    each = 1 + int(ranks.max(initial=0))
    places, first = np.unique(groups.rows * each + ranks, return_index=True)
    of = places // each
    distinct = np.bincount(of, minlength=groups.count)
    last = first[position_in_group(of, np.ones(len(of), dtype=bool), groups.count) == np.minimum(distinct, wanted)[of]]
    ends = values.take(pa.array(last))
    enough = distinct[groups.rows[last]] >= wanted
    if pa.types.is_floating(values.type):
        enough &= np.isfinite(ends.to_numpy(zero_copy_only=False))
    return pc.if_else(pa.array(enough), ends, pa.scalar(None, values.type))


def given_rows(lowering: Lowering, rows: pa.Table, outputs: Sequence[Attribute]) -> n.Node:
    """Rows on the driver as an expression."""
    frame = lowering.engine.arrow(rows, Schema(tuple(Column(a.label, a.type) for a in outputs)))
    return lowering.given(Lowered(frame, tuple(outputs), known=(rows,), narrow=True))


def _argument(calls: Mapping[int, n.Call]) -> Attribute:
    argument = next(iter(calls.values())).argument
    assert argument is not None
    return argument
