"""Window functions and ORDER BY ... LIMIT. Keyed by partition; no state of their own.

δ(op S) = op(S@new ⋉ K) − op(S@old ⋉ K)        K = the partitions of δS

Without a partition all of S is read.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column
from viewkeeper.delta.laws import Laws, once


def window(laws: Laws, node: n.Window) -> n.Node | None:
    """The operator over the touched partitions in both states."""
    below = laws.change(node.input)
    if below is None:
        return None
    both, state = laws.touched(node.input, once(below), node.partition)
    ordered = replace(node, input=both, partition=(*node.partition, state))
    return n.Signed(n.Project(ordered, tuple((a, column(a)) for a in (*node.outputs, state))), state)


def top(laws: Laws, node: n.Top) -> n.Node | None:
    """The operator over the touched partitions in both states."""
    below = laws.change(node.input)
    if below is None:
        return None
    both, state = laws.touched(node.input, once(below), node.partition)
    return n.Signed(replace(node, input=both, partition=(*node.partition, state)), state)
