"""The columns of the runners-up of a group-by: its groups, one per extremum, and the copies of the value."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import BIGINT, Attribute, Numbers

COPIES = "copies"


def ranked_calls(node: n.Aggregate) -> list[int]:
    """The extrema of a group-by that may have runners-up, by position; none if groups are nested values."""
    if any(call.text is not None and call.share is None for call in node.calls):
        return []
    if any(a.type.is_nested for a in node.groups):
        return []
    extrema = [i for i, call in enumerate(node.calls) if call.function in ("min", "max")]
    if any(node.calls[i].output.type.is_nested for i in extrema):
        return []  # such a group-by is computed again by group
    return [i for i in extrema if node.calls[i].argument not in node.groups]


def runner_up_columns(node: n.Aggregate, numbers: Numbers) -> tuple[Attribute, ...]:
    """The columns; in each row, one of the extrema has a value."""
    groups = [numbers.like(group) for group in node.groups]
    values = [numbers.like(node.calls[i].output, nullable=True) for i in ranked_calls(node)]
    return (*groups, *values, numbers.attribute(COPIES, BIGINT, nullable=False))
