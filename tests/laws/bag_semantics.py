"""What every node of the algebra means, on small bags in plain Python; the laws are checked against it.

A bag is a list of rows with weights. It is not consolidated on the way: a row that cancels is still seen by what is
computed above it, as on an engine, and an expression may fail for it. Only Net consolidates. Everything but a change
has positive weights. Scalar expressions are computed by SQLite; `reciprocal(0)` fails.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal
from viewkeeper.algebra.expressions import Attribute, Expression, column
from viewkeeper.algebra.spark_text import printed
from viewkeeper.recursion.bodies import body

Row = tuple[Any, ...]
Bag = list[tuple[Row, int]]
Weights = dict[Row, int]


def net(bag: Bag) -> Weights:
    """Every row once, no zero weights."""
    total: Counter[Row] = Counter()
    for row, weight in bag:
        total[row] += weight
    return {row: weight for row, weight in total.items() if weight}


class States:
    """Some relations before a transaction and what it changes; evaluates expressions over both states."""

    def __init__(self, before: Mapping[str, Weights], changes: Mapping[str, Weights]) -> None:
        self.of = {
            n.OLD: {name: list(bag.items()) for name, bag in before.items()},
            n.CHANGE: {name: list(changes.get(name, {}).items()) for name in before},
        }
        self.of[n.NEW] = {name: list(net([*self.of[n.OLD][name], *self.of[n.CHANGE][name]]).items()) for name in before}
        self.given: dict[n.Rows, Bag] = {}  # rows of a recursion's round

    def rows(self, node: n.Node) -> Bag:
        """The rows of an expression."""
        found = _MEANINGS[type(node)](self, node)
        if not n.is_change(node):
            assert all(weight > 0 for _, weight in found), f"{type(node).__name__} has a row that is not there"
        return found

    # leaves and linear nodes -----------------------------------------------------------------------

    def scan(self, node: n.Scan) -> Bag:
        return self.of[node.state][node.relation]

    def values(self, node: n.Rows) -> Bag:
        if node in self.given:
            return self.given[node]
        return [(tuple(_scalar(e, {}) for e in row), 1) for row in node.rows]

    def project(self, node: n.Project) -> Bag:
        return [
            (tuple(_scalar(e, _named(node.input, row)) for _, e in node.columns), weight)
            for row, weight in self.rows(node.input)
        ]

    def select(self, node: n.Filter) -> Bag:
        return [(r, w) for r, w in self.rows(node.input) if _scalar(node.condition, _named(node.input, r))]

    def union(self, node: n.Union) -> Bag:
        return [pair for part in node.inputs for pair in self.rows(part)]

    def generate(self, node: n.Generate) -> Bag:
        """explode(array(a, b, ...))."""
        places = [node.input.outputs.index(a) for a in node.text.attributes]
        return [((*r, r[place]), w) for r, w in self.rows(node.input) for place in places]

    # joins -----------------------------------------------------------------------------------------

    def join(self, node: n.Join) -> Bag:
        found: Bag = []
        for parts in itertools.product(*(self.rows(part) for part in node.inputs)):
            row: Row = tuple(value for part, _ in parts for value in part)
            weight = 1
            for _, factor in parts:
                weight *= factor
            if _meets(node, dict(zip(node.outputs, row, strict=True))):
                found.append((row, weight))
        return found

    def exists(self, node: n.Exists) -> Bag:
        right = self.rows(node.right)
        return [
            (mine, weight)
            for mine, weight in self.rows(node.left)
            if any(_pair_meets(node, mine, other) for other, _ in right) is not node.negated
        ]

    def outer(self, node: n.Outer) -> Bag:
        left, right = self.rows(node.left), self.rows(node.right)
        found: Bag = []
        for mine, weight in left:
            partners = [(other, times) for other, times in right if _pair_meets(node, mine, other)]
            found += [((*mine, *other), weight * times) for other, times in partners]
            if not partners:
                found.append(((*mine, *(None for _ in node.right.outputs)), weight))
        if node.full:
            nulls = tuple(None for _ in node.left.outputs)
            alone = [pair for pair in right if not any(_pair_meets(node, mine, pair[0]) for mine, _ in left)]
            found += [((*nulls, *other), times) for other, times in alone]
        return found

    # keyed nodes -----------------------------------------------------------------------------------

    def distinct(self, node: n.Distinct) -> Bag:
        return [(row, 1) for row in net(self.rows(node.input))]

    def monus(self, node: n.Monus) -> Bag:
        left, right = (Counter(net(self.rows(side))) for side in node.inputs)
        return list((left - right).items())

    def least(self, node: n.Least) -> Bag:
        left, right = (Counter(net(self.rows(side))) for side in node.inputs)
        return list((left & right).items())

    def aggregate(self, node: n.Aggregate) -> Bag:
        groups = _parted(node.input, node.groups, self.rows(node.input))
        if node.whole:
            groups.setdefault((), [])
        return [((*key, *(_aggregated(node, call, rows) for call in node.calls)), 1) for key, rows in groups.items()]

    def window(self, node: n.Window) -> Bag:
        found: Bag = []
        for rows in _parted(node.input, node.partition, self.rows(node.input)).values():
            ordered = _sorted(node.input, node.order, rows)
            keys = [tuple(row[node.input.outputs.index(o.attribute)] for o in node.order) for row in ordered]
            functions: dict[str, Callable[[int], int]] = {
                "row_number()": lambda place: place + 1,
                "rank()": lambda place, keys=keys: keys.index(keys[place]) + 1,  # type: ignore[misc]
            }
            calls = [functions[str(call.text)] for call in node.calls]
            found += [((*row, *(call(place) for call in calls)), 1) for place, row in enumerate(ordered)]
        return found

    def top(self, node: n.Top) -> Bag:
        found: Bag = []
        for rows in _parted(node.input, node.partition, self.rows(node.input)).values():
            end = None if node.limit is None else node.offset + node.limit
            found += [(row, 1) for row in _sorted(node.input, node.order, rows)[node.offset : end]]
        return found

    # recursion -------------------------------------------------------------------------------------

    def fixpoint(self, node: n.Fixpoint) -> Bag:
        """Of one relation that no rule reads twice: round by round, every copy of a row if it is a bag."""
        head = node.predicates[0]
        total: Weights = {}
        current: Weights = {}
        for number in itertools.count():
            rules = [r for r in node.rules if number == 0 or any(literal.is_recursive for literal in r.body)]
            derived = net([pair for rule in rules for pair in self.rows(body(rule, head, self._source(node, current)))])
            current = derived if node.bag else {row: 1 for row in derived if row not in total}
            if not current:
                return list(total.items())
            total = net([*total.items(), *current.items()])
        raise AssertionError

    def _source(self, node: n.Fixpoint, current: Weights) -> Callable[[int, Literal], n.Node]:
        def source(_: int, literal: Literal) -> n.Node:
            if isinstance(literal.source, int):
                inside = node.inputs[literal.source]
                return n.Project(
                    inside, tuple((a, column(b)) for a, b in zip(literal.attributes, inside.outputs, strict=True))
                )
            stand_in = n.Rows(literal.attributes, ())
            self.given[stand_in] = list(current.items())
            return stand_in

        return source

    # what changes are made of ------------------------------------------------------------------------

    def negate(self, node: n.Negate) -> Bag:
        return [(row, -weight) for row, weight in self.rows(node.input)]

    def consolidate(self, node: n.Net) -> Bag:
        return list(net(self.rows(node.input)).items())

    def support(self, node: n.Support) -> Bag:
        return [(row, 1) for row in dict.fromkeys(row for row, _ in self.rows(node.input))]

    def unbalanced(self, node: n.Unbalanced) -> Bag:
        places = [node.input.outputs.index(a) for a in node.groups]
        counted = [node.input.outputs.index(a) for a in node.counted]
        summed = [node.input.outputs.index(a) for a in node.summed]
        totals: dict[Row, Counter[Any]] = {}
        bag = self.rows(node.input)
        for row, weight in bag:
            total = totals.setdefault(tuple(row[place] for place in places), Counter())
            total["rows"] += weight
            for place in counted:
                total["count", place] += weight if row[place] is not None else 0
            for place in summed:
                total["sum", place] += weight * (row[place] or 0)
        return [(row, w) for row, w in bag if any(totals[tuple(row[place] for place in places)].values())]

    def once(self, node: n.Once) -> Bag:
        return self.rows(node.input)

    def restrict(self, node: n.Restrict) -> Bag:
        ours = [node.left.outputs.index(mine) for mine, _ in node.on]
        theirs = [node.right.outputs.index(yours) for _, yours in node.on]
        keys = {tuple(row[place] for place in theirs) for row, _ in self.rows(node.right)}
        return [(row, w) for row, w in self.rows(node.left) if tuple(row[place] for place in ours) in keys]

    def both(self, node: n.Both) -> Bag:
        before = self.rows(node.left)
        after = net([*before, *self.rows(node.right)])
        return [((*r, 0), w) for r, w in before] + [((*r, 1), w) for r, w in after.items()]

    def signed(self, node: n.Signed) -> Bag:
        place = node.input.outputs.index(node.state)
        return [
            ((*row[:place], *row[place + 1 :]), weight if row[place] else -weight)
            for row, weight in self.rows(node.input)
        ]


_MEANINGS: dict[type[n.Node], Callable[[States, Any], Bag]] = {
    n.Scan: States.scan,
    n.Rows: States.values,
    n.Project: States.project,
    n.Filter: States.select,
    n.Union: States.union,
    n.Generate: States.generate,
    n.Join: States.join,
    n.Exists: States.exists,
    n.Outer: States.outer,
    n.Distinct: States.distinct,
    n.Monus: States.monus,
    n.Least: States.least,
    n.Aggregate: States.aggregate,
    n.Window: States.window,
    n.Top: States.top,
    n.Fixpoint: States.fixpoint,
    n.Negate: States.negate,
    n.Net: States.consolidate,
    n.Support: States.support,
    n.Unbalanced: States.unbalanced,
    n.Once: States.once,
    n.Restrict: States.restrict,
    n.Both: States.both,
    n.Signed: States.signed,
}


# scalar expressions ----------------------------------------------------------------------------------

_SQLITE = sqlite3.connect(":memory:", check_same_thread=False)
_SQLITE.create_function("reciprocal", 1, lambda x: None if x is None else 1 / x)


def _scalar(expression: Expression, row: Mapping[Attribute, Any]) -> Any:
    """The value of an expression for a row."""
    if expression.attribute is not None:
        return row[expression.attribute]
    text = printed(expression, lambda attribute: f":{attribute.label}")
    return _SQLITE.execute(f"SELECT {text}", {a.label: row[a] for a in expression.attributes}).fetchone()[0]


def _named(node: n.Node, row: Row) -> dict[Attribute, Any]:
    return dict(zip(node.outputs, row, strict=True))


def _meets(node: n.Join | n.Exists | n.Outer, row: Mapping[Attribute, Any]) -> bool:
    """Whether the equalities and conditions of a join are true."""
    for equality in node.equalities:
        left, right = row[equality.left], row[equality.right]
        if left != right or (left is None and not equality.null_safe):
            return False
    return all(_scalar(condition, row) for condition in node.conditions)


def _pair_meets(node: n.Exists | n.Outer, mine: Row, other: Row) -> bool:
    return _meets(node, {**_named(node.left, mine), **_named(node.right, other)})


# groups, partitions and orders -------------------------------------------------------------------------


def _parted(node: n.Node, keys: Sequence[Attribute], bag: Bag) -> dict[Row, list[Row]]:
    """All copies of the rows, by the values of some columns."""
    places = [node.outputs.index(key) for key in keys]
    found: dict[Row, list[Row]] = {}
    for row, weight in bag:
        found.setdefault(tuple(row[place] for place in places), []).extend([row] * weight)
    return found


def _aggregated(node: n.Aggregate, call: n.Call, rows: list[Row]) -> Any:
    if call.argument is None:
        return len(rows)
    place = node.input.outputs.index(call.argument)
    values = [row[place] for row in rows if row[place] is not None]
    if call.function == "count":
        return len(values)
    functions: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "min": min, "max": max}
    return functions[call.function](values) if values else None


def _sorted(node: n.Node, order: Sequence[n.Order], rows: Iterable[Row]) -> list[Row]:
    """Rows in an order; ties are broken by the whole row."""
    done = sorted(rows, key=lambda row: [(value is not None, value) for value in row])
    for key in reversed(order):
        place = node.outputs.index(key.attribute)
        nulls = [row for row in done if row[place] is None]
        others = [row for row in done if row[place] is not None]
        others.sort(key=lambda row, place=place: row[place], reverse=key.descending)  # type: ignore[misc]
        done = nulls + others if key.nulls_first else others + nulls
    return done
