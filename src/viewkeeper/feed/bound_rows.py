"""The condition that binds a subscription: one condition on the columns of what is followed.

A condition made of `column = constant` only binds columns to values: subscriptions that differ in the values share the
derivation of their changes, and each gets its part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from viewkeeper.algebra.expressions import Comparison, Expression, Name, conditions_of
from viewkeeper.algebra.rows import row_tuples, take
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import quote
from viewkeeper.analysis.ranges import literal_value
from viewkeeper.errors import SqlError
from viewkeeper.sql.dialect import parse_expression
from viewkeeper.sql.row_trees import row_tree

Values: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Condition:
    """A condition as text; `columns` and `values` if it binds columns to values, in the order of the schema."""

    text: str
    columns: tuple[str, ...] = ()
    values: Values = ()


def read_condition(text: str, schema: Schema, name: str) -> Condition:
    """A condition on the columns of a relation. Raises SqlError for anything else, such as several statements."""
    try:
        if not text.strip():
            raise SqlError("it is empty")
        tree = parse_expression(text)
    except SqlError as problem:
        raise SqlError(
            f"this is not a condition: {text}", detail=problem.message, hint="use for instance region = 'EU'"
        ) from problem
    if tree.find(exp.Query) is not None:
        raise SqlError(
            f"a condition on {name} cannot contain a subquery",
            hint=f"subscribe to a query instead: SELECT * FROM {quote(name)} WHERE ...",
        )
    for column in tree.find_all(exp.Column):
        if schema.find(column.name) is None or column.table:
            shown = ", ".join(schema.names)
            raise SqlError(f"{name} has no column '{column.sql()}'", hint=f"its columns are {shown}")
    found: dict[str, Any] = {}
    for part in conditions_of(row_tree(tree, schema)):
        bound = _bound(part)
        if bound is None or found.setdefault(*bound) != bound[1]:
            return Condition(text)
    names = [name for name in schema.names if name in found]
    return Condition(text, tuple(names), tuple(found[name] for name in names))


def _bound(part: Expression) -> tuple[str, Any] | None:
    """The column that a condition binds, and its value."""
    if not isinstance(part, Comparison) or part.operator != "=":
        return None
    one, other = (part.left, part.right) if isinstance(part.left, Name) else (part.right, part.left)
    kind = one.type if isinstance(one, Name) else None
    if not isinstance(one, Name) or kind is None or not (kind.is_integer or kind.name == "string"):
        return None
    value = literal_value(other, kind)
    return None if value is None else (one.name, value)


def condition_on(columns: tuple[str, ...], chosen: list[Values]) -> str:
    """The text of a condition for rows with one of some values."""
    if len(columns) == 1:
        return f"{quote(columns[0])} IN ({', '.join(literal_text(values[0]) for values in chosen)})"
    each = (
        " AND ".join(f"{quote(name)} = {literal_text(value)}" for name, value in zip(columns, values, strict=True))
        for values in chosen
    )
    return " OR ".join(f"({text})" for text in each)


def literal_text(value: Any) -> str:
    """An integer or a string as SQL has it."""
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def split_by(rows: pa.Table, columns: tuple[str, ...]) -> dict[Values, pa.Table]:
    """The rows by their values in some columns."""
    places: dict[Values, list[int]] = {}
    for index, values in enumerate(row_tuples(rows.select(list(columns)))):
        places.setdefault(values, []).append(index)
    together = take(rows, [index for found in places.values() for index in found])
    parts: dict[Values, pa.Table] = {}
    begin = 0
    for values, found in places.items():
        parts[values] = together.slice(begin, len(found))
        begin += len(found)
    return parts
