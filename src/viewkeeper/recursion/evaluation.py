"""Semi-naive evaluation of rules to their fixpoint: every round reads only the rows that the last one added.

Δp(i+1) = ⋃ over rules and recursive literals q of  body[q := Δq(i), others := all so far]  −  p so far
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.endless import Growth, Rounds, growth_of
from viewkeeper.recursion.row_sets import Growing, Rows, Workspace, renamed
from viewkeeper.recursion.steps import Joins, Orders, Step

Outside = Callable[[Lowering, Literal], n.Node]
"""Returns the rows of a literal outside of the recursion, under its attributes."""


class Evaluation:
    """Relations that grow until the rules add no row. More rows can be added later, and it continues from them."""

    def __init__(self, space: Workspace, outside: Outside, orders: Orders | None = None) -> None:
        """`orders` has the join orders that are known of rules, and takes new ones."""
        self.space = space
        self.outside = outside
        self.known: dict[str, Growing] = {}
        self.rounds = 0
        self._predicates: dict[str, Predicate] = {}
        self._rules: dict[str, list[Rule]] = {}
        self._waiting: dict[str, list[Rows]] = {}
        self._new_rules: list[Rule] = []
        self._growth: Growth | None = None
        self._joins = Joins(space, self._source, self._grown, orders=orders)

    def declare(self, predicate: Predicate) -> None:
        """Creates an empty relation."""
        self._predicates[predicate.name] = predicate
        self.known[predicate.name] = Growing(self.space, predicate.attributes)
        self._rules[predicate.name] = []

    def define(self, rules: Iterable[Rule]) -> None:
        """Adds rules; the next run applies them to all rows."""
        for rule in rules:
            self._rules[rule.head].append(rule)
            self._new_rules.append(rule)
            self._growth = None

    def rules(self) -> list[Rule]:
        """All rules, relation by relation."""
        return [rule for rules in self._rules.values() for rule in rules]

    def add(self, name: str, rows: Rows) -> Rows:
        """Adds rows to a relation; returns the new ones."""
        fresh = self.known[name].new_among(rows)
        if fresh.count:
            self.known[name].add(fresh)
            self._waiting.setdefault(name, []).append(fresh)
        return fresh

    @property
    def count(self) -> int:
        """How many rows all relations have by now."""
        return sum(known.count for known in self.known.values())

    @property
    def growth(self) -> Growth:
        """Which columns grow by the rules so far."""
        if self._growth is None:
            self._growth = growth_of(self._predicates.values(), self.rules())
        return self._growth

    @growth.setter
    def growth(self, known: Growth) -> None:
        self._growth = known

    @property
    def goes_on(self) -> bool:
        """Whether there is more to derive."""
        return bool(self._waiting or self._new_rules)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Applies the rules until no row is added, or `until` holds; then it can be continued."""
        if not self.goes_on:
            return
        rounds = Rounds(self.growth, self.space.engine.limits)
        while self.goes_on and not until():
            self.rounds += 1
            added, self._waiting = self._waiting, {}
            rounds.begin((name, part.on_driver) for name, parts in added.items() for part in parts)
            fresh, self._new_rules = self._new_rules, []
            for name in self._predicates:
                self._round(name, added, [rule for rule in fresh if rule.head == name])
            rounds.check_rows(self.count)

    def _round(self, name: str, added: dict[str, list[Rows]], fresh: Sequence[Rule]) -> None:
        """Adds to one relation what follows from the rows added last, and from new rules."""
        steps = [
            Step(rule, place, rows)
            for rule in self._rules[name]
            if rule not in fresh
            for place, literal in enumerate(rule.body)
            if not literal.negated
            for rows in added.get(str(literal.source), ())
        ]
        steps += [Step(rule) for rule in fresh if all(self.known[name].count for name in self._recursive(rule))]
        if steps:
            self.add(name, self._joins.derive(self._predicates[name], steps))

    def _grown(self, literal: Literal) -> Growing | None:
        return self.known.get(str(literal.source))

    def _source(self, lowering: Lowering, literal: Literal) -> n.Node:
        known = self._grown(literal)
        return known.node(lowering, literal.attributes) if known is not None else self.outside(lowering, literal)

    def _recursive(self, rule: Rule) -> list[str]:
        return [str(literal.source) for literal in rule.body if literal.source in self.known and not literal.negated]


def outside_of(node: n.Fixpoint) -> Outside:
    """The expressions outside of a recursion, in their own states."""

    def source(lowering: Lowering, literal: Literal) -> n.Node:
        assert isinstance(literal.source, int)
        return renamed(node.inputs[literal.source], literal.attributes)

    return source


def outside_in(node: n.Fixpoint, state: str) -> Outside:
    """The expressions outside of a recursion in one state of the database."""
    there = n.at(node, state)
    assert isinstance(there, n.Fixpoint)
    return outside_of(there)


def evaluate(space: Workspace, node: n.Fixpoint, orders: Orders | None = None) -> dict[str, Growing]:
    """All relations of a recursion, computed from its inputs in their own states."""
    evaluation = Evaluation(space, outside_of(node), orders)
    for predicate in node.predicates:
        evaluation.declare(predicate)
    evaluation.define(node.rules)
    evaluation.run()
    return evaluation.known
