"""The strategies by name, which of them an expression takes, and what of it they differentiate."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.plan.group_state import GroupState, group_by_of

DIFFERENTIATE, FOLD, TOPK, FIXPOINT = "differentiate", "fold", "topk", "fixpoint"


def strategy_name(node: n.Node, state: GroupState | None, *, auxiliary: bool = False) -> str:
    """The strategy that maintains a stored expression, which may hold the `state` of a group-by, incrementally."""
    if state is not None:
        return FOLD
    if isinstance(node, n.Fixpoint):
        return FIXPOINT
    return TOPK if auxiliary and isinstance(node, n.Top) else DIFFERENTIATE


def differentiated(node: n.Node, strategy: str) -> n.Node:
    """What a strategy differentiates: of a group-by or top-k, the input, whose change meets the stored contents."""
    if strategy == FOLD:
        node = group_by_of(node) or node
    return node.inputs[0] if strategy in (FOLD, TOPK) else node
