"""Recursive relations inside a transaction: their rows in a state, and their changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.lowered import Binding, Lowered, Reader, distinct_rows
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.divergence import explained
from viewkeeper.maintain.once import OnceEach
from viewkeeper.recursion import dred, epf
from viewkeeper.recursion.bag import change_bag, evaluate_bag
from viewkeeper.recursion.evaluation import evaluate, outside_of
from viewkeeper.recursion.magic import Magic
from viewkeeper.recursion.maintenance import Maintenance
from viewkeeper.recursion.net import Net
from viewkeeper.recursion.prepared import prepared
from viewkeeper.recursion.rod import Rederivation
from viewkeeper.recursion.row_sets import Growing, TooDear, Workspace, renamed

STRATEGIES = {"epf": epf.remove, "dred": dred.remove}
"""The algorithms that derive deleted rows."""


@dataclass(frozen=True)
class Strategy:
    """The algorithm that derives deleted rows, and the reason for it."""

    name: str
    reason: str


def strategy_for(node: n.Fixpoint, size: Callable[[n.Scan], int], tuning: Tuning) -> Strategy:
    """EPF (filter each step), if that takes bound queries only; else DRed (over-delete and rederive)."""
    found = prepared(node).questions(size, tuning.any_column_rows)
    if found[0].unbound:
        return Strategy("dred", f"whether a row can still be derived would take all of {', '.join(found[0].unbound)}")
    adorned = "; if that leads too far: ".join(", ".join(each.adornments) for each in found)
    return Strategy("epf", f"whether a row can still be derived is asked with bindings: {adorned}")


def _same(node: n.Fixpoint) -> tuple[object, ...]:
    """A key that is equal for all relations of a recursion, in the same states."""
    plans = prepared(node)
    return (plans, node.inputs if node.inputs != plans.common.inputs else ())


class _Asked:
    """Questions about a recursion in one state; one thread asks at a time."""

    def __init__(self, space: Workspace, node: n.Fixpoint) -> None:
        self.magic = Magic(space, node.predicates, node.rules, outside_of(node))
        self.lock = threading.Lock()


@dataclass
class Recursions:
    """Results of recursions, derived once for all relations of the same recursion."""

    once: OnceEach

    def rows(self, engine: Engine, reader: Reader, node: n.Fixpoint, binding: Binding | None) -> Lowered:
        """The rows of the relation that a recursion shows: all, or at least those that a binding asks for."""
        with explained(node):
            return self._rows(engine, reader, node, binding)

    def _rows(self, engine: Engine, reader: Reader, node: n.Fixpoint, binding: Binding | None) -> Lowered:
        space = Workspace(engine, reader)
        if node.bag:
            rounds = self.once.get(("bag", _same(node)), lambda: evaluate_bag(space, node))
            return _together(engine, reader, rounds, node.outputs, weighted=False)
        if binding is not None and all(a.type.arrow == binding.table[a.label].type for a in binding.columns):
            return self._bound(space, node, binding)
        known = self.once.get(("set", _same(node)), lambda: evaluate(space, node))
        return _lowered(engine, reader, known[node.shown], node.outputs)

    def _bound(self, space: Workspace, node: n.Fixpoint, binding: Binding) -> Lowered:
        """The rows that a binding asks for, derived by magic sets from only what they depend on."""
        asked = self.once.get(("asked", _same(node)), lambda: _Asked(space, node))
        with asked.lock:
            bound = tuple(i for i, a in enumerate(node.outputs) if a in binding.columns)
            predicate = asked.magic.predicates[node.shown]
            columns = tuple(predicate.attributes[i] for i in bound)
            labels = [node.outputs[i].label for i in bound]
            calls = distinct_rows(binding.table.select(labels)).rename_columns([a.label for a in columns])
            names = asked.magic.ask(node.shown, bound, asked.magic.space.on_driver(calls, columns))
            lowering = Lowering(space.engine, space.reader)
            if not names:
                return lowering.nothing(node.outputs)
            return lowering.lower(asked.magic.answers(lowering, names, node.outputs))

    def rederived(self, engine: Engine, reader: Reader, node: n.Rederived) -> Net:
        """The net change of all relations of a recursion that is not stored."""

        def work() -> Net:
            return Rederivation(Workspace(engine, reader), node.recursion).work(node.changed)

        with explained(node.recursion):
            return self.once.get(("rederived", _same(node.recursion)), work)

    def change(
        self,
        engine: Engine,
        reader: Reader,
        before: n.Fixpoint,
        after: n.Fixpoint,
        changed: Collection[str],
        limit: float | None,
    ) -> tuple[Net, Strategy] | str:
        """The net change of all relations of a stored recursion, and how it was derived.

        A text instead if that cost more than the limit and was given up: it says after which cost.
        """

        def work() -> tuple[Net, Strategy] | str:
            how = strategy_for(after, reader.size, engine.tuning)
            space = Workspace(engine, reader, limit)
            try:
                return Maintenance(space, before, after, changed).work(STRATEGIES[how.name]), how
            except TooDear as cost:
                return f"incremental refresh by {how.name} was given up after {cost}"

        with explained(after):
            return self.once.get(("change", _same(before), _same(after)), work)


def bag_change(engine: Engine, reader: Reader, node: n.Fixpoint, stored: n.Node, changed: Collection[str]) -> Lowered:
    """The change of a stored recursive bag."""
    with explained(node):
        parts = change_bag(Workspace(engine, reader), node, stored, changed)
    return _together(engine, reader, parts, node.outputs, weighted=True)


def _lowered(engine: Engine, reader: Reader, grown: Growing, outputs: tuple[Attribute, ...]) -> Lowered:
    lowering = Lowering(engine, reader)
    return lowering.lower(grown.node(lowering, outputs))


def _together(
    engine: Engine, reader: Reader, parts: list[Lowered], outputs: tuple[Attribute, ...], *, weighted: bool
) -> Lowered:
    lowering = Lowering(engine, reader)
    if not parts:
        return lowering.nothing(outputs, weighted=weighted)
    few = [part.rows for part in parts if part.rows is not None]
    parts = [part for part in parts if part.rows is None]
    if few:
        names = [a.label for a in outputs] + ([WEIGHT] if weighted else [])
        together = pa.concat_tables([rows.rename_columns(names) for rows in few])
        parts.append(reader.local(together, outputs, weighted=weighted))
    given: list[n.Node] = [lowering.given(part) for part in parts]
    if len(given) == 1:
        return lowering.lower(renamed(given[0], outputs))
    return lowering.lower(n.Union(tuple(given), outputs))


def signed(engine: Engine, reader: Reader, net: Net, name: str, outputs: tuple[Attribute, ...]) -> Lowered:
    """The net change of one relation of a recursion, with weights."""
    lowering = Lowering(engine, reader)
    added, removed = net.added[name], net.removed[name]
    parts: list[n.Node] = []
    if added.count:
        parts.append(n.Negate(n.Negate(added.node(lowering, outputs))))
    if removed.count:
        parts.append(n.Negate(removed.node(lowering, outputs)))
    if not parts:
        return lowering.nothing(outputs, weighted=True)
    return lowering.lower(parts[0] if len(parts) == 1 else n.Union(tuple(parts), outputs))
