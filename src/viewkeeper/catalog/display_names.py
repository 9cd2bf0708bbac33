"""Names for people. A hidden relation has no name of its own: it is called after the view or rule that needs it."""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.algebra.printing import contents
from viewkeeper.catalog.active_rules import ActiveRule
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation, as_derived
from viewkeeper.catalog.state import State


def needed_by(relations: Iterable[Relation], relation: Relation) -> list[Derived]:
    """The views that need an auxiliary relation, by name."""
    users = (user for user in relations if isinstance(user, Derived) and not isinstance(user, Auxiliary))
    return sorted((user for user in users if relation.id in user.definition.hidden), key=lambda user: user.name)


def display_name(relations: Iterable[Relation], relation: Relation) -> str:
    """The name of a table or view; of an auxiliary relation, 'auxiliary 1 of v (counts per region)'."""
    if not isinstance(relation, Auxiliary):
        return relation.name
    for owner in relations:
        if isinstance(owner, Derived) and relation.id in owner.definition.beside:
            kind = "runners-up" if relation.id == owner.definition.runners_up else "neighbors"
            return f"{kind} of {display_name(relations, owner)}"
    users = needed_by(relations, relation)
    place = f"{numbered(users[0])[relation.id]} of {users[0].name}" if users else "auxiliary relation"
    return f"{place} ({contents(relation.definition.maintained)})"


def serving_rules(rules: Iterable[ActiveRule]) -> dict[str, str]:
    """What the hidden relations that serve rules are called, by id: 'activations of the rule r'."""
    found: dict[str, str] = {}
    for rule in rules:
        found[rule.relation] = f"query of the rule {rule.name}"
        if rule.watched != rule.relation:
            found[rule.watched] = f"distinct rows of the rule {rule.name}"
        if rule.activations is not None:
            found[rule.activations] = f"activations of the rule {rule.name}"
    return found


def numbered(view: Derived) -> dict[str, str]:
    """The auxiliary relations of one view, by id: 'auxiliary 1', 'auxiliary 2' ..."""
    return {key: f"auxiliary {number}" for number, key in enumerate(dict.fromkeys(view.definition.hidden), start=1)}


def auxiliaries(state: State, view: Derived) -> list[str]:
    """The auxiliary relations of one view, each with what it holds: 'auxiliary 1 (counts per region)'."""
    return [
        f"{name} ({contents(as_derived(state.relations[key]).definition.maintained)})"
        for key, name in numbered(view).items()
    ]
