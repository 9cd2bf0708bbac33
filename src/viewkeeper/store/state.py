"""The state of a database after some ledger entry: an immutable value, folded from entries.

A relation's contents at epoch e are the rows of its files with an epoch up to e. A file that one commit wrote belongs
to that commit's epoch as a whole (its `_epoch` column is NULL); a merged file holds rows of several epochs, each with
its number. So one set of files answers every epoch that is still kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from viewkeeper.algebra.schema import Schema
from viewkeeper.engine.settings import Settings
from viewkeeper.errors import NotFound
from viewkeeper.store import bounds as bounds_of
from viewkeeper.store.bounds import Bound
from viewkeeper.store.definition import AUXILIARY, KIND_WORDS, TABLE, Definition

MARK_SECONDS = 60.0
"""Commit times are remembered this finely, or finer when little history is kept."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of signed rows that the ledger names."""

    path: str
    rows: int
    size: int
    low_weight: int
    high_weight: int
    bounds: Mapping[str, Bound] = field(hash=False)
    first_epoch: int = 0
    last_epoch: int = 0
    merged: bool = False

    def to_json(self, schema: Schema) -> dict[str, Any]:
        """For the ledger. A commit's own files get their epoch from the entry."""
        body: dict[str, Any] = {
            "path": self.path,
            "rows": self.rows,
            "size": self.size,
            "weights": [self.low_weight, self.high_weight],
            "bounds": bounds_of.encode(self.bounds, schema),
        }
        if self.first_epoch:
            body["epochs"] = [self.first_epoch, self.last_epoch]
        if self.merged:
            body["merged"] = True
        return body

    @staticmethod
    def from_json(body: dict[str, Any], schema: Schema, epoch: int) -> DataFile:
        """The inverse of to_json; `epoch` is that of the entry that names the file."""
        first, last = body.get("epochs", (epoch, epoch))
        low, high = body["weights"]
        return DataFile(
            body["path"],
            body["rows"],
            body["size"],
            low,
            high,
            bounds_of.decode(body["bounds"], schema),
            first,
            last,
            body.get("merged", False),
        )


@dataclass(frozen=True)
class Relation:
    """A relation: its definition (a table has none) and its files.

    `former` are the definitions it had before, each with the epoch from which on it was no longer true.
    """

    id: str
    name: str
    schema: Schema
    created: int
    dropped: int | None = None
    files: tuple[DataFile, ...] = ()
    definition: Definition | None = None
    former: tuple[tuple[int, Definition], ...] = ()

    @property
    def kind(self) -> str:
        """'table', 'view', 'materialized' or 'auxiliary'."""
        return TABLE if self.definition is None else self.definition.kind

    @property
    def kind_words(self) -> str:
        """The kind as people say it: 'table', 'view', 'materialized view'."""
        return KIND_WORDS[self.kind]

    def definition_at(self, epoch: int) -> Definition | None:
        """The definition as it was at an epoch."""
        return next((old for until, old in self.former if epoch < until), self.definition)

    def depends_on(self, key: str) -> bool:
        """Whether the definition reads the relation with this id, or keeps it as an auxiliary one."""
        return self.definition is not None and (key in self.definition.uses or key in self.definition.hidden)

    def redefined(self, definition: Definition, epoch: int) -> Relation:
        """The relation with another definition from an epoch on."""
        former = self.former
        if self.definition is not None and self.created < epoch:
            former = (*former, (epoch, self.definition))
        return replace(self, definition=definition, former=former)

    def lives_at(self, epoch: int) -> bool:
        """Whether the relation is there at an epoch."""
        return self.created <= epoch and (self.dropped is None or epoch < self.dropped)

    def files_at(self, epoch: int) -> tuple[DataFile, ...]:
        """The files that hold rows of epochs up to this one."""
        return tuple(file for file in self.files if file.first_epoch <= epoch)

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        body: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "schema": self.schema.to_json(),
            "created": self.created,
            "dropped": self.dropped,
            "files": [file.to_json(self.schema) for file in self.files],
        }
        if self.definition is not None:
            body["definition"] = self.definition.to_json()
        if self.former:
            body["former"] = [[until, old.to_json()] for until, old in self.former]
        return body

    @staticmethod
    def from_json(body: dict[str, Any]) -> Relation:
        """The inverse of to_json."""
        schema = Schema.from_json(body["schema"])
        files = tuple(DataFile.from_json(file, schema, 0) for file in body["files"])
        former = tuple((until, Definition.from_json(old)) for until, old in body.get("former", ()))
        return Relation(
            body["id"], body["name"], schema, body["created"], body["dropped"], files, _definition(body), former
        )


def _definition(body: dict[str, Any]) -> Definition | None:
    found = body.get("definition")
    return None if found is None else Definition.from_json(found)


@dataclass(frozen=True)
class State:
    """Everything the ledger says, up to entry `number`."""

    number: int
    epoch: int
    settings: Settings
    keep: float
    relations: Mapping[str, Relation] = field(default_factory=dict)
    oldest: int = 0
    marks: tuple[tuple[int, float], ...] = ()
    removed: tuple[tuple[str, int, float], ...] = ()
    revoked: frozenset[str] = frozenset()
    committed_at: float = 0.0

    def find(self, name: str, epoch: int | None = None) -> Relation | None:
        """The relation of a name (without regard to case) at an epoch, the newest if none is given."""
        at = self.epoch if epoch is None else epoch
        wanted = name.lower()
        for relation in self.relations.values():
            if relation.name.lower() == wanted and relation.lives_at(at):
                return relation
        return None

    def check_epoch(self, epoch: int) -> None:
        """Raises NotFound unless the epoch can be read."""
        if epoch > self.epoch:
            raise NotFound(f"there is no epoch {epoch} yet", hint=f"the newest is {self.epoch}")
        if epoch < self.oldest:
            raise NotFound(f"epoch {epoch} is no longer kept", hint=f"the oldest kept epoch is {self.oldest}")

    def horizon(self, now: float) -> int:
        """The oldest epoch promised to readers: the one that was current `keep` seconds ago, or an earlier one.

        A view that is refreshed on demand still has to read the changes since it was last true.
        """
        passed = max((epoch for epoch, at in self.marks if at <= now - self.keep), default=0)
        waiting = [r.definition.refreshed for r in self.alive() if r.definition is not None and r.definition.is_demand]
        return max(self.oldest, min([passed, *waiting]))

    def time_of(self, epoch: int) -> float:
        """When an epoch was committed, or a little earlier: commit times are remembered now and then."""
        return max((at for number, at in self.marks if number <= epoch), default=0.0)

    def alive(self) -> list[Relation]:
        """The relations there are now, of all kinds."""
        return [relation for relation in self.relations.values() if relation.lives_at(self.epoch)]

    def names(self) -> list[str]:
        """The names of the relations there are now, without auxiliary ones."""
        return sorted(relation.name for relation in self.alive() if relation.kind != AUXILIARY)

    def dependents(self, key: str) -> list[Relation]:
        """The relations there are now whose definition reads or keeps the one with this id."""
        return [relation for relation in self.alive() if relation.depends_on(key)]

    # folding -------------------------------------------------------------------------------------

    @staticmethod
    def first(entry: dict[str, Any]) -> State:
        """The state after entry 1, which creates the database."""
        return State(1, 0, Settings.from_json(entry["settings"]), entry["keep"], marks=((0, entry["at"]),))

    def apply(self, entry: dict[str, Any]) -> State:
        """The state after one more entry."""
        state = replace(self, number=entry["number"])
        if entry["kind"] == "commit":
            return state._apply_commit(entry)
        return state._apply_maintenance(entry)

    def _apply_commit(self, entry: dict[str, Any]) -> State:
        epoch = entry["epoch"]
        relations = dict(self.relations)
        for body in entry.get("created", ()):
            schema = Schema.from_json(body["schema"])
            definition = _definition(body)
            relations[body["id"]] = Relation(body["id"], body["name"], schema, epoch, definition=definition)
        for key, added in entry.get("files", {}).items():
            relation = relations[key]
            files = tuple(DataFile.from_json(file, relation.schema, epoch) for file in added)
            relations[key] = replace(relation, files=relation.files + files)
        for key, body in entry.get("defined", {}).items():
            relations[key] = relations[key].redefined(Definition.from_json(body), epoch)
        for key, until in entry.get("refreshed", {}).items():
            definition = relations[key].definition
            assert definition is not None, key
            relations[key] = replace(relations[key], definition=replace(definition, refreshed=until))
        for key in entry.get("dropped", ()):
            relations[key] = replace(relations[key], dropped=epoch)
        marks = self.marks
        if not marks or entry["at"] - marks[-1][1] >= min(MARK_SECONDS, self.keep / 100):
            marks = (*marks, (epoch, entry["at"]))
        return replace(self, epoch=epoch, relations=relations, marks=marks, committed_at=entry["at"])

    def _apply_maintenance(self, entry: dict[str, Any]) -> State:
        relations = dict(self.relations)
        removed = list(self.removed)
        for key, swap in entry.get("swapped", {}).items():
            relation = relations[key]
            gone = set(swap["removed"])
            kept = tuple(file for file in relation.files if file.path not in gone)
            added = tuple(DataFile.from_json(file, relation.schema, 0) for file in swap["added"])
            relations[key] = replace(relation, files=kept + added)
            removed.extend((path, entry["number"], entry["at"]) for path in swap["removed"])
        for key in entry.get("forgotten", ()):
            removed.extend((file.path, entry["number"], entry["at"]) for file in relations.pop(key).files)
        oldest = max(self.oldest, entry.get("oldest", 0))
        for key, relation in relations.items():
            if relation.former and relation.former[0][0] <= oldest:
                kept_old = tuple(old for old in relation.former if old[0] > oldest)
                relations[key] = replace(relation, former=kept_old)
        swept = set(entry.get("swept", ()))
        return replace(
            self,
            relations=relations,
            oldest=oldest,
            marks=tuple(mark for i, mark in enumerate(self.marks) if mark[0] >= oldest or i + 1 == len(self.marks)),
            removed=tuple(item for item in removed if item[0] not in swept),
            revoked=self.revoked | frozenset(entry.get("revoked", ())),
        )

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {
            "number": self.number,
            "epoch": self.epoch,
            "settings": self.settings.to_json(),
            "keep": self.keep,
            "relations": [relation.to_json() for relation in self.relations.values()],
            "oldest": self.oldest,
            "marks": [list(mark) for mark in self.marks],
            "removed": [list(item) for item in self.removed],
            "revoked": sorted(self.revoked),
            "committed_at": self.committed_at,
        }

    @staticmethod
    def from_json(body: dict[str, Any]) -> State:
        """The inverse of to_json."""
        relations = [Relation.from_json(relation) for relation in body["relations"]]
        return State(
            body["number"],
            body["epoch"],
            Settings.from_json(body["settings"]),
            body["keep"],
            {relation.id: relation for relation in relations},
            body["oldest"],
            tuple((epoch, at) for epoch, at in body["marks"]),
            tuple((path, number, at) for path, number, at in body["removed"]),
            frozenset(body["revoked"]),
            body["committed_at"],
        )
