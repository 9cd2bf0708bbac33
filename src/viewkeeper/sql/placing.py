"""Evaluation of bound syntax over a node: its subqueries are joined to the node, conditions become filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.nodes import Join, Node
from viewkeeper.sql.binding import Binder
from viewkeeper.sql.conditions import unwrapped
from viewkeeper.sql.context import Context
from viewkeeper.sql.dialect import COMPARISONS
from viewkeeper.sql.free import free
from viewkeeper.sql.joins import inner_join
from viewkeeper.sql.subqueries import Attaching, Subquery


class Placing:
    """Adds bound conditions and values to a node."""

    def __init__(self, context: Context, binder: Binder) -> None:
        self.context = context
        self.binder = binder
        self.attaching = Attaching(context)

    def has_subquery(self, bound: exp.Expr) -> bool:
        """Whether bound syntax has a subquery that is not yet joined."""
        return bound.find(exp.Placeholder) is not None

    def named(self, bound: exp.Expr) -> set[Attribute]:
        """The attributes that bound syntax refers to, also inside its subqueries."""
        found = self.context.attributes_in(bound)
        for part in bound.find_all(exp.Placeholder):
            subquery = self.binder.subquery(part)
            assert subquery is not None
            found |= free(subquery.node)
            for operand in subquery.operands:
                found |= self.named(operand)
        return found

    # conditions ------------------------------------------------------------------------------------

    def keep(self, node: Node, conditions: Sequence[exp.Expr]) -> Node:
        """The rows for which bound conditions are true. Those with subqueries come last and see fewer rows."""
        simple = [c for c in conditions if not self.has_subquery(c)]
        node = inner_join(self.context, [node], [self.context.expression(c) for c in simple])
        for condition in conditions:
            if self.has_subquery(condition):
                node = self._keep_one(node, condition)
        return node

    def _keep_one(self, node: Node, condition: exp.Expr) -> Node:
        if isinstance(node, Join):  # a condition on one input filters that input, so that the join has fewer rows
            named = self.named(condition)
            for part in node.inputs:
                if named & set(node.outputs) and named & set(node.outputs) <= set(part.outputs):
                    kept = self._keep_one(part, condition)
                    return replace(node, inputs_=tuple(kept if one is part else one for one in node.inputs))
        inside, negated = unwrapped(condition), False
        while isinstance(inside, exp.Not):
            inside, negated = unwrapped(inside.this), not negated
        subquery = self.binder.subquery(inside)
        if subquery is not None and subquery.kind == "exists":
            return self.attaching.exists(node, subquery.node, [], negated=negated)
        if subquery is not None and subquery.kind == "any":
            node, operands = self._operands(node, subquery)
            return self.attaching.any_condition(node, subquery, operands, negated=negated)
        node, ready = self.joined(node, condition, _compared_values(condition))
        return inner_join(self.context, [node], [self.context.expression(ready)])

    # values ----------------------------------------------------------------------------------------

    def _operands(self, node: Node, subquery: Subquery) -> tuple[Node, list[Expression]]:
        operands: list[Expression] = []
        for operand in subquery.operands:
            node, expression = self.value(node, operand)
            operands.append(expression)
        return node, operands

    def value(self, node: Node, bound: exp.Expr) -> tuple[Node, Expression]:
        """A node with the subqueries of bound syntax joined, and the syntax as an expression over it."""
        node, ready = self.joined(node, bound)
        return node, self.context.expression(ready)

    def joined(self, node: Node, bound: exp.Expr, needed: Sequence[str] = ()) -> tuple[Node, exp.Expr]:
        """A node with the subqueries of bound syntax joined, and the syntax with columns in their place.

        Rows for which one of the `needed` subqueries is NULL may be dropped.
        """
        if not self.has_subquery(bound):
            return node, bound
        holder = exp.Paren(this=bound.copy())
        for part in list(holder.find_all(exp.Placeholder)):
            subquery = self.binder.subquery(part)
            assert subquery is not None
            node, expression = self._attach(node, subquery, needed=part.name in needed)
            node, made = self.context.extend(node, [("value", expression)])
            part.replace(self.context.marked(made[0], subquery.at))
        return node, holder.this

    def _attach(self, node: Node, subquery: Subquery, *, needed: bool) -> tuple[Node, Expression]:
        if subquery.kind == "exists":
            return self.attaching.exists_value(node, subquery)
        if subquery.kind == "scalar":
            return self.attaching.scalar(node, subquery, needed=needed)
        node, operands = self._operands(node, subquery)
        return self.attaching.any_value(node, subquery, operands)


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren)


def _compared_values(condition: exp.Expr) -> list[str]:
    """The subqueries whose value is compared: where it is NULL, the condition is not true."""
    condition = unwrapped(condition)
    if not isinstance(condition, tuple(COMPARISONS)):
        return []
    found: list[str] = []
    waiting = [condition.this, condition.expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Placeholder):
            found.append(part.name)
        elif isinstance(part, _ARITHMETIC):
            waiting += list(part.iter_expressions())
    return found
