"""Conditions on the rows of one relation as trees, with its columns by name."""

from __future__ import annotations

from sqlglot import exp

from viewkeeper.algebra.expressions import Expression, Name
from viewkeeper.algebra.schema import Schema
from viewkeeper.sql.trees import Trees

_HOLES = "_vk_hole"


def row_tree(condition: exp.Expr, schema: Schema, alias: str = "") -> Expression:
    """A condition on the rows of a relation, which the syntax calls `alias`."""

    def column(node: exp.Expr) -> Expression | None:
        if (node.text("table") and node.text("table").lower() != alias.lower()) or node.args.get("db"):
            return None  # a field of a struct
        found = schema.find(node.name)
        return None if found is None else Name(found.name, found.type)

    return Trees(column, _HOLES, coerces=False).of(condition)
