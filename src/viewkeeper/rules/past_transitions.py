"""Transition tables of a past epoch, for detached rules: derived again from the ledger's states before and after it.

They are those that the rule would have seen at the end of that epoch's transaction, whatever has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.rows import expand, part_with_sign, row_tuples, signed
from viewkeeper.catalog.active_rules import ActiveRule
from viewkeeper.catalog.relations import Derived, Relation, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.log.open_log import Held
from viewkeeper.maintain.past_changes import virtual_change
from viewkeeper.maintain.situation import Pending
from viewkeeper.rules.transitions import Transition, transition_of
from viewkeeper.rules.watching import (
    TouchedReader,
    changes_by_itself,
    expanded_query,
    key_for,
    needs_key,
    parameter_columns,
    touched_rows,
)
from viewkeeper.store.store import Store
from viewkeeper.transaction.open_transaction import change_at


@dataclass(frozen=True)
class RelationsAt:
    """The relations as they were at an epoch, with the definitions they had then."""

    state: State
    epoch: int

    def by_id(self, key: str) -> Relation:
        """The relation with an id."""
        relation = self.state.relations[key]
        if not isinstance(relation, Derived):
            return relation
        return replace(relation, definition=relation.definition_at(self.epoch))

    def alive(self) -> list[Relation]:
        """The relations there were, of all kinds."""
        return [self.by_id(key) for key, found in self.state.relations.items() if found.lives_at(self.epoch)]


def transition_at(store: Store, held: Held, rule: ActiveRule, epoch: int) -> Transition:
    """What a rule saw of an epoch's change; activations made or ended in that epoch saw nothing."""
    known = RelationsAt(held.state, epoch)
    watched = known.by_id(rule.watched)
    rows = _change(store, held, rule.watched, epoch)
    if rule.nervous:
        inserted = _touched(store, held, known, watched, rows)
        transition = transition_of(watched.schema, signed(inserted, 1), None)
    else:
        transition = transition_of(
            watched.schema, rows, key_for(RelationsAt(held.state, epoch - 1), known, rule) if needs_key(rows) else None
        )
    if rule.activations is None:
        return transition
    table = held.state.relations[rule.activations]
    changed = change_at(store, held, table, epoch).rows
    return transition.without(parameter_columns(rule), set(row_tuples(changed.select(table.schema.names))))


def _change(store: Store, held: Held, key: str, epoch: int) -> pa.Table:
    """The net change of a relation in an epoch, as signed rows."""
    relation = held.state.relations[key]
    if isinstance(relation, VirtualView):
        return virtual_change(store, held.state, relation, epoch)
    return change_at(store, held, relation, epoch).rows


def _touched(store: Store, held: Held, known: RelationsAt, relation: Relation, rows: pa.Table) -> pa.Table:
    """The distinct rows of a relation's state after the epoch that its change touched; `rows` are the net change."""
    epoch = known.epoch
    before = RelationsAt(held.state, epoch - 1)
    replaced = isinstance(relation, Derived) and relation.definition is not _definition(before.by_id(relation.id))
    if changes_by_itself(before, relation) or replaced:
        return expand(part_with_sign(rows, 1)).select(relation.schema.names)
    node = expanded_query(before, known, relation)
    inputs = sorted({scan.relation for scan in n.scans(node)})
    changes = {key: Pending(known.by_id(key), change_at(store, held, known.by_id(key), epoch).rows) for key in inputs}
    since = {key: change for key, change in changes.items() if change.rows.num_rows}
    reader = TouchedReader(store, known.by_id, epoch, epoch - 1)
    reader.changed = since
    return touched_rows(store, relation, node, since, reader)


def _definition(relation: Relation) -> object:
    return relation.definition if isinstance(relation, Derived) else None
