"""Group-bys that are stored with all that their maintenance needs: where each part of the state is.

The state of γ[g; count(x), sum(x), min(x) ...] S is its groups, the count of the rows of each, and per sum of nullable
values the count of those that are not NULL. An auxiliary relation has one column for each of these, in this order. A
view has them among its own columns if it is π(γ S), where

- every group and every aggregate is a column; an aggregate may be cast to another type of the same numbers,
- the counts that the state needs are among the aggregates.

Other columns follow from the state, row by row. Where an aggregate has no state, all of the group-by is computed again
for the touched groups, so the groups are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Cast, Expression, column
from viewkeeper.algebra.schema import SORTED
from viewkeeper.plan.neighbor_columns import has_state


@dataclass(frozen=True)
class GroupState:
    """A group-by, and for each of its outputs the position of the column of the stored relation that holds it.

    `rows` is the position among the aggregates of the count of rows, `counts` has for each aggregate that of the count
    of its values; an extremum has a value if there are rows. If an aggregate has no state, only the groups are given.
    """

    node: n.Aggregate
    places: tuple[int, ...]
    rows: int = -1
    counts: tuple[int, ...] = ()

    @property
    def group_places(self) -> tuple[int, ...]:
        """The positions of the groups."""
        return self.places[: len(self.node.groups)]

    @property
    def is_whole(self) -> bool:
        """Whether all of the state is given, not only the groups."""
        return len(self.places) == len(self.node.outputs)

    def scan(self, stored: n.Scan) -> n.Scan:
        """The scan of the relation under the columns of the group-by; numbers may be of narrower types."""
        held = [stored.attributes[place] for place in self.places]
        attributes = tuple(replace(a, type=own.type) for a, own in zip(self.node.outputs, held, strict=False))
        names = tuple(stored.stored_names[place] for place in self.places)
        return replace(stored, attributes=attributes, columns=names)

    def order(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that files of a relation with these columns are sorted by, so that few hold a group."""
        pairs = zip(self.node.groups, self.group_places, strict=True)
        return tuple(names[place] for group, place in pairs if not group.type.is_nested)[:SORTED]


def group_state(node: n.Node) -> GroupState | None:
    """Where an expression that is stored holds the state of a group-by; None if it is none, or does not hold it."""
    below = group_by_of(node)
    if below is None:
        return None
    _, shown = projected(node)
    places = [next((i for i, e in enumerate(shown) if _holds(e, a, a in below.groups)), None) for a in below.outputs]
    known = tuple(place for place in places if place is not None)
    if has_state(below) and len(known) == len(places) and not missing_counts(below):
        there = counts_of(below)
        counts = (there[_counted(call) if _has_count(call) else None] for call in below.calls)
        return GroupState(below, known, there[None], tuple(counts))
    groups = tuple(place for place in places[: len(below.groups)] if place is not None)
    is_computed_again = any(call.text is not None for call in below.calls) and len(groups) == len(below.groups)
    return GroupState(below, groups) if is_computed_again else None


def group_by_of(node: n.Node) -> n.Aggregate | None:
    """The group-by that an expression is, or a projection of; None if it is none."""
    while isinstance(node, n.Project):
        node = node.input
    return node if isinstance(node, n.Aggregate) else None


def over(node: n.Node, below: n.Node) -> n.Node:
    """The projections of an expression, over another group-by or its rows."""
    return node.with_inputs((over(node.input, below),)) if isinstance(node, n.Project) else below


def missing_counts(node: n.Aggregate) -> list[Attribute | None]:
    """The arguments of the counts that a group-by lacks to be maintained from its contents; None stands for rows."""
    if not has_state(node):
        return []
    there = counts_of(node)
    wanted = [None, *(_counted(call) for call in node.calls if _has_count(call))]
    return [argument for argument in dict.fromkeys(wanted) if argument not in there]


def counts_of(node: n.Aggregate) -> dict[Attribute | None, int]:
    """The positions of counts by what they count."""
    found: dict[Attribute | None, int] = {}
    for place, call in enumerate(node.calls):
        if call.function == "count" and call.text is None:
            found.setdefault(_counted(call), place)
    return found


def count_of(node: n.Aggregate, argument: Attribute | None) -> int:
    """The position of the aggregate that counts the rows, or the values of a column that are not NULL."""
    return counts_of(node)[argument if argument is not None and argument.nullable else None]


def _has_count(call: n.Call) -> bool:
    """Whether the state of an aggregate has the count of its values: of a sum and of a percentile."""
    return call.function == "sum" or call.share is not None


def _counted(call: n.Call) -> Attribute | None:
    """What the count of an aggregate's values counts: a column that is never NULL is counted like the rows."""
    return call.argument if call.argument is not None and call.argument.nullable else None


def projected(node: n.Node) -> tuple[n.Node, list[Expression]]:
    """What is below the projections of an expression, and its columns as expressions over that."""
    if not isinstance(node, n.Project):
        return node, [column(a) for a in node.outputs]
    below, shown = projected(node.input)
    values = dict(zip(node.input.outputs, shown, strict=True))
    return below, [e.substitute(values) for _, e in node.columns]


def _holds(shown: Expression, attribute: Attribute, is_group: bool) -> bool:
    """Whether a column holds the values of an attribute; those of an aggregate may be cast."""
    while isinstance(shown, Cast) and not (shown.tries or is_group) and _keeps_numbers(shown):
        shown = shown.child
    return shown.attribute == attribute


def _keeps_numbers(cast: Cast) -> bool:
    """Whether a cast of a number raises if it cannot hold that very number."""
    before, after = cast.child.type, cast.type
    if before is None:
        return False
    if before.name == "decimal" and after.name == "decimal":
        return before.scale == after.scale
    whole = before.is_integer or (before.name == "decimal" and before.scale == 0)
    return whole and (after.is_integer or (after.name == "decimal" and after.scale == 0))
