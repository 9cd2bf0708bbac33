"""Auxiliary relations: parts of a view's query that are stored for its maintenance.

- A stored group-by is maintained from its contents and the change alone. The view reads it instead of the group-by.
- Duplicate elimination is a group-by of all columns, with the count of each row.
- A semi or anti join whose right side is not sorted by the join key stores the distinct keys there, with their counts;
  one that only tests whether the right side is empty stores its number of rows.
- Aggregates of distinct values, modes, and those without state and groups are computed from the distinct values of
  their arguments, stored with their counts (see counted_values).
- ORDER BY ... LIMIT stores a buffer: the first rows of its input, more than the limit.
- Each relation of a recursion is stored on its own.

Where the rows of a stored view hold the state of a group-by (see group_state), or are those of the only relation of a
recursion, nothing is stored beside it for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import TRUE, Attribute, Numbers
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.algebra.types import Type
from viewkeeper.delta.exists import asks_for_any_row
from viewkeeper.plan.counted_values import by_values, follows_values
from viewkeeper.plan.group_state import GroupState, group_state, missing_counts, over
from viewkeeper.plan.neighbor_columns import percentiles


@dataclass(frozen=True)
class Auxiliary:
    """An auxiliary relation: the expression of its contents, and the scan that reads it."""

    node: n.Aggregate | n.Top | n.Fixpoint
    scan: n.Scan

    @property
    def columns(self) -> list[str]:
        """The names of its columns when it is stored."""
        return self.scan.stored_names


@dataclass(frozen=True)
class Split:
    """A query over auxiliary relations, and those relations, each only over relations before it."""

    node: n.Node
    auxiliaries: tuple[Auxiliary, ...]


def split(
    node: n.Node,
    new_id: Callable[[], str],
    first_column: Callable[[n.Scan], str | None],
    slack: int = Tuning.topk_slack,
    holds: Callable[[GroupState], bool] = lambda _: True,
) -> Split:
    """A query with its auxiliary relations split off. `first_column` names the column a relation is sorted by.

    `holds` tells whether the rows of the view itself are to be the state of a group-by.
    """
    numbers = Numbers(n.highest(node) + 1_000)
    found: list[Auxiliary] = []

    def new_name() -> str:
        return f"auxiliary {len(found) + 1}"

    def aside(part: n.Node) -> n.Node:
        if isinstance(part, n.Fixpoint):
            return keep_recursion(part)
        if isinstance(part, n.Exists) and asks_for_any_row(part) and any(n.scans(part.right)):
            return replace(part, right=keep(_if_any(part.right, numbers)))
        if isinstance(part, n.Exists) and not part.conditions and part.equalities:
            part = _by_key(part, numbers, first_column)
            if isinstance(part.right, n.Aggregate):
                part = replace(part, right=aside(part.right))
            if isinstance(part.right, n.Scan):  # a key's count does not matter: a change of it alone stops here
                part = replace(part, right=_only(part.right, {equality.right for equality in part.equalities}))
            return part
        if isinstance(part, n.Distinct) and not any(a.type.has_map() for a in part.outputs):
            part = n.Aggregate(part.input, part.outputs, ())
        if isinstance(part, n.Top) and part.limit is not None and not any(a.type.has_map() for a in part.outputs):
            return keep_buffer(part)
        if not isinstance(part, n.Aggregate):
            return part
        return by_values(part, keep, keep_buffer, numbers) if follows_values(part) else keep(part)

    def keep(part: n.Aggregate) -> n.Scan:
        whole = complete(part, numbers)
        names = tuple(f"k{i}" for i in range(len(whole.groups))) + tuple(f"v{i}" for i in range(len(whole.calls)))
        scan = n.Scan(new_id(), new_name(), whole.outputs, n.NEW, names)
        found.append(Auxiliary(whole, scan))
        return replace(scan, attributes=part.outputs, columns=names[: len(part.outputs)])

    def keep_buffer(part: n.Top) -> n.Node:
        assert part.limit is not None
        most = 2 * max(part.limit + part.offset, slack)
        names = tuple(f"c{i}" for i in range(len(part.outputs)))
        scan = n.Scan(new_id(), new_name(), part.outputs, n.NEW, names)
        found.append(Auxiliary(replace(part, limit=most, offset=0), scan))
        return replace(part, input=scan)

    def keep_recursion(part: n.Fixpoint) -> n.Node:
        scans = {}
        for predicate in part.predicates:
            names = tuple(f"c{i}" for i in range(len(predicate.attributes)))
            scans[predicate.name] = n.Scan(new_id(), predicate.name, predicate.attributes, n.NEW, names)
        for name, scan in scans.items():
            shown = replace(part, shown=name, attributes=scan.attributes, stored=tuple(scans.items()))
            found.append(Auxiliary(shown, scan))
        return replace(scans[part.shown], attributes=part.attributes)

    if isinstance(node, n.Fixpoint) and len(node.predicates) == 1:  # the view itself stores it
        return Split(node.with_inputs(tuple(n.transform(part, aside) for part in node.inputs)), tuple(found))
    state = group_state(node)
    if state is not None and holds(state) and not (follows_values(state.node) or percentiles(state.node)):  # here too
        below = replace(state.node, input=n.transform(state.node.input, aside))
        return Split(over(node, below), tuple(found))
    return Split(n.transform(node, aside), tuple(found))


def _only(scan: n.Scan, wanted: set[Attribute]) -> n.Scan:
    """A scan of some of its columns."""
    kept = [(a, name) for a, name in zip(scan.attributes, scan.stored_names, strict=True) if a in wanted]
    return replace(scan, attributes=tuple(a for a, _ in kept), columns=tuple(name for _, name in kept))


def complete(node: n.Aggregate, numbers: Numbers) -> n.Aggregate:
    """The group-by with the counts that its laws need: of rows, and per sum or percentile of values not NULL."""
    calls = list(node.calls)
    for argument in missing_counts(node):
        name = "rows" if argument is None else f"values of {argument.name}"
        calls.append(n.Call(numbers.attribute(name, Type("bigint"), nullable=False), "count", argument))
    return replace(node, calls=tuple(calls))


def _if_any(node: n.Node, numbers: Numbers) -> n.Aggregate:
    """One row if an expression has any row, else none."""
    there = numbers.attribute("there", Type("boolean"), nullable=False)
    return n.Aggregate(n.Project(node, ((there, TRUE),)), (there,), ())


def _by_key(node: n.Exists, numbers: Numbers, first_column: Callable[[n.Scan], str | None]) -> n.Exists:
    """A semi or anti join against the distinct keys of its right side, unless that can be read by key already."""
    keys = tuple(dict.fromkeys(equality.right for equality in node.equalities))
    if isinstance(node.right, (n.Aggregate, n.Distinct)) or leads_to_sorted(node.right, keys, first_column):
        return node
    rows = n.Call(numbers.attribute("rows", Type("bigint"), nullable=False), "count")
    return replace(node, right=n.Aggregate(node.right, keys, (rows,)))


def leads_to_sorted(node: n.Node, keys: tuple[Attribute, ...], first_column: Callable[[n.Scan], str | None]) -> bool:
    """Whether keys of an expression reach a stored relation that is sorted by one of them."""
    match node:
        case n.Scan():
            first = first_column(node)
            return first is not None and any(key.name.lower() == first.lower() for key in keys if key in node.outputs)
        case n.Project():
            below = tuple(e.attribute for a, e in node.columns if a in keys and e.attribute is not None)
            return leads_to_sorted(node.input, below, first_column)
        case n.Filter() | n.Generate():
            return leads_to_sorted(node.input, keys, first_column)
        case n.Join() | n.Exists() | n.Outer():
            return any(leads_to_sorted(part, keys, first_column) for part in node.inputs[:1])
        case _:
            return False
