"""Definitions of relations as the statements that create them."""

from __future__ import annotations

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import spelled
from viewkeeper.catalog.relations import AssertionView, Derived, Relation
from viewkeeper.log.listing import options_text


def definition_text(relation: Relation, epoch: int) -> str:
    """The statement that creates a table, or a view as it was at an epoch."""
    if not isinstance(relation, Derived):
        return table_definition(relation.name, relation.schema)
    view = relation.definition_at(epoch)
    if isinstance(relation, AssertionView):
        violation = "" if view.violation == "abort" else f" ON VIOLATION {view.violation.upper()}"
        return f"CREATE ASSERTION {spelled(relation.name)}{violation} CHECK (NOT EXISTS (\n{view.sql}\n));"
    columns = ", ".join(spelled(name) for name in view.names)
    options = f" WITH ({options_text(view.options)})" if view.options else ""
    return f"CREATE {relation.kind_words.upper()} {spelled(relation.name)} ({columns}){options} AS\n{view.sql};"


def table_definition(name: str, schema: Schema) -> str:
    """The CREATE TABLE statement of a table."""
    lines = [f"{spelled(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in schema]
    for key in schema.keys:
        kind = "PRIMARY KEY" if key.primary else "UNIQUE"
        lines.append(f"{kind} ({', '.join(spelled(column) for column in key.columns)})")
    for reference in schema.references:
        ours, theirs = (", ".join(map(spelled, names)) for names in (reference.columns, reference.referenced))
        lines.append(f"FOREIGN KEY ({ours}) REFERENCES {spelled(reference.table)} ({theirs})")
    return f"CREATE TABLE {spelled(name)} (\n  " + ",\n  ".join(lines) + "\n);"
