"""Row values: (a, b) = (1, 2), (a, b) IN ((1, 2), (3, 4)) and their kind as conditions about their parts.

Equality of rows is the AND of the equalities of their parts: a part that is NULL makes it NULL unless another part
differs, as in standard SQL. Engines compare structs instead, and differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeeper.sql.conditions import unwrapped
from viewkeeper.sql.context import Context
from viewkeeper.sql.syntax import grouped, joined

_EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_ORDERS: dict[type[exp.Expr], type[exp.Binary]] = {exp.LT: exp.LT, exp.LTE: exp.LT, exp.GT: exp.GT, exp.GTE: exp.GT}


def has_row_values(tree: exp.Expr) -> bool:
    """Whether row values are compared anywhere in a query."""
    return any(
        isinstance(part.parent, (exp.Paren, exp.In, *_EQUALITIES, *_ORDERS)) for part in tree.find_all(exp.Tuple)
    )


def without_row_values(context: Context, tree: exp.Expr) -> exp.Expr:
    """A query in which comparisons of row values are conditions about their parts. Changes the tree."""
    if has_row_values(tree):
        for part in reversed(list(tree.walk())):
            made = _expanded(context, part)
            if made is not part:
                part.replace(made)
    return tree


def _expanded(context: Context, node: exp.Expr) -> exp.Expr:
    """A comparison of row values as conditions about their parts; anything else as it is."""
    if isinstance(node, exp.In) and node.expressions:
        return _in(context, node)
    if isinstance(node, (*_EQUALITIES, *_ORDERS)) and _row(node.this) and _row(node.expression):
        left, right = _parts(context, node, node.this, node.expression)
        return exp.Paren(this=_compared(node, left, right))
    return node


def _in(context: Context, node: exp.In) -> exp.Expr:
    if _row(node.this) is None or any(_row(part) is None for part in node.expressions):
        return node
    tests = []
    for row in node.expressions:
        left, right = _parts(context, node, node.this, row)
        tests.append(exp.Paren(this=_all(exp.EQ, left, right)))
    return exp.Paren(this=joined(exp.Or, tests))


def _compared(node: exp.Expr, left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> exp.Expr:
    if isinstance(node, (exp.EQ, exp.NullSafeEQ)):
        return _all(type(node), left, right)
    if isinstance(node, (exp.NEQ, exp.NullSafeNEQ)):
        same = exp.EQ if isinstance(node, exp.NEQ) else exp.NullSafeEQ
        return exp.Not(this=exp.Paren(this=_all(same, left, right)))
    strict = _ORDERS[type(node)]
    tests: list[exp.Expr] = []
    for index in range(len(left)):  # all parts before are equal, and this one decides
        kind = type(node) if index == len(left) - 1 else strict
        last: exp.Expr = kind(this=left[index].copy(), expression=right[index].copy())
        before = _all(exp.EQ, left[:index], right[:index]) if index else None
        tests.append(last if before is None else exp.Paren(this=exp.And(this=before, expression=last)))
    return joined(exp.Or, tests)


def _all(kind: type[exp.Expr], left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> exp.Expr:
    pairs = zip(left, right, strict=True)
    return joined(exp.And, [kind(this=a.copy(), expression=b.copy()) for a, b in pairs])


def _row(node: exp.Expr) -> exp.Tuple | None:
    node = unwrapped(node)
    return node if isinstance(node, exp.Tuple) else None


def _parts(context: Context, at: exp.Expr, one: exp.Expr, other: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
    left, right = ([grouped(part.copy()) for part in unwrapped(row).expressions] for row in (one, other))
    if len(left) != len(right):
        context.wrong(f"a row of {len(left)} values is compared with one of {len(right)}", at, None)
    return left, right
