"""Types without an engine: from the declared columns, as far as sqlglot can tell, for what is only analyzed.

They are good enough to see how the columns of a query hang together, and nothing is computed by them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import TypeMismatch
from viewkeeper.sql.dialect import parse_expression, render
from viewkeeper.sql.functions import GENERATORS

UNKNOWN = "string"
"""The type of what sqlglot knows none for."""


class DeclaredTyper:
    """Says what types expressions have, and starts nothing for it."""

    coerces = True

    def columns(self, inputs: Sequence[Attribute], items: Sequence[str], more: str = "") -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as inputs) more`."""
        if len(items) == 1 and (call := _GENERATOR.match(items[0])):
            return self._generated(inputs, call.group(1).lower(), parse_expression(items[0]).expressions)
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

    def _generated(self, inputs: Sequence[Attribute], name: str, given: list[exp.Expr]) -> list[tuple[str, str]]:
        """The columns that a table function gives."""
        if name == "json_tuple":
            return [(f"c{number}", "string") for number in range(len(given) - 1)]
        if name == "stack":
            rows = int(given[0].name) if given and given[0].is_int else 1
            width = -(-len(given[1:]) // max(1, rows))
            first = given[1 : 1 + width]
            return [(f"col{number}", self._type_of(inputs, part).ddl) for number, part in enumerate(first)]
        kind = self._type_of(inputs, given[0]) if given else Type(UNKNOWN)
        position = [("pos", "int")] if name.startswith("pos") else []
        if kind.name == "map" and kind.key is not None and kind.value is not None:
            return [*position, ("key", kind.key.ddl), ("value", kind.value.ddl)]
        element = kind.element or Type(UNKNOWN)
        if name.startswith("inline"):
            return [(field, inner.ddl) for field, inner in element.fields] or [("col", UNKNOWN)]
        return [*position, ("col", element.ddl)]

    def _type_of(self, inputs: Sequence[Attribute], value: exp.Expr) -> Type:
        if isinstance(value, exp.Anonymous) and value.name.lower() == "map_entries" and value.expressions:
            entries = self._type_of(inputs, value.expressions[0])
            if entries.key is not None and entries.value is not None:
                return Type("array", element=Type("struct", fields=(("key", entries.key), ("value", entries.value))))
        try:
            return parse_type(self.columns(inputs, [render(value)])[0][1])
        except TypeMismatch:
            return Type(UNKNOWN)


_GENERATOR = re.compile(rf"\s*({'|'.join(sorted(GENERATORS))})\s*\(", re.IGNORECASE)


def _kind(item: exp.Expr) -> str:
    kind = item.type
    if kind is not None and kind.this == exp.DataType.Type.NULL:
        return "void"
    if kind is None or kind.this == exp.DataType.Type.UNKNOWN:
        return UNKNOWN
    return kind.sql("spark").lower()
