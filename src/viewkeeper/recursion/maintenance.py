"""The net change of stored recursive relations: first the deleted rows, then the inserted ones.

Deleted rows are derived in the old state, by one of two methods (see epf and dred). Inserted rows are derived
semi-naively in the new state, where a relation is the stored one without the deleted rows:

    p@now = (p@old − ∇p) ∪ Δp         Δp(i+1) = ⋃ body[q := Δq(i), others @now] − p@now

Rules may have changed too: a removed rule proposes all rows it derived before, an added one all it derives now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Rule
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.serial import fingerprint
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.running import check_stopped
from viewkeeper.recursion.endless import Rounds
from viewkeeper.recursion.evaluation import Outside, outside_in
from viewkeeper.recursion.net import ADDED, REMOVED, Net, Outer, Trace
from viewkeeper.recursion.prepared import prepared
from viewkeeper.recursion.row_sets import Growing, Rows, Workspace, renamed, rest_of
from viewkeeper.recursion.steps import Joins, Step, Updated

Recursive = Callable[[Lowering, Literal], n.Node]
"""Returns the rows of a recursive literal, under its attributes."""


class Maintenance:
    """One recursion between two states; `before` and `after` are the same unless its rules have changed."""

    def __init__(self, space: Workspace, before: n.Fixpoint, after: n.Fixpoint, changed: Collection[str]) -> None:
        self.space = space
        self.before = before
        self.after = after
        self.plans = prepared(after)
        self.predicates = {predicate.name: predicate for predicate in after.predicates}
        self.outer_after = Outer(space, after.inputs, changed)
        self.outer_before = self.outer_after if before is after else Outer(space, before.inputs, changed)
        self.outside_before = outside_in(before, n.OLD)
        self.outside_after = outside_in(after, n.NEW)
        self.removed = {name: Growing(space, p.attributes) for name, p in self.predicates.items()}
        self.added = {name: Growing(space, p.attributes) for name, p in self.predicates.items()}
        self.trace = Trace()
        self._stored = dict(after.stored)
        orders = self.plans.orders
        self.in_old = Joins(space, self._source(self.outside_before, self.stored), orders=orders)
        self._in_new = Joins(space, self._source(self.outside_after, self.now), updated=self._updated, orders=orders)

    def _updated(self, literal: Literal) -> Updated | None:
        name = str(literal.source)
        return Updated(self.stored, self.removed[name], self.added[name]) if literal.is_recursive else None

    @staticmethod
    def _source(outside: Outside, recursive: Recursive) -> Recursive:
        return lambda lowering, literal: (recursive if literal.is_recursive else outside)(lowering, literal)

    def work(self, remove: Callable[[Maintenance, list[Step]], None]) -> Net:
        """The net change; `remove` is the method for deleted rows."""
        removed, added = differing(self.before, self.after)
        remove(self, self.outer_before.steps(self.before.rules, REMOVED) + [Step(rule) for rule in removed])
        self._add(self.outer_after.steps(self.after.rules, ADDED) + [Step(rule) for rule in added])
        for name in self.predicates:
            self.trace.note(self.trace.removed, name, self.removed[name].count)
            self.trace.note(self.trace.added, name, self.added[name].count)
        return Net(self.added, self.removed, self.trace)

    # rounds --------------------------------------------------------------------------------------

    def propose(self, joins: Joins, steps: Sequence[Step], name: str) -> Rows | None:
        """The rows that the rules of one relation derive in some steps; None if no step has such a rule."""
        mine = [step for step in steps if step.rule.head == name]
        if not mine:
            return None
        found = joins.derive(self.predicates[name], mine)
        self.trace.note(self.trace.proposed, name, found.count)
        return found

    def following(self, rules: Sequence[Rule], changes: dict[str, Rows]) -> list[Step]:
        """The next steps: one for each occurrence of a changed recursive relation in the rules."""
        check_stopped()
        self.trace.rounds += 1
        return [
            Step(rule, place, changes[literal.source])
            for rule in rules
            for place, literal in enumerate(rule.body)
            if isinstance(literal.source, str) and literal.source in changes
        ]

    # states --------------------------------------------------------------------------------------

    def stored(self, lowering: Lowering, literal: Literal) -> n.Node:
        """A recursive relation in the old state."""
        return self.as_stored(str(literal.source), literal.attributes)

    def as_stored(self, name: str, attributes: Sequence[Attribute]) -> n.Node:
        """A recursive relation in the old state, under some attributes."""
        return renamed(self._stored[name], attributes)

    def less(self, lowering: Lowering, literal: Literal, removed: Growing) -> n.Node:
        """A recursive relation in the old state, without some rows."""
        stored = self.stored(lowering, literal)
        if not removed.count:
            return stored
        return rest_of(stored, lambda others: removed.node(lowering, others))

    def now(self, lowering: Lowering, literal: Literal) -> n.Node:
        """A recursive relation in the new state, as far as it is known."""
        name = str(literal.source)
        remaining = self.less(lowering, literal, self.removed[name])
        if not self.added[name].count:
            return remaining
        return n.Union((remaining, self.added[name].node(lowering, literal.attributes)), literal.attributes)

    # inserted rows -------------------------------------------------------------------------------

    def _add(self, steps: list[Step]) -> None:
        rounds = Rounds(self.plans.growth, self.space.engine.limits)
        while steps:
            gained: dict[str, Rows] = {}
            for name, predicate in self.predicates.items():
                found = self.propose(self._in_new, steps, name)
                if found is None or not found.count:
                    continue
                fresh = self._not_there(name, predicate.attributes, self.added[name].new_among(found))
                if fresh.count:
                    gained[name] = fresh
            rounds.begin((name, rows.on_driver) for name, rows in gained.items())
            for name, rows in gained.items():
                self.added[name].add(rows)
            rounds.check_rows(sum(added.count for added in self.added.values()))
            steps = self.following(self.after.rules, gained)

    def _not_there(self, name: str, attributes: tuple[Attribute, ...], rows: Rows) -> Rows:
        """Those of some rows that the relation does not have now; deleted ones are found without a read."""
        removed = self.removed[name].index
        if removed is None or not rows.is_local:
            literal = Literal(name, attributes)
            return self.space.less(rows, lambda lowering: self.now(lowering, literal))
        others = rows.chosen([row not in removed for row in rows.tuples])
        others = self.space.less(others, lambda _: self.as_stored(name, attributes))
        left = set(others.tuples)
        return rows.chosen([row in removed or row in left for row in rows.tuples])


def differing(before: n.Fixpoint, after: n.Fixpoint) -> tuple[list[Rule], list[Rule]]:
    """The rules that only one of two recursions has."""
    if before is after:
        return [], []
    old, new = ({_form(node, rule): rule for rule in node.rules} for node in (before, after))
    return [old[form] for form in old if form not in new], [new[form] for form in new if form not in old]


def _form(node: n.Fixpoint, rule: Rule) -> str:
    """A rule and its inputs as a text that is equal for equal rules."""
    numbers = [literal.source for literal in rule.body if isinstance(literal.source, int)]
    places = {number: place for place, number in enumerate(numbers)}
    body = tuple(
        replace(literal, source=places[literal.source]) if isinstance(literal.source, int) else literal
        for literal in rule.body
    )
    apart = Numbers(n.highest(node) + 1)
    inputs = tuple(n.fresh(node.inputs[i], apart)[0] for i in numbers)
    return fingerprint(n.Fixpoint(inputs, (), (replace(rule, body=body),), rule.head, ()))
