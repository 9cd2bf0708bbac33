"""What all strategies share: the task of maintaining one stored relation, and the protocol of a strategy."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Derived
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import InternalError
from viewkeeper.maintain.redefining import Compared
from viewkeeper.maintain.situation import Situation
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.plan.choice import Choice

N = TypeVar("N", bound=n.Node)

NOT_REACHED = Choice("none", "no changed row can reach it")


_Key = tuple[frozenset[str], frozenset[str]]

_changes: weakref.WeakKeyDictionary[Definition, dict[_Key, tuple[n.Node, n.Node | None]]] = weakref.WeakKeyDictionary()
"""δ of definitions, by the changed relations and those of them that only grow; each with the expression it is of."""


@dataclass(frozen=True)
class Task:
    """A stored relation, its expression, and its changed inputs. `how`: its new definition, if it was redefined."""

    tx: Situation
    relation: Derived
    node: n.Node
    changed: Collection[str]
    reader: StateReader
    how: Compared | None = None

    @cached_property
    def lowering(self) -> Lowering:
        """Turns expressions over the two states into frames."""
        return Lowering(self.tx.store.engine, self.reader)

    @property
    def stored(self) -> n.Scan:
        """The relation's own contents before the change."""
        return stored_rows(self.relation, self.node)

    def change(self) -> n.Node | None:
        """δ of the expression; for a redefined relation, δ from the former definition."""
        return self._change(lambda node: node)

    def input_change(self, kind: type[N]) -> tuple[N, n.Node | None]:
        """The node of a kind that the expression is, or a projection of, and δ of what is below that node."""

        def found(node: n.Node) -> N:
            while isinstance(node, n.Project):
                node = node.input
            if not isinstance(node, kind):
                raise InternalError(f"{self.relation.name} is not maintained by the strategy of {kind.__name__}")
            return node

        return found(self.node), self._change(lambda node: found(node).inputs[0])

    def _change(self, part: Callable[[n.Node], n.Node]) -> n.Node | None:
        """δ of a part. The changes of joins that other views share are derived once for all."""
        if self.how is not None and self.how.redefinition is not None:
            return self.how.redefinition.change(part(self.how.redefinition.node), self.changed)
        node = part(self.node)
        common = self.reader.common
        if common is None or not common.wanted:
            return self._once(node)
        return common.sharing.change(node, self.changed, common.wanted)

    def _once(self, node: n.Node) -> n.Node | None:
        """δ of a part of the definition: derived at the first such change, and kept as long as the definition."""
        changed, grown = frozenset(self.changed), frozenset(self.reader.grown(self.changed))
        known = _changes.setdefault(self.relation.definition, {})
        found = known.get((changed, grown))
        if found is None or found[0] is not node:
            found = known[changed, grown] = (node, differentiate(node, changed, grown))
        return found[1]


def stored_rows(relation: Derived, node: n.Node) -> n.Scan:
    """The contents of a stored relation before a change, under the columns of its expression."""
    return n.Scan(relation.id, relation.name, node.outputs, n.OLD, tuple(relation.schema.names))


class Strategy(Protocol):
    """How one kind of relation is maintained incrementally."""

    name: str
    passes: int
    """How often the engine groups or sorts the changed rows."""

    def maintain(self, task: Task, choice: Choice) -> Choice:
        """Adds δ of the relation to the transaction; returns the choice with notes for the report."""

    def computed(self, relation: Derived, node: Any, key: str, follows: bool) -> tuple[n.Node, ...]:
        """The expressions that are computed when one input changes, for planning; none if it cannot be reached.

        `follows`: the percentiles of its large groups have neighbors.
        """

    def again(self, relation: Derived, node: Any, key: str) -> tuple[n.Node, ...]:
        """The expressions that are computed for the groups that lose an extremum, for planning."""

    def formula(self, node: Any, key: str) -> tuple[str, list[str]]:
        """δ for one changed input as a formula, and possible reads that planning does not foresee, for EXPLAIN."""
