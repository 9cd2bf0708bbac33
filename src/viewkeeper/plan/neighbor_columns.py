"""The columns of the neighbors of a group-by's percentiles: its groups, one per percentile, copies, number below."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import BIGINT, Attribute, Numbers
from viewkeeper.plan.runner_up_columns import COPIES

BELOW = "below"


def has_state(node: n.Aggregate) -> bool:
    """Whether all aggregates of a group-by have a state: counts, sums, extrema, and percentiles with neighbors."""
    texts = [call for call in node.calls if call.text is not None]
    if not texts:
        return True
    if any(a.type.is_nested for a in node.groups):
        return False
    if any(call.function in ("min", "max") and call.output.type.is_nested for call in node.calls):
        return False  # such a group-by is computed again by group
    return all(call.share is not None and call.argument not in node.groups for call in texts)


def percentiles(node: n.Aggregate) -> list[int]:
    """The percentiles of a group-by that may have neighbors, by position."""
    return [i for i, call in enumerate(node.calls) if call.share is not None] if has_state(node) else []


def neighbor_columns(node: n.Aggregate, numbers: Numbers) -> tuple[Attribute, ...]:
    """The columns; in each row, one of the percentiles has a value."""
    groups = [numbers.like(group) for group in node.groups]
    arguments = [node.calls[i].argument for i in percentiles(node)]
    values = [numbers.like(argument, nullable=True) for argument in arguments if argument is not None]
    counts = (numbers.attribute(COPIES, BIGINT, nullable=False), numbers.attribute(BELOW, BIGINT))
    return (*groups, *values, *counts)
