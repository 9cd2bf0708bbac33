"""The relations that a query can name when it is only analyzed, and the references it makes to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sqlglot import exp

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import Key, Schema
from viewkeeper.analysis.safe_references import Nesting, Reference
from viewkeeper.errors import NotFound, Place, SqlError
from viewkeeper.sql.catalog import Query, Stored, Virtual
from viewkeeper.sql.declared import DeclaredTyper
from viewkeeper.sql.dialect import place_in
from viewkeeper.sql.query import translate


class StoredRelation(NamedTuple):
    """A table or a materialized view."""

    name: str
    schema: Schema
    is_view: bool


class VirtualRelation(NamedTuple):
    """A virtual view. `whole` is the statement's text that its query stands in."""

    name: str
    query: str
    whole: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """The relations that a query can name: stored ones with their keys, and virtual views."""

    stored: dict[str, StoredRelation] = field(default_factory=dict)
    virtual: dict[str, VirtualRelation] = field(default_factory=dict)

    def add(self, relation: StoredRelation | VirtualRelation) -> None:
        """Adds a relation, or replaces the one of its name."""
        key = relation.name.lower()
        self.stored.pop(key, None)
        self.virtual.pop(key, None)
        if isinstance(relation, StoredRelation):
            self.stored[key] = relation
        else:
            self.virtual[key] = relation

    def find(self, name: str) -> StoredRelation | VirtualRelation | None:
        """The relation of a name."""
        return self.stored.get(name.lower()) or self.virtual.get(name.lower())

    def missing(self, name: str, place: Place) -> NotFound:
        """The error for an unknown name."""
        names = sorted([kept.name for kept in self.stored.values()] + [view.name for view in self.virtual.values()])
        hint = f"there are {', '.join(names)}" if names else "give the CREATE TABLE statements as well"
        return NotFound(f"there is no table or view named '{name}'", place=place, hint=hint)

    def taken(self, name: str, place: Place) -> SqlError:
        """The error for a name that is taken."""
        return SqlError(f"there are two relations named '{name}'", place=place, hint="take another name")

    def with_key(self, name: str, columns: Sequence[str]) -> Known:
        """The same relations, one of them with one more key, whose columns are NOT NULL."""
        relation = self.stored[name.lower()]
        lower = {column.lower() for column in columns}
        kept = tuple(replace(c, nullable=c.nullable and c.name.lower() not in lower) for c in relation.schema)
        keyed = Schema(kept, (*relation.schema.keys, Key(tuple(columns), primary=False)))
        return replace(self, stored={**self.stored, name.lower(): relation._replace(schema=keyed)})


class References:
    """Resolves names for the translation: every reference gets an id of its own, and its position is recorded."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.found: list[Reference] = []
        self._outer: Place | None = None

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name."""
        relation = self.known.find(name)
        if relation is None:
            raise self.known.missing(name, place)
        if isinstance(relation, VirtualRelation):
            around, self._outer = self._outer, self._outer or place
            try:
                inside = translate(relation.query, relation.whole, self, DeclaredTyper())
            finally:
                self._outer = around
            return Virtual(relation.name, Query(inside.node, relation.columns))
        called = f"{relation.name}#{len(self.found) + 1}"
        at = self._outer or place
        self.found.append(Reference(called, relation.name, relation.schema, at, relation.is_view))
        return Stored(called, relation.name, relation.schema)

    def placed(self, tree: exp.Expr, query: str, whole: str) -> list[Reference]:
        """The references; those that stand in the query's own text with their nesting."""
        if tree.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None:
            return self.found
        tables = [table for table in tree.find_all(exp.Table) if table.find_ancestor(exp.CTE) is None]
        found = []
        for reference in self.found:
            named = next((table for table in tables if is_at(reference, table, query, whole)), None)
            found.append(reference if named is None else replace(reference, nesting=_nesting(named)))
        return found

    def refers(self, child: n.Scan, parent: n.Scan) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The foreign keys from one reference to another."""
        by_id = {reference.id: reference for reference in self.found}
        ours, theirs = by_id.get(child.relation), by_id.get(parent.relation)
        if ours is None or theirs is None:
            return []
        primary = theirs.schema.primary_key
        return [
            (key.columns, key.referenced or (primary.columns if primary is not None else ()))
            for key in ours.schema.references
            if key.table.lower() == theirs.name.lower()
        ]

    def keys(self, scan: n.Scan) -> list[tuple[str, ...]]:
        """The keys of the relation that a scan reads."""
        return next((reference.keys for reference in self.found if reference.id == scan.relation), [])


def is_at(reference: Reference, table: exp.Table, query: str, whole: str) -> bool:
    """Whether a reference is this table of a query's tree."""
    start = table.this.meta.get("start") if isinstance(table.this, exp.Identifier) else None
    if reference.place is None or start is None or table.name.lower() != reference.name.lower():
        return False
    found = place_in(query, start, reference.place.length, whole)
    return (found.line, found.column) == (reference.place.line, reference.place.column)


def _nesting(node: exp.Expr) -> Nesting:
    """Whether a table stands under EXISTS, under NOT EXISTS, or under neither."""
    found = Nesting.TOP
    while node.parent is not None:
        below, node = node, node.parent
        if isinstance(node, exp.Except) and below is node.expression:
            return Nesting.NEGATIVE
        if isinstance(node, exp.All) or (isinstance(node, exp.Not) and found is not Nesting.TOP):
            return Nesting.NEGATIVE
        if isinstance(node, (exp.Exists, exp.Any)) or (isinstance(node, exp.In) and below is node.args.get("query")):
            found = Nesting.POSITIVE
    return found
