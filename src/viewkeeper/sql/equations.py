"""Conditions inside the translation: conjuncts, with separate sides if they are equations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from viewkeeper.algebra.expressions import Attribute, Expression, column, text
from viewkeeper.algebra.nodes import Equality, Filter, Node
from viewkeeper.algebra.types import Type

TRUE = Expression(("true",), raises=False)
FALSE = Expression(("false",), raises=False)


@dataclass(frozen=True)
class Equation(Expression):
    """left = right (or <=>), with separate sides so that a join can use them."""

    left: Expression = TRUE
    right: Expression = TRUE
    null_safe: bool = False

    def substitute(self, mapping: Mapping[Attribute, Expression]) -> Expression:
        """The same equation with some attributes replaced."""
        if not any(part in mapping for part in self.parts if isinstance(part, Attribute)):
            return self
        plain = super().substitute(mapping)
        left, right = self.left.substitute(mapping), self.right.substitute(mapping)
        return Equation(plain.parts, plain.raises, left, right, self.null_safe)


def equation(left: Expression, right: Expression, *, null_safe: bool = False, raises: bool = False) -> Equation:
    """left = right, or left <=> right."""
    whole = text("{} <=> {}" if null_safe else "{} = {}", left, right, raises=raises)
    return Equation(whole.parts, whole.raises, left, right, null_safe)


def plain(condition: Expression) -> Expression:
    """A condition as the algebra has it: only text and attributes."""
    return Expression(condition.parts, condition.raises) if isinstance(condition, Equation) else condition


def not_null(attribute: Attribute) -> Expression:
    """attribute IS NOT NULL."""
    return text("{} IS NOT NULL", attribute)


def same_family(one: Type, other: Type) -> bool:
    """Whether `=` between two types compares values as they are, without a cast that could change them."""
    return one.ddl == other.ddl or (one.is_integer and other.is_integer)


def filtered(node: Node, conditions: Iterable[Expression]) -> Node:
    """The rows for which all conditions are true: one filter per condition, so that each can be moved by itself."""
    for condition in conditions:
        if condition.parts != TRUE.parts:
            node = Filter(node, condition)
    return node


def equality_of(condition: Expression, left: set[Attribute], right: set[Attribute]) -> Equality | None:
    """The equality of a left and a right column, in that order, if the condition is nothing else."""
    if not isinstance(condition, Equation):
        return None
    one, other = condition.left.attribute, condition.right.attribute
    if one is None or other is None or not same_family(one.type, other.type) or one.type.has_map():
        return None
    if one in left and other in right:
        return Equality(one, other, condition.null_safe)
    if one in right and other in left:
        return Equality(other, one, condition.null_safe)
    return None


def condition_of(equality: Equality) -> Expression:
    """An equality as a condition."""
    return equation(column(equality.left), column(equality.right), null_safe=equality.null_safe)
