"""The strategies by name, which of them an expression takes, and what of it they differentiate."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n

DIFFERENTIATE, FOLD, TOPK, FIXPOINT = "differentiate", "fold", "topk", "fixpoint"


def strategy_name(node: n.Node, *, stored: bool = True, auxiliary: bool = False) -> str:
    """The strategy that maintains an expression incrementally, given by its top node if that is stored."""
    if stored and isinstance(node, n.Aggregate):
        return FOLD
    if stored and isinstance(node, n.Fixpoint):
        return FIXPOINT
    return TOPK if auxiliary and isinstance(node, n.Top) else DIFFERENTIATE


def differentiated(node: n.Node, strategy: str) -> n.Node:
    """What a strategy differentiates: of a group-by or top-k, the input, whose change meets the stored contents."""
    return node.inputs[0] if strategy in (FOLD, TOPK) else node
