"""Whether an expression is fallible, that is, can raise for some row. In doubt, it is.

Not fallible are: columns, literals, comparisons between columns and literals of one family, AND, OR, NOT, IS NULL, IN
with a list, BETWEEN, LIKE, and CASE and coalesce of such.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeeper.algebra.types import Type
from viewkeeper.sql.dialect import COMPARISONS

TypeOf = Callable[[exp.Expr], Type | None]
"""The type of a piece of syntax, if it is a column."""

_COMPARISONS = (*COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ)
_LITERAL_CASTS = {exp.DataType.Type.DATE: "date", exp.DataType.Type.TIMESTAMP: "timestamp"}


def may_raise(node: exp.Expr, type_of: TypeOf) -> bool:
    """Whether a condition or value is fallible: can raise for some row."""
    return not _is_safe(node, type_of)


def _is_safe(node: exp.Expr, type_of: TypeOf) -> bool:
    if isinstance(node, (exp.And, exp.Or)):
        return _is_safe(node.left, type_of) and _is_safe(node.right, type_of)
    if isinstance(node, (exp.Paren, exp.Not)):
        return _is_safe(node.this, type_of)
    if isinstance(node, (exp.Literal, exp.Boolean, exp.Null)) or type_of(node) is not None:
        return True
    if isinstance(node, exp.Is):
        return _is_safe(node.this, type_of)
    if isinstance(node, _COMPARISONS):
        return _is_one_family([node.this, node.expression], type_of)
    if isinstance(node, exp.Between):
        return _is_one_family([node.this, node.args["low"], node.args["high"]], type_of)
    if isinstance(node, exp.In) and node.args.get("query") is None:
        return _is_one_family([node.this, *node.expressions], type_of)
    if isinstance(node, exp.Like):
        return _is_one_family([node.this, node.expression], type_of)
    return _is_safe_choice(node, type_of)


def _is_safe_choice(node: exp.Expr, type_of: TypeOf) -> bool:
    """Whether a CASE or coalesce has values of one family, so that it has no implicit cast."""
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in node.args["ifs"]]
        if node.args.get("default") is not None:
            values.append(node.args["default"])
        tests = [branch.this for branch in node.args["ifs"]]
        if node.this is not None:
            return _is_one_family([node.this, *tests], type_of) and _is_one_family(values, type_of)
        return all(_is_safe(test, type_of) for test in tests) and _is_one_family(values, type_of)
    if isinstance(node, exp.Coalesce):
        return _is_one_family([node.this, *node.expressions], type_of)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "coalesce":
        return _is_one_family(node.expressions, type_of)
    return _family_of(node, type_of) is not None


def _is_one_family(nodes: list[exp.Expr], type_of: TypeOf) -> bool:
    found = {_family_of(node, type_of) for node in nodes if not isinstance(node, exp.Null)}
    return None not in found and len(found) <= 1


def _family_of(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The family of a column or literal: values of one family are compared without a cast that could fail."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        node = node.this
    kind = type_of(node)
    if kind is not None:
        return family(kind)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else "number"
    if isinstance(node, exp.Boolean):
        return "boolean"
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return _LITERAL_CASTS.get(node.to.this)
    return None


def family(kind: Type) -> str | None:
    """The family of a type; nested ones have none."""
    if kind.is_integer or kind.is_float or kind.name == "decimal":
        return "number"
    return None if kind.is_nested else kind.name
