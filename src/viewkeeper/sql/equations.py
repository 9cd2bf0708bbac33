"""Conditions inside the translation: equations whose sides a join can use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from viewkeeper.algebra.expressions import TRUE, Attribute, Comparison, Expression
from viewkeeper.algebra.nodes import Equality, Filter, Node
from viewkeeper.algebra.types import same_family


def is_equation(condition: Expression) -> TypeGuard[Comparison]:
    """Whether a condition is left = right or left <=> right."""
    return isinstance(condition, Comparison) and condition.is_equation


def filtered(node: Node, conditions: Iterable[Expression]) -> Node:
    """The rows for which all conditions are true: one filter per condition, so that each can be moved by itself."""
    for condition in conditions:
        if condition != TRUE:
            node = Filter(node, condition)
    return node


def equality_of(condition: Expression, left: set[Attribute], right: set[Attribute]) -> Equality | None:
    """The equality of a left and a right column, in that order, if the condition is nothing else."""
    if not is_equation(condition):
        return None
    one, other = condition.left.attribute, condition.right.attribute
    if one is None or other is None or not same_family(one.type, other.type) or one.type.has_map():
        return None
    if one in left and other in right:
        return Equality(one, other, condition.operator == "<=>")
    if one in right and other in left:
        return Equality(other, one, condition.operator == "<=>")
    return None
