"""What active rules watch: the change of a relation since a rule was last considered, as the rule sees it.

A strict rule sees the presence of rows: its relation has a key, or the rule watches the distinct rows of it. A nervous
rule sees every row of the new state that the change has touched (`delta/positive.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.rows import canonical, consolidate, expand, part_with_sign, signed
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.analysis.triggering_graph import kinds_of
from viewkeeper.catalog.active_rules import ActiveRule
from viewkeeper.catalog.graph import reading
from viewkeeper.catalog.relations import Derived, MaterializedView, Relation, Table, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.delta.positive import INSERTED, positive_differential
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.lowered import Binding, Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.declared_keys import Key, relation_keys
from viewkeeper.maintain.expanding import expanded
from viewkeeper.maintain.net_changes import net_difference
from viewkeeper.maintain.situation import Pending
from viewkeeper.maintain.state_reader import StateReader, schema_of
from viewkeeper.rules.transitions import Transition, transition_of
from viewkeeper.store.scans import Source
from viewkeeper.store.store import Store
from viewkeeper.transaction.marks import Mark, change_since
from viewkeeper.transaction.open_transaction import OpenTransaction

NOTHING_YET = Mark({}, {})
"""The mark at the beginning of a transaction."""

PARAMETER = ":"
"""What the columns of parameters begin with in the relation that a rule with parameters watches."""


def parameter_columns(rule: ActiveRule) -> list[str]:
    """The columns of a rule's parameters in the relation that it watches."""
    return [f"{PARAMETER}{name}" for name, _ in rule.parameters]


class Relations(Protocol):
    """The relations that a transaction sees, or those that there were at an epoch."""

    def by_id(self, key: str) -> Relation:
        """The relation with an id."""

    def alive(self) -> list[Relation]:
        """All of them."""


@dataclass(frozen=True)
class Before:
    """The relations before a transaction."""

    state: State

    def by_id(self, key: str) -> Relation:
        """The relation with an id."""
        return self.state.relations[key]

    def alive(self) -> list[Relation]:
        """All of them."""
        return self.state.alive()


def key_of(known: Relations, relation: Relation) -> Key | None:
    """The columns by which two rows of a relation are taken for the same: its primary key, or its shortest other one.

    Those of a view follow from its query; the one row of an aggregate without groups needs no columns.
    """
    return _preferred(_keys_of(known, relation))


def _preferred(keys: Collection[Key]) -> Key | None:
    return min(keys, key=lambda key: (len(key), key), default=None)


def _keys_of(known: Relations, relation: Relation) -> list[Key]:
    primary = relation.schema.primary_key if isinstance(relation, Table) else None
    return relation_keys(known.by_id, relation) if primary is None else [primary.columns]


def expanded_query(before: Relations, after: Relations, relation: Relation) -> n.Node:
    """The query of a view with materialized views replaced by their queries, down to what changes by itself."""

    def view(key: str) -> Derived | None:
        below = after.by_id(key)
        return below if isinstance(below, Derived) and not changes_by_itself(before, below) else None

    return expanded(as_derived(relation).definition.as_written, view)


def changes_by_itself(before: Relations, relation: Relation) -> bool:
    """Whether the changes of a relation do not come with those of others: a table, a demand or a suspended view."""
    if isinstance(relation, Table):
        return True
    began = next((each for each in before.alive() if each.id == relation.id), None)
    return as_derived(relation).definition.is_demand or (isinstance(began, Derived) and began.definition.is_demand)


def transition_since(tx: OpenTransaction, rule: ActiveRule, mark: Mark | None) -> Transition:
    """The transition tables of a rule since a mark; the changes of relations must have been propagated."""
    watched = tx.by_id(rule.watched)
    if rule.nervous:
        rows = _touched(tx, watched, mark or NOTHING_YET)
        return transition_of(watched.schema, signed(rows, 1), None)
    change = change_since(tx, mark or NOTHING_YET, watched)
    before = Before(tx.state) if tx.defined else tx
    return transition_of(watched.schema, change.rows, key_for(before, tx, rule) if needs_key(change.rows) else None)


def key_for(before: Relations, after: Relations, rule: ActiveRule) -> Key | None:
    """The key by which a rule pairs rows, under the definitions before and after a change.

    A row that goes from one activation to another is not updated in either.
    """
    keys = set(_keys_of(after, after.by_id(rule.watched)))
    if before is not after:
        keys &= set(_keys_of(before, before.by_id(rule.watched)))
    key = _preferred(keys)
    if key is None:
        return None
    return tuple(dict.fromkeys([*parameter_columns(rule), *key]))


def needs_key(rows: pa.Table) -> bool:
    """Whether rows of a net change may be updates: there are some on both sides."""
    return bool(part_with_sign(rows, 1).num_rows and part_with_sign(rows, -1).num_rows)


# nervous rules -------------------------------------------------------------------------------------------


def _touched(tx: OpenTransaction, relation: Relation, mark: Mark) -> pa.Table:
    """The distinct rows of a relation's new state that the changes since a mark have touched."""
    schema = relation.schema
    if changes_by_itself(Before(tx.state), relation):
        return part_with_sign(change_since(tx, mark, relation).rows, 1).select(schema.names)
    node = expanded_query(Before(tx.state), tx, relation)
    since = changes_since(tx, mark, {scan.relation for scan in n.scans(node)})
    rows = touched_rows(tx.store, relation, node, since, SinceMark.of_mark(tx, mark, since))
    if not _is_redefined(tx, relation, mark):
        return rows
    before = expanded_query(Before(tx.state), Before(tx.state), tx.state.relations[relation.id])
    added = part_with_sign(net_difference(tx.store, relation, node, before, StateReader.of(tx)), 1)
    return consolidate(pa.concat_tables([signed(rows, 1), signed(expand(added), 1)])).select(schema.names)


def _is_redefined(tx: OpenTransaction, relation: Relation, mark: Mark) -> bool:
    """Whether a view, or one that it reads, has got another definition since a mark."""
    keys = [relation.id, *reading(tx.alive()).all_read([relation.id])]
    return any(tx.defined.get(key) is not mark.defined.get(key) for key in keys)


def touched_rows(
    store: Store, relation: Relation, node: n.Node, changed: Collection[str], reader: StateReader
) -> pa.Table:
    """The distinct rows of a query in the reader's new state that the changes of some relations have touched."""
    schema = relation.schema
    touched = positive_differential(node, changed)
    if touched is None:
        return schema.arrow.empty_table()
    lowered = Lowering(store.engine, reader).lower(n.Distinct(touched))
    if lowered.empty:
        return schema.arrow.empty_table()
    rows = conform(store.engine.fetch(lowered.frame.select(*listed(*lowered.columns))), schema_of(lowered.outputs))
    return canonical(rows.rename_columns(schema.names), schema)


def changes_since(tx: OpenTransaction, mark: Mark, keys: Collection[str]) -> dict[str, Pending]:
    """The changes of some relations since a mark; those that have none are left out."""
    found: dict[str, Pending] = {}
    for key in sorted(keys):
        relation = tx.by_id(key)
        rows = change_since(tx, mark, relation).rows
        if rows.num_rows:
            found[key] = Pending(relation, rows)
    return found


class TouchedReader(StateReader):
    """Reads relations in two states, and the rows that were inserted between them; `changed` are the changes."""

    changed: Mapping[str, Pending]

    def scan(self, scan: n.Scan, binding: Binding | None) -> Lowered:
        """The rows of a relation in a state, or those that were inserted into it."""
        if not scan.relation.startswith(INSERTED):
            return super().scan(scan, binding)
        pending = self.changed.get(scan.relation.removeprefix(INSERTED))
        if pending is None:
            return self._nothing(scan)
        rows = expand(part_with_sign(pending.rows, 1)).select(list(scan.stored_names))
        return self.local(_labelled(rows, scan.outputs), scan.outputs)

    def size(self, scan: n.Scan) -> int:
        """How many signed rows are stored of a relation."""
        return 0 if scan.relation.startswith(INSERTED) else super().size(scan)


class SinceMark(TouchedReader):
    """Reads relations as they were at a mark (old), as they are now (new), and what has changed since."""

    def __init__(self, tx: OpenTransaction, before: Mapping[str, Pending], since: Mapping[str, Pending]) -> None:
        super().__init__(tx.store, tx.by_id, tx.state.epoch, tx.state.epoch, since)
        self.changed = since
        self._before = before
        self._now = tx.pending

    @staticmethod
    def of_mark(tx: OpenTransaction, mark: Mark, since: Mapping[str, Pending]) -> SinceMark:
        """The reader for a mark of a transaction; `since` are the changes after it."""
        held = {key: Pending(tx.by_id(key), rows, list(staged)) for key, (rows, staged) in mark.held.items()}
        return SinceMark(tx, held, since)

    def _source(self, relation: Relation, state: str) -> Source:
        pending = (self._before if state == n.OLD else self._now).get(relation.id)
        staged = tuple(pending.staged) if pending else ()
        rows = pending.rows if pending else None
        return Source(relation.schema, relation.files_at(self.epoch), self.epoch, staged, rows)


def _labelled(rows: pa.Table, outputs: Sequence[Attribute]) -> pa.Table:
    return rows.rename_columns([a.label for a in outputs])


# which relations are watched -----------------------------------------------------------------------------


def watched_views(tx: OpenTransaction, rules: Collection[ActiveRule]) -> set[str]:
    """The virtual views whose changes have to be derived for some rules; those of stored ones are derived anyway."""
    strict = [tx.by_id(rule.watched) for rule in rules if not rule.nervous]
    return {relation.id for relation in strict if isinstance(relation, VirtualView)}


def wanted_kinds(rules: Collection[ActiveRule], marked: Collection[str]) -> dict[str, Kinds]:
    """Per relation that strict rules watch, the kinds of change that can trigger one of them.

    Rules that have seen a part of the transaction (`marked`) need all kinds: what was deleted before may come back.
    """
    found: dict[str, Kinds] = {}
    for rule in rules:
        kinds = Kinds.BOTH if rule.id in marked else kinds_of(rule.events)
        found[rule.watched] = found.get(rule.watched, Kinds.NONE) | kinds
    return found


def read_below(tx: OpenTransaction, rules: Collection[ActiveRule]) -> set[str]:
    """The stored relations whose changes some rules need: those that they watch, and those under virtual ones."""
    found: set[str] = set()
    for rule in rules:
        relation = tx.by_id(rule.watched)
        if rule.nervous and changes_by_itself(Before(tx.state), relation):
            found.add(relation.id)
        elif isinstance(relation, Derived) and (rule.nervous or not isinstance(relation, MaterializedView)):
            node = expanded_query(Before(tx.state), tx, relation) if rule.nervous else relation.definition.as_written
            found |= {scan.relation for scan in n.scans(node)}
        else:
            found.add(relation.id)
    return found
