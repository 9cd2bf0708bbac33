"""Aggregates of many forms over small tables on the driver. What is not here stops with `LeftToEngine`.

An aggregate whose text has others in it is computed in two steps: those inside, by group, and then the text over one
row per group. A sum of floats is that of the sorted values, added one by one from 0.0, as its text says; a percentile
is computed from its share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.ordered_values import in_order
from viewkeeper.algebra.rows import canonical_array
from viewkeeper.algebra.shares import percentile, places
from viewkeeper.algebra.types import Type
from viewkeeper.driver.arrow_functions import FUNCTIONS
from viewkeeper.driver.arrow_values import evaluate, kind_of, why_not
from viewkeeper.driver.matching import codes, one_chunk
from viewkeeper.driver.numbers import LeftToEngine, decimals, digits_of
from viewkeeper.driver.row_order import Integers, ranks

_INSIDE = 80_000_000
"""Column ids of the aggregates inside an expression."""


def by_group(node: n.Aggregate, table: pa.Table) -> pa.Table:
    """The groups with their aggregates."""
    groups = _Groups(node, table)
    columns = [
        canonical_array(table.column(a.label).take(pa.array(groups.first, pa.int64())), a.type) for a in node.groups
    ]
    for call in node.calls:
        try:
            columns.append(groups.computed(call).cast(call.output.type.arrow))
        except pa.ArrowInvalid as problem:
            raise LeftToEngine(str(problem)) from problem
    return pa.table(columns, [a.label for a in node.outputs])


class _Groups:
    """The rows of a table by group: `number` has the group of each row, `first` the first row of each group."""

    def __init__(self, node: n.Aggregate, table: pa.Table) -> None:
        self.table = table
        if node.groups:
            keys = codes([(one_chunk(table.column(a.label)), a.type) for a in node.groups])
            _, self.first, self.number = np.unique(keys, return_index=True, return_inverse=True)
            self.count = len(self.first)
        else:
            self.number = np.zeros(table.num_rows, dtype=np.int64)
            self.first, self.count = np.zeros(0, dtype=np.int64), 1 if node.whole or table.num_rows else 0

    def computed(self, call: n.Call) -> Any:
        """The values of an aggregate, group by group."""
        if call.share is not None and call.argument is not None:
            return self._percentile(call.share, call.argument)
        if call.text is not None:
            return self._text(call.text)
        argument = () if call.argument is None else (e.column(call.argument),)
        found, _ = self._aggregate(e.Call(call.function, argument, call.output.type))
        return found

    def _percentile(self, share: n.Share, argument: Attribute) -> Any:
        """A percentile, from the values in order."""
        values = canonical_array(one_chunk(self.table.column(argument.label)), argument.type)
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        keys = in_order(values).take(pa.array(there)).to_numpy(zero_copy_only=False)
        order = there[np.lexsort((keys, self.number[there]))]
        counts = np.bincount(self.number[there], minlength=self.count)
        starts = np.cumsum(counts) - counts
        if not len(order):
            return pa.nulls(self.count, pa.float64())
        floats, most = values.take(pa.array(order)).to_numpy(zero_copy_only=False), len(order) - 1
        lower, upper = (floats[np.minimum(starts + place, most)] for place in places(share, counts))
        return pa.array(percentile(share, counts, lower, upper), mask=counts == 0)

    def _text(self, text: Expression) -> Any:
        """An expression of aggregates."""
        columns: dict[str, Any] = {"count": pa.array(np.arange(self.count))}
        made = self._lifted(text, columns)
        why = why_not(made)
        if why is not None:
            raise LeftToEngine(why)
        return evaluate(made, pa.table(columns))

    def _lifted(self, node: Expression, columns: dict[str, Any]) -> Expression:
        """The expression with a column of one row per group in place of each aggregate."""
        if isinstance(node, e.Call) and (node.name in _NAMES or _sorted_values(node) is not None):
            found, kind = self._aggregate(node)
            attribute = Attribute(_INSIDE + len(columns), node.name, kind)
            columns[attribute.label] = found
            return e.column(attribute)
        if isinstance(node, e.Call) and node.name not in FUNCTIONS:
            raise LeftToEngine(f"{node.name}() is left to the engine")
        if not node.children:
            if node.attributes:
                raise LeftToEngine(f"{node} outside of aggregates is left to the engine")
            return node
        made = node.with_children(tuple(self._lifted(child, columns) for child in node.children))
        quotient = isinstance(made, e.Arithmetic) and made.type is None
        if quotient and all(kind_of(child) == e.DOUBLE for child in made.children):
            return e.Arithmetic(made.operator, made.left, made.right, e.DOUBLE)  # type: ignore[attr-defined]
        return made

    # one aggregate ---------------------------------------------------------------------------------

    def _aggregate(self, call: e.Call) -> tuple[Any, Type]:
        """The values of one aggregate, group by group, and their type."""
        if call.where is not None:
            raise LeftToEngine("an aggregate with FILTER is left to the engine")
        inside = _sorted_values(call)
        if inside is not None:
            return self._sorted_sum(inside), e.DOUBLE
        if call.name == "count":
            return self._counts(call), e.BIGINT
        if len(call.arguments) != 1:
            raise LeftToEngine(f"{call.name}() of these values is left to the engine")
        kind = kind_of(call.arguments[0])
        if kind is None:
            raise LeftToEngine(f"{call.name}() of these values is left to the engine")
        if call.name in ("min", "max"):
            return self._extrema(call, kind), kind
        return self._sums(call, kind)

    def _values(self, node: Expression) -> Any:
        why = why_not(node)
        if why is not None:
            raise LeftToEngine(why)
        return evaluate(node, self.table)

    def _counts(self, call: e.Call) -> Any:
        """The numbers of rows, or of those without NULLs; distinct ones, if the call says so."""
        there, columns = np.ones(self.table.num_rows, dtype=bool), []
        for argument in call.arguments:
            if isinstance(argument, e.Literal) and argument.value is not None:
                continue
            values, kind = self._values(argument), kind_of(argument)
            assert kind is not None
            there &= values.is_valid().to_numpy(zero_copy_only=False)
            columns.append((values, kind))
        numbers = self.number[there]
        if call.distinct:
            if not columns:
                raise LeftToEngine("a count of distinct constants is left to the engine")
            numbers = np.unique(np.stack((numbers, codes(columns)[there])), axis=1)[0]
        return pa.array(np.bincount(numbers, minlength=self.count).astype(np.int64))

    def _extrema(self, call: e.Call, kind: Type) -> Any:
        """The least or greatest values."""
        values = canonical_array(self._values(call.arguments[0]), kind)
        given = Attribute(_INSIDE, "value", kind)
        place = ranks(pa.table({given.label: values}), n.Order(given, call.name == "max", nulls_first=False))
        order = np.lexsort((place, self.number))
        chosen, there = self._first_of(order), values.is_valid().to_numpy(zero_copy_only=False)
        missing = np.array([row < 0 or not there[row] for row in chosen.tolist()], dtype=bool)
        return values.take(pa.array(np.where(missing, 0, chosen), pa.int64(), mask=missing))

    def _first_of(self, order: Integers) -> Integers:
        """The first row of each group in an order by group; -1 for a group without rows."""
        numbers = self.number[order]
        found = np.full(self.count, -1, dtype=np.int64)
        begins = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        firsts = np.concatenate((np.zeros(min(len(numbers), 1), dtype=np.int64), begins))
        found[numbers[firsts]] = order[firsts]
        return found

    def _lists(self, values: Sequence[Any]) -> list[list[Any]]:
        """The values of each group that are not NULL."""
        found: list[list[Any]] = [[] for _ in range(self.count)]
        for number, value in zip(self.number.tolist(), values, strict=True):
            if value is not None:
                found[number].append(value)
        return found

    def _sums(self, call: e.Call, kind: Type) -> tuple[Any, Type]:
        """Sums of integers or decimals: BIGINT, or as wide as the type of the call."""
        result = call.type or e.BIGINT
        if not (kind.is_integer or (kind.name == "decimal" and call.type is not None and kind.scale == result.scale)):
            raise LeftToEngine("a sum of these values is left to the engine")
        lists = self._lists(digits_of(self._values(call.arguments[0])))
        sums = [sum(set(values) if call.distinct else values) if values else None for values in lists]
        most = 1 << 63 if result.is_integer else 10**result.precision
        if any(total is not None and abs(total) >= most for total in sums):
            raise LeftToEngine("a sum has more digits than its type")
        return (pa.array(sums, pa.int64()) if result.is_integer else decimals(sums, result)), result

    def _sorted_sum(self, node: Expression) -> Any:
        """Sums of the sorted values as DOUBLE; NaN comes last."""
        lists = self._lists(self._values(node).to_pylist())
        sums = []
        for values in lists:
            total = 0.0
            for value in sorted(values, key=lambda value: (math.isnan(value), value)):
                total += value
            sums.append(total)
        return pa.array(sums, pa.float64())


_NAMES = ("count", "min", "max", "sum")
"""The aggregates that are computed by themselves."""


def _sorted_values(call: e.Call) -> Expression | None:
    """x in aggregate(array_sort(collect_list(x)), 0, (a, b) -> a + b), of DOUBLE; None if a call is something else."""
    if call.name != "aggregate" or len(call.arguments) != 3:
        return None
    values, first, step = call.arguments
    zero = first.child if isinstance(first, e.Cast) and first.type == e.DOUBLE else first
    if not isinstance(zero, e.Literal) or float(zero.value or 0) != 0 or kind_of(first) != e.DOUBLE:
        return None
    if not isinstance(step, e.Lambda) or len(step.variables) != 2 or not isinstance(step.body, e.Arithmetic):
        return None
    body = step.body
    names = [part.name for part in body.children if isinstance(part, (e.Variable, e.Name))]
    if body.operator != "+" or names != list(step.variables):
        return None
    found: Expression = values
    for name in ("array_sort", "collect_list"):
        if not isinstance(found, e.Call) or found.name != name or len(found.arguments) != 1 or found.distinct:
            return None
        found = found.arguments[0]
    return found if kind_of(found) == e.DOUBLE else None
