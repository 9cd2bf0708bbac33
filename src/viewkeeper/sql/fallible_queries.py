"""Whether a query has fallible conditions.

Deleted rows stay in the files until compaction. An engine may test a condition on them before they have canceled, and
a fallible condition would then fail a query whose rows are all fine. So the rows of such a query are guarded.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type
from viewkeeper.sql import fallible as raising


def may_raise(tree: exp.Expr, schemas: Iterable[Schema]) -> bool:
    """Whether any condition of a query may raise for a row of its tables."""
    types: dict[str, list[Type]] = {}
    for schema in schemas:
        for column in schema:
            types.setdefault(column.name.lower(), []).append(column.type)
    tables = {table.alias_or_name.lower() for table in tree.find_all(exp.Table)}
    if tree.find(exp.Subquery, exp.CTE, exp.Lateral, exp.SetOperation) is not None:
        return True  # a column may be computed by an inner query
    conditions = [where.this for where in tree.find_all(exp.Where, exp.Having, exp.Qualify)]
    conditions += [join.args["on"] for join in tree.find_all(exp.Join) if join.args.get("on") is not None]
    columns = [column for condition in conditions for column in condition.find_all(exp.Column)]
    if any(column.args.get("db") or (column.table and column.table.lower() not in tables) for column in columns):
        return True  # a field of a struct

    def type_of(node: exp.Expr) -> Type | None:
        found = types.get(node.name.lower(), []) if isinstance(node, exp.Column) else []
        return found[0] if len({raising.family(kind) for kind in found}) == 1 else None

    return any(raising.may_raise(condition, type_of) for condition in conditions)
