"""Inner and cross join. Bilinear; no state of its own (old and new sides come from the store).

δ(S1 ⋈ ... ⋈ Sn) = ⊎ over i of  S1@new ⋈ ... ⋈ S(i-1)@new ⋈ δSi ⋈ S(i+1)@old ⋈ ... ⋈ Sn@old

Only the terms whose δ is not empty are there. Where S refers to T by a foreign key and T comes before S, the term
ΔT ⋈ S@old is empty: S@old refers to keys of T@old, and no inserted row has one of these. Rows of two terms may cancel;
fallible conditions are therefore tested on the net of all terms.

Where many inputs change, that would be n terms of n inputs each. The join is then cut into two that equalities hold
together, which takes n log n inputs:

δ(L ⋈ R) = δL ⋈ R@old  ⊎  L@new ⋈ δR
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column, conjunction
from viewkeeper.delta.laws import Laws, net, sum_of

MANY = 4
"""With more changed inputs a join is cut in two."""


def change(laws: Laws, node: n.Join) -> n.Node | None:
    """The terms, and fallible conditions on their sum."""
    fallible = tuple(condition for condition in node.conditions if condition.raises)
    plain = tuple(condition for condition in node.conditions if not condition.raises)
    skipped = [_is_not_referred_to_yet(laws, node, index) for index in range(len(node.inputs))]
    changes = [None if skip else laws.change(part) for part, skip in zip(node.inputs, skipped, strict=True)]
    terms = _terms(laws, n.Join(node.inputs, node.equalities, plain), changes, cut=not any(skipped))
    total = sum_of(terms, node.outputs)
    if total is None or not fallible:
        return total
    return n.Filter(net(total), conjunction(fallible))


def _terms(laws: Laws, node: n.Join, changes: Sequence[n.Node | None], *, cut: bool) -> list[n.Node]:
    """The telescope; or, if many inputs change, the two terms of a join that is cut in two."""
    halves = _halves(node) if cut and sum(one is not None for one in changes) > MANY else None
    terms: list[n.Node] = []
    if halves is None:
        for index, changed in enumerate(changes):
            if changed is not None:
                before = tuple(laws.new(other) for other in node.inputs[:index])
                after = tuple(laws.old(other) for other in node.inputs[index + 1 :])
                terms.append(n.Join((*before, changed, *after), node.equalities, node.conditions))
        return terms
    for (mine, others), state in ((halves, laws.old), (halves[::-1], laws.new)):
        part, rest = _part(node, mine)
        changed = sum_of(_terms(laws, part, [changes[i] for i in mine], cut=True), part.outputs)
        if changed is not None:
            joined = n.Join((changed, *(state(node.inputs[i]) for i in others)), rest.equalities, rest.conditions)
            terms.append(n.Project(joined, tuple((a, column(a)) for a in node.outputs)))
    return terms


def _part(node: n.Join, mine: Collection[int]) -> tuple[n.Join, n.Join]:
    """The join of some inputs by what concerns them alone, and the join without these equalities and conditions."""
    inputs = tuple(node.inputs[i] for i in mine)
    there = {a for part in inputs for a in part.outputs}
    inside = tuple(e for e in node.equalities if {e.left, e.right} <= there)
    tested = tuple(c for c in node.conditions if c.attributes and set(c.attributes) <= there)
    equalities = tuple(e for e in node.equalities if e not in inside)
    conditions = tuple(c for c in node.conditions if c not in tested)
    return n.Join(inputs, inside, tested), n.Join(node.inputs, equalities, conditions)


def _halves(node: n.Join) -> tuple[list[int], list[int]] | None:
    """The inputs in two parts of about the same size, each held together by equalities; None if there are none."""
    home = {a: i for i, part in enumerate(node.inputs) for a in part.outputs}
    beside: list[list[int]] = [[] for _ in node.inputs]
    for e in node.equalities:
        one, other = home[e.left], home[e.right]
        beside[one].append(other)
        beside[other].append(one)
    above: dict[int, int] = {0: 0}  # a tree of all inputs, from the first one
    order = [0]
    for place in order:
        for other in beside[place]:
            if other not in above:
                above[other] = place
                order.append(other)
    if len(order) < len(node.inputs):
        return None
    below: list[set[int]] = [{i} for i in range(len(order))]
    for place in reversed(order[1:]):
        below[above[place]] |= below[place]
    right = min((below[place] for place in order[1:]), key=lambda part: abs(2 * len(part) - len(order)))
    if 4 * min(len(right), len(order) - len(right)) < len(order):
        return None
    return [i for i in range(len(order)) if i not in right], sorted(right)


def _is_not_referred_to_yet(laws: Laws, node: n.Join, index: int) -> bool:
    """Whether an input only gains rows whose keys no later input referred to in the old state."""
    read = {scan.relation for scan in n.scans(node.inputs[index])}
    return read <= laws.grown and any(parent == index < child for child, parent in node.parents)
