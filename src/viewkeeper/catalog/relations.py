"""The relations of a database, as plain values: base tables, and relations derived from them.

The rows of a table come from users; those of the others follow from a definition. A virtual view stores nothing, a
materialized view its rows, and an auxiliary relation what the maintenance of a view has to look up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from viewkeeper.algebra.schema import Schema, is_reserved
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.definition import ASSERTION, AUXILIARY, MATERIALIZED, VIEW, Definition


@dataclass(frozen=True)
class Relation:
    """What all relations have. Changes up to epoch `oldest` have been merged: earlier epochs cannot be read."""

    id: str
    name: str
    schema: Schema
    created: int
    dropped: int | None = None
    files: tuple[DataFile, ...] = ()
    oldest: int = 0

    kind: ClassVar[str]
    """'table', 'view', 'assertion', 'materialized' or 'auxiliary'."""

    kind_words: ClassVar[str]
    """The kind in words, which are SQL's in capitals: 'table', 'view', 'materialized view'."""

    @cached_property
    def is_hidden(self) -> bool:
        """Whether users do not see it: it serves a view or an active rule."""
        return is_reserved(self.name)

    def lives_at(self, epoch: int) -> bool:
        """Whether the relation exists at an epoch."""
        return self.created <= epoch and (self.dropped is None or epoch < self.dropped)

    def files_at(self, epoch: int) -> tuple[DataFile, ...]:
        """The files that hold rows of epochs up to this one."""
        if epoch >= self._newest:
            return self.files
        return tuple(file for file in self.files if file.first_epoch <= epoch)

    @cached_property
    def _newest(self) -> int:
        return max((file.first_epoch for file in self.files), default=0)

    @cached_property
    def stored_rows(self) -> int:
        """The number of signed rows in its files."""
        return sum(file.rows for file in self.files)

    def declaration(self) -> dict[str, Any]:
        """For the entry that creates it."""
        return {"id": self.id, "name": self.name, "schema": self.schema.to_json()}

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {
            "id": self.id,
            "name": self.name,
            "schema": self.schema.to_json(),
            "created": self.created,
            "dropped": self.dropped,
            "oldest": self.oldest,
            "files": [file.to_json(self.schema) for file in self.files],
        }


@dataclass(frozen=True)
class Table(Relation):
    """A base table."""

    kind: ClassVar[str] = "table"
    kind_words: ClassVar[str] = "table"


@dataclass(frozen=True)
class Derived(Relation):
    """A relation whose rows are derived from others.

    `former` are its earlier definitions, each with the epoch from which on it no longer applied.
    """

    definition: Definition = field(kw_only=True)
    former: tuple[tuple[int, Definition], ...] = field(default=(), kw_only=True)

    def definition_at(self, epoch: int) -> Definition:
        """The definition as it was at an epoch."""
        return next((old for until, old in self.former if epoch < until), self.definition)

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of the relations that the definition reads, and of its auxiliary relations."""
        definition = self.definition
        return (*definition.uses, *definition.hidden, *definition.beside)

    def redefined(self, definition: Definition, epoch: int) -> Self:
        """The relation with another definition from an epoch on."""
        former = (*self.former, (epoch, self.definition)) if self.created < epoch else self.former
        return replace(self, definition=definition, former=former)

    def declaration(self) -> dict[str, Any]:
        """For the entry that creates it."""
        return {**super().declaration(), "definition": self.definition.to_json()}

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        body = {**super().to_json(), "definition": self.definition.to_json()}
        if self.former:
            body["former"] = [[until, old.to_json()] for until, old in self.former]
        return body


@dataclass(frozen=True)
class VirtualView(Derived):
    """A view that stores nothing: its query is run when it is read."""

    kind: ClassVar[str] = VIEW
    kind_words: ClassVar[str] = "view"


@dataclass(frozen=True)
class AssertionView(VirtualView):
    """An assertion: a virtual view of the rows that violate it."""

    kind: ClassVar[str] = ASSERTION
    kind_words: ClassVar[str] = "assertion"


@dataclass(frozen=True)
class MaterializedView(Derived):
    """A view whose rows are stored, and maintained."""

    kind: ClassVar[str] = MATERIALIZED
    kind_words: ClassVar[str] = "materialized view"


@dataclass(frozen=True)
class Auxiliary(Derived):
    """A relation that is stored because the maintenance of a view needs it."""

    kind: ClassVar[str] = AUXILIARY
    kind_words: ClassVar[str] = "auxiliary relation"


_DERIVED: dict[str, type[Derived]] = {
    each.kind: each for each in (VirtualView, AssertionView, MaterializedView, Auxiliary)
}


def kind_of(definition: Definition | None) -> type[Relation]:
    """The class of relations with a definition; Table for None."""
    return Table if definition is None else _DERIVED[definition.kind]


def new_relation(
    key: str, name: str, schema: Schema, created: int, definition: Definition | None = None
) -> Table | Derived:
    """A relation without files: a table or, with a definition, a relation of its kind."""
    if definition is None:
        return Table(key, name, schema, created)
    return _DERIVED[definition.kind](key, name, schema, created, definition=definition)


def as_derived(relation: Relation) -> Derived:
    """The same relation; asserts that it is not a table."""
    assert isinstance(relation, Derived), relation.name
    return relation


def declared(body: Mapping[str, Any], epoch: int) -> Relation:
    """The inverse of `declaration`: the relation that an entry creates at an epoch."""
    return new_relation(body["id"], body["name"], Schema.from_json(body["schema"]), epoch, _definition(body))


def relation_from_json(body: Mapping[str, Any], oldest: int) -> Relation:
    """The inverse of to_json; `oldest` is that of the database, for an old snapshot without one per relation."""
    relation = declared(body, body["created"])
    files = tuple(DataFile.from_json(file, relation.schema, 0) for file in body["files"])
    relation = replace(relation, dropped=body["dropped"], files=files, oldest=body.get("oldest", oldest))
    former = tuple((until, Definition.from_json(old)) for until, old in body.get("former", ()))
    return replace(as_derived(relation), former=former) if former else relation


def _definition(body: Mapping[str, Any]) -> Definition | None:
    found = body.get("definition")
    return None if found is None else Definition.from_json(found)
