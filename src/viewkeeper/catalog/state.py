"""The state of a database after some ledger entry: an immutable value, folded from entries.

A relation's contents at epoch e are the rows of its files with an epoch up to e. A file that one commit wrote belongs
to that commit's epoch as a whole (its `_epoch` column is NULL); a merged file holds rows of several epochs, each with
its number. So one set of files serves every epoch that is still kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.active_rules import ActiveRule, Waiting, rules_after, waiting_after
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.declared_functions import Function, applied
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.graph import Graph, depending
from viewkeeper.catalog.relations import (
    Auxiliary,
    Derived,
    Relation,
    VirtualView,
    as_derived,
    declared,
    relation_from_json,
)
from viewkeeper.catalog.settings import Settings
from viewkeeper.errors import NotFound

MARK_SECONDS = 60.0
"""Commit times are recorded at this interval, or a shorter one when little history is kept."""


@dataclass(frozen=True)
class State:
    """Everything the ledger says, up to entry `number`.

    `link` is the hash of that entry, which the next one carries; `chained`: whether it carries one itself. `format` is
    the newest format of the ledger so far.
    """

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
    link: str = ""
    chained: bool = False
    functions: Mapping[str, Function] = field(default_factory=dict)
    rules: Mapping[str, ActiveRule] = field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()
    format: int = 1

    def find(self, name: str, epoch: int | None = None) -> Relation | None:
        """The relation of a name (without regard to case) at an epoch, the newest if none is given.

        Raises NotFound if it existed then, but that epoch of it is no longer kept.
        """
        at = self.epoch if epoch is None else epoch
        wanted = name.lower()
        for relation in self.relations.values():
            if relation.name.lower() == wanted and relation.lives_at(at):
                oldest = at if at >= self.epoch else self.oldest_of(relation, at)
                if at < oldest:
                    raise NotFound(
                        f"epoch {at} of {relation.name} is no longer kept",
                        hint=f"the oldest kept epoch of {relation.name} is {oldest}",
                    )
                return relation
        return None

    def check_epoch(self, epoch: int) -> None:
        """Raises NotFound if no relation can be read at the epoch; `find` checks one relation."""
        if epoch > self.epoch:
            raise NotFound(f"there is no epoch {epoch} yet", hint=f"the newest is {self.epoch}")
        if epoch < self._first_readable:
            raise NotFound(f"epoch {epoch} is no longer kept", hint=f"the oldest kept epoch is {self.oldest}")

    # retention -----------------------------------------------------------------------------------

    def own_keep(self, relation: Relation) -> float | None:
        """The seconds for which old epochs of a view are kept by its own option; None for all other relations."""
        return relation.definition.keep if isinstance(relation, Derived) and relation.dropped is None else None

    def oldest_of(self, relation: Relation, epoch: int | None = None) -> int:
        """The oldest epoch at which a relation can be read; for a virtual view, by its definition at an epoch."""
        if isinstance(relation, VirtualView):
            definition = relation.definition_at(self.epoch if epoch is None else epoch)
            read = [self.relations.get(scan.relation) for scan in n.scans(definition.as_written)]
            return max((self.oldest if r is None else self.oldest_of(r) for r in read), default=self.oldest)
        if isinstance(relation, Auxiliary) or self.own_keep(relation) is not None:
            return relation.oldest
        return max(self.oldest, relation.oldest)

    def oldest_feed(self, relation: Relation, since: int) -> int:
        """The oldest epoch after which the changes of a relation are known, under all definitions it had since then."""
        former = relation.former if isinstance(relation, Derived) else ()
        epochs = [since, *(until for until, _ in former if until > since)]
        return max(self.oldest_of(relation, epoch) for epoch in epochs)

    @property
    def _first_readable(self) -> int:
        """The first epoch at which anything can be read."""
        longer = [max(r.oldest, r.created) for r in self.relations.values() if self.own_keep(r) is not None]
        return min([self.oldest, *longer])

    def horizon(self, now: float) -> int:
        """The oldest epoch promised to readers: the one that was current `keep` seconds ago, or an earlier one.

        A view that is refreshed on demand still has to read the changes since its last refresh.
        """
        return max(self.oldest, min([self._passed(now - self.keep), *self._waiting()]))

    def horizon_of(self, relation: Relation, now: float) -> int:
        """The oldest epoch of a relation that is still promised: by its own `keep`, or by the database's.

        An auxiliary relation of a stored view is read only in its newest state, or in that of the last refresh; one of
        a virtual view serves the view's feed.
        """
        if self.folds_alone(relation):
            own = self.own_keep(relation)
            passed = self.epoch if own is None else self._passed(now - own)
            return max(relation.oldest, min([passed, *self._waiting()]))
        return self.horizon(now)

    def folds_alone(self, relation: Relation) -> bool:
        """Whether the retention of a relation is its own, not that of the whole database."""
        if isinstance(relation, Auxiliary):
            return not any(isinstance(user, VirtualView) for user in self.dependents(relation.id))
        return self.own_keep(relation) is not None

    def _passed(self, time: float) -> int:
        """The epoch that was current at a time, or an earlier one."""
        return max((epoch for epoch, at in self.marks if at <= time), default=0)

    def _waiting(self) -> Iterator[int]:
        """The epochs from which changes are still to be read: by views on demand, and by firings of detached rules."""
        for relation in self.alive():
            if isinstance(relation, Derived) and relation.definition.is_demand:
                yield relation.definition.refreshed
        for firing in self.waiting:
            yield firing.epoch - 1

    def time_of(self, epoch: int) -> float:
        """When an epoch was committed, or a little earlier: not every commit time is recorded."""
        return max((at for number, at in self.marks if number <= epoch), default=0.0)

    def alive(self) -> list[Relation]:
        """The relations that exist now, of all kinds."""
        return list(self._alive)

    @functools.cached_property
    def _alive(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations.values() if relation.lives_at(self.epoch))

    def names(self) -> list[str]:
        """The names of the relations there are now, without auxiliary ones."""
        return sorted(relation.name for relation in self.alive() if not relation.is_hidden)

    def dependents(self, key: str) -> list[Derived]:
        """The relations that exist now and read the one with this id, or have it as an auxiliary relation."""
        return [as_derived(self.relations[user]) for user in self.depending.dependents(key)]

    @functools.cached_property
    def depending(self) -> Graph:
        """The graph `depending` of the relations that exist now."""
        return depending(self.alive())

    def named_files(self) -> set[str]:
        """The files that the ledger still names: those in use, and those replaced but not yet swept."""
        named = {file.path for relation in self.relations.values() for file in relation.files}
        return named | {path for path, _, _ in self.removed}

    # entries -------------------------------------------------------------------------------------

    @staticmethod
    def first(entry: dict[str, Any]) -> State:
        """The state after entry 1, which creates the database."""
        state = State(1, 0, Settings.from_json(entry["settings"]), entry["keep"], marks=((0, entry["at"]),))
        return replace(state, link=entry["hash"], chained="before" in entry, format=entry["format"])

    def apply(self, entry: dict[str, Any], added: Mapping[str, tuple[DataFile, ...]] | None = None) -> State:
        """The state after one more entry. `added` are the files of a commit, if they need not be parsed."""
        newest = max(self.format, entry.get("format", 1))
        state = replace(self, number=entry["number"], link=entry["hash"], chained="before" in entry, format=newest)
        if entry["kind"] == "commit":
            return state._apply_commit(entry, added)
        return state._apply_housekeeping(entry)

    def _apply_commit(self, entry: dict[str, Any], added: Mapping[str, tuple[DataFile, ...]] | None) -> State:
        epoch = entry["epoch"]
        relations = dict(self.relations)
        for body in entry.get("created", ()):
            relations[body["id"]] = declared(body, epoch)
        for key, listed in entry.get("files", {}).items():
            relation = relations[key]
            if added is None:
                files = tuple(DataFile.from_json(file, relation.schema, epoch) for file in listed)
            else:
                files = tuple(file.since(epoch) for file in added[key])
            relations[key] = replace(relation, files=relation.files + files)
        for key, body in entry.get("defined", {}).items():
            relations[key] = as_derived(relations[key]).redefined(Definition.from_json(body), epoch)
        for key, until in entry.get("refreshed", {}).items():
            view = as_derived(relations[key])
            relations[key] = replace(view, definition=view.definition.resumed(until))
        for key, until in entry.get("suspended", {}).items():
            view = as_derived(relations[key])
            relations[key] = replace(view, definition=replace(view.definition, refreshed=until, suspended=epoch))
        for key in entry.get("dropped", ()):
            relations[key] = replace(relations[key], dropped=epoch)
        marks = self.marks
        keeps = [self.keep, *self._own_keeps()]
        if not marks or entry["at"] - marks[-1][1] >= min(MARK_SECONDS, min(keeps) / 100):
            marks = (*marks, (epoch, entry["at"]))
        return replace(
            self,
            epoch=epoch,
            relations=relations,
            marks=marks,
            committed_at=entry["at"],
            functions=applied(self.functions, entry.get("functions", {})),
            rules=rules_after(self.rules, entry.get("rules", {})),
            waiting=waiting_after(self.waiting, entry.get("waiting", ()), entry["at"]),
        )

    def _apply_housekeeping(self, entry: dict[str, Any]) -> State:
        relations = dict(self.relations)
        removed = list(self.removed)
        for key, swap in entry.get("swapped", {}).items():
            relation = relations[key]
            replaced = set(swap["removed"])
            kept = tuple(file for file in relation.files if file.path not in replaced)
            added = tuple(DataFile.from_json(file, relation.schema, 0) for file in swap["added"])
            folded = swap.get("oldest", entry.get("oldest", 0))
            relations[key] = replace(relation, files=kept + added, oldest=max(relation.oldest, folded))
            removed.extend((path, entry["number"], entry["at"]) for path in swap["removed"])
        for key in entry.get("forgotten", ()):
            removed.extend((file.path, entry["number"], entry["at"]) for file in relations.pop(key).files)
        swept = set(entry.get("swept", ()))
        state = replace(
            self,
            relations=relations,
            oldest=max(self.oldest, entry.get("oldest", 0)),
            removed=tuple(item for item in removed if item[0] not in swept),
            revoked=self.revoked | frozenset(entry.get("revoked", ())),
            waiting=waiting_after(self.waiting, entry.get("waiting", ()), entry["at"]),
        )
        first = state._first_readable
        for key, relation in relations.items():
            if isinstance(relation, Derived) and relation.former and relation.former[0][0] <= first:
                kept_old = tuple(old for old in relation.former if old[0] > first)
                relations[key] = replace(relation, former=kept_old)
        return replace(state, marks=tuple(state._marks_from(first)))

    def _own_keeps(self) -> list[float]:
        """The `keep` of the views that have one of their own, in seconds."""
        return [own for relation in self.relations.values() if (own := self.own_keep(relation)) is not None]

    def _marks_from(self, first: int) -> Iterator[tuple[int, float]]:
        """The commit times since an epoch; sparser where only views with a longer `keep` need them."""
        apart = max(self._own_keeps(), default=0.0) / 1000
        last = -apart
        for epoch, at in self.marks:
            if epoch >= self.oldest or (epoch, at) == self.marks[-1] or (epoch >= first and at - last >= apart):
                last = at
                yield epoch, at

    def to_json(self) -> dict[str, Any]:
        """For a snapshot; databases without active rules have the form that they had before there were any."""
        rules = {key: rule.to_json() for key, rule in self.rules.items()}
        waiting = [firing.to_json() for firing in self.waiting]
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
            "link": self.link,
            "functions": {key: function.to_json() for key, function in self.functions.items()},
            **({"rules": rules} if rules else {}),
            **({"waiting": waiting} if waiting else {}),
        }

    @staticmethod
    def from_json(body: dict[str, Any]) -> State:
        """The inverse of to_json."""
        relations = [relation_from_json(relation, body["oldest"]) for relation in body["relations"]]
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
            body.get("link", ""),
            functions=applied({}, body.get("functions", {})),
            rules=rules_after({}, body.get("rules", {})),
            waiting=waiting_after((), body.get("waiting", ()), 0.0),
            format=body.get("format", 1),
        )
