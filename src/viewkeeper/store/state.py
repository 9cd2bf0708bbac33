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
    """A relation: its definition and its files."""

    id: str
    name: str
    schema: Schema
    created: int
    dropped: int | None = None
    files: tuple[DataFile, ...] = ()

    def lives_at(self, epoch: int) -> bool:
        """Whether the relation is there at an epoch."""
        return self.created <= epoch and (self.dropped is None or epoch < self.dropped)

    def files_at(self, epoch: int) -> tuple[DataFile, ...]:
        """The files that hold rows of epochs up to this one."""
        return tuple(file for file in self.files if file.first_epoch <= epoch)

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {
            "id": self.id,
            "name": self.name,
            "schema": self.schema.to_json(),
            "created": self.created,
            "dropped": self.dropped,
            "files": [file.to_json(self.schema) for file in self.files],
        }

    @staticmethod
    def from_json(body: dict[str, Any]) -> Relation:
        """The inverse of to_json."""
        schema = Schema.from_json(body["schema"])
        files = tuple(DataFile.from_json(file, schema, 0) for file in body["files"])
        return Relation(body["id"], body["name"], schema, body["created"], body["dropped"], files)


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
        """The oldest epoch promised to readers: the one that was current `keep` seconds ago, or an earlier one."""
        passed = [epoch for epoch, at in self.marks if at <= now - self.keep]
        return max([self.oldest, *passed])

    def names(self) -> list[str]:
        """The names of the relations there are now."""
        return sorted(relation.name for relation in self.relations.values() if relation.lives_at(self.epoch))

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
            relations[body["id"]] = Relation(body["id"], body["name"], schema, epoch)
        for key, added in entry.get("files", {}).items():
            relation = relations[key]
            files = tuple(DataFile.from_json(file, relation.schema, epoch) for file in added)
            relations[key] = replace(relation, files=relation.files + files)
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
