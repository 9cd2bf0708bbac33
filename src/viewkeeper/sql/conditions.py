"""The conjuncts of conditions."""

from __future__ import annotations

from sqlglot import exp


def anded(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND joins, in order."""
    return put_together(node, exp.And)


def put_together(node: exp.Expr, kind: type[exp.Binary]) -> list[exp.Expr]:
    """The operands that one kind of connective joins, in order."""
    found, waiting = [], [node]
    while waiting:
        part = unwrapped(waiting.pop())
        if isinstance(part, kind):
            waiting += [part.right, part.left]
        else:
            found.append(part)
    return found


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that must all be true. Splits NOT (a OR b), and what all branches of an OR share."""
    node = unwrapped(node)
    if isinstance(node, exp.And):
        return [found for part in anded(node) for found in conjuncts(part)]
    if isinstance(node, exp.Not):
        inside = unwrapped(node.this)
        if isinstance(inside, exp.Not):
            return conjuncts(inside.this)
        if isinstance(inside, exp.Or):
            return [*conjuncts(exp.Not(this=inside.left)), *conjuncts(exp.Not(this=inside.right))]
    if isinstance(node, exp.Or):
        return _factored(node)
    return [exp.false()] if isinstance(node, exp.Null) else [node]


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Syntax without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _factored(node: exp.Or) -> list[exp.Expr]:
    """(a AND b) OR (a AND c) as a AND (b OR c), so that a join condition that all branches repeat can be used."""
    branches = [conjuncts(branch) for branch in put_together(node, exp.Or)]
    shared = [one for one in branches[0] if all(one in other for other in branches[1:])]
    if not shared:
        return [node]
    rest = [[one for one in branch if one not in shared] for branch in branches]
    if not all(rest):
        return shared
    left = [exp.paren(exp.and_(*branch, copy=True), copy=False) for branch in rest]
    return [*shared, exp.or_(*left, copy=True)]
