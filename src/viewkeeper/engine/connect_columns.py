"""Expressions as PySpark columns instead of SQL text.

An engine parses every text each time it gets it; Sail also leaks some 40 kB of memory per text. So a text is parsed
here, once, and sent as the tree that the engine's own parser would make of it. Special syntax (windows, lambdas,
intervals, literals with a suffix ...) is still sent as text.

A message may not be nested deeper than 100 levels. Chains of AND and OR are sent as balanced trees; expressions that
are still too deep are sent as text.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.connect.column import Column
from pyspark.sql.connect.expressions import LiteralExpression, UnresolvedFunction
from pyspark.sql.utils import is_remote
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewkeeper.algebra.types import Type, parse_type, quote
from viewkeeper.engine.arrow_transfer import spark_type
from viewkeeper.errors import ViewkeeperError
from viewkeeper.sql.conditions import put_together
from viewkeeper.sql.dialect import Verbatim

_OURS = re.compile(r"c\d+|_\w+", re.ASCII)
"""Names that cannot be a function without parentheses, such as current_date."""

MOST_LEVELS = 30
"""How deep a tree that is sent may be nested. A level takes two messages, and the plan around it needs some."""


class _HasSyntax(Exception):
    """A part of an expression that only the engine's own parser can read."""


def listed(*texts: str) -> list[Any]:
    """The columns of a select list: names, expressions with a name, or *."""
    how = _listed if is_remote() else F.expr
    return [how(text) for text in texts]


def parsed(text: str) -> Any:
    """An expression whose name does not matter."""
    return _taken_apart(text) if is_remote() else F.expr(text)


def typed(value: Any, kind: Type) -> Any:
    """A value as a literal of a type. Sail applies the type's scale to a decimal's digits, so they are scaled first."""
    if isinstance(value, decimal.Decimal):
        value = decimal.Context(prec=80).quantize(value, decimal.Decimal(1).scaleb(-kind.scale))
    return Column(LiteralExpression(value, spark_type(kind))) if is_remote() else F.lit(value).cast(kind.ddl)


@lru_cache(maxsize=20_000)
def _listed(text: str) -> Any:
    if text == "*":
        return F.col("*")
    tree = _tree(text)
    try:
        if isinstance(tree, exp.Column):
            return _column(tree)
        if isinstance(tree, exp.Alias) and isinstance(tree.args["alias"], exp.Identifier):
            return _converted(tree.this).alias(tree.args["alias"].name)
    except _HasSyntax:
        pass
    return F.expr(text)


@lru_cache(maxsize=20_000)
def _taken_apart(text: str) -> Any:
    tree = _tree(text)
    try:
        return _converted(tree) if tree is not None else F.expr(text)
    except _HasSyntax:
        return F.expr(text)


def _tree(text: str) -> exp.Expr | None:
    """The syntax tree of an expression; None if only the engine's own parser can read it."""
    try:
        select = Verbatim().parse(f"SELECT {text}")[0]
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or _more(select, "expressions", "kind"):
        return None
    found: exp.Expr = select.expressions[0]
    return found if _levels(found) <= MOST_LEVELS else None


def _levels(tree: exp.Expr) -> int:
    """How deep an expression is nested when its chains of AND and OR are balanced."""
    deepest, waiting = 0, [(tree, 1)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        chain = next((kind for kind in _CHAINS if isinstance(node, kind)), None)
        if chain is None:
            waiting += [(part, level + 1) for part in node.iter_expressions()]
        else:
            parts = put_together(node, chain)
            waiting += [(part, level + len(parts).bit_length()) for part in parts]
    return deepest


def _converted(node: exp.Expr | None) -> Any:
    how = _FORMS.get(type(node))
    if node is None or how is None or node.comments:
        raise _HasSyntax
    return how(node)


def _more(node: exp.Expr, *known: str) -> bool:
    """Whether a node has set arguments other than the `known` ones."""
    return any(value for name, value in node.args.items() if name not in known)


def _column(node: exp.Column) -> Any:
    name = node.this
    if _more(node, "this") or not isinstance(name, exp.Identifier):
        raise _HasSyntax
    if not name.quoted and not _OURS.fullmatch(name.name):
        raise _HasSyntax
    return F.col(quote(name.name))


def _literal(node: exp.Literal) -> Any:
    text = node.this
    if node.is_string:
        if not text.isascii() or not text.isprintable() or "\\" in text:
            raise _HasSyntax
        return Column(LiteralExpression(text, t.StringType()))
    return _number(text)


def _number(text: str) -> Any:
    """A number as Spark types it: INT or BIGINT by its size, else DECIMAL with just its digits."""
    if re.fullmatch(r"-?\d{1,18}", text):
        value = int(text)
        return Column(LiteralExpression(value, t.IntegerType() if -(1 << 31) <= value < 1 << 31 else t.LongType()))
    if re.fullmatch(r"-?\d*\.\d+", text) and len(text) <= 30:
        exact = decimal.Decimal(text)
        scale = -int(exact.as_tuple().exponent)
        digits = max(len(str(abs(int(exact.scaleb(scale))))), scale)
        return Column(LiteralExpression(exact, t.DecimalType(digits, scale)))
    raise _HasSyntax


def _negative(node: exp.Neg) -> Any:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.this}")
    return -_converted(node.this)


def _is(node: exp.Is) -> Any:
    if not isinstance(node.expression, exp.Null):
        raise _HasSyntax
    return _converted(node.this).isNull()


def _not(node: exp.Not) -> Any:
    if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return _converted(node.this.this).isNotNull()
    return ~_converted(node.this)


def _in(node: exp.In) -> Any:
    if _more(node, "this", "expressions") or not node.expressions:
        raise _HasSyntax
    return _converted(node.this).isin(*[_converted(part) for part in node.expressions])


def _between(node: exp.Between) -> Any:
    if _more(node, "this", "low", "high"):
        raise _HasSyntax
    return _converted(node.this).between(_converted(node.args["low"]), _converted(node.args["high"]))


def _case(node: exp.Case) -> Any:
    if node.this is not None:
        raise _HasSyntax
    chain: Any = F
    for branch in node.args["ifs"]:
        chain = chain.when(_converted(branch.this), _converted(branch.args["true"]))
    rest = node.args.get("default")
    return chain if rest is None else chain.otherwise(_converted(rest))


def _cast(node: exp.Cast) -> Any:
    kind = node.to.meta.get("source")
    literal = node.meta.get("literal")
    if literal == "DATE" and isinstance(node.this, exp.Literal) and re.fullmatch(r"\d{4}-\d\d-\d\d", node.this.this):
        try:
            return Column(LiteralExpression(dt.date.fromisoformat(node.this.this), t.DateType()))
        except ValueError:
            raise _HasSyntax from None
    if literal or not kind or _more(node, "this", "to"):
        raise _HasSyntax
    return _converted(node.this).cast(_spark_type(str(kind)))


def _spark_type(text: str) -> t.DataType:
    try:
        kind = parse_type(text)
        if kind.ddl.lower() != text.lower().replace(" ", ""):  # a type with a length, another spelling
            raise _HasSyntax
        return spark_type(kind)
    except (ViewkeeperError, KeyError):
        raise _HasSyntax from None


def _call(node: exp.Anonymous) -> Any:
    if not isinstance(node.this, str) or not re.fullmatch(r"[A-Za-z]\w*", node.this, re.ASCII):
        raise _HasSyntax
    arguments = [_converted(part) for part in node.expressions]
    return Column(UnresolvedFunction(node.this.lower(), [argument._expr for argument in arguments]))


def balanced(parts: Sequence[Any], how: Callable[[Any, Any], Any]) -> Any:
    """Columns combined, in their order, by an associative operator."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return how(balanced(parts[:middle], how), balanced(parts[middle:], how))


def _chain(kind: type[exp.Binary], how: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def convert(node: exp.Binary) -> Any:
        return balanced([_converted(part) for part in put_together(node, kind)], how)

    return convert


_CHAINS = (exp.And, exp.Or)


def _binary(how: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def convert(node: exp.Binary) -> Any:
        if _more(node, "this", "expression", "typed", "safe"):  # sqlglot's flags of a division
            raise _HasSyntax
        return how(_converted(node.this), _converted(node.expression))

    return convert


_FORMS: dict[type[exp.Expr] | type[None], Callable[[Any], Any]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node: F.lit(bool(node.this)),
    exp.Null: lambda node: F.lit(None),
    exp.Paren: lambda node: _converted(node.this),
    exp.Neg: _negative,
    exp.Not: _not,
    exp.And: _chain(exp.And, lambda a, b: a & b),
    exp.Or: _chain(exp.Or, lambda a, b: a | b),
    exp.Add: _binary(lambda a, b: a + b),
    exp.Sub: _binary(lambda a, b: a - b),
    exp.Mul: _binary(lambda a, b: a * b),
    exp.Div: _binary(lambda a, b: a / b),
    exp.Mod: _binary(lambda a, b: a % b),
    exp.EQ: _binary(lambda a, b: a == b),
    exp.NEQ: _binary(lambda a, b: a != b),
    exp.NullSafeEQ: _binary(lambda a, b: a.eqNullSafe(b)),
    exp.LT: _binary(lambda a, b: a < b),
    exp.LTE: _binary(lambda a, b: a <= b),
    exp.GT: _binary(lambda a, b: a > b),
    exp.GTE: _binary(lambda a, b: a >= b),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Anonymous: _call,
}
