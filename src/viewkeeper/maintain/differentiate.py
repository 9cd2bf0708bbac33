"""Differentiation: relations whose change follows from the laws alone. No state but the relation itself.

δV = δ of its expression, by the laws in `delta`
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.printing import formula
from viewkeeper.analysis.safe_references import safe_relations
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.delta.compile import differentiate
from viewkeeper.errors import InternalError
from viewkeeper.maintain.declared_keys import stored_keys
from viewkeeper.maintain.net_changes import join_change
from viewkeeper.maintain.strategy import NOT_REACHED, Task
from viewkeeper.plan.choice import Choice
from viewkeeper.plan.strategy_names import DIFFERENTIATE

ALWAYS_CHECKED = False
"""Whether deleted rows are looked up in the stored view even where analysis shows that they exist."""

_safe: weakref.WeakKeyDictionary[Definition, frozenset[str]] = weakref.WeakKeyDictionary()


def safe_inputs(relation: Derived, node: n.Node, find: Callable[[str], Relation | None]) -> frozenset[str]:
    """The inputs whose changes are sure to be minimal: of those, deleted rows are not looked up in the stored view.

    Ceri and Widom's Theorems 5.5 to 5.7: a row of the view depends on one row of a safe reference. So it exists before
    that row is deleted, and does not exist before that row is inserted.
    """
    definition = relation.definition
    if definition not in _safe:
        _safe[definition] = safe_relations(node, stored_keys(find))
    return _safe[definition]


def _is_surely_minimal(task: Task) -> bool:
    """Whether every row that a change deletes is sure to exist, once: all changed inputs are safe references."""
    if task.relation.id in task.tx.redefined:
        return False
    return set(task.changed) <= safe_inputs(task.relation, task.node, task.tx.state.relations.get)


class Differentiate:
    """Views without auxiliary state of their own, stored or virtual."""

    name = DIFFERENTIATE
    passes = 1

    def maintain(self, task: Task, choice: Choice) -> Choice:
        """Lowers δ of the whole expression and adds it to the transaction."""
        change = task.change()
        lowered = task.lowering.lower(change) if change is not None else None
        if lowered is None or lowered.empty:
            return NOT_REACHED
        join_change(task.tx, task.relation, lowered, check=ALWAYS_CHECKED or not _is_surely_minimal(task))
        return choice

    def computed(self, relation: Derived, node: n.Node, key: str, follows: bool) -> tuple[n.Node, ...]:
        """δ of the whole expression."""
        change = differentiate(node, {key})
        return () if change is None else (change,)

    def again(self, relation: Derived, node: n.Node, key: str) -> tuple[n.Node, ...]:
        """Nothing."""
        return ()

    def formula(self, node: Any, key: str) -> tuple[str, list[str]]:
        """δ of the whole expression."""
        return formula_of(node, key), []


def formula_of(node: n.Node, key: str) -> str:
    """δ of an expression that one changed relation can reach, as a formula."""
    change = differentiate(node, {key})
    if change is None:
        raise InternalError(f"a change of {key} does not reach what was planned for it")
    return formula(change)
