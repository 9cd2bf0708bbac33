"""Name resolution: which column a name in a query means."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.schema import is_reserved
from viewkeeper.algebra.types import Type
from viewkeeper.errors import NotFound
from viewkeeper.sql.context import Context

if TYPE_CHECKING:
    from viewkeeper.sql.catalog import Query


@dataclass(frozen=True)
class Visible:
    """A column that a query sees. A hidden one (merged by USING) answers to its qualified name only."""

    name: str
    qualifier: str | None
    attribute: Attribute
    hidden: bool = False

    def is_named(self, name: str) -> bool:
        """Whether the column has that name."""
        return self.name.lower() == name.lower()

    def is_of(self, qualifier: str) -> bool:
        """Whether the column belongs to the table of that name."""
        return self.qualifier is not None and self.qualifier.lower() == qualifier.lower()


@dataclass
class Scope:
    """The columns of a FROM clause, the queries named by WITH, and the scope of the outer query."""

    columns: list[Visible] = field(default_factory=list)
    parent: Scope | None = None
    named: dict[str, Query] = field(default_factory=dict)

    def inner(self) -> Scope:
        """A scope for a query inside this one."""
        return Scope(parent=self)

    def outwards(self) -> Iterator[Scope]:
        """This scope and the outer ones, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def named_query(self, name: str) -> Query | None:
        """The query that WITH gives that name, here or further out."""
        for scope in self.outwards():
            if name.lower() in scope.named:
                return scope.named[name.lower()]
        return None

    def repointed(self, renamed: dict[Attribute, Attribute]) -> None:
        """Replaces the attributes of the columns (by the nullable ones of an outer join, for instance)."""
        self.columns = [replace(c, attribute=renamed.get(c.attribute, c.attribute)) for c in self.columns]

    def star(self, qualifier: str | None = None) -> list[Visible]:
        """The columns of `*` or `t.*`."""
        if qualifier is None:
            return [c for c in self.columns if not c.hidden]
        return [c for c in self.columns if c.is_of(qualifier)]

    def lookup(self, parts: Sequence[str]) -> tuple[list[Visible], Sequence[str]]:
        """The columns that a dotted name can mean in this scope alone, and the rest of the name (fields)."""
        if len(parts) > 1:
            found = [c for c in self.columns if c.is_of(parts[0]) and c.is_named(parts[1])]
            if found:
                return found, parts[2:]
        found = [c for c in self.columns if not c.hidden and c.is_named(parts[0])]
        if len(parts) > 1:  # t.id where a column is named t, too: the table t of an outer query may be meant
            found = [c for c in found if has_field(c.attribute.type, parts[1])]
        return found, parts[1:]


def has_field(kind: Type, name: str) -> bool:
    """Whether values of a type have a field of that name: structs, arrays of them, and maps."""
    inside = kind.element if kind.name == "array" and kind.element is not None else kind
    return kind.name == "map" or (inside.name == "struct" and any(f.lower() == name.lower() for f, _ in inside.fields))


def name_parts(node: exp.Column) -> list[str]:
    """The parts of a dotted name, from the left."""
    return [part.name for part in node.parts]


def unknown(context: Context, scope: Scope, node: exp.Column, more: Sequence[str] = ()) -> NotFound:
    """Refuses an unknown column, with the nearest known name as a hint."""
    parts = name_parts(node)
    names = [c.name for s in scope.outwards() for c in s.columns] + list(more)
    tables = {c.qualifier.lower() for s in scope.outwards() for c in s.columns if c.qualifier}
    written = ".".join(parts)
    place = context.place(node)
    if len(parts) > 1 and parts[0].lower() in tables:
        own = [c.name for s in scope.outwards() for c in s.columns if c.is_of(parts[0])]
        return NotFound(f"there is no column '{parts[1]}' in {parts[0]}", place=place, hint=_suggestion(parts[1], own))
    return NotFound(f"there is no column '{written}'", place=place, hint=_suggestion(parts[-1], names))


def _suggestion(name: str, names: Sequence[str]) -> str:
    unique = [given for given in dict.fromkeys(names) if not is_reserved(given)]
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in unique], n=1, cutoff=0.5)
    if near:
        return f"did you mean {next(n for n in unique if n.lower() == near[0])}?"
    if unique:
        return f"there are {', '.join(unique[:12])}{' ...' if len(unique) > 12 else ''}"
    return "name a table in FROM that has it"
