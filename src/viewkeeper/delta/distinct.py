"""Duplicate elimination. Keyed by row; no state of its own.

δ(ε S) = ε(S@new ⋉ K) − ε(S@old ⋉ K)        K = the rows of δS
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.laws import Laws, once


def distinct(laws: Laws, node: n.Distinct) -> n.Node | None:
    """ε over the touched rows in both states."""
    below = laws.change(node.input)
    if below is None:
        return None
    both, state = laws.touched(node.input, once(below), node.outputs)
    return n.Signed(n.Distinct(both), state)
