"""Aggregates computed from the distinct values of their arguments, stored with their counts.

    C = γ[g, x; count(*)] S        γ[g; count(DISTINCT x)] S = γ[g; count(x)] C

Over C, count(DISTINCT) and sum(DISTINCT) are a plain count and sum, maintained from the change alone. The mode of a
group is its first value in C, by the greatest count and the smallest value: a top-k with a buffer. Any other aggregate
without groups is computed from C, each value repeated by its count: that reads all of C, but nothing of S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    INT,
    TRUE,
    Attribute,
    Call,
    Cast,
    Expression,
    Numbers,
    case,
    cast,
    column,
    conjunction,
    integer,
    not_null,
    plain,
)
from viewkeeper.algebra.expressions import call as call_of
from viewkeeper.algebra.types import Type

Keep = Callable[[n.Aggregate], n.Scan]

KeepTop = Callable[[n.Top], n.Node]

BIGINT = Type("bigint")

PORTION = 1_000
"""Copies of a value are made by arrays of at most so many elements."""

PARTS = 3
"""Up to so many sets of arguments get a relation each; if there are more, one relation has all arguments."""

OF_A_SET = frozenset(("approx_count_distinct", "collect_set", "first", "max_by", "min_by"))
"""Aggregates that do not depend on the counts of values."""


def follows_values(node: n.Aggregate) -> bool:
    """Whether a group-by is better computed from the distinct values of its arguments than from its input."""
    texts = [call for call in node.calls if _is_stateless(call)]
    if not texts or any(a.type.has_map() for call in texts for a in _arguments(call)):
        return False
    bound = all(_is_total(call) or _is_mode(call) for call in texts)
    return node.whole or (bound and len(_apart(node)) <= PARTS)


def by_values(node: n.Aggregate, keep: Keep, keep_top: KeepTop, numbers: Numbers) -> n.Node:
    """The group-by over auxiliary relations: one for aggregates with a state, the others per set of arguments."""
    plain = tuple(call for call in node.calls if not _is_stateless(call))
    parts: list[n.Node] = [keep(replace(node, calls=plain))] if plain else []
    apart = _apart(node)
    if len(apart) > PARTS:
        every = {a for arguments in apart for a in arguments}
        apart = {_sorted(every): [call for calls in apart.values() for call in calls]}
    for arguments, calls in apart.items():
        values = _Values.kept(node, arguments, keep, numbers)
        if not node.whole:
            parts += [values.mode(call, keep_top) for call in calls if _is_mode(call)]
            calls = [call for call in calls if not _is_mode(call)]
        if calls:
            linear = all(_is_total(call) and _arguments(call) == arguments for call in calls)
            parts.append(values.totals(calls) if linear else values.computed(calls))
    return _side_by_side(parts, node, numbers)


def _apart(node: n.Aggregate) -> dict[tuple[Attribute, ...], list[n.Call]]:
    """The aggregates without a state, grouped by their arguments."""
    found: dict[tuple[Attribute, ...], list[n.Call]] = {}
    for call in node.calls:
        if _is_stateless(call):
            found.setdefault(_arguments(call), []).append(call)
    return found


def _is_stateless(call: n.Call) -> bool:
    """Whether an aggregate is neither maintained from its stored value nor a percentile, which has neighbors."""
    return call.text is not None and call.share is None


def _arguments(call: n.Call) -> tuple[Attribute, ...]:
    assert call.text is not None
    return _sorted(call.text.attributes)


def _sorted(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    return tuple(sorted(attributes, key=lambda a: a.number))


def _is_total(call: n.Call) -> bool:
    """Whether a call is a count or an exact sum of distinct values."""
    made = call.text
    if not isinstance(made, Call) or not made.distinct or made.where is not None:
        return False
    if any(part.attribute is None for part in made.arguments):
        return False
    if made.name == "count":
        return bool(made.arguments)
    kinds = [part.type for part in made.arguments if part.type is not None]
    return made.name == "sum" and len(kinds) == 1 and (kinds[0].is_integer or kinds[0].name == "decimal")


def _is_mode(call: n.Call) -> bool:
    """Whether a call is the mode of a column: the smallest of the most frequent values.

    Not of floats: of values that are equally frequent, Sail takes NaN before others.
    """
    made = call.text
    if call.function != "mode" or not isinstance(made, Call) or made.name != "mode":
        return False
    value = made.arguments[0].attribute
    if value is None or value.type.is_nested or value.type.is_float:
        return False
    return not made.distinct and made.where is None


def _depends_on_copies(call: n.Call) -> bool:
    """Whether an aggregate depends on the counts of values."""
    assert call.text is not None
    inside = [part for part in call.text.walk() if isinstance(part, Call)]
    distinct = call.text in inside and inside[0].distinct
    floats = call.function in ("sum", "avg") and any(part.name == "collect_set" for part in inside)
    return not (call.function in OF_A_SET or distinct or floats)


@dataclass(frozen=True)
class _Values:
    """C: the distinct values of some arguments in each group of `node`, with their counts."""

    node: n.Aggregate
    arguments: tuple[Attribute, ...]
    stored: n.Scan
    rows: Attribute
    keep: Keep
    numbers: Numbers

    @staticmethod
    def kept(node: n.Aggregate, arguments: tuple[Attribute, ...], keep: Keep, numbers: Numbers) -> _Values:
        """C as an auxiliary relation."""
        rows = n.Call(numbers.attribute("rows", BIGINT, nullable=False), "count")
        groups = tuple(dict.fromkeys((*node.groups, *arguments)))
        stored = keep(n.Aggregate(node.input, groups, (rows,), whole=not groups))
        return _Values(node, arguments, stored, rows.output, keep, numbers)

    def totals(self, calls: Sequence[n.Call]) -> n.Node:
        """Counts and sums of distinct values, as counts and sums over C."""
        columns = {a: column(a) for a in self.stored.outputs if a != self.rows}
        made: list[n.Call] = []
        results = {group: column(group) for group in self.node.groups}
        for call in calls:
            assert call.text is not None
            arguments = call.text.attributes
            if call.function == "count":
                counted = arguments[0]
                if len(arguments) > 1:
                    counted = self.numbers.attribute("all values", Type("boolean"))
                    columns[counted] = case((conjunction(map(not_null, arguments)), TRUE))
                made.append(n.Call(call.output, "count", counted))
                results[call.output] = column(call.output)
            else:
                kind = arguments[0].type
                total = self.numbers.attribute(call.output.name, Type("decimal", 38, kind.scale))
                made.append(n.Call(total, "sum", arguments[0]))
                results[call.output] = cast(total, call.output.type)
        below = n.Project(self.stored, tuple(columns.items()))
        return _project(self.keep(replace(self.node, input=below, calls=tuple(made))), results)

    def mode(self, call: n.Call, keep_top: KeepTop) -> n.Node:
        """The first value of each group by its count, the greatest first, and by value; NULL if there is no other."""
        (value,) = self.arguments
        times = self.numbers.attribute("times", BIGINT)
        groups = self.node.groups
        columns = {a: column(a) for a in (*groups, value)} | {times: case((not_null(value), self.rows))}
        order = (n.Order(times, descending=True, nulls_first=False), n.Order(value))
        first = keep_top(n.Top(n.Project(self.stored, tuple(columns.items())), groups, order, 1))
        return _project(first, {**{group: column(group) for group in groups}, call.output: column(value)})

    def computed(self, calls: Sequence[n.Call]) -> n.Node:
        """Any aggregates, from the values of C, each repeated by its count if that matters."""
        below: n.Node = self.stored
        if not self.arguments or any(_depends_on_copies(call) for call in calls):
            portion, one = (self.numbers.attribute(name, Type("int"), nullable=False) for name in ("portion", "copy"))
            full, rest = (Cast(plain(sign, self.rows, integer(PORTION)), INT, fallible=False) for sign in ("div", "%"))
            portions = call_of("concat", call_of("array_repeat", integer(PORTION), full), call_of("array", rest))
            below = n.Generate(below, call_of("explode", portions), (portion,))
            below = n.Generate(below, call_of("explode", call_of("array_repeat", integer(1), portion)), (one,))
        return self.keep(replace(self.node, input=below, calls=tuple(calls)))


def _side_by_side(parts: Sequence[n.Node], node: n.Aggregate, numbers: Numbers) -> n.Node:
    """The parts of a group-by joined by group, with its own columns in their order. All parts have the same groups."""
    inputs = list(parts[:1])
    equalities = []
    for part in parts[1:]:
        own = {group: numbers.like(group) for group in node.groups}
        inputs.append(n.Project(part, tuple((own.get(a, a), column(a)) for a in part.outputs)))
        equalities += [n.Equality(group, again, group.nullable) for group, again in own.items()]
    joined = n.Join(tuple(inputs), tuple(equalities)) if len(inputs) > 1 else inputs[0]
    return _project(joined, {a: column(a) for a in node.outputs})


def _project(node: n.Node, columns: dict[Attribute, Expression]) -> n.Node:
    """Some columns of an expression; the expression itself if it has just those."""
    if tuple(columns) == node.outputs and all(e.attribute == a for a, e in columns.items()):
        return node
    return n.Project(node, tuple(columns.items()))
