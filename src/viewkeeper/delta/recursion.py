"""Recursion. The package `recursion` maintains a stored one; the change of one that is not stored is re-derived.

δ(μ): the rules D, N, R, I and E of recursion.rod
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.laws import Laws


def change(laws: Laws, node: n.Fixpoint) -> n.Node | None:
    """The deleted and inserted rows, re-derived on demand; a bag is recomputed in both states and compared."""
    if node.bag:
        return n.Net(n.Union((laws.new(node), n.Negate(laws.old(node))), node.outputs))
    return n.Rederived(node, tuple(sorted(laws.changed)))
