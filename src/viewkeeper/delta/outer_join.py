"""Left and full outer join. Linear on the left, keyed on the right; no state of its own.

δ(S ⟕ T) = (δS ⟕ T@new)  ⊎  (S@old ⋉K ⟕ T@new ⋉K) − (S@old ⋉K ⟕ T@old ⋉K)        K = the join keys of δT

S ⟗ T = (S ⟕ T)  ⊎  (T ▷ S) padded with NULLs, and its change is the change of that.
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column, null_of
from viewkeeper.delta import exists
from viewkeeper.delta.exists import both_sides, left_term
from viewkeeper.delta.laws import Laws, once, sum_of


def change(laws: Laws, node: n.Outer) -> n.Node | None:
    """The left side's term, and the term of the keys that changed on the right; of a full join those of both parts."""
    left, right = laws.change(node.left), laws.change(node.right)
    if not node.full:
        return sum_of(_terms_of(laws, node, left, right), node.outputs)
    left, right = (once(side) if side is not None else None for side in (left, right))
    left_join, alone = _parts(node)
    rest = sum_of(exists.terms_of(laws, alone, right, left), alone.outputs)
    padded = [_padded(laws, node, rest)] if rest is not None else []
    return sum_of([*_terms_of(laws, left_join, left, right), *padded], node.outputs)


def _terms_of(laws: Laws, node: n.Outer, left: n.Node | None, right: n.Node | None) -> list[n.Node]:
    """The terms of the law of a left join, from the changes of both sides."""
    terms: list[n.Node] = []
    if left is not None:
        terms.append(left_term(laws, node, left))
    if right is not None:
        ours, theirs, (mine, yours) = both_sides(laws, node, right)
        padded = (*node.padded, (laws.numbers.like(yours, nullable=True), yours))
        joined = n.Outer(ours, theirs, (*node.equalities, n.Equality(mine, yours)), node.conditions, padded)
        terms.append(n.Signed(n.Project(joined, tuple((a, column(a)) for a in (*node.outputs, mine))), mine))
    return terms


def as_union(laws: Laws, node: n.Outer) -> n.Node:
    """S ⟗ T as the left join and the padded rest of T."""
    left_join, alone = _parts(node)
    return n.Union((left_join, _padded(laws, node, n.fresh(alone, laws.numbers)[0])), node.outputs)


def _parts(node: n.Outer) -> tuple[n.Outer, n.Exists]:
    """S ⟕ T and T ▷ S."""
    right_padded = tuple((outer, inner) for outer, inner in node.padded if inner in node.right.outputs)
    turned = tuple(n.Equality(e.right, e.left, e.null_safe) for e in node.equalities)
    left_join = n.Outer(node.left, node.right, node.equalities, node.conditions, right_padded)
    return left_join, n.Exists(node.right, node.left, turned, node.conditions, negated=True)


def _padded(laws: Laws, node: n.Outer, rest: n.Node) -> n.Node:
    """Rows of T with NULLs in the place of the columns of S."""
    nulls = tuple((laws.numbers.like(a, nullable=True), null_of(a.type)) for a in node.left.outputs)
    return n.Project(rest, (*nulls, *((a, column(a)) for a in rest.outputs)))
