"""Random stratified Datalog programs, their text, and random changes of their facts and rules.

Every program is safe and ends, whatever facts of the same kinds it is given: columns of kind NUMBER hold small numbers
only, and what arithmetic and aggregates make of them goes into WIDE columns, from which nothing is computed. The one
exception is counting on, `y = x + 1, x < 5`, which stays small by its bound.

NULL is in the facts of some programs, never in a rule: Souffle has no word for it.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from naive import (
    Agg,
    Arith,
    Atom,
    Compare,
    Const,
    Literal,
    Not,
    NotStratified,
    Row,
    Rule,
    Term,
    Value,
    Var,
    Wild,
    evaluate,
    levels,
    uses,
    variables,
)

NUMBER, WIDE, SYMBOL, FLOAT = "number", "wide", "symbol", "float"
NUMBERS = range(6)
WORDS = ("a", "b", "c", "d")
ACCEPTS = {NUMBER: (NUMBER,), WIDE: (NUMBER, WIDE), SYMBOL: (SYMBOL,), FLOAT: (FLOAT,)}
"""The kinds of variable that a head column of a kind may take."""
JOINS = {NUMBER: (NUMBER, WIDE), WIDE: (NUMBER, WIDE), SYMBOL: (SYMBOL,), FLOAT: (FLOAT,)}
"""The kinds of variable that a column of a kind may be joined with."""
ROWS = 250
"""The most rows of a derived relation when a program is made."""

Facts: TypeAlias = dict[str, set[Row]]
Transaction: TypeAlias = dict[str, tuple[set[Row], set[Row]]]
"""Per base relation the rows inserted, none of them there before, and the rows deleted, all of them there."""


@dataclass(frozen=True)
class Relation:
    """A declared relation: a base table, or derived and either stored or virtual."""

    name: str
    kinds: tuple[str, ...]
    base: bool = False
    stored: bool = True


BASE = {
    name: Relation(name, kinds, base=True)
    for name, kinds in {
        "node": (NUMBER,),
        "flag": (NUMBER,),
        "word": (SYMBOL,),
        "edge": (NUMBER, NUMBER),
        "link": (NUMBER, NUMBER),
        "parent": (NUMBER, NUMBER),
        "follows": (SYMBOL, SYMBOL),
        "label": (NUMBER, SYMBOL),
        "road": (NUMBER, NUMBER, NUMBER),
        "ride": (NUMBER, SYMBOL, NUMBER),
    }.items()
}
"""All base relations that programs choose from; the kinds of their columns are known by name."""


@dataclass(frozen=True)
class Program:
    """Declared relations, rules, and first facts of the base relations."""

    relations: tuple[Relation, ...]
    rules: tuple[Rule, ...]
    facts: Facts

    @property
    def base(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation.base)

    @property
    def derived(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if not relation.base)


# text ------------------------------------------------------------------------------------------------


def to_text(program: Program) -> str:
    """The program as Souffle reads it; a virtual relation is only declared."""
    lines = []
    for relation in program.relations:
        kinds = ("number" if kind == WIDE else kind for kind in relation.kinds)
        lines.append(f".decl {relation.name}({', '.join(f'c{n}:{kind}' for n, kind in enumerate(kinds))})")
        if relation.base or relation.stored:
            lines.append(f"{'.input' if relation.base else '.output'} {relation.name}")
    return "\n".join([*lines, *map(rule_text, program.rules), ""])


def rule_text(rule: Rule) -> str:
    """A rule as one line of Souffle."""
    body = ", ".join(map(literal_text, rule.body))
    return f"{literal_text(rule.head)} :- {body}." if body else f"{literal_text(rule.head)}."


def literal_text(literal: Literal) -> str:
    match literal:
        case Atom(pred, terms):
            return f"{pred}({', '.join(map(term_text, terms))})"
        case Not(atom):
            return f"!{literal_text(atom)}"
        case Compare(op, left, right):
            return f"{term_text(left)} {op} {term_text(right)}"
        case Agg(kind, target, body, result):
            what = kind if target is None else f"{kind} {term_text(target)}"
            return f"{result.name} = {what} : {{ {', '.join(map(literal_text, body))} }}"


def term_text(term: Term) -> str:
    match term:
        case Var(name):
            return name
        case Wild():
            return "_"
        case Arith(op, left, right):
            sides = (f"({term_text(side)})" if isinstance(side, Arith) else term_text(side) for side in (left, right))
            return f" {op} ".join(sides)
        case Const(None):
            raise ValueError("NULL has no text")
        case Const(str(value)):
            return f'"{value}"'
        case Const(value):
            return str(value)


# facts -----------------------------------------------------------------------------------------------


def random_value(rng: random.Random, kind: str, null: float = 0.0) -> Value:
    if rng.random() < null:
        return None
    return rng.choice(WORDS) if kind == SYMBOL else rng.choice(NUMBERS)


def random_rows(rng: random.Random, kinds: Sequence[str], count: int, null: float = 0.0) -> set[Row]:
    return {tuple(random_value(rng, kind, null) for kind in kinds) for _ in range(count)}


def random_facts(rng: random.Random, relations: Iterable[Relation]) -> Facts:
    """A few rows per relation; some numbers form a chain, some relations are empty, some programs have NULLs."""
    null = 0.12 if rng.random() < 0.35 else 0.0
    facts = {}
    for relation in relations:
        most = {1: 5, 2: 13, 3: 18}[len(relation.kinds)]
        rows = random_rows(rng, relation.kinds, 0 if rng.random() < 0.04 else rng.randint(2, most), null)
        if relation.kinds == (NUMBER, NUMBER) and rng.random() < 0.3:
            rows = {(n, n + 1) for n in NUMBERS[:-1]} | set(sorted(rows, key=repr)[:2])
        facts[relation.name] = rows
    return facts


def random_transaction(rng: random.Random, facts: Facts) -> Transaction:
    """Rows to insert and to delete in some of the relations; now and then none at all, or all rows of a relation.

    Relations that are not among BASE need a row that shows their kinds, or are left alone.
    """
    change: Transaction = {}
    if rng.random() < 0.06:
        return change
    has_null = any(None in row for rows in facts.values() for row in rows)
    null = 0.12 if has_null or rng.random() < 0.1 else 0.0
    many = 8 if rng.random() < 0.15 else 3
    style = rng.choice(("mixed", "mixed", "insert", "delete"))
    for name in rng.sample(sorted(facts), rng.randint(1, len(facts))) if facts else ():
        rows = sorted(facts[name], key=repr)
        kinds = BASE[name].kinds if name in BASE else kinds_of(rows)
        gone: list[Row] = []
        if style != "insert":
            gone = rows if rng.random() < 0.08 else rng.sample(rows, min(len(rows), rng.randint(0, many)))
        new: set[Row] = set()
        if style != "delete" and kinds:
            new = random_rows(rng, kinds, rng.randint(0, many), null) - facts[name]
        if new or gone:
            change[name] = (new, set(gone))
    return change


def kinds_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The kinds of the columns of rows, by the first of them that has no NULL."""
    whole = [row for row in rows if None not in row]
    return tuple(SYMBOL if isinstance(value, str) else NUMBER for value in whole[0]) if whole else ()


def after(facts: Facts, change: Transaction) -> Facts:
    """The facts once a transaction is done."""
    none: tuple[set[Row], set[Row]] = (set(), set())
    return {name: rows - change.get(name, none)[1] | change.get(name, none)[0] for name, rows in facts.items()}


# rules -----------------------------------------------------------------------------------------------


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


# programs --------------------------------------------------------------------------------------------

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


# what is in a program --------------------------------------------------------------------------------


def reach(rules: Iterable[Rule]) -> dict[str, set[str]]:
    """The predicates that each derived predicate depends on, directly or not."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        found.setdefault(rule.head.pred, set()).update(uses(rule))
    for middle in found:
        for below in found.values():
            if middle in below:
                below |= found[middle]
    return found


def features(program: Program) -> Counter[str]:
    """How often the program has what; to tell that random ones have everything."""
    below = reach(program.rules)
    level = levels(program.rules)
    found: Counter[str] = Counter()
    recursive = {pred for pred, under in below.items() if pred in under}
    for pred in recursive:
        ring = sum(pred in below.get(other, ()) and other in below[pred] for other in recursive)
        found[f"mutual {ring}" if ring > 1 else "recursive alone"] += 1
    found["above recursion"] = sum(bool(under & recursive) for pred, under in below.items() if pred not in recursive)
    found["recursion above recursion"] = sum(
        any(other in under and pred not in below[other] for other in recursive)
        for pred, under in below.items()
        if pred in recursive
    )
    found["strata"] = max((level[pred] for pred in below), default=0) + 1
    found["virtual"] = sum(not relation.stored for relation in program.derived)
    found["NULL"] = sum(None in row for rows in program.facts.values() for row in rows)
    for rule in program.rules:
        atoms = [part for part in rule.body if isinstance(part, Atom)]
        own = [n for n, atom in enumerate(atoms) if rule.head.pred in below.get(atom.pred, ())]
        if len(own) > 1:
            found["non-linear"] += 1
        elif own and len(atoms) > 1:
            found["left-linear" if own[0] == 0 else "right-linear" if own[0] == len(atoms) - 1 else "middle"] += 1
        found.update(rule_features(rule, bool(own)))
    return +found


def rule_features(rule: Rule, recursive: bool) -> Iterable[str]:
    """What a rule has, once for each use."""
    where = "recursive rule" if recursive else "rule"
    if not rule.body:
        yield "fact"
    if any(isinstance(term, Arith) for term in rule.head.terms):
        yield "arithmetic in head"
    for literal in rule.body:
        match literal:
            case Atom(_, terms):
                names = [term.name for term in terms if isinstance(term, Var)]
                yield from ["repeated variable"] * (len(set(names)) < len(names))
                yield from ["constant"] * any(isinstance(term, Const) for term in terms)
                yield from ["wildcard"] * (Wild() in terms)
            case Not(Atom(_, terms)):
                yield f"negation in {where}"
                yield from ["negation with wildcard"] * (Wild() in terms)
            case Compare(op, left, right):
                computed = isinstance(left, Arith) or isinstance(right, Arith)
                yield f"arithmetic in {where}" if computed else f"compare {op}"
            case Agg(kind, _, body, _):
                yield kind
                yield f"aggregate in {where}"
                yield from ["aggregate of a join or test"] * (len(body) > 1)
