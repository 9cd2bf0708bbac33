"""Random safe rules, literal by literal."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from tests.recursion.naive import (
    Agg,
    Arith,
    Atom,
    Compare,
    Const,
    Literal,
    Not,
    Rule,
    Term,
    Var,
    Wild,
    variables,
)
from tests.recursion.programs import (
    ACCEPTS,
    FLOAT,
    JOINS,
    NUMBER,
    SYMBOL,
    WIDE,
    Relation,
)
from tests.recursion.random_facts import random_value


class Draft:
    """A rule being written: its literals so far and the kind of each variable they bind."""

    def __init__(self, rng: random.Random, lower: Sequence[Relation]) -> None:
        self.rng = rng
        self.lower = lower  # what may be negated and aggregated
        self.body: list[Literal] = []
        self.kinds: dict[str, str] = {}
        self.names: Iterator[str] = (f"{letter}{number}" for number in ("", *range(1, 9)) for letter in "xyzuvw")

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def variable(self, kind: str) -> Var:
        """A new one."""
        name = next(name for name in self.names if name not in self.kinds)
        self.kinds[name] = kind
        return Var(name)

    def known(self, kinds: Iterable[str]) -> list[Var]:
        return [Var(name) for name, kind in self.kinds.items() if kind in kinds]

    def constant(self, kind: str) -> Const:
        return Const(1.5) if kind == FLOAT else Const(random_value(self.rng, kind))

    def bind(self, relation: Relation, terms: Sequence[Term]) -> None:
        """Adds a positive atom; a variable that meets a NUMBER column is small from then on."""
        self.body.append(Atom(relation.name, tuple(terms)))
        for kind, term in zip(relation.kinds, terms, strict=True):
            if isinstance(term, Var) and self.kinds.get(term.name) != NUMBER:
                self.kinds[term.name] = kind

    def atom(self, relation: Relation) -> None:
        """Adds an atom of new and old variables, constants and wildcards, joined with what is there if it can be."""
        before = self.known(self.kinds.values())
        terms = [self.term(kind) for kind in relation.kinds]
        if before and not any(term in before for term in terms):
            n = self.rng.randrange(len(terms))
            fitting = [variable for variable in before if self.kinds[variable.name] in JOINS[relation.kinds[n]]]
            terms[n] = self.rng.choice(fitting or [terms[n]])
        self.bind(relation, terms)
        used = {name for literal in self.body for name in variables(literal)}
        self.kinds = {name: kind for name, kind in self.kinds.items() if name in used}

    def term(self, kind: str) -> Term:
        share = self.rng.random()
        old = self.known(JOINS[kind])
        if share < 0.06 and kind != FLOAT:
            return self.constant(kind)
        if share < 0.16:
            return Wild()
        return self.rng.choice(old) if old and share < 0.45 else self.variable(kind)

    def pick(self, kinds: Iterable[str]) -> Var | None:
        """A known variable of one of these kinds, if there is any."""
        fitting = self.known(kinds)
        return self.rng.choice(fitting) if fitting else None

    # tests

    def compare(self) -> None:
        """Adds a comparison of a known variable."""
        if not self.kinds:
            return
        left = Var(self.rng.choice(list(self.kinds)))
        kind = self.kinds[left.name]
        others: list[Term] = [other for other in self.known(JOINS[kind]) if other != left]
        right = self.rng.choice(others) if others and self.chance(0.5) else self.constant(kind)
        side: Term = Arith("+", left, Const(1)) if kind == NUMBER and self.chance(0.1) else left
        op = self.rng.choice(
            ("=", "!=", "!=", "<", ">=") if kind == SYMBOL else ("=", "!=", "!=", "<", "<=", ">", ">=")
        )
        self.body.append(Compare(op, side, right))

    def negate(self) -> None:
        """Adds a negated atom of a lower relation, over known variables, constants and wildcards."""
        relation = self.rng.choice(self.lower)
        terms: list[Term] = []
        for kind in relation.kinds:
            old = self.pick(JOINS[kind])
            if old is not None and self.chance(0.75):
                terms.append(old)
            else:
                terms.append(self.constant(kind) if self.chance(0.25) and kind != FLOAT else Wild())
        if any(isinstance(term, Var) for term in terms):
            self.body.append(Not(Atom(relation.name, tuple(terms))))

    # values

    def aggregate(self, kinds: Sequence[str] = ("count", "sum", "min", "max")) -> Var | None:
        """Adds an aggregate over lower relations, often of known variables, and gives its result."""
        kind = self.rng.choice(kinds)
        target_kinds = {"count": tuple(ACCEPTS), "min": (NUMBER, WIDE), "max": (NUMBER, WIDE)}.get(kind, (NUMBER,))
        fitting = [relation for relation in self.lower if set(relation.kinds) & set(target_kinds)]
        if not fitting:
            return None
        relation = self.rng.choice(fitting)
        at = self.rng.choice([n for n, column in enumerate(relation.kinds) if column in target_kinds])
        inner = Draft(self.rng, self.lower)
        inner.names = iter("abcdefghij")
        terms = [self.inner_term(inner, column, n == at and kind != "count") for n, column in enumerate(relation.kinds)]
        inner.bind(relation, terms)
        target: Term | None = terms[at] if kind != "count" else None
        if kind == "sum" and self.chance(0.15):
            target = Arith(self.rng.choice("+*"), terms[at], self.rng.choice((terms[at], Const(2))))
        if self.chance(0.4):
            self.narrow(inner)
        result = self.pick((NUMBER,)) if kind != "mean" and self.chance(0.08) else None
        result = result or self.variable(FLOAT if kind == "mean" else WIDE)
        self.body.append(Agg(kind, target, tuple(inner.body), result))  # type: ignore[arg-type]
        return result

    def inner_term(self, inner: Draft, kind: str, aggregated: bool) -> Term:
        """A term of an aggregate's first atom; what is aggregated is a variable of its own."""
        if aggregated:
            return inner.variable(kind)
        old = self.pick(JOINS[kind])
        if old is not None and self.chance(0.6):
            return old
        return Wild() if self.chance(0.6) else inner.variable(kind)

    def narrow(self, inner: Draft) -> None:
        """One more literal in an aggregate's body: a comparison, a join, or a negation."""
        match self.rng.randrange(4):
            case 0 | 1:
                if numbers := inner.known((NUMBER, WIDE)):
                    outside: list[Term] = [*self.known((NUMBER, WIDE))]
                    right = self.rng.choice(outside) if outside and self.chance(0.4) else self.constant(NUMBER)
                    op = self.rng.choice(("!=", "<", ">", ">="))
                    inner.body.append(Compare(op, self.rng.choice(numbers), right))
            case 2:
                inner.atom(self.rng.choice(self.lower))
            case _:
                inner.negate()

    def compute(self) -> Term | None:
        """An arithmetic term of small variables, or the variable that it is given to."""
        left = self.pick((NUMBER,))
        if left is None:
            return None
        sides: list[Term] = [*self.known((NUMBER,)), Const(1), Const(2), Const(3)]
        right = self.rng.choice(sides)
        value: Term = Arith(self.rng.choice("+-*"), left, right)
        if self.chance(0.2):
            value = Arith(self.rng.choice("+-*"), value, Const(self.rng.randint(1, 3)))
        if self.chance(0.3):
            return value
        result = self.variable(WIDE)
        self.body.append(Compare("=", result, value))
        return result

    def count_on(self) -> Var | None:
        """The number after a known one, within bounds."""
        before = self.pick((NUMBER,))
        if before is None:
            return None
        result = self.variable(NUMBER)
        limit = Const(self.rng.randint(3, 6))
        bound = Compare("<", before, limit) if self.chance(0.5) else Compare("<=", result, limit)
        self.body += [bound, Compare("=", result, Arith("+", before, Const(1)))]
        return result

    def value(self, kind: str, sources: Sequence[Relation], taken: Sequence[Term]) -> Term:
        """What a head column of a kind shows: a computed value, a variable, or if there is none a constant."""
        made: Term | None = None
        if kind == WIDE and self.chance(0.8):
            made = self.aggregate() if self.chance(0.65) else self.compute()
        elif kind == FLOAT and self.chance(0.9):
            made = self.aggregate(("mean",))
        elif kind == NUMBER and self.chance(0.04):
            made = self.count_on()
        if made is not None:
            return made
        old = self.known(ACCEPTS[kind])
        free = [variable for variable in old if variable not in taken]
        giving = [relation for relation in sources if kind in relation.kinds]
        if not free and giving and self.chance(0.7):
            self.give(self.rng.choice(giving), kind)
            free = [variable for variable in self.known(ACCEPTS[kind]) if variable not in taken]
        if free or old:
            return self.rng.choice(free or old)
        if self.chance(0.6):
            return self.constant(kind)
        result = self.variable(kind)
        self.body.append(Compare("=", result, self.constant(kind)))
        return result

    def give(self, relation: Relation, kind: str) -> None:
        """Adds an atom that binds a new variable of a kind, and joins where it can."""
        at = relation.kinds.index(kind)
        terms: list[Term] = []
        for n, column in enumerate(relation.kinds):
            old = self.pick(JOINS[column])
            terms.append(self.variable(kind) if n == at else old if old is not None and self.chance(0.7) else Wild())
        self.bind(relation, terms)

    def test(self, share: float) -> None:
        """Adds tests, each kind with some chance."""
        if self.chance(share):
            self.compare()
        if self.lower and self.chance(share):
            self.negate()
        if self.lower and self.chance(share / 3) and (result := self.aggregate()) is not None:
            op = self.rng.choice(("!=", "<=", ">"))
            self.body.append(Compare(op, result, Const(self.rng.randint(0, 2))))

    def finish(self, head: Relation, terms: Sequence[Term]) -> Rule:
        """The rule; now and then its literals are in no particular order."""
        if self.chance(0.2):
            self.rng.shuffle(self.body)
        return Rule(Atom(head.name, tuple(terms)), tuple(dict.fromkeys(self.body)))


def random_rule(
    rng: random.Random,
    head: Relation,
    sources: Sequence[Relation],
    lower: Sequence[Relation],
    own: Sequence[Relation] = (),
) -> Rule:
    """A rule for a relation over sources, with an atom of each of its own; only lower ones negated or aggregated."""
    draft = Draft(rng, lower)
    if not own and rng.random() < 0.03:
        return Rule(Atom(head.name, tuple(draft.constant(kind) for kind in head.kinds)))
    computed = WIDE in head.kinds or FLOAT in head.kinds
    count = rng.choice((0, 1, 1, 1, 2)) if computed and not own else rng.choice((1, 1, 2, 2, 3)) - len(own)
    atoms = [*own, *(rng.choice(sources) for _ in range(count))]
    rng.shuffle(atoms)
    for relation in atoms:
        draft.atom(relation)
    terms: list[Term] = []
    for kind in head.kinds:
        terms.append(draft.value(kind, sources, terms))
    draft.test(0.3)
    return draft.finish(head, terms)
