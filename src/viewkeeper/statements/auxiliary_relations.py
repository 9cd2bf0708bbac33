"""The auxiliary relations of a view that is defined: those that exist and hold the same, and new ones."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.serial import to_json
from viewkeeper.catalog.definition import AUXILIARY, Definition
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation, as_derived
from viewkeeper.maintain.declared_keys import declared_keys, foreign_keys
from viewkeeper.maintain.propagation import maintained_node
from viewkeeper.maintain.redefining import compare
from viewkeeper.plan.auxiliary import Split, split
from viewkeeper.plan.by_keys import parents_first, without_needless
from viewkeeper.plan.equal_group_bys import Meaning, meaning_of
from viewkeeper.plan.group_state import GroupState, group_state
from viewkeeper.plan.neighbor_columns import neighbor_columns, percentiles
from viewkeeper.plan.runner_up_columns import ranked_calls, runner_up_columns
from viewkeeper.transaction.open_transaction import OpenTransaction


def with_auxiliaries(
    tx: OpenTransaction,
    definition: Definition,
    node: n.Node,
    former: Derived | None = None,
    others: Collection[str] = (),
) -> Definition:
    """The definition with its query over auxiliary relations; creates those that do not exist yet.

    `former` is the relation whose definition this one replaces, and `others` are redefined with it. Auxiliary relations
    that only these use are redefined too, if that can be maintained incrementally.
    """
    if not has_auxiliaries(definition):
        return replace(
            definition, stored=to_json(node) if definition.is_stored else None, hidden=(), runners_up="", neighbors=""
        )
    there = {**tx.state.relations, **tx.created}
    node = parents_first(without_needless(node, declared_keys(there.get)), foreign_keys(there.get))

    def holds(state: GroupState) -> bool:
        if former is None or not definition.is_stored:
            return definition.is_stored
        order, files_by = state.order(former.schema.names), former.schema.sort_columns
        return set(order) == set(files_by[: len(order)])

    parts = split(node, new_id, sorted_by(there.get), tx.store.tuning.topk_slack, holds)
    free = [] if former is None or definition.is_demand or former.definition.is_demand else _free(tx, former, others)
    there_are = _auxiliaries(tx, parts, definition.on, definition.lane, free)
    runners_up, neighbors = _beside(tx, parts.node, former) if definition.is_stored else ("", "")
    stored = to_json(_renamed(parts.node, there_are))
    hidden = tuple(dict.fromkeys(place.relation for place in there_are.values()))
    return replace(definition, stored=stored, hidden=hidden, runners_up=runners_up, neighbors=neighbors)


def _free(tx: OpenTransaction, former: Derived, others: Collection[str]) -> list[Derived]:
    """The auxiliary relations of a view that may be redefined with it, because nothing else uses them."""
    mine = {former.id, *others}
    there = [key for key in former.definition.hidden if key in tx.state.relations and key not in tx.to_load]
    found = [as_derived(tx.by_id(key)) for key in there]
    return [r for r in found if {user.id for user in tx.dependents(r.id) if not isinstance(user, Auxiliary)} <= mine]


def new_id() -> str:
    """The id of a planned relation."""
    return uuid.uuid4().hex[:16]


def has_auxiliaries(definition: Definition) -> bool:
    """Whether a view may have auxiliary relations; one that is always refreshed in full has no use for them."""
    wanted = definition.is_stored if definition.auxiliary is None else definition.auxiliary
    return wanted and definition.refresh != "full"


class _Place(NamedTuple):
    """The relation that holds a planned auxiliary relation, and its names of the planned columns where they differ."""

    relation: str
    columns: Mapping[str, str] = MappingProxyType({})

    def scan(self, planned: n.Scan) -> n.Scan:
        """The scan of what is there instead of what was planned."""
        columns = tuple(self.columns.get(name, name) for name in planned.columns)
        return replace(planned, relation=self.relation, columns=columns)


def _renamed(node: n.Node, places: Mapping[str, _Place]) -> n.Node:
    """The expression with scans of planned auxiliary relations replaced by those that exist."""

    def there(scan: n.Scan) -> n.Scan:
        return places[scan.relation].scan(scan) if scan.relation in places else scan

    def turn(part: n.Node) -> n.Node:
        if isinstance(part, n.Scan):
            return there(part)
        if isinstance(part, n.Fixpoint) and part.stored:
            return replace(part, stored=tuple((name, there(scan)) for name, scan in part.stored))
        return part

    return n.transform(node, turn)


def sorted_by(relations: Callable[[str], Relation | None]) -> Callable[[n.Scan], str | None]:
    """A function that gives the first sort column of a scanned relation; for a planned one, its first column."""

    def first_column(scan: n.Scan) -> str | None:
        relation = relations(scan.relation)
        if relation is None:
            return scan.stored_names[0] if scan.attributes else None
        columns = relation.schema.sort_columns
        return columns[0] if columns else None

    return first_column


def _auxiliaries(tx: OpenTransaction, parts: Split, on: str, lane: str, free: list[Derived]) -> dict[str, _Place]:
    """Creates the auxiliary relations of a view, or finds those that hold the same; returns where each planned one is.

    A view that is refreshed on demand shares none, because its own are up to date as of its own last refresh; others
    share those of their own lane. `free` ones are redefined where that can be maintained incrementally.
    """
    there_are = (r for r in tx.alive() if isinstance(r, Auxiliary))
    shared = [r for r in there_are if not r.definition.is_demand and r.definition.lane == lane]
    there = _Held(shared if on == "commit" else ())
    places: dict[str, _Place] = {}
    for part in parts.auxiliaries:
        key = part.scan.relation
        node = _renamed(part.node, places)
        found = there.find(node, part.columns, {other.id for other in free})
        if found is not None:
            places[key] = found
            continue
        schema = Schema(tuple(Column(name, a.type) for name, a in zip(part.columns, node.outputs, strict=True)))
        uses = tuple(dict.fromkeys(scan.relation for scan in n.scans(node)))
        again = _reusable(tx, free, node, schema, places)
        if again is not None:
            free.remove(again)
            places[key] = _Place(again.id)
            stored, former = to_json(_renamed(node, places)), again.definition
            definition = Definition(AUXILIARY, "", tuple(schema.names), {}, stored, uses=uses, lane=lane)
            definition = replace(definition, runners_up=former.runners_up, neighbors=former.neighbors)
            tx.defined[again.id] = definition
            tx.redefined.add(again.id)
            there.add(as_derived(tx.by_id(again.id)))
            continue
        runners_up, neighbors = _beside(tx, node)
        definition = Definition(AUXILIARY, "", tuple(schema.names), {}, to_json(node), on=on, uses=uses, lane=lane)
        definition = replace(definition, runners_up=runners_up, neighbors=neighbors)
        relation = Auxiliary(key, f"_vk_{key}", schema, tx.state.epoch + 1, definition=definition)
        tx.created[key] = relation
        tx.to_load.add(key)
        there.add(relation)
        places[key] = _Place(key)
    return places


class _Held:
    """Auxiliary relations by what they hold."""

    def __init__(self, relations: Iterable[Derived]) -> None:
        self._known: dict[Hashable, list[tuple[Meaning, Derived]]] = {}
        for relation in relations:
            self.add(relation)

    def add(self, relation: Derived) -> None:
        """Makes a relation known."""
        meaning = meaning_of(maintained_node(relation))
        self._known.setdefault(meaning.rows, []).append((meaning, relation))

    def find(self, node: n.Node, planned: Sequence[str], free: Collection[str]) -> _Place | None:
        """The first relation that has all columns of an expression, and what it calls the planned ones.

        Those that nothing else uses must not have more columns.
        """
        wanted = meaning_of(node)
        for meaning, relation in self._known.get(wanted.rows, ()):
            places = meaning.places(wanted, len(node.outputs))
            if places is not None and (len(places) == len(relation.schema) or relation.id not in free):
                names = relation.schema.names
                return _Place(relation.id, {ours: names[i] for ours, i in zip(planned, places, strict=True)})
        return None


def _beside(tx: OpenTransaction, node: n.Node, former: Derived | None = None) -> tuple[str, str]:
    """The ids of the runners-up and of the neighbors of a stored group-by; empty if it has none.

    They are created, unless the relation's `former` definition had some with the same columns.
    """
    state = group_state(node)
    if state is None or not state.is_whole:
        return "", ""
    numbers, below = Numbers(n.highest(node) + 1_000), state.node
    had = former.definition if former is not None else None
    runners_up = neighbors = ""
    if ranked_calls(below):
        runners_up = _changed_with(tx, runner_up_columns(below, numbers), had.runners_up if had else "")
    if percentiles(below):
        neighbors = _changed_with(tx, neighbor_columns(below, numbers), had.neighbors if had else "")
    return runners_up, neighbors


def _changed_with(tx: OpenTransaction, columns: tuple[Attribute, ...], there: str) -> str:
    """The id of a relation that is changed together with another: the one that is there if it has these columns."""
    names = tuple(f"c{i}" for i in range(len(columns)))
    schema = Schema(tuple(Column(name, a.type) for name, a in zip(names, columns, strict=True)))
    if there and tx.by_id(there).schema == schema:
        return there
    definition = Definition(AUXILIARY, "", names, {}, to_json(n.Rows(columns, ())))
    key = new_id()
    tx.created[key] = Auxiliary(key, f"_vk_{key}", schema, tx.state.epoch + 1, definition=definition)
    return key


def _reusable(
    tx: OpenTransaction, free: Sequence[Derived], node: n.Node, schema: Schema, places: dict[str, _Place]
) -> Derived | None:
    """An auxiliary relation whose redefinition as an expression can be maintained incrementally.

    For one of a recursion, all of its relations are recorded in `places`: they refer to each other.
    """
    for relation in free:
        former = as_derived(tx.state.relations[relation.id])
        if former.schema != schema:
            continue
        before = maintained_node(former)
        noted = dict(places)
        if isinstance(node, n.Fixpoint) and isinstance(before, n.Fixpoint):
            if before.shown != node.shown:
                continue
            held = {name: scan.relation for name, scan in before.stored}
            if not set(held.values()) <= {
                *(other.id for other in free),
                *(place.relation for place in places.values()),
            }:
                continue
            noted |= {scan.relation: _Place(held[name]) for name, scan in node.stored if name in held}
        if compare(before, _renamed(node, noted)).follows:
            places.update(noted)
            return relation
    return None
