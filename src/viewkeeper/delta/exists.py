"""Semi and anti join (EXISTS, IN, NOT IN ...). Linear on the left, keyed on the right; no state of its own.

δ(S ⋉ T) = (δS ⋉ T@new)  ⊎  (S@old ⋉K ⋉ T@new ⋉K) − (S@old ⋉K ⋉ T@old ⋉K)        K = the join keys of δT

and the same with ▷ for ⋉. Without an equality, S ⋉ K are the rows of S that match some row of δT, and all of T is
read. If only the emptiness of T matters, all of S is read whenever δT has a row.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.null_expressions import none_null
from viewkeeper.delta.laws import Laws, net, once, sum_of


def change(laws: Laws, node: n.Exists) -> n.Node | None:
    """The left side's term, and the term of the keys that changed on the right."""
    return sum_of(terms_of(laws, node, laws.change(node.left), laws.change(node.right)), node.outputs)


def terms_of(laws: Laws, node: n.Exists, left: n.Node | None, right: n.Node | None) -> list[n.Node]:
    """The terms of the law, from the changes of both sides."""
    terms: list[n.Node] = []
    if left is not None:
        terms.append(left_term(laws, node, left))
    if right is not None:
        ours, theirs, (mine, yours) = both_sides(laws, node, right)
        states = n.Equality(mine, yours)
        terms.append(n.Signed(n.Exists(ours, theirs, (*node.equalities, states), node.conditions, node.negated), mine))
    return terms


def asks_for_any_row(node: n.Exists | n.Outer) -> bool:
    """Whether no column of the right side is compared, so that only its emptiness matters."""
    compared = {attribute for condition in node.conditions for attribute in condition.attributes}
    return not node.equalities and not compared & set(node.right.outputs)


def left_term(laws: Laws, node: n.Exists | n.Outer, left: n.Node) -> n.Node:
    """The operator is linear on the left: δS in the place of S, against T@new."""
    fallible = any(condition.raises for condition in node.conditions)
    return replace(node, left=net(left) if fallible else left, right=laws.new(node.right))


def both_sides(
    laws: Laws, node: n.Exists | n.Outer, right: n.Node
) -> tuple[n.Node, n.Node, tuple[Attribute, Attribute]]:
    """S@old ⋉ K in both states and T ⋉ K in both states, with the columns that hold a row's state."""
    right = _with_keys(node, once(right))
    before_left, before_right = laws.old(node.left), laws.old(node.right)
    if node.equalities or asks_for_any_row(node):
        keys = tuple((equality.left, equality.right) for equality in node.equalities)
        before_left = n.Restrict(before_left, right, keys)
        before_right = n.Restrict(before_right, right, tuple((key, key) for _, key in keys))
    else:
        before_left = n.Exists(before_left, right, (), node.conditions)
    ours, mine = laws.side_by_side(before_left, None)
    theirs, yours = laws.side_by_side(before_right, right)
    return ours, theirs, (mine, yours)


def _with_keys(node: n.Exists | n.Outer, right: n.Node) -> n.Node:
    """δT without the rows whose key is NULL, which match nothing, where outer joins below make many such rows."""
    if not any(isinstance(part, n.Outer) for side in node.inputs for part in side.walk()):
        return right
    keys = [e.right for e in node.equalities if not e.null_safe and e.right.nullable]
    return n.Filter(right, none_null(keys)) if keys else right
