"""Filters pushed toward the scans, so that a bound query derives only its part.

    σ(γ(S)) = γ(σ(S))    σ(S ⊎ T) = σ(S) ⊎ σ(T)    σ(ε(S)) = ε(σ(S))    σ(S ⋉ T) = σ(S) ⋉ T

The condition of the first names groups only. Fallible conditions stay where they are.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, column


def with_pushed_filters(node: n.Node) -> n.Node:
    """An expression with every filter as far below as it stays correct."""
    node = node.with_inputs(tuple(with_pushed_filters(part) for part in node.inputs))
    if isinstance(node, n.Filter) and not node.condition.raises:
        return _pushed(node.input, node.condition)
    return node


def _pushed(node: n.Node, condition: Expression) -> n.Node:
    named = set(condition.attributes)
    match node:
        case _ if not named:
            pass
        case n.Filter():
            return replace(node, input=_pushed(node.input, condition))
        case n.Project():
            below = {a: e for a, e in node.columns if a in named}
            if all(e.attribute is not None for e in below.values()):
                return replace(node, input=_pushed(node.input, condition.substitute(below)))
        case n.Distinct():
            return replace(node, input=_pushed(node.input, condition))
        case n.Aggregate() if not node.whole and named <= set(node.groups):
            return replace(node, input=_pushed(node.input, condition))
        case n.Union():
            branches = tuple(_pushed(part, _renamed(condition, node, part)) for part in node.inputs)
            return node.with_inputs(branches)
        case n.Exists() if named <= set(node.left.outputs):
            return replace(node, left=_pushed(node.left, condition))
        case n.Outer() if not node.full and named <= set(node.left.outputs):
            return replace(node, left=_pushed(node.left, condition))
        case n.Join():
            return _into_join(node, condition)
        case _:
            pass
    return n.Filter(node, condition)


def _into_join(node: n.Join, condition: Expression) -> n.Node:
    """A filter of a join: of every input that has its columns, or columns equal to them."""
    pushed = False
    inputs: list[n.Node] = []
    for part in node.inputs:
        found = _through(condition, part, node.equalities)
        pushed |= found is not None
        inputs.append(part if found is None else _pushed(part, found))
    if not pushed:
        return n.Filter(node, condition)
    return replace(node, inputs_=tuple(inputs), parents=())  # a filtered parent no longer matches every child


def _through(condition: Expression, part: n.Node, equalities: tuple[n.Equality, ...]) -> Expression | None:
    """A condition in the columns of one input of a join, which the join makes equal; None if it lacks one."""
    same: dict[Attribute, Expression] = {}
    for attribute in condition.attributes:
        if attribute in part.outputs:
            continue
        pairs = [(e.left, e.right) for e in equalities] + [(e.right, e.left) for e in equalities]
        equal = (b for a, b in pairs if a == attribute and b in part.outputs and b.type == a.type)
        other = next((b for b in equal if not b.type.is_float), None)
        if other is None:
            return None
        same[attribute] = column(other)
    return condition.substitute(same)


def _renamed(condition: Expression, union: n.Union, part: n.Node) -> Expression:
    names = zip(union.outputs, part.outputs, strict=True)
    return condition.substitute({out: column(inner) for out, inner in names if out != inner})
