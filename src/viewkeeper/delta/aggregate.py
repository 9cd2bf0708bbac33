"""Group-by without stored state. Keyed by group.

δ(γ S) = γ(S@new ⋉ K) − γ(S@old ⋉ K)        K = the groups of δS

Without GROUP BY there is always exactly one group, and all of S is read. A stored group-by has better laws, which use
its own contents: see maintain/fold.py.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.laws import Laws, once


def change(laws: Laws, node: n.Aggregate) -> n.Node | None:
    """γ over the touched groups in both states."""
    below = laws.change(node.input)
    if below is None:
        return None
    if node.whole:
        after, _ = n.fresh(laws.new(node), laws.numbers)
        return n.Union((n.Negate(laws.old(node)), after), node.outputs)
    both, state = laws.touched(node.input, once(below), node.groups)
    return n.Signed(replace(node, input=both, groups=(*node.groups, state)), state)
