"""Stored relations whose definition is replaced: whether they can be maintained incrementally, and how."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.relations import Derived, MaterializedView, VirtualView, as_derived
from viewkeeper.delta.redefinition import OtherwiseMade, Redefinition, redefined
from viewkeeper.maintain.situation import Situation
from viewkeeper.plan.group_state import group_by_of, group_state
from viewkeeper.recursion.maintenance import differing


@dataclass(frozen=True)
class Compared:
    """Two definitions of a relation, compared.

    `difference`: in words. `follows`: whether the relation can be maintained incrementally. `redefinition`: how, unless
    it is a recursion.
    """

    difference: str
    follows: bool
    redefinition: Redefinition | None = None


def compared(tx: Situation, relation: Derived) -> Compared:
    """The definition of a stored relation, compared with the one it had before the transaction."""
    now = relation.definition
    if not now.is_stored or now.is_demand or now.refresh == "full":
        option = "on = demand" if now.is_demand else "refresh = full"
        return Compared(f"with {option} it is not maintained incrementally", False)
    return compare(former_node(tx, relation), now.maintained)


def former_node(tx: Situation, relation: Derived) -> n.Node:
    """The expression of a stored relation before the transaction."""
    former = as_derived(tx.state.relations[relation.id])
    return tx.formerly.get(relation.id, former.definition.maintained)


def compare(before: n.Node, after: n.Node) -> Compared:
    """Two expressions of one relation, compared."""
    if isinstance(before, n.Fixpoint) and isinstance(after, n.Fixpoint):
        return _recursions(before, after)
    try:
        found = redefined(before, after)
    except OtherwiseMade as difference:
        return Compared(str(difference), False)
    follows = group_state(after) is None or group_by_of(found.node) is not None  # to fold, its input must be the same
    return Compared(str(found) or "its inputs have changed", follows, found if follows else None)


def _recursions(before: n.Fixpoint, after: n.Fixpoint) -> Compared:
    if before.bag or after.bag:
        return Compared("a change in a recursion with UNION ALL is not maintained incrementally", False)
    if _relations(before) != _relations(after) or _held(before) != _held(after):
        return Compared("other relations take part in the recursion", False)
    removed, added = differing(before, after)
    lines = [f"rule {what}: {rule.text}" for rules, what in ((added, "added"), (removed, "removed")) for rule in rules]
    return Compared("; ".join(lines) or "what its rules read has changed", True)


def _relations(node: n.Fixpoint) -> dict[str, list[str]]:
    return {predicate.name: [str(a.type) for a in predicate.attributes] for predicate in node.predicates}


def _held(node: n.Fixpoint) -> dict[str, str]:
    return {name: scan.relation for name, scan in node.stored}


def definition_effects(tx: Situation) -> list[str]:
    """What the commit will do to the views that a transaction defines or redefines, as lines."""
    lines = []
    for relation in sorted(tx.alive(), key=lambda r: r.name):
        if isinstance(relation, MaterializedView) and relation.id in tx.created:
            lines.append(f"{relation.name} is new: it is computed from its query")
        elif isinstance(relation, MaterializedView) and relation.id in tx.defined:
            lines.append(_redefinition_effect(tx, relation))
        elif isinstance(relation, VirtualView) and relation.id in tx.defined:
            lines.append(f"{relation.name} stores nothing: it shows its new query from then on")
        elif isinstance(relation, VirtualView) and relation.id in tx.created:
            lines.append(f"{relation.name} is new and stores nothing")
    return lines or ["no view is defined or redefined"]


def _redefinition_effect(tx: Situation, relation: Derived) -> str:
    """Whether a view and its auxiliary relations are maintained incrementally, and the reason."""
    own = compared(tx, relation)
    if relation.id in tx.to_load or not own.follows:
        return f"{relation.name} is refreshed in full: {own.difference}"
    auxiliary = [as_derived(tx.by_id(key)) for key in relation.definition.hidden]
    if any(part.id in tx.to_load for part in auxiliary):
        return f"{relation.name} is refreshed in full in part: it needs other auxiliary relations"
    reasons = [compared(tx, part).difference for part in auxiliary if part.id in tx.redefined]
    if own.redefinition is None or own.redefinition.places or not reasons:
        reasons.append(own.difference)
    return f"{relation.name} is maintained incrementally: {'; '.join(dict.fromkeys(reasons))}"
