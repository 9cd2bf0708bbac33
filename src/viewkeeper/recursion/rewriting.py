"""Rules rewritten so that they derive only answers to calls (magic sets with supplementary predicates).

A call is a relation with values for some of its columns. Its adornment marks these columns: b for bound, f for free.
For every adornment that is called, the rules are rewritten once:

    p^bf(..) :- m:p^bf(x), body                 only answers to calls are derived
    m:q^bf(y) :- m:p^bf(x), literals before q   and what they call in turn
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import Attribute, Equality, Expression, Numbers, column
from viewkeeper.recursion.bodies import made_equal, unused_ids
from viewkeeper.recursion.endless import Growth, growth_of
from viewkeeper.recursion.row_sets import all_equal

Bound = tuple[int, ...]
"""The bound columns of a call, by position."""


def adorned(name: str, bound: Bound, width: int) -> str:
    """A relation's name with its adornment."""
    return name + "^" + "".join("b" if i in bound else "f" for i in range(width))


def calls_of(name: str, bound: Bound, width: int) -> str:
    """The relation of the calls for an adornment."""
    return "m:" + adorned(name, bound, width)


class Rules(Protocol):
    """Receives rewritten rules."""

    @property
    def known(self) -> Mapping[str, Any]:
        """The relations so far, by name."""

    def declare(self, predicate: Predicate) -> None:
        """Adds a relation."""

    def define(self, rules: Iterable[Rule]) -> None:
        """Adds rules."""


@dataclass
class Written:
    """Collects rules without applying them."""

    known: dict[str, Predicate] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)

    @functools.cached_property
    def growth(self) -> Growth:
        """Which columns grow by the rules, once all of them are there."""
        return growth_of(self.known.values(), self.rules)

    def declare(self, predicate: Predicate) -> None:
        """Adds a relation."""
        self.known[predicate.name] = predicate

    def define(self, rules: Iterable[Rule]) -> None:
        """Adds rules."""
        self.rules += rules


class Rewriting:
    """The rules of a recursion, rewritten for the adornments that are called."""

    def __init__(
        self,
        predicates: Sequence[Predicate],
        rules: Sequence[Rule],
        into: Rules,
        *,
        supplements: bool = True,
        is_small: Callable[[Literal], bool] = lambda _: False,
        numbers: Numbers | None = None,
    ) -> None:
        """`supplements`: the join before a call is a relation of its own, so that it is not computed twice.

        `is_small`: whether a literal can be read by any of its columns, not only by those it is sorted by.
        `numbers` gives column ids for rules that become part of a larger expression.
        """
        self.predicates = {predicate.name: predicate for predicate in predicates}
        self.rules = rules
        self.into = into
        self.is_small = is_small
        self.adornments: list[str] = []
        self.instead: dict[tuple[str, Bound], Bound] = {}  # adornments with fewer bound columns that are called anyway
        self._made: set[tuple[str, Bound]] = set()
        self.numbers = numbers or unused_ids(predicates, rules)
        self._supplements = 0 if supplements else None

    @property
    def unbound(self) -> list[str]:
        """The adornments that bind no column: they derive all of a relation."""
        return [name for name in self.adornments if "b" not in name.rsplit("^", 1)[1]]

    def begin_with(self, plan: Rewriting) -> Written:
        """Takes over the rules that another has written, and returns them."""
        assert isinstance(plan.into, Written)
        self.adornments, self.instead, self._made = list(plan.adornments), dict(plan.instead), set(plan._made)
        self.numbers, self._supplements = plan.numbers, plan._supplements
        for predicate in plan.into.known.values():
            self.into.declare(predicate)
        self.into.define(plan.into.rules)
        return plan.into

    def prepare(self, name: str) -> None:
        """Adds the rules for tests of whole rows of a relation, and for all adornments that they call."""
        self.make(name, tuple(range(len(self.predicates[name].attributes))))

    def fewer(self, name: str, bound: Bound) -> list[Bound]:
        """The adornments of a relation that bind some of these columns and no others."""
        return [made for known, made in sorted(self._made) if known == name and set(made) < set(bound)]

    def make(self, name: str, bound: Bound) -> None:
        """Adds the rules of an adornment, and of all that it calls."""
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
        self.adornments.append(adorned(name, bound, width))
        self.into.declare(replace(predicate, name=adorned(name, bound, width)))
        if bound:
            columns = tuple(predicate.attributes[i] for i in bound)
            self.into.declare(Predicate(calls_of(name, bound, width), columns))

    def _rewrite(self, rule: Rule, bound: Bound) -> None:
        """Adds the rules for one rule and adornment."""
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
        """Adds a rule whose body begins with a guard, and whose recursive literals become calls and their answers.

        `skipped` is the literal that the guard replaces. `given` are literals, by position, that are read from another
        relation instead. `kept`: answers to calls are read without deleted rows.
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
                if self._supplements is not None and len(part.before) > 1:
                    self._supplementary(part, rule, [literal, *waiting.values(), *negated])
                inner = tuple(i for i, a in enumerate(literal.attributes) if a in part.reached())
                self.make(literal.source, inner)
                if inner:
                    self._call(rule, literal, inner, part)
                name = adorned(literal.source, inner, len(literal.attributes))
                literal = replace(literal, source=self._kept(literal.source, name) if kept else name)
            part.before.append(literal)
        body = (*part.before, *negated)
        whole = replace(rule, head=head, body=body, equalities=part.equalities, conditions=tuple(part.conditions))
        self.into.define([whole])

    def _supplementary(self, part: _Body, rule: Rule, later: Sequence[Literal]) -> None:
        """Puts the literals before a call into a relation of their own, with the columns that are needed later."""
        there = part.attributes()
        outside = {a for literal in later for a in literal.attributes}
        used = {a for e in (*rule.columns, *(value for _, value in rule.computed)) for a in e.attributes}
        used |= {a for e in part.equalities for a in (e.left, e.right) if {e.left, e.right} - there}
        done = [c for c in part.conditions if not c.raises and set(c.attributes) <= there]
        part.conditions = [c for c in part.conditions if c not in done]
        used |= {a for c in part.conditions for a in c.attributes}
        columns = tuple(a for a in dict.fromkeys(a for literal in part.before for a in literal.attributes) if a in used)
        name = self._new_name()
        self.into.declare(Predicate(name, columns))
        among = tuple(e for e in part.equalities if e.left in there and e.right in there)
        values = tuple(column(a) for a in columns)
        self.into.define([Rule(name, values, tuple(part.before), among, tuple(done), text=rule.text)])
        part.equalities = tuple(e for e in part.equalities if e not in among)
        part.before = [Literal(name, columns)]
        assert not outside & set(columns)

    def _new_name(self) -> str:
        assert self._supplements is not None
        self._supplements += 1
        return f"sup:{self._supplements}"

    def _kept(self, name: str, answers: str) -> str:
        """The relation of answers to calls without deleted rows: kept(x) :- p(x), !del(x)."""
        kept = f"kept:{answers}"
        if kept not in self.into.known:
            predicate = self.predicates[name]
            self.into.declare(Predicate(kept, predicate.attributes))
            one, other = (tuple(self.numbers.like(a) for a in predicate.attributes) for _ in range(2))
            literals = (Literal(answers, one), Literal(f"del:{name}", other, negated=True))
            columns = tuple(column(a) for a in one)
            self.into.define([Rule(kept, columns, literals, all_equal(one, other))])
        return kept

    def _guard(self, rule: Rule, bound: Bound) -> tuple[Literal | None, list[Equality], list[Expression]]:
        """The literal of the calls, with the equalities and conditions that bind the head's columns to it."""
        predicate = self.predicates[rule.head]
        if not bound:
            return None, [], []
        called = tuple(self.numbers.like(predicate.attributes[i]) for i in bound)
        equalities, conditions = made_equal(zip(called, (rule.columns[i] for i in bound), strict=True))
        return Literal(calls_of(rule.head, bound, len(rule.columns)), called), equalities, conditions

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
        return 0 if bound[0] == 0 or self.is_small(literal) else 2  # tables are sorted by their first column

    def _call(self, rule: Rule, literal: Literal, inner: Bound, part: _Body) -> None:
        """Adds m:q(..) :- literals before q, unless it would only repeat the call of the rule itself."""
        assert isinstance(literal.source, str)
        there = part.attributes()
        values = [_equal_to(literal.attributes[i], part.equalities, there) for i in inner]
        name = calls_of(literal.source, inner, len(literal.attributes))
        if len(part.before) == 1 and part.before[0].source == name and part.before[0].attributes == tuple(values):
            return
        every = tuple(range(len(rule.columns)))
        whole = calls_of(rule.head, every, len(every))
        if literal.source == rule.head and [one.source for one in part.before] == [whole]:
            passed = [rule.columns[i].attribute for i in inner]
            if [a in _reached(part.equalities, {v}) for a, v in zip(passed, values, strict=True)] == [True] * len(
                inner
            ):
                self.instead[rule.head, every] = inner  # the same call with fewer bound columns is made anyway
        among = tuple(e for e in part.equalities if e.left in there and e.right in there)
        tests = tuple(c for c in part.conditions if not c.raises and set(c.attributes) <= there)
        columns = tuple(column(value) for value in values)
        self.into.define([Rule(name, columns, tuple(part.before), among, tests, text=rule.text)])


@dataclass
class _Body:
    """The rewritten part of a body: its literals so far, and the equalities and conditions of the rule."""

    equalities: tuple[Equality, ...]
    conditions: list[Expression]
    before: list[Literal]

    def attributes(self) -> set[Attribute]:
        """The attributes of the literals so far."""
        return {a for literal in self.before for a in literal.attributes}

    def reached(self) -> set[Attribute]:
        """All attributes whose values are known from them."""
        return _reached(self.equalities, self.attributes())


def _reached(equalities: Sequence[Equality], known: set[Attribute]) -> set[Attribute]:
    """The attributes whose values are known if those of some are."""
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
    """An attribute among `there` that equals another."""
    if attribute in there:
        return attribute
    return min((a for a in _reached(equalities, {attribute}) if a in there), key=lambda a: a.number)


def questions(node: n.Fixpoint, small: Collection[int]) -> list[Rewriting]:
    """One or two plans for testing whether a row of a recursion can be derived, as rewritten rules.

    The first reads tables by the columns they are sorted by; the second reads the `small` inputs by any column. If only
    one of them avoids deriving whole relations, the other is left out.
    """
    ways = [_whole_rows(node, numbers) for numbers in ((), small)]
    found = {tuple(way.adornments): way for way in reversed(ways) if not way.unbound}
    return list(found.values())[::-1] or ways[:1]


def _whole_rows(node: n.Fixpoint, small: Collection[int]) -> Rewriting:
    """The rules for tests of whole rows of each relation."""
    rules = Rewriting(node.predicates, node.rules, Written(), is_small=lambda literal: literal.source in small)
    for predicate in node.predicates:
        rules.prepare(predicate.name)
    return rules
