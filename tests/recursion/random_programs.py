"""Random stratified Datalog programs, and random changes of their rules.

Every program is safe and ends, whatever facts of the same kinds it is given: columns of kind NUMBER hold small numbers
only, and what arithmetic and aggregates make of them goes into WIDE columns, from which nothing is computed. The one
exception is counting on, `y = x + 1, x < 5`, which stays small by its bound.

NULL is in the facts of some programs, never in a rule: Souffle has no word for it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tests.recursion.naive import (
    Arith,
    Compare,
    Const,
    NotStratified,
    Rule,
    Term,
    Var,
    Wild,
    evaluate,
    uses,
)
from tests.recursion.programs import (
    BASE,
    FLOAT,
    NUMBER,
    SYMBOL,
    WIDE,
    Facts,
    Program,
    Relation,
)
from tests.recursion.random_facts import random_facts
from tests.recursion.random_rules import Draft, random_rule

ROWS = 250
"""The most rows of a derived relation when a program is made."""

Group: TypeAlias = tuple[list[Relation], list[Rule]]


class Maker:
    """Makes a program group by group: each group is a predicate, or some that are mutually recursive."""

    def __init__(self, rng: random.Random, relations: Iterable[Relation], facts: Facts) -> None:
        self.rng = rng
        self.known = list(relations)
        self.rules: list[Rule] = []
        self.facts = facts

    def new(self, kinds: Iterable[str], number: int = 0) -> Relation:
        count = sum(not relation.base for relation in self.known)
        return Relation(f"p{count + number + 1}", tuple(kinds), stored=self.rng.random() > 0.15)

    def sources(self) -> list[Relation]:
        """What is known, derived relations more often."""
        return [relation for relation in self.known for _ in range(1 if relation.base else 2)]

    def kinds(self, count: int) -> list[str]:
        """Kinds of columns; SYMBOL mostly if there is a relation to take it from."""
        given = any(SYMBOL in relation.kinds for relation in self.known)
        return self.rng.choices((NUMBER, SYMBOL), (9, 4 if given else 0.2), k=count)

    def add_group(self, room: int) -> None:
        """Adds a group of at most so many predicates; mostly one whose relations have rows."""
        for attempt in itertools.count():
            relations, rules = self.group(room)
            rows = evaluate([*self.rules, *rules], self.facts)
            sizes = [len(rows.get(relation.name, ())) for relation in relations]
            if max(sizes) <= ROWS and (min(sizes) > 0 or attempt > 12 or self.rng.random() < 0.06):
                self.known += relations
                self.rules += rules
                return

    def group(self, room: int) -> Group:
        recursive = self.rng.random() < 0.5
        makers: list[Callable[[], Group]] = [self.plain, self.computed]
        if recursive:
            makers = [self.closure, self.closure, self.reachable, self.same_generation, self.steps, self.any_recursion]
            makers += [lambda: self.mutual(2)] * (room > 1) + [lambda: self.mutual(3)] * (room > 2)
            makers += [lambda: self.any_recursion(2)] * (room > 1)
        relations, rules = self.rng.choice(makers)()
        if self.rng.random() < 0.2:
            head = self.rng.choice(relations)
            own = [self.rng.choice(relations)] if recursive and self.rng.random() < 0.4 else []
            rules.append(random_rule(self.rng, head, self.sources(), self.known, own))
        return relations, list(dict.fromkeys(rules))

    def plain(self) -> Group:
        """One to three rules over what is known."""
        head = self.new(self.kinds(self.rng.randint(1, 3)))
        rules = [random_rule(self.rng, head, self.sources(), self.known) for _ in range(self.rng.choice((1, 1, 2, 3)))]
        return [head], rules

    def computed(self) -> Group:
        """A predicate with a column of aggregates or arithmetic."""
        kinds = self.kinds(self.rng.choice((0, 1, 1, 2)))
        head = self.new([*kinds, self.rng.choice((WIDE, WIDE, WIDE, FLOAT))])
        rules = [random_rule(self.rng, head, self.sources(), self.known) for _ in range(self.rng.choice((1, 1, 2)))]
        return [head], rules

    def any_recursion(self, count: int = 1) -> Group:
        """Predicates with rules over each other that follow no pattern."""
        wide = [WIDE] * (self.rng.random() < 0.2)
        kinds = [*self.kinds(self.rng.randint(1, 2)), *wide]
        heads = [self.new(kinds, n) for n in range(count)]
        rules = []
        for n, head in enumerate(heads):
            rules.append(random_rule(self.rng, head, self.sources(), self.known))
            own = [heads[n - 1], *([self.rng.choice(heads)] if self.rng.random() < 0.3 else [])]
            rules.append(random_rule(self.rng, head, self.sources(), self.known, own))
        return heads, rules

    # patterns of recursion

    def step(self) -> tuple[str, Callable[[Draft, Var, Var], None]]:
        """A kind, and how to add an atom that leads from one value of it to another."""
        choices = [
            (relation, kind, pair)
            for relation in self.sources()
            for kind in (NUMBER, SYMBOL)
            for pair in itertools.permutations([n for n, column in enumerate(relation.kinds) if column == kind], 2)
        ]
        relation, kind, (start, end) = self.rng.choice(choices)

        def add(draft: Draft, x: Var, y: Var) -> None:
            terms: list[Term] = [Wild() for _ in relation.kinds]
            for n, column in enumerate(relation.kinds):
                if column not in (WIDE, FLOAT) and self.rng.random() < 0.15:
                    terms[n] = draft.constant(column)
            terms[start], terms[end] = x, y
            draft.bind(relation, terms)

        return kind, add

    def written(self, head: Relation, terms: Sequence[Term], add: Callable[[Draft], None], share: float) -> Rule:
        """A rule whose body is added to a draft, then tested a little."""
        draft = Draft(self.rng, self.known)
        add(draft)
        draft.test(share)
        return draft.finish(head, terms)

    def closure(self) -> Group:
        """Paths: right, left or both, or non-linear."""
        kind, step = self.step()
        p = self.new((kind, kind))
        x, y, z = Var("x"), Var("y"), Var("z")

        def right(draft: Draft) -> None:
            step(draft, x, y)
            draft.bind(p, (y, z))

        def left(draft: Draft) -> None:
            draft.bind(p, (x, y))
            step(draft, y, z)

        def twice(draft: Draft) -> None:
            draft.bind(p, (x, y))
            draft.bind(p, (y, z))

        rules = [self.written(p, (x, y), lambda draft: step(draft, x, y), 0.15)]
        for way in self.rng.choice([(right,), (left,), (twice,), (twice,), (left, right)]):
            rules.append(self.written(p, (x, z), way, 0.12))
        return [p], rules

    def reachable(self) -> Group:
        """What can be reached from some values."""
        kind, step = self.step()
        p = self.new((kind,))
        x, y = Var("x"), Var("y")

        def further(draft: Draft) -> None:
            draft.bind(p, (x,))
            step(draft, x, y)

        seed = random_rule(self.rng, p, [r for r in self.sources() if kind in r.kinds], self.known)
        return [p], [seed, self.written(p, (y,), further, 0.2)]

    def same_generation(self) -> Group:
        kind, step = self.step()
        p = self.new((kind, kind))
        x, y, u, v = Var("x"), Var("y"), Var("u"), Var("v")

        def siblings(draft: Draft) -> None:
            step(draft, u, x)
            step(draft, u, y)
            if draft.chance(0.5):
                draft.body.append(Compare("!=", x, y))

        def cousins(draft: Draft) -> None:
            step(draft, u, x)
            draft.bind(p, (u, v))
            step(draft, v, y)

        return [p], [self.written(p, (x, y), siblings, 0.05), self.written(p, (x, y), cousins, 0.05)]

    def steps(self) -> Group:
        """Distances: how many steps it takes, up to a bound."""
        kind, step = self.step()
        p = self.new((kind, NUMBER))
        x, y, n, m = Var("x"), Var("y"), Var("n"), Var("m")

        def further(draft: Draft) -> None:
            draft.bind(p, (x, n))
            step(draft, x, y)
            limit = Compare("<", n, Const(self.rng.randint(2, 5)))
            draft.body += [limit, Compare("=", m, Arith("+", n, Const(1)))]
            draft.kinds["m"] = NUMBER

        start = self.rng.choice((Const(0), Const(1)))
        first = self.written(p, (x, start), lambda draft: step(draft, x, y), 0.1)
        return [p], [first, self.written(p, (y, m), further, 0.1)]

    def mutual(self, count: int) -> Group:
        """A ring of predicates, each one step further than the one before."""
        kind, step = self.step()
        heads = [self.new((kind, kind), n) for n in range(count)]
        x, y, z = Var("x"), Var("y"), Var("z")
        rules = [self.written(heads[0], (x, y), lambda draft: step(draft, x, y), 0.1)]
        for n, head in enumerate(heads):
            before = heads[n - 1]
            _, other = (kind, step) if self.rng.random() < 0.7 else self.step_of(kind, step)
            way = self.rng.randrange(5)

            def further(
                draft: Draft, way: int = way, before: Relation = before, other: Callable[..., None] = other
            ) -> None:
                if way < 2:
                    other(draft, x, y)
                    draft.bind(before, (y, z))
                else:
                    draft.bind(before, (x, y))
                    other(draft, y, z) if way < 4 else draft.bind(heads[0], (y, z))

            rules.append(self.written(head, (x, z), further, 0.1))
        return heads, rules

    def step_of(self, kind: str, otherwise: Callable[..., None]) -> tuple[str, Callable[..., None]]:
        """Another step between values of a kind, if a few tries find one."""
        return next((found for found in (self.step() for _ in range(4)) if found[0] == kind), (kind, otherwise))


def random_program(rng: random.Random) -> Program:
    """Up to five base relations with facts, seldom one that no rule uses, and two to six derived predicates."""
    names = {rng.choice(("edge", "link", "parent", "road")), *rng.sample(sorted(BASE), rng.randint(1, 4))}
    base = [BASE[name] for name in sorted(names)]
    facts = random_facts(rng, base)
    maker = Maker(rng, base, facts)
    count = rng.randint(2, 6)
    while (room := len(base) + count - len(maker.known)) > 0:
        maker.add_group(room)
    used = {name for rule in maker.rules for name in uses(rule)}
    kept = [relation for relation in base if relation.name in used or rng.random() < 0.25] or base[:1]
    derived = [*maker.known[len(base) : -1], replace(maker.known[-1], stored=True)]
    return Program((*kept, *derived), tuple(maker.rules), {relation.name: facts[relation.name] for relation in kept})


Change: TypeAlias = tuple[str, Rule]
"""`+` and a rule to add, or `-` and a rule to remove."""


def random_rule_change(rng: random.Random, program: Program) -> Change:
    """A rule to remove, maybe the last of its predicate, or one to add that leaves the program safe and stratified.

    The rule to add is mostly one that derives something new from the program's facts, and may make it recursive.
    """
    if program.rules and rng.random() < 0.45:
        return "-", rng.choice(program.rules)
    before = evaluate(program.rules, program.facts)
    for attempt in itertools.count():
        head = rng.choice(program.derived)
        sources = list(program.relations)
        own = [head] if rng.random() < 0.25 else []
        rule = random_rule(rng, head, sources, sources, own)
        try:
            rows = evaluate([*program.rules, rule], program.facts)
        except NotStratified:
            continue
        added = len(rows[head.name]) > len(before.get(head.name, ()))
        grown = max(len(rows[relation.name]) for relation in program.derived if relation.name in rows)
        if rule not in program.rules and grown <= 2 * ROWS and (added or attempt > 20 or rng.random() < 0.1):
            return "+", rule
    raise AssertionError("itertools.count ends")


def changed(program: Program, change: Change) -> Program:
    """The program with a rule more or less."""
    sign, rule = change
    rules = (*program.rules, rule) if sign == "+" else tuple(kept for kept in program.rules if kept != rule)
    return replace(program, rules=rules)
