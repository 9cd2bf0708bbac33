"""Left and full outer join. Linear on the left, keyed on the right; no state of its own.

δ(S ⟕ T) = (δS ⟕ T@new)  ⊎  (S@old ⋉K ⟕ T@new ⋉K) − (S@old ⋉K ⟕ T@old ⋉K)        K = the join keys of δT

S ⟗ T = (S ⟕ T)  ⊎  (T ▷ S) padded with NULLs, and its change is the change of that.
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column, null_of
from viewkeeper.delta.exists import both_sides, left_term
from viewkeeper.delta.laws import Laws, once, sum_of


def change(laws: Laws, node: n.Outer) -> n.Node | None:
    """The left side's term, and the term of the keys that changed on the right."""
    if node.full:
        return laws.change(as_union(laws, node))
    left, right = laws.change(node.left), laws.change(node.right)
    terms: list[n.Node] = []
    if left is not None:
        terms.append(left_term(laws, node, left))
    if right is not None:
        ours, theirs, (mine, yours) = both_sides(laws, node, once(right))
        padded = (*node.padded, (laws.numbers.like(yours, nullable=True), yours))
        joined = n.Outer(ours, theirs, (*node.equalities, n.Equality(mine, yours)), node.conditions, padded)
        terms.append(n.Signed(n.Project(joined, tuple((a, column(a)) for a in (*node.outputs, mine))), mine))
    return sum_of(terms, node.outputs)


def as_union(laws: Laws, node: n.Outer) -> n.Node:
    """S ⟗ T as the left join and the padded rest of T."""
    renamed = {inner: outer for outer, inner in node.padded}
    right_padded = tuple((outer, inner) for outer, inner in node.padded if inner in node.right.outputs)
    left_join = n.Outer(node.left, node.right, node.equalities, node.conditions, right_padded)
    left_again, mapped_left = n.fresh(node.left, laws.numbers)
    right_again, mapped_right = n.fresh(node.right, laws.numbers)
    turned = tuple(n.Equality(mapped_right[e.right], mapped_left[e.left], e.null_safe) for e in node.equalities)
    mapped = {**mapped_left, **mapped_right}
    conditions = tuple(n.map_attributes(condition, lambda a: mapped.get(a, a)) for condition in node.conditions)
    alone = n.Exists(right_again, left_again, turned, conditions, negated=True)
    nulls = tuple(
        (
            laws.numbers.like(renamed.get(a, a), nullable=True),
            null_of(a.type),
        )
        for a in node.left.outputs
    )
    rest = n.Project(alone, (*nulls, *((mapped_right[a], column(mapped_right[a])) for a in node.right.outputs)))
    return n.Union((left_join, rest), node.outputs)
