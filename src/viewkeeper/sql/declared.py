"""Types without an engine: inferred by sqlglot from the declared columns, for queries that are only analyzed.

They suffice to see how the columns of a query depend on each other; nothing is computed with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from viewkeeper.algebra.expressions import Attribute, Call, Expression, Literal, attributes_in
from viewkeeper.algebra.spark_text import printed
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import TypeMismatch
from viewkeeper.sql.functions import GENERATORS

UNKNOWN = "string"
"""The type where sqlglot infers none."""


class DeclaredTyper:
    """Infers the types of expressions without starting an engine."""

    coerces = True

    def columns(self, items: Sequence[Expression]) -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as their attributes)`."""
        first = items[0]
        if len(items) == 1 and isinstance(first, Call) and first.name in GENERATORS:
            return self._generated(first.name, first.arguments)
        found = self._inferred(list(dict.fromkeys(attributes_in(items))), [printed(item) for item in items])
        kinds = [None if item.type is None or item.type.name == "void" else item.type.ddl for item in items]
        return [(name, known or kind) for known, (name, kind) in zip(kinds, found, strict=True)]

    def _inferred(self, inputs: Sequence[Attribute], items: Sequence[str]) -> list[tuple[str, str]]:
        text = f"SELECT {', '.join(items)} FROM _vk_typed"
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

    def _generated(self, name: str, given: Sequence[Expression]) -> list[tuple[str, str]]:
        """The columns that a table function returns."""
        if name == "json_tuple":
            return [(f"c{number}", "string") for number in range(len(given) - 1)]
        if name == "stack":
            rows = given[0].value if given and isinstance(given[0], Literal) else 1
            width = -(-len(given[1:]) // max(1, int(rows or 1)))
            first = given[1 : 1 + width]
            return [(f"col{number}", self._type_of(part).ddl) for number, part in enumerate(first)]
        kind = self._type_of(given[0]) if given else Type(UNKNOWN)
        position = [("pos", "int")] if name.startswith("pos") else []
        if kind.name == "map" and kind.key is not None and kind.value is not None:
            return [*position, ("key", kind.key.ddl), ("value", kind.value.ddl)]
        element = kind.element or Type(UNKNOWN)
        if name.startswith("inline"):
            return [(field, inner.ddl) for field, inner in element.fields] or [("col", UNKNOWN)]
        return [*position, ("col", element.ddl)]

    def _type_of(self, value: Expression) -> Type:
        if isinstance(value, Call) and value.name == "map_entries" and value.arguments:
            entries = self._type_of(value.arguments[0])
            if entries.key is not None and entries.value is not None:
                return Type("array", element=Type("struct", fields=(("key", entries.key), ("value", entries.value))))
        try:
            return parse_type(self.columns([value])[0][1])
        except TypeMismatch:
            return Type(UNKNOWN)


def _kind(item: exp.Expr) -> str:
    kind = item.type
    if kind is not None and kind.this == exp.DataType.Type.NULL:
        return "void"
    if kind is None or kind.this == exp.DataType.Type.UNKNOWN:
        return UNKNOWN
    return kind.sql("spark").lower()
