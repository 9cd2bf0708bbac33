"""What the texts of a rule name: the tables that its action changes, and the relations that its queries read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.errors import Name, Place, SqlError
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.dialect import OLD_STATE, parse
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.table_references import find_references
from viewkeeper.sql.tokens import split

TRANSITION_TABLES = ("inserted", "deleted", "old", "new")
"""The names of the transition tables."""


CHANGING = (sql.Insert, sql.Update, sql.Delete, sql.Merge, sql.Truncate)
"""What an action may consist of."""


@dataclass(frozen=True)
class Effect:
    """A statement of an action: the table it changes, the operation (INSERT, UPDATE ...), the columns it assigns."""

    table: str
    operation: str
    columns: frozenset[str] | None = None


def effects_of(action: str) -> list[Effect]:
    """What the statements of an action change."""
    found = []
    for part in split(action):
        parsed = sql.parse(part)
        if not isinstance(parsed, CHANGING):
            raise SqlError(
                f"the action of a rule changes tables: {part.tokens[0].text.upper()} cannot stand in it",
                place=Place.at(part.text, part.start, len(part.tokens[0].text)),
                hint="use INSERT, UPDATE, DELETE, MERGE or TRUNCATE",
            )
        columns = None
        if isinstance(parsed, sql.Update):
            columns = frozenset(str(name).lower() for name, _ in parsed.assignments)
        found.append(Effect(str(parsed.table), type(parsed).__name__.upper(), columns))
    return found


def names_read(action: str | None, condition: str | None) -> list[str]:
    """The relations that the queries of an action and a condition name, without the transition tables."""
    trees: list[exp.Expr] = []
    names: list[str] = []
    if condition is not None:
        trees.append(parse(f"SELECT 1 WHERE ({condition})", f"SELECT 1 WHERE ({condition})"))
    for part in split(action) if action is not None else ():
        parsed = sql.parse(part)
        trees += queries_in(parsed)
        if isinstance(parsed, sql.Merge) and isinstance(parsed.source, Name):
            names.append(str(parsed.source))
    names += [reference.name.removesuffix(OLD_STATE) for tree in trees for reference in find_references(tree)]
    return [name for name in dict.fromkeys(names) if name.lower() not in TRANSITION_TABLES]


def queries_in(parsed: object) -> Iterator[exp.Expr]:
    """The queries and expressions of a changing statement."""
    match parsed:
        case sql.Insert():
            yield QueryText.of(parsed.query).tree
        case sql.Update():
            yield from (value for _, value in parsed.assignments)
            if parsed.where is not None:
                yield parsed.where
        case sql.Delete():
            if parsed.where is not None:
                yield parsed.where
        case sql.Merge():
            if isinstance(parsed.source, exp.Expr):
                yield parsed.source
            yield parsed.on
            for clause in parsed.clauses:
                yield from (value for _, value in clause.assignments)
                if clause.condition is not None:
                    yield clause.condition
