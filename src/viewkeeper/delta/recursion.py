"""Recursion. What is not stored is compared as a whole; stored recursions are kept by the package of that name.

δ(μ) = μ@new − μ@old
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.laws import Laws


def change(laws: Laws, node: n.Fixpoint) -> n.Node | None:
    """The rows that are in one state only."""
    return n.Net(n.Union((laws.new(node), n.Negate(laws.old(node))), node.outputs))
