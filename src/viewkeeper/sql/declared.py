"""Types without an engine: from the declared columns, as far as sqlglot can tell, for what is only analysed.

They are good enough to see how the columns of a query hang together, and nothing is computed by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from viewkeeper.algebra.expressions import Attribute

UNKNOWN = "string"
"""The type of what sqlglot knows none for."""


class DeclaredTyper:
    """Says what types expressions have, and starts nothing for it."""

    def columns(self, inputs: Sequence[Attribute], items: Sequence[str], more: str = "") -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as inputs) more`."""
        text = f"SELECT {', '.join(items)} FROM _vk_typed {more}"
        kinds = {a.label: a.type.ddl for a in inputs}

        def typed(part: exp.Expr) -> exp.Expr:
            kind = kinds.get(part.name) if isinstance(part, exp.Column) else None
            return part if kind is None else exp.cast(exp.Null(), kind, dialect="spark")

        try:
            tree = sqlglot.parse_one(text, read="spark")
            annotated = annotate_types(tree.transform(typed), dialect="spark")
        except SqlglotError:
            return [("", UNKNOWN)] * len(items)
        names = [item.alias_or_name for item in tree.args["expressions"]]
        return [(name, _kind(item)) for name, item in zip(names, annotated.args["expressions"], strict=True)]


def _kind(item: exp.Expr) -> str:
    kind = item.type
    if kind is None or kind.this in (exp.DataType.Type.UNKNOWN, exp.DataType.Type.NULL):
        return UNKNOWN
    return kind.sql("spark").lower()
