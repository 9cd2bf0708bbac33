"""The views of a file: their queries as algebra, read without a database and typed for PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from viewkeeper.advice.advice import analyze_view, definitions
from viewkeeper.advice.named_relations import Known, StoredRelation, VirtualRelation
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.errors import NotMaintainable, Place, SqlError, ViewkeeperError
from viewkeeper.sql import parsed_statements as statements
from viewkeeper.sql.catalog import Query, Stored, Virtual
from viewkeeper.sql.query import translate
from viewkeeper.sql.tokens import Statement
from viewkeeper.triggers.postgres_narrowing import without_full_joins
from viewkeeper.triggers.postgres_queries import printed
from viewkeeper.triggers.postgres_scalars import PostgresTyper
from viewkeeper.triggers.postgres_types import breaks_lines

_SYSTEM = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Columns that every table of PostgreSQL has."""

MOST_BYTES = 63 - len("_vk_truncate_")
"""How long a name may be, so that PostgreSQL does not truncate the names made from it."""


@dataclass(frozen=True)
class View:
    """A materialized view. `duplicates`: whether a row may occur more than once."""

    name: str
    columns: tuple[str, ...]
    node: n.Node
    key: tuple[str, ...]
    duplicates: bool

    @property
    def sources(self) -> tuple[str, ...]:
        """The relations that its query names."""
        return tuple(dict.fromkeys(scan.relation for scan in n.scans(self.node)))


@dataclass(frozen=True)
class File:
    """What a file defines: the tables by their lower-case names, and the materialized views in their order."""

    tables: dict[str, Schema]
    views: tuple[View, ...]

    def used(self, relation: str) -> tuple[str, ...]:
        """The columns of a relation that views read."""
        names = (
            name.lower()
            for view in self.views
            for scan in n.scans(view.node)
            if scan.relation == relation
            for name in scan.stored_names
        )
        return tuple(sorted(set(names)))


class _Catalog:
    """Finds relations; all references to one are the same. Ignores declared keys: PostgreSQL may have others."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name."""
        relation = self.known.find(name)
        if relation is None:
            raise self.known.missing(name, place)
        if isinstance(relation, VirtualRelation):
            inside = translate(relation.query, relation.whole, self, PostgresTyper())
            return Virtual(relation.name, Query(inside.node, relation.columns))
        return Stored(name.lower(), relation.name, Schema(relation.schema.columns))


def read_file(text: str) -> File:
    """Reads CREATE TABLE and CREATE [MATERIALIZED] VIEW statements."""
    known = Known()
    tables: dict[str, Schema] = {}
    views = []
    for statement, parsed in definitions(text):
        if isinstance(parsed, statements.CreateTable):
            assert parsed.schema is not None
            _check_names(statement, parsed.name, parsed.schema.names, known)
            known.add(StoredRelation(parsed.name, parsed.schema, is_view=False))
            tables[parsed.name.lower()] = parsed.schema
            continue
        view = _view(parsed, statement, known)
        if parsed.materialized:
            known.add(StoredRelation(parsed.name, Schema(tuple(_columns(view))), is_view=True))
            views.append(view)
        else:
            known.add(VirtualRelation(parsed.name, parsed.query, statement.text, view.columns))
    return File(tables, tuple(views))


def _view(parsed: statements.CreateView, statement: Statement, known: Known) -> View:
    place = Place.at(statement.text, statement.start, statement.end - statement.start)
    if parsed.or_replace or parsed.if_not_exists:
        raise SqlError("a script for PostgreSQL always creates its views", place=place, hint="write CREATE VIEW")
    try:
        found = translate(parsed.query, statement.text, _Catalog(known), PostgresTyper())
        node = without_full_joins(found.node)
        _check_names(statement, parsed.name, parsed.columns or found.names, known)
        analysis = analyze_view(parsed.name, parsed.query, statement.text, known, columns=parsed.columns, advise=False)
        printed(node)  # what has no counterpart in PostgreSQL is refused here
        if not node.outputs:
            raise NotMaintainable("a view without columns cannot be maintained")
    except RecursionError:
        hint = "make parts of it materialized views"
        raise SqlError(f"{parsed.name} is nested too deep to be printed", place=place, hint=hint) from None
    except ViewkeeperError as problem:
        problem.message = f"{parsed.name} has no triggers for PostgreSQL: {problem.message}"
        problem.args = (problem.message,)
        problem.place = problem.place or place
        raise
    columns = tuple(name.lower() for name in analysis.columns)
    key = min(analysis.findings.keys, key=len, default=())
    return View(parsed.name.lower(), columns, node, tuple(map(str.lower, key)), analysis.findings.has_duplicates)


def _columns(view: View) -> Iterator[Column]:
    pairs = zip(view.columns, view.node.outputs, strict=True)
    return (Column(name, attribute.type) for name, attribute in pairs)


def _check_names(statement: Statement, name: str, columns: Iterable[str], known: Known) -> None:
    place = Place.at(statement.text, statement.start, statement.end - statement.start)
    if known.find(name) is not None:
        raise known.taken(name, place)
    seen: set[str] = set()
    for called in (name, *columns):
        if "$vk$" in called.lower() or any(ord(letter) < 32 for letter in called) or breaks_lines(called):
            raise SqlError(f"{called!r} cannot be a name in a script for PostgreSQL", place=place)
        if any(letter.lower() != letter and not letter.isascii() for letter in called):
            hint = "name it without capitals beyond A to Z: PostgreSQL keeps them apart from small letters"
            raise SqlError(f"'{called}' is another name in PostgreSQL", place=place, hint=hint)
    for called in columns:
        if called.lower() in seen:
            raise SqlError(f"{name} has two columns named '{called}'", place=place, hint="name one otherwise with AS")
        if called.lower().startswith("_vk") or called.lower() in _SYSTEM:
            raise SqlError(f"no column can be named '{called}' in a script for PostgreSQL", place=place)
        if len(called.encode()) > 63:
            raise SqlError(f"the column name '{called}' is too long for PostgreSQL", place=place)
        seen.add(called.lower())
    if len(name.encode()) > MOST_BYTES:
        raise SqlError(f"the name '{name}' is longer than {MOST_BYTES} bytes", place=place, hint="take a shorter one")
