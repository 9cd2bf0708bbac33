"""Whether the conditions of a query can raise for a row.

Deleted rows stay in the files until they are compacted away. An engine may test a condition on them before they have
cancelled out, and a condition that raises there would fail a query over rows that are all fine. So where a condition
may raise, the rows are guarded. A condition cannot raise if it only compares columns with literals or columns of the
same family; everything in doubt may.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def may_raise(tree: exp.Expr, schemas: Iterable[Schema]) -> bool:
    """Whether a condition anywhere in a query may raise for a row of its tables."""
    families: dict[str, set[str]] = {}
    for schema in schemas:
        for column in schema:
            families.setdefault(column.name.lower(), set()).add(_family(column.type))
    tables = {table.alias_or_name.lower() for table in tree.find_all(exp.Table)}
    if tree.find(exp.Subquery, exp.CTE, exp.Lateral, exp.SetOperation) is not None:
        return True  # a column may be anything that an inner query computes
    conditions = [where.this for where in tree.find_all(exp.Where, exp.Having, exp.Qualify)]
    conditions += [join.args["on"] for join in tree.find_all(exp.Join) if join.args.get("on") is not None]
    columns = [column for condition in conditions for column in condition.find_all(exp.Column)]
    if any(column.args.get("db") or (column.table and column.table.lower() not in tables) for column in columns):
        return True  # a field of a struct
    return any(not _is_safe(condition, families) for condition in conditions)


def _family(kind: Type) -> str:
    if kind.is_integer or kind.is_float or kind.name == "decimal":
        return "number"
    return kind.name


def _is_safe(node: exp.Expr, families: dict[str, set[str]]) -> bool:
    if isinstance(node, (exp.And, exp.Or)):
        return _is_safe(node.left, families) and _is_safe(node.right, families)
    if isinstance(node, (exp.Paren, exp.Not)):
        return _is_safe(node.this, families)
    if isinstance(node, exp.Is):
        return isinstance(node.this, exp.Column)
    if isinstance(node, _COMPARISONS):
        return _same(families, node.left, node.right)
    if isinstance(node, exp.Between):
        return _same(families, node.this, node.args["low"], node.args["high"])
    if isinstance(node, exp.In) and node.args.get("query") is None:
        return _same(families, node.this, *node.expressions)
    return isinstance(node, exp.Boolean)


def _same(families: dict[str, set[str]], *nodes: exp.Expr) -> bool:
    """Whether all are columns or literals of one family."""
    found: set[str] = set()
    for node in nodes:
        found |= _families_of(node, families)
    return len(found) == 1 and "" not in found


def _families_of(node: exp.Expr, families: dict[str, set[str]]) -> set[str]:
    if isinstance(node, exp.Neg):
        node = node.this
    if isinstance(node, exp.Literal):
        return {"string" if node.is_string else "number"}
    if isinstance(node, exp.Column):
        return families.get(node.name.lower(), {""})
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.to.this == exp.DataType.Type.DATE:
        return {"date"}
    return {""}
