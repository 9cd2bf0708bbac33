"""Whether an expression can raise for some row: everything in doubt can.

What cannot: columns, literals, comparisons between columns and literals of one family, AND, OR, NOT, IS NULL, IN
with a list, BETWEEN, LIKE, and CASE and coalesce of such.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.types import Type

AttributeOf = Callable[[exp.Expr | None], Attribute | None]

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_LITERAL_CASTS = {exp.DataType.Type.DATE: "date", exp.DataType.Type.TIMESTAMP: "timestamp"}


def may_raise(node: exp.Expr, attribute_of: AttributeOf) -> bool:
    """Whether a piece of bound syntax can raise for some row."""
    return not _is_safe(node, attribute_of)


def _is_safe(node: exp.Expr, attribute_of: AttributeOf) -> bool:
    if isinstance(node, (exp.And, exp.Or)):
        return _is_safe(node.left, attribute_of) and _is_safe(node.right, attribute_of)
    if isinstance(node, (exp.Paren, exp.Not)):
        return _is_safe(node.this, attribute_of)
    if isinstance(node, (exp.Literal, exp.Boolean, exp.Null)) or attribute_of(node) is not None:
        return True
    if isinstance(node, exp.Is):
        return _is_safe(node.this, attribute_of)
    if isinstance(node, _COMPARISONS):
        return _is_one_family([node.left, node.right], attribute_of)
    if isinstance(node, exp.Between):
        return _is_one_family([node.this, node.args["low"], node.args["high"]], attribute_of)
    if isinstance(node, exp.In) and node.args.get("query") is None:
        return _is_one_family([node.this, *node.expressions], attribute_of)
    if isinstance(node, exp.Like):
        return _is_one_family([node.this, node.expression], attribute_of)
    return _is_safe_choice(node, attribute_of)


def _is_safe_choice(node: exp.Expr, attribute_of: AttributeOf) -> bool:
    """CASE and coalesce whose values are of one family, so that no cast is hidden in them."""
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in node.args["ifs"]]
        if node.args.get("default") is not None:
            values.append(node.args["default"])
        tests = [branch.this for branch in node.args["ifs"]]
        if node.this is not None:
            return _is_one_family([node.this, *tests], attribute_of) and _is_one_family(values, attribute_of)
        return all(_is_safe(test, attribute_of) for test in tests) and _is_one_family(values, attribute_of)
    if isinstance(node, exp.Coalesce):
        return _is_one_family([node.this, *node.expressions], attribute_of)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "coalesce":
        return _is_one_family(node.expressions, attribute_of)
    return family_of(node, attribute_of) is not None


def _is_one_family(nodes: list[exp.Expr], attribute_of: AttributeOf) -> bool:
    found = {family_of(node, attribute_of) for node in nodes if not isinstance(node, exp.Null)}
    return None not in found and len(found) <= 1


def family_of(node: exp.Expr, attribute_of: AttributeOf) -> str | None:
    """The family of a column or literal: values of one family are compared without a cast that could fail."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        node = node.this
    attribute = attribute_of(node)
    if attribute is not None:
        return _family(attribute.type)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else "number"
    if isinstance(node, exp.Boolean):
        return "boolean"
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return _LITERAL_CASTS.get(node.to.this)
    return None


def _family(kind: Type) -> str | None:
    if kind.is_integer or kind.is_float or kind.name == "decimal":
        return "number"
    return None if kind.is_nested else kind.name
