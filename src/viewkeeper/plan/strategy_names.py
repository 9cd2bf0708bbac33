"""The names of the strategies, and which one maintains an expression."""

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
