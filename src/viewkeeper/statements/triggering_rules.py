"""The active rules of a database as a triggering graph, and what is to be said of a rule when it is created."""

from __future__ import annotations

from viewkeeper.analysis.polarity import relevant_kinds
from viewkeeper.analysis.triggering_graph import Reaction, Reads, Watch, Write, kinds_of, reads_of, warnings, watches_of
from viewkeeper.catalog.active_rules import SQL, UPDATED, ActiveRule
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.delta.positive import needed_kinds
from viewkeeper.sql.rule_effects import effects_of, names_read
from viewkeeper.transaction.open_transaction import OpenTransaction


def remarks_on(tx: OpenTransaction, name: str) -> list[str]:
    """What is to be said of a rule that was just created: cycles it closes, and rules for which its order matters."""
    rules = [rule for rule in tx.active_rules() if rule.enabled]
    made = [_reaction(tx, rule) for rule in rules]
    called = next(rule.name for rule in rules if rule.name.lower() == name.lower())
    return warnings(made, called, lambda key: tx.by_id(key).name)


def _reaction(tx: OpenTransaction, rule: ActiveRule) -> Reaction:
    action = rule.action.text if rule.action.kind == SQL else None
    writes = [] if action is None else effects_of(action)
    read = [found for name in names_read(action, rule.condition) if (found := tx.find(name)) is not None]
    watched = tx.by_id(rule.watched)
    return Reaction(
        rule.name,
        rule.priority,
        rule.coupling,
        _watches(tx, rule, watched),
        frozenset(table for relation in read for table in tables_below(tx, relation)),
        tuple(Write(tx.relation(effect.table).id, effect.operation, effect.columns) for effect in writes),
        not isinstance(watched, Derived) and rule.events == (UPDATED,),
    )


def _watches(tx: OpenTransaction, rule: ActiveRule, watched: Relation) -> dict[str, Watch]:
    wanted = kinds_of(rule.events)
    if not isinstance(watched, Derived):
        return {watched.id: Watch(wanted)}
    node = watched.definition.as_written
    kinds = needed_kinds(node) if rule.nervous else relevant_kinds(node, wanted)
    return watches_of(node, kinds, lambda key: _reads(tx, key))


def _reads(tx: OpenTransaction, key: str) -> Reads | None:
    """How a stored view reads tables; None for a table."""
    relation = tx.by_id(key)
    if not isinstance(relation, Derived):
        return None
    return reads_of(relation.definition.as_written, lambda below: _reads(tx, below))


def tables_below(tx: OpenTransaction, relation: Relation) -> list[str]:
    """The tables that the rows of a relation come from, itself if it is one."""
    found = _reads(tx, relation.id)
    return [relation.id] if found is None else list(found)
