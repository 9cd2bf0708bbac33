"""Recursion. A stored one is kept by the package of that name; of one that is not stored, the change is derived anew.

δ(μ): the rules D, N, R, I and E of recursion.rod
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.laws import Laws


def change(laws: Laws, node: n.Fixpoint) -> n.Node | None:
    """What goes and comes, re-derived on demand; a bag is compared as a whole."""
    if node.bag:
        return n.Net(n.Union((laws.new(node), n.Negate(laws.old(node))), node.outputs))
    return n.Rederived(node, tuple(sorted(laws.changed)))
