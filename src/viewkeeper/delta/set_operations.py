"""EXCEPT ALL (monus) and INTERSECT ALL (min). Keyed by row; no state of their own.

δ(S op T) = (S@new ⋉ K) op (T@new ⋉ K) − (S@old ⋉ K) op (T@old ⋉ K)        K = the rows of δS and of δT
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.laws import Laws, keys_of, once


def monus(laws: Laws, node: n.Monus) -> n.Node | None:
    """max(0, m - n) copies of each touched row, in both states."""
    return _keyed(laws, node)


def least(laws: Laws, node: n.Least) -> n.Node | None:
    """min(m, n) copies of each touched row, in both states."""
    return _keyed(laws, node)


def _keyed(laws: Laws, node: n.Monus | n.Least) -> n.Node | None:
    changes = [laws.change(side) for side in node.inputs]
    kept = [once(change) if change is not None else None for change in changes]
    names = tuple(laws.numbers.like(attribute) for attribute in node.outputs)
    parts = [
        n.Support(keys_of(change, side.outputs, names))
        for change, side in zip(kept, node.inputs, strict=True)
        if change is not None
    ]
    keys: n.Node = parts[0] if len(parts) == 1 else n.Once(n.Union(tuple(parts), names))
    sides = []
    states = []
    for side, change in zip(node.inputs, kept, strict=True):
        pairs = tuple((a, k) for a, k in zip(side.outputs, names, strict=True) if not a.type.has_map())
        both, state = laws.side_by_side(n.Restrict(laws.old(side), keys, pairs), change)
        sides.append(both)
        states.append(state)
    state = laws.numbers.like(states[0])
    return n.Signed(replace(node, left=sides[0], right=sides[1], attributes=(*node.attributes, state)), state)
