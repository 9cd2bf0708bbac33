"""Bound queries on recursive relations, answered from what is outside of the recursion, and remembered (magic sets).

A call is a relation with values for some of its columns: which of them is its adornment, b for bound and f for free.
For every adornment that is asked for, the rules are rewritten once:

    p^bf(..) :- m:p^bf(x), body                 only what is called for is derived
    m:q^bf(y) :- m:p^bf(x), literals before q   and what that calls for in turn

Calls and answers stay for as long as the state they are true in. So a call that was made, or that a finished one with
fewer bound columns covers, costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Equality, Expression, Numbers, column
from viewkeeper.algebra.rows import filter_rows, row_tuples
from viewkeeper.algebra.rules import Literal, Predicate, Rule
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.bodies import made_equal
from viewkeeper.recursion.evaluation import Evaluation, Outside
from viewkeeper.recursion.rows import Rows, Workspace, all_equal

Bound = tuple[int, ...]
"""The bound columns of a call, by position."""


def adorned(name: str, bound: Bound, width: int) -> str:
    """A relation's name with its adornment."""
    return name + "^" + "".join("b" if i in bound else "f" for i in range(width))


@dataclass
class Calls:
    """What was asked so far, for the tests and for EXPLAIN."""

    asked: int = 0
    covered: int = 0
    unbound: int = 0
    adornments: list[str] = field(default_factory=list)


class Magic:
    """Answers bound queries in one state."""

    def __init__(
        self,
        space: Workspace,
        predicates: Sequence[Predicate],
        rules: Sequence[Rule],
        outside: Outside,
    ) -> None:
        self.space = space
        self.predicates = {predicate.name: predicate for predicate in predicates}
        self.rules = rules
        self.calls = Calls()
        self.evaluation = Evaluation(space, outside)
        self._made: set[tuple[str, Bound]] = set()
        self._numbers = Numbers(2_000_000)
        self._supplements = 0
        self._instead: dict[tuple[str, Bound], Bound] = {}

    def prepare(self, name: str) -> None:
        """Writes the rules for tests of whole rows of a relation, and of all that these lead to; nothing is run."""
        self._make(name, tuple(range(len(self.predicates[name].attributes))))

    def ask(self, name: str, bound: Bound, calls: Rows, until: Callable[[], bool] = lambda: False) -> list[str]:
        """Makes all answers to some calls known, or enough of them; the relations that have them.

        The columns of `calls` are the bound ones, in order.
        """
        predicate = self.predicates[name]
        width = len(predicate.attributes)
        self.calls.asked += calls.count
        found: list[str] = []
        for fewer in [b for n_, b in sorted(self._made) if n_ == name and set(b) < set(bound)]:
            left = self._not_covered(name, fewer, bound, calls)
            if left.count < calls.count:
                found.append(adorned(name, fewer, width))
                self.calls.covered += calls.count - left.count
                calls = left
        if calls.count:
            self._make(name, bound)
            if bound:
                self.evaluation.add(_magic(name, bound, width), calls)
            found.append(adorned(name, bound, width))
        self.evaluation.run(until)
        return found

    def answers(self, lowering: Lowering, names: Sequence[str], attributes: Sequence[Attribute]) -> n.Node:
        """The rows of relations that `ask` named, inside a query."""
        parts = [self.evaluation.known[name].node(lowering, attributes) for name in names]
        return parts[0] if len(parts) == 1 else n.Union(tuple(parts), tuple(attributes))

    def holds(self, name: str, rows: Rows) -> set[tuple[Any, ...]] | Rows:
        """Which of some rows can be derived: as tuples where they are on the driver.

        The search ends as soon as all of them are found.
        """
        self.prepare(name)
        bound: Bound = tuple(range(len(self.predicates[name].attributes)))
        while (name, bound) in self._instead:
            bound = self._instead[name, bound]
        left = set(row_tuples(rows.table)) if rows.table is not None else set()
        known = self.evaluation.known

        def all_found() -> bool:
            for own, grown in known.items():
                if own.startswith(f"{name}^") and grown.index:
                    left.difference_update(grown.index)
            return rows.table is not None and not left

        names = self.ask(name, bound, self._columns(rows, bound), all_found)
        indexes = [known[one].index for one in names]
        if rows.table is not None and all(index is not None for index in indexes):
            all_found()
            return {row for row in row_tuples(rows.table) if row not in left}
        return self.space.among(rows, lambda lowering: self.answers(lowering, names, rows.attributes))

    def parted(self, name: str, rows: Rows) -> tuple[Rows, Rows]:
        """Rows that can be derived, and those that cannot."""
        holds = self.holds(name, rows)
        if isinstance(holds, Rows):
            return holds, self.space.less(rows, lambda lowering: holds.node(lowering, rows.attributes))
        assert rows.table is not None
        flags = [row in holds for row in row_tuples(rows.table)]
        kept, lost = (filter_rows(rows.table, [flag is wanted for flag in flags]) for wanted in (True, False))
        return self.space.on_driver(kept, rows.attributes), self.space.on_driver(lost, rows.attributes)

    def _columns(self, rows: Rows, bound: Bound) -> Rows:
        """The different values of some columns."""
        if len(bound) == len(rows.attributes):
            return rows
        columns = tuple(rows.attributes[i] for i in bound)
        pairs = tuple((a, column(a)) for a in columns)
        return self.space.run(lambda lowering: n.Project(lowering.given(rows.lowered), pairs))

    def _not_covered(self, name: str, fewer: Bound, bound: Bound, calls: Rows) -> Rows:
        """The calls that no finished call with fewer bound columns covers."""
        if not fewer:
            return self.space.on_driver(calls.table.slice(0, 0), calls.attributes) if calls.table is not None else calls
        done = self.evaluation.known[_magic(name, fewer, len(self.predicates[name].attributes))].index
        if done is None or calls.table is None:
            return calls
        places = [bound.index(position) for position in fewer]
        kept = [tuple(row[i] for i in places) not in done for row in row_tuples(calls.table)]
        return self.space.on_driver(filter_rows(calls.table, kept), calls.attributes)

    # rewriting -----------------------------------------------------------------------------------

    def _make(self, name: str, bound: Bound) -> None:
        """The rules of an adornment, and of all that it leads to."""
        if (name, bound) in self._made:
            return
        self._made.add((name, bound))
        self._declare(name, bound)
        for rule in self.rules:
            if rule.head == name:
                self._rewrite(rule, bound)

    def _declare(self, name: str, bound: Bound) -> None:
        predicate = self.predicates[name]
        width = len(predicate.attributes)
        self.calls.adornments.append(adorned(name, bound, width))
        self.calls.unbound += not bound
        self.evaluation.declare(replace(predicate, name=adorned(name, bound, width)))
        if bound:
            columns = tuple(predicate.attributes[i] for i in bound)
            self.evaluation.declare(Predicate(_magic(name, bound, width), columns))

    def _rewrite(self, rule: Rule, bound: Bound) -> None:
        """The rules for one rule and adornment."""
        guard, equalities, conditions = self._guard(rule, bound)
        self.attach(adorned(rule.head, bound, len(rule.columns)), rule, guard, equalities, conditions)

    def attach(
        self,
        head: str,
        rule: Rule,
        guard: Literal | None,
        equalities: Sequence[Equality] = (),
        conditions: Sequence[Expression] = (),
        skipped: int | None = None,
        given: Mapping[int, str] = MappingProxyType({}),
        *,
        kept: bool = False,
    ) -> None:
        """Adds a rule whose body stands behind a guard, recursive literals turned to calls and their answers.

        `skipped` is the literal that the guard stands for. `given` are literals, by place, that are read from another
        relation instead. `kept`: of the answers to calls, those that are not deleted.
        """
        part = _Body((*rule.equalities, *equalities), [*rule.conditions, *conditions], [guard] if guard else [])
        waiting = {i: literal for i, literal in enumerate(rule.body) if not literal.negated and i != skipped}
        negated = [
            replace(literal, source=given.get(i, literal.source))
            for i, literal in enumerate(rule.body)
            if literal.negated and i != skipped
        ]
        for place in self._ordered(waiting, part, given):
            literal = waiting.pop(place)
            if place in given:
                literal = replace(literal, source=given[place])
            elif isinstance(literal.source, str):
                if len(part.before) > 1:
                    self._supplementary(part, rule, [literal, *waiting.values(), *negated])
                inner = tuple(i for i, a in enumerate(literal.attributes) if a in part.reached())
                self._make(literal.source, inner)
                if inner:
                    self._call(rule, literal, inner, part)
                name = adorned(literal.source, inner, len(literal.attributes))
                literal = replace(literal, source=self._kept(literal.source, name) if kept else name)
            part.before.append(literal)
        body = (*part.before, *negated)
        whole = replace(rule, head=head, body=body, equalities=part.equalities, conditions=tuple(part.conditions))
        self.evaluation.define([whole])

    def _supplementary(self, part: _Body, rule: Rule, later: Sequence[Literal]) -> None:
        """Puts what stands before a call into a relation of its own, with the columns that are needed later."""
        there = part.attributes()
        outside = {a for literal in later for a in literal.attributes}
        used = {a for e in (*rule.columns, *(value for _, value in rule.computed)) for a in e.attributes}
        used |= {a for e in part.equalities for a in (e.left, e.right) if {e.left, e.right} - there}
        done = [c for c in part.conditions if not c.raises and set(c.attributes) <= there]
        part.conditions = [c for c in part.conditions if c not in done]
        used |= {a for c in part.conditions for a in c.attributes}
        columns = tuple(a for a in dict.fromkeys(a for literal in part.before for a in literal.attributes) if a in used)
        self._supplements += 1
        name = f"sup:{self._supplements}"
        self.evaluation.declare(Predicate(name, columns))
        among = tuple(e for e in part.equalities if e.left in there and e.right in there)
        values = tuple(column(a) for a in columns)
        self.evaluation.define([Rule(name, values, tuple(part.before), among, tuple(done), text=rule.text)])
        part.equalities = tuple(e for e in part.equalities if e not in among)
        part.before = [Literal(name, columns)]
        assert not outside & set(columns)

    def _kept(self, name: str, answers: str) -> str:
        """The answers to calls that are still true after what is deleted: kept(x) :- p(x), !del(x)."""
        kept = f"kept:{answers}"
        if kept not in self.evaluation.known:
            predicate = self.predicates[name]
            self.evaluation.declare(Predicate(kept, predicate.attributes))
            one, other = (tuple(self._numbers.like(a) for a in predicate.attributes) for _ in range(2))
            literals = (Literal(answers, one), Literal(f"del:{name}", other, negated=True))
            columns = tuple(column(a) for a in one)
            self.evaluation.define([Rule(kept, columns, literals, all_equal(one, other))])
        return kept

    def _guard(self, rule: Rule, bound: Bound) -> tuple[Literal | None, list[Equality], list[Expression]]:
        """The literal of the calls, and what makes the head's bound columns equal to it."""
        predicate = self.predicates[rule.head]
        if not bound:
            return None, [], []
        called = tuple(self._numbers.like(predicate.attributes[i]) for i in bound)
        equalities, conditions = made_equal(zip(called, (rule.columns[i] for i in bound), strict=True))
        return Literal(_magic(rule.head, bound, len(rule.columns)), called), equalities, conditions

    def _ordered(self, waiting: Mapping[int, Literal], part: _Body, given: Mapping[int, str]) -> list[int]:
        """The literals in an order that passes bindings on: by key, then recursive ones, then the rest."""
        left = list(waiting)
        known = part.reached()
        order: list[int] = []
        while left:
            best = min(left, key=lambda place: (self._rank(waiting[place], known, place in given), place))
            left.remove(best)
            order.append(best)
            known = _reached(part.equalities, known | set(waiting[best].attributes))
        return order

    def _rank(self, literal: Literal, known: set[Attribute], is_given: bool) -> int:
        bound = [i for i, a in enumerate(literal.attributes) if a in known]
        if isinstance(literal.source, str) and not is_given:
            return 1 if bound else 4
        if not bound:
            return 3
        return 0 if bound[0] == 0 else 2  # tables are sorted by their first columns

    def _call(self, rule: Rule, literal: Literal, inner: Bound, part: _Body) -> None:
        """m:q(..) :- what stands before q. Nothing if it would only call what is called already."""
        assert isinstance(literal.source, str)
        there = part.attributes()
        values = [_equal_to(literal.attributes[i], part.equalities, there) for i in inner]
        name = _magic(literal.source, inner, len(literal.attributes))
        if len(part.before) == 1 and part.before[0].source == name and part.before[0].attributes == tuple(values):
            return
        every = tuple(range(len(rule.columns)))
        whole = _magic(rule.head, every, len(every))
        if literal.source == rule.head and [one.source for one in part.before] == [whole]:
            passed = [rule.columns[i].attribute for i in inner]
            if [a in _reached(part.equalities, {v}) for a, v in zip(passed, values, strict=True)] == [True] * len(
                inner
            ):
                self._instead[rule.head, every] = inner  # the same call with fewer columns is made anyway
        among = tuple(e for e in part.equalities if e.left in there and e.right in there)
        tests = tuple(c for c in part.conditions if not c.raises and set(c.attributes) <= there)
        columns = tuple(column(value) for value in values)
        self.evaluation.define([Rule(name, columns, tuple(part.before), among, tests, text=rule.text)])


@dataclass
class _Body:
    """A body as far as it is rewritten: the literals before the next, and what has to hold between all of them."""

    equalities: tuple[Equality, ...]
    conditions: list[Expression]
    before: list[Literal]

    def attributes(self) -> set[Attribute]:
        """The attributes of the literals so far."""
        return {a for literal in self.before for a in literal.attributes}

    def reached(self) -> set[Attribute]:
        """All attributes whose values are known by then."""
        return _reached(self.equalities, self.attributes())


def _magic(name: str, bound: Bound, width: int) -> str:
    return "m:" + adorned(name, bound, width)


def _reached(equalities: Sequence[Equality], known: set[Attribute]) -> set[Attribute]:
    """Attributes whose values are known when some are."""
    found = set(known)
    more = True
    while more:
        more = False
        for equality in equalities:
            for one, other in ((equality.left, equality.right), (equality.right, equality.left)):
                if one in found and other not in found:
                    found.add(other)
                    more = True
    return found


def _equal_to(attribute: Attribute, equalities: Sequence[Equality], there: set[Attribute]) -> Attribute:
    """An attribute that is there and has the value of another."""
    if attribute in there:
        return attribute
    return min((a for a in _reached(equalities, {attribute}) if a in there), key=lambda a: a.number)
