"""Group-by without stored state. Keyed by group.

δ(γ S) = γ(S@new ⋉ K) − γ(S@old ⋉ K)        K = the groups of δS

If all aggregates are linear (count, exact sums), K are only the groups in which one of them changes: those where
Σ w, Σ w·[x is not NULL] or Σ w·x over δS, with its weights w, is not 0. In the others the group's row stays the same.

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
    both, state = laws.touched(node.input, _moving(node, once(below)), node.groups)
    return n.Signed(replace(node, input=both, groups=(*node.groups, state)), state)


def _moving(node: n.Aggregate, change: n.Node) -> n.Node:
    """The change of the input without groups whose aggregates stay what they were, where these are all linear."""
    if not is_linear(node):
        return change
    arguments = dict.fromkeys(call.argument for call in node.calls if call.argument is not None)
    summed = dict.fromkeys(call.argument for call in node.calls if call.argument is not None and call.function == "sum")
    return n.Unbalanced(change, node.groups, tuple(arguments), tuple(summed))


def is_linear(node: n.Aggregate) -> bool:
    """Whether every aggregate is a count or an exact sum, per group: the change of it is the sum over the change."""
    return bool(node.groups) and not node.whole and all(c.text is None and c.function in _LINEAR for c in node.calls)


_LINEAR = ("count", "sum")
