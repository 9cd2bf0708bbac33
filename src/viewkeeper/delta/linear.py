"""Select, project, generate, union all, and the leaves. Linear; no state.

δ(op S) = op(δS)        δ(S ⊎ T) = δS ⊎ δT        δ(constant) = ∅

A fallible expression is computed on the net change, so that it is never computed for a row that is in neither state.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.laws import Laws, net, sum_of


def scan(laws: Laws, node: n.Scan) -> n.Node | None:
    """δR, which the transaction or an earlier level has computed."""
    return replace(node, state=n.CHANGE) if node.relation in laws.changed else None


def rows(laws: Laws, node: n.Rows) -> n.Node | None:
    """A constant does not change."""
    return None


def project(laws: Laws, node: n.Project) -> n.Node | None:
    """δ(π S) = π(δS)."""
    below = laws.change(node.input)
    if below is None:
        return None
    return n.Project(net(below) if any(e.raises for _, e in node.columns) else below, node.columns)


def select(laws: Laws, node: n.Filter) -> n.Node | None:
    """δ(σ S) = σ(δS)."""
    below = laws.change(node.input)
    if below is None:
        return None
    return n.Filter(net(below) if node.condition.raises else below, node.condition)


def generate(laws: Laws, node: n.Generate) -> n.Node | None:
    """Row by row, like a projection."""
    below = laws.change(node.input)
    return None if below is None else replace(node, input=net(below) if node.text.raises else below)


def union(laws: Laws, node: n.Union) -> n.Node | None:
    """δ(S ⊎ T) = δS ⊎ δT."""
    terms = [below for below in map(laws.change, node.inputs) if below is not None]
    return sum_of(terms, node.outputs)
