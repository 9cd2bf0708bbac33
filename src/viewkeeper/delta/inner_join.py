"""Inner and cross join. Bilinear; no state of its own (old and new sides come from the store).

δ(S1 ⋈ ... ⋈ Sn) = ⊎ over i of  S1@new ⋈ ... ⋈ S(i-1)@new ⋈ δSi ⋈ S(i+1)@old ⋈ ... ⋈ Sn@old

Only the terms whose δ is not empty are there. Where S refers to T by a foreign key and T comes before S, the term
ΔT ⋈ S@old is empty: S@old refers to keys of T@old, and no inserted row has one of these. Rows of two terms may cancel;
fallible conditions are therefore tested on the net of all terms.
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import conjunction
from viewkeeper.delta.laws import Laws, net, sum_of


def change(laws: Laws, node: n.Join) -> n.Node | None:
    """The telescope."""
    fallible = tuple(condition for condition in node.conditions if condition.raises)
    plain = tuple(condition for condition in node.conditions if not condition.raises)
    terms: list[n.Node] = []
    for index, part in enumerate(node.inputs):
        changed = laws.change(part) if not _is_not_referred_to_yet(laws, node, index) else None
        if changed is None:
            continue
        before = tuple(laws.new(other) for other in node.inputs[:index])
        after = tuple(laws.old(other) for other in node.inputs[index + 1 :])
        terms.append(n.Join((*before, changed, *after), node.equalities, plain))
    total = sum_of(terms, node.outputs)
    if total is None or not fallible:
        return total
    return n.Filter(net(total), conjunction(fallible))


def _is_not_referred_to_yet(laws: Laws, node: n.Join, index: int) -> bool:
    """Whether an input only gains rows whose keys no later input referred to in the old state."""
    read = {scan.relation for scan in n.scans(node.inputs[index])}
    return read <= laws.grown and any(parent == index < child for child, parent in node.parents)
