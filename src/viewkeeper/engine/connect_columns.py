"""Expressions as PySpark columns.

An engine parses every text each time it gets it; Sail also leaks some 40 kB of memory per text. So an expression is
sent as the tree that the engine's own parser would make of its text. Opaque expressions, lambdas and a few literals
are still sent as text.

A message may not be nested deeper than 100 levels. Chains of AND and OR are sent as balanced trees; expressions that
are still too deep are sent as text.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.connect.column import Column
from pyspark.sql.connect.expressions import LiteralExpression, UnresolvedFunction
from pyspark.sql.utils import is_remote

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.expressions import Expression
from viewkeeper.algebra.spark_text import printed
from viewkeeper.algebra.types import Type, quote
from viewkeeper.engine.arrow_transfer import spark_type

MOST_LEVELS = 30
"""How deep a tree that is sent may be nested. A level takes two messages, and the plan around it needs some."""

_MOST_DIGITS = 29
"""Decimals of more digits are sent as text."""

Item = str | tuple[Expression | str, str]
"""A column of a select list: a name or *, or an expression or name, and the name it gets."""


def listed(*items: Item) -> list[Any]:
    """The columns of a select list."""
    return [_item(item) for item in items]


def parsed(expression: Expression) -> Any:
    """An expression whose name does not matter."""
    return _sent(expression) if is_remote() else F.expr(printed(expression))


def _item(item: Item) -> Any:
    if isinstance(item, str):
        return _named(item)
    value, name = item
    return (_named(value) if isinstance(value, str) else parsed(value)).alias(name)


def typed(value: Any, kind: Type) -> Any:
    """A value as a literal of a type. Sail applies the type's scale to a decimal's digits, so they are scaled first."""
    if isinstance(value, decimal.Decimal):
        value = decimal.Context(prec=80).quantize(value, decimal.Decimal(1).scaleb(-kind.scale))
    return Column(LiteralExpression(value, spark_type(kind))) if is_remote() else F.lit(value).cast(kind.ddl)


def balanced(parts: Sequence[Any], how: Callable[[Any, Any], Any]) -> Any:
    """Columns combined, in their order, by an associative operator."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return how(balanced(parts[:middle], how), balanced(parts[middle:], how))


@lru_cache(maxsize=20_000)
def _named(name: str) -> Any:
    return F.col(name)


@lru_cache(maxsize=20_000)
def _sent(expression: Expression) -> Any:
    return _text(expression) if _levels(expression) > MOST_LEVELS else _column(expression)


def _levels(expression: Expression) -> int:
    """How deep an expression is nested when its chains of AND and OR are balanced."""
    deepest, waiting = 0, [(expression, 1)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        more = len(node.children).bit_length() if isinstance(node, (e.And, e.Or)) else 1
        waiting += [(child, level + more) for child in node.children]
    return deepest


@lru_cache(maxsize=50_000)
def _column(node: Expression) -> Any:
    how: Callable[[Any], Any] = _FORMS.get(type(node), _text)
    return how(node)


def _text(node: Expression) -> Any:
    return F.expr(printed(node))


def _literal(node: e.Literal) -> Any:
    kind, value = node.type, node.value
    if value is None or isinstance(value, bool):
        return F.lit(value)
    if kind.name == "string":
        text = str(value)
        sendable = text.isascii() and text.isprintable()
        return Column(LiteralExpression(text, t.StringType())) if sendable else _text(node)
    if kind.is_integer:
        return Column(LiteralExpression(int(value), spark_type(kind)))
    if kind.name == "decimal" and "." in str(value) and kind.precision <= _MOST_DIGITS:
        return Column(LiteralExpression(decimal.Decimal(str(value)), spark_type(kind)))
    if kind.name == "date":
        try:
            return Column(LiteralExpression(dt.date.fromisoformat(str(value)), t.DateType()))
        except ValueError:
            return _text(node)
    return _text(node)


def _comparison(node: e.Comparison) -> Any:
    return _COMPARISONS[node.operator](_column(node.left), _column(node.right))


def _is_null(node: e.IsNull) -> Any:
    child = _column(node.child)
    return child.isNotNull() if node.negated else child.isNull()


def _arithmetic(node: e.Arithmetic) -> Any:
    how = _OPERATORS.get(node.operator)
    return _text(node) if how is None else how(_column(node.left), _column(node.right))


def _cast(node: e.Cast) -> Any:
    if node.implicit:
        return _column(node.child)
    return _text(node) if node.tries else _column(node.child).cast(spark_type(node.type))


def _case(node: e.Case) -> Any:
    chain: Any = F
    for test, value in node.branches:
        chain = chain.when(_column(test), _column(value))
    return chain if node.default is None else chain.otherwise(_column(node.default))


def _call(node: e.Call) -> Any:
    if node.where is not None or any(isinstance(argument, e.Lambda) for argument in node.arguments):
        return _text(node)
    arguments = [_column(argument)._expr for argument in node.arguments]
    return Column(UnresolvedFunction(node.name, arguments, node.distinct))


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<=>": lambda a, b: a.eqNullSafe(b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
}

_FORMS: dict[type[Expression], Callable[[Any], Any]] = {
    e.Column: lambda node: F.col(node.of.label),
    e.Name: lambda node: F.col(quote(node.name)),
    e.Literal: _literal,
    e.Comparison: _comparison,
    e.And: lambda node: balanced([_column(part) for part in node.conditions], lambda a, b: a & b),
    e.Or: lambda node: balanced([_column(part) for part in node.conditions], lambda a, b: a | b),
    e.Not: lambda node: ~_column(node.child),
    e.IsNull: _is_null,
    e.In: lambda node: _column(node.child).isin(*[_column(part) for part in node.options]),
    e.Between: lambda node: _column(node.child).between(_column(node.low), _column(node.high)),
    e.Arithmetic: _arithmetic,
    e.Negative: lambda node: -_column(node.child),
    e.Cast: _cast,
    e.Case: _case,
    e.Call: _call,
}
"""How each kind of node is sent; all others are sent as text."""
