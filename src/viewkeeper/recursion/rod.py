"""The change of a recursion that is not stored (Staudt & Jarke's re-derivation on demand).

The rules are rewritten to derive deleted, re-derived and inserted rows. Of p :- r1, .., rn:

    (D)  p_del  :- r1, .., ri_del, .., rn
    (N)  p_new  :- p, !p_del.    p_new :- p_red.    p_new :- p_ins.
    (R)  p_red  :- p_del, r1_new, .., rn_new
    (I)  p_ins  :- r1_new, .., ri_ins, .., rn_new
    (E1) p_plus :- p_ins, !p
    (E2) p_minus :- p_del, !p_ins, !p_red

p itself is derived only on demand: recursive literals are calls, answered from the tables in the old state (see magic).
Negated literals must be complete before they are read: so first D runs to its end, then N, R and I, then E.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.bodies import made_equal
from viewkeeper.recursion.evaluation import outside_in
from viewkeeper.recursion.magic import Magic
from viewkeeper.recursion.net import ADDED, REMOVED, Net, Outer, Trace
from viewkeeper.recursion.row_sets import Growing, Workspace


class Rederivation:
    """One recursion between two states, nothing of it stored."""

    def __init__(self, space: Workspace, node: n.Fixpoint) -> None:
        self.space = space
        self.node = node
        self.predicates = {predicate.name: predicate for predicate in node.predicates}
        self._old, self._new = outside_in(node, n.OLD), outside_in(node, n.NEW)
        self.magic = Magic(space, node.predicates, node.rules, self._outside)
        self.evaluation = self.magic.evaluation
        for name, predicate in self.predicates.items():
            for kind in ("del", "red", "ins"):
                self.evaluation.declare(Predicate(f"{kind}:{name}", predicate.attributes))

    def _outside(self, lowering: Lowering, literal: Literal) -> n.Node:
        if isinstance(literal.source, int):
            return self._old(lowering, literal)
        return self._new(lowering, replace(literal, source=int(literal.source.removeprefix("new:"))))

    def work(self, changed: Collection[str]) -> Net:
        """The net change of every relation of the recursion."""
        outer = Outer(self.space, self.node.inputs, changed)
        for (number, sign), rows in outer.changes.items():
            name = _changed(number, sign)
            self.evaluation.declare(Predicate(name, rows.attributes))
            self.evaluation.add(name, rows)
        self.deletions(outer.changes)
        self.evaluation.run()
        self.insertions(outer.changes)
        self.evaluation.run()
        return self._net()

    # rewriting -----------------------------------------------------------------------------------

    def deletions(self, changes: Collection[tuple[int, int]]) -> None:
        """(D) of every rule, for the literals that can lose rows."""
        for rule in self.node.rules:
            for place, guard in _guards(rule, "del", REMOVED, changes):
                self.magic.attach(f"del:{rule.head}", rule, guard, skipped=place)

    def insertions(self, changes: Collection[tuple[int, int]]) -> None:
        """(R) and (I) of every rule, with each recursive literal as its remaining, re-derived or inserted rows."""
        for rule in self.node.rules:
            given = tuple(self.magic.numbers.like(a) for a in self.predicates[rule.head].attributes)
            equalities, conditions = made_equal(zip(given, rule.columns, strict=True))
            guard = Literal(f"del:{rule.head}", given)
            for chosen in _new_states(rule, None):
                self.magic.attach(f"red:{rule.head}", rule, guard, equalities, conditions, given=chosen, kept=True)
            for place, inserted in _guards(rule, "ins", ADDED, changes):
                for chosen in _new_states(rule, place):
                    self.magic.attach(f"ins:{rule.head}", rule, inserted, skipped=place, given=chosen, kept=True)

    # the result ----------------------------------------------------------------------------------

    def _net(self) -> Net:
        trace = Trace()
        added: dict[str, Growing] = {}
        removed: dict[str, Growing] = {}
        for name, predicate in self.predicates.items():
            deleted, again, inserted = (self.evaluation.known[f"{kind}:{name}"] for kind in ("del", "red", "ins"))
            added[name] = Growing(self.space, predicate.attributes)
            removed[name] = Growing(self.space, predicate.attributes)
            for rows in inserted.parts():
                parts = self.magic.parted(name, rows)
                assert parts is not None, "it is not given up without a limit"
                added[name].add(parts[1])
            for rows in deleted.parts():
                removed[name].add(again.new_among(inserted.new_among(rows)))
            trace.note(trace.proposed, name, deleted.count + inserted.count)
            trace.note(trace.filtered, name, deleted.count)
            trace.note(trace.added, name, added[name].count)
            trace.note(trace.removed, name, removed[name].count)
        trace.rounds = self.evaluation.rounds
        trace.unbound = len(self.magic.unbound)
        trace.adornments = self.magic.adornments
        return Net(added, removed, trace)


def _changed(number: int, sign: int) -> str:
    return f"{'ins' if sign == ADDED else 'del'}:#{number}"


def _guards(rule: Rule, kind: str, sign: int, changes: Collection[tuple[int, int]]) -> Iterator[tuple[int, Literal]]:
    """The literals of a rule that can gain rows (or lose them, by `sign`), each as the literal of its change."""
    for place, literal in enumerate(rule.body):
        if isinstance(literal.source, str):
            yield place, replace(literal, source=f"{kind}:{literal.source}")
        else:
            change = (literal.source, -sign if literal.negated else sign)
            if change in changes:
                yield place, replace(literal, source=_changed(*change), negated=False)


def _new_states(rule: Rule, skipped: int | None) -> Iterator[dict[int, str]]:
    """All combinations of relations that make up the new state of a rule's literals, by position.

    A recursive literal without an entry stands for its remaining rows.
    """
    fixed = {
        i: f"new:{literal.source}"
        for i, literal in enumerate(rule.body)
        if isinstance(literal.source, int) and i != skipped
    }
    recursive = [i for i, literal in enumerate(rule.body) if literal.is_recursive and i != skipped]
    for chosen in itertools.product(("kept", "red", "ins"), repeat=len(recursive)):
        pairs = zip(recursive, chosen, strict=True)
        yield fixed | {i: f"{kind}:{rule.body[i].source}" for i, kind in pairs if kind != "kept"}
