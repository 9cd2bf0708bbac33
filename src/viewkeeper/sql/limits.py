"""LIMIT and OFFSET as numbers, and ORDER BY the columns of a result."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Order
from viewkeeper.sql.clauses import only
from viewkeeper.sql.context import Context
from viewkeeper.sql.window_frames import direction

_ARITHMETIC: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


def limit_of(context: Context, tree: exp.Expr) -> int | None:
    """The number in LIMIT; None without one."""
    limit = tree.args.get("limit")
    if limit is None:
        return None
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None:
            only(context, options, "rows")
        return _number(context, limit.args.get("count"), limit)
    if isinstance(limit.expression, (exp.Var, exp.Column)) and limit.expression.name.upper() == "ALL":
        return None
    return _number(context, limit.expression, limit)


def offset_of(context: Context, tree: exp.Expr) -> int:
    """The number in OFFSET; 0 without one."""
    offset = tree.args.get("offset")
    if offset is None:
        limit = tree.args.get("limit")
        inside = limit.args.get("offset") if limit is not None else None
        return _number(context, inside, limit) if inside is not None else 0
    return _number(context, offset.expression, offset)


def _number(context: Context, node: exp.Expr | None, at: exp.Expr | None) -> int:
    value = _constant(node)
    if value is None:
        context.refuse("LIMIT and OFFSET are constant whole numbers in a view", at, "write a number")
    if value < 0:
        context.wrong("LIMIT and OFFSET are not negative", at, None)
    return value


def _constant(node: exp.Expr | None) -> int | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return _constant(node.this)
    if isinstance(node, exp.Neg):
        inside = _constant(node.this)
        return -inside if inside is not None else None
    for kind, compute in _ARITHMETIC.items():
        if isinstance(node, kind):
            left, right = _constant(node.this), _constant(node.expression)
            return compute(left, right) if left is not None and right is not None else None
    return None


def is_all(key: exp.Ordered) -> bool:
    """Whether a sort key is the word ALL."""
    node = key.this
    return isinstance(node, (exp.Var, exp.Column)) and node.name.upper() == "ALL" and not node.args.get("table")


def ordinal(node: exp.Expr) -> int | None:
    """The position that a plain number means in ORDER BY or GROUP BY."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    return None


def order_by_output(context: Context, tree: exp.Expr, columns: Sequence[tuple[str, Attribute]]) -> list[Order]:
    """ORDER BY of a result: by the names and positions of its columns."""
    order = tree.args.get("order")
    found: list[Order] = []
    for key in order.expressions if order is not None else ():
        descending, first = direction(key)
        if is_all(key) and not any(name.upper() == "ALL" for name, _ in columns):
            found += [Order(a, descending, first) for _, a in columns]
            continue
        position = ordinal(key.this)
        if position is not None and 1 <= position <= len(columns):
            found.append(Order(columns[position - 1][1], descending, first))
            continue
        node = key.this
        named = [a for name, a in columns if isinstance(node, exp.Column) and name.lower() == node.name.lower()]
        if len(named) != 1:
            context.wrong(
                "ORDER BY of this query takes its columns", key, f"they are {', '.join(name for name, _ in columns)}"
            )
        found.append(Order(named[0], descending, first))
    return [key for index, key in enumerate(found) if key.attribute not in [k.attribute for k in found[:index]]]
