"""Stored relations whose definition is replaced: whether they follow that like any change, and how."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.relations import Derived, MaterializedView, VirtualView, as_derived
from viewkeeper.delta.redefinition import OtherwiseMade, Redefinition, redefined
from viewkeeper.maintain.situation import Situation
from viewkeeper.recursion.maintenance import differing


@dataclass(frozen=True)
class Compared:
    """What became of a definition, in words; whether the relation can follow; and how, unless it is a recursion."""

    told: str
    follows: bool
    redefinition: Redefinition | None = None


def compared(tx: Situation, relation: Derived) -> Compared:
    """The definition of a stored relation beside the one it had before the transaction."""
    now = relation.definition
    if not now.is_stored or now.is_demand or now.refresh == "full":
        return Compared(f"with {'on = demand' if now.is_demand else 'refresh = full'} it follows no change", False)
    return compare(former_node(tx, relation), now.maintained)


def former_node(tx: Situation, relation: Derived) -> n.Node:
    """What a stored relation held before the transaction, as an expression."""
    former = as_derived(tx.state.relations[relation.id])
    return tx.formerly.get(relation.id, former.definition.maintained)


def compare(before: n.Node, after: n.Node) -> Compared:
    """Two expressions for what one relation holds."""
    if isinstance(before, n.Fixpoint) and isinstance(after, n.Fixpoint):
        return _recursions(before, after)
    try:
        found = redefined(before, after)
    except OtherwiseMade as difference:
        return Compared(str(difference), False)
    return Compared(str(found) or "what it is made of has changed", True, found)


def _recursions(before: n.Fixpoint, after: n.Fixpoint) -> Compared:
    if before.bag or after.bag:
        return Compared("a recursion of UNION ALL does not follow a change of its own definition", False)
    if _relations(before) != _relations(after) or _held(before) != _held(after):
        return Compared("other relations take part in the recursion", False)
    gone, come = differing(before, after)
    told = [f"this rule {what}: {rule.text}" for rules, what in ((come, "came"), (gone, "went")) for rule in rules]
    return Compared("; ".join(told) or "what its rules read has changed", True)


def _relations(node: n.Fixpoint) -> dict[str, list[str]]:
    return {predicate.name: [str(a.type) for a in predicate.attributes] for predicate in node.predicates}


def _held(node: n.Fixpoint) -> dict[str, str]:
    return {name: scan.relation for name, scan in node.stored}


def told(tx: Situation) -> list[str]:
    """What becomes of the views that a transaction defines or redefines when it commits, as lines."""
    lines = []
    for relation in sorted(tx.alive(), key=lambda r: r.name):
        if isinstance(relation, MaterializedView) and relation.id in tx.created:
            lines.append(f"{relation.name} is new: it is computed from its query")
        elif isinstance(relation, MaterializedView) and relation.id in tx.defined:
            lines.append(_told(tx, relation))
        elif isinstance(relation, VirtualView) and relation.id in tx.defined:
            lines.append(f"{relation.name} stores nothing: what it shows is another from then on")
        elif isinstance(relation, VirtualView) and relation.id in tx.created:
            lines.append(f"{relation.name} is new and stores nothing")
    return lines or ["no view is defined or redefined"]


def _told(tx: Situation, relation: Derived) -> str:
    """Whether a view follows, also in what is kept for it, and the reason."""
    own = compared(tx, relation)
    if relation.id in tx.unfilled or not own.follows:
        return f"{relation.name} is refreshed in full: {own.told}"
    kept = [as_derived(tx.by_id(key)) for key in relation.definition.hidden]
    if any(part.id in tx.unfilled for part in kept):
        return f"{relation.name} is refreshed in full in part: it needs other auxiliary relations"
    reasons = [compared(tx, part).told for part in kept if part.id in tx.redefined]
    if own.redefinition is None or own.redefinition.places or not reasons:
        reasons.append(own.told)
    return f"{relation.name} is maintained incrementally: {'; '.join(dict.fromkeys(reasons))}"
