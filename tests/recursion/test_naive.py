"""The naive evaluator gives what is worked out by hand, and random programs are what they promise to be."""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.marks import long
from tests.recursion.naive import (
    Agg,
    Arith,
    Atom,
    Compare,
    Const,
    Literal,
    Not,
    NotStratified,
    Relations,
    Row,
    Rule,
    Term,
    Unsafe,
    Value,
    Var,
    Wild,
    aggregated,
    check_safe,
    consequences,
    evaluate,
    holds,
    levels,
    outer_variables,
    solutions,
    strata,
    value_of,
    variables,
)
from tests.recursion.program_features import features
from tests.recursion.programs import FLOAT, NUMBER, NUMBERS, SYMBOL, WIDE, WORDS, Program, rule_text, to_text
from tests.recursion.random_facts import after, random_transaction
from tests.recursion.random_programs import changed, random_program, random_rule_change

X, Y, Z, U, V, N, A, B = map(Var, "xyzuvnab")
ANY = Wild()
PROGRAMS = 100


def atom(pred: str, *terms: Term | Value) -> Atom:
    """An atom; plain values are constants."""
    return Atom(pred, tuple(term if isinstance(term, Var | Const | Wild | Arith) else Const(term) for term in terms))


def rule(head: Atom, *body: Literal) -> Rule:
    return Rule(head, body)


def derived(pred: str, rules: list[Rule], **facts: set[Row]) -> set[Row]:
    return evaluate(rules, facts)[pred]


P, P_YZ, E, E_YZ = atom("p", X, Y), atom("p", Y, Z), atom("e", X, Y), atom("e", Y, Z)
CLOSURES = {
    "right": [rule(P, E), rule(atom("p", X, Z), E, P_YZ)],
    "left": [rule(P, E), rule(atom("p", X, Z), P, E_YZ)],
    "non-linear": [rule(P, E), rule(atom("p", X, Z), P, P_YZ)],
    "both": [rule(P, E), rule(atom("p", X, Z), E, P_YZ), rule(atom("p", X, Z), P, E_YZ)],
}


# recursion -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", CLOSURES.values(), ids=CLOSURES)
def test_closure(rules: list[Rule]) -> None:
    chain: set[Row] = {(1, 2), (2, 3), (3, 4)}
    assert derived("p", rules, e=chain) == {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}
    cycle_with_tail: set[Row] = {(1, 2), (2, 1), (2, 3)}
    assert derived("p", rules, e=cycle_with_tail) == {(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)}
    assert derived("p", rules, e={(1, 1)}) == {(1, 1)}
    assert derived("p", rules, e=set()) == set()


def test_same_generation() -> None:
    rules = [
        rule(atom("sg", X, Y), atom("parent", U, X), atom("parent", U, Y)),
        rule(atom("sg", X, Y), atom("parent", U, X), atom("sg", U, V), atom("parent", V, Y)),
    ]
    tree: set[Row] = {("a", "b"), ("a", "c"), ("b", "d"), ("c", "e"), ("e", "f")}
    assert derived("sg", rules, parent=tree) == {
        ("b", "b"),
        ("b", "c"),
        ("c", "b"),
        ("c", "c"),
        ("d", "d"),
        ("d", "e"),
        ("e", "d"),
        ("e", "e"),
        ("f", "f"),
    }


def test_mutual_recursion() -> None:
    rules = [
        rule(atom("odd", X, Y), E),
        rule(atom("odd", X, Z), atom("even", X, Y), E_YZ),
        rule(atom("even", X, Z), atom("odd", X, Y), E_YZ),
    ]
    found = evaluate(rules, {"e": {(1, 2), (2, 3), (3, 4)}})
    assert found["odd"] == {(1, 2), (2, 3), (3, 4), (1, 4)}
    assert found["even"] == {(1, 3), (2, 4)}
    triangle = evaluate(rules, {"e": {(1, 2), (2, 3), (3, 1)}})
    assert triangle["odd"] == triangle["even"] == set(itertools.product((1, 2, 3), repeat=2))


def test_facts_in_rules_and_bounded_counting() -> None:
    rules = [
        rule(atom("p", 0)),
        rule(atom("p", Y), atom("p", X), Compare("<", X, Const(3)), Compare("=", Y, Arith("+", X, Const(1)))),
    ]
    assert derived("p", rules) == {(0,), (1,), (2,), (3,)}


def test_endless_counting_is_noticed() -> None:
    rules = [rule(atom("p", 0)), rule(atom("p", Arith("+", X, Const(1))), atom("p", X))]
    with pytest.raises(RuntimeError, match="no end"):
        evaluate(rules, {})


# negation --------------------------------------------------------------------------------------------


def test_negation_over_recursion() -> None:
    rules = [
        *CLOSURES["left"],
        rule(atom("lonely", X), Not(atom("p", X, ANY)), atom("node", X)),
        rule(atom("apart", X, Y), atom("node", X), atom("node", Y), Not(atom("p", X, Y)), Compare("!=", X, Y)),
        rule(atom("quiet", 1), Not(atom("p", ANY, 9))),
    ]
    found = evaluate(rules, {"e": {(1, 2), (2, 1)}, "node": {(1,), (2,), (3,)}})
    assert found["lonely"] == {(3,)}
    assert found["apart"] == {(1, 3), (2, 3), (3, 1), (3, 2)}
    assert found["quiet"] == {(1,)}


def test_strata() -> None:
    rules = [
        rule(atom("r", X), atom("q", X), Not(atom("p", X, ANY))),
        rule(atom("s", N), Agg("count", None, (atom("r", ANY),), N)),
        *CLOSURES["left"],
        rule(atom("q", X), E),
    ]
    assert levels(rules) == {"e": 0, "p": 0, "q": 0, "r": 1, "s": 2}
    assert [[one.head.pred for one in stratum] for stratum in strata(rules)] == [["p", "p", "q"], ["r"], ["s"]]


@pytest.mark.parametrize(
    "rules",
    [
        [rule(atom("p", X), atom("e", X), Not(atom("p", X)))],
        [rule(atom("p", X), atom("e", X), Not(atom("q", X))), rule(atom("q", X), atom("p", X))],
        [rule(atom("p", N), Agg("count", None, (atom("p", ANY),), N))],
        [rule(atom("p", N), Agg("count", None, (atom("e", A), Not(atom("p", A))), N))],
    ],
)
def test_not_stratified(rules: list[Rule]) -> None:
    with pytest.raises(NotStratified, match=r"p|q"):
        evaluate(rules, {})


# aggregates ------------------------------------------------------------------------------------------

NODES: set[Row] = {(1,), (2,), (3,)}
COSTS: set[Row] = {(1, 5, "a"), (1, 5, "b"), (1, 2, "a"), (2, -1, "a")}
COST = atom("cost", X, A, ANY)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("count", {(1, 3), (2, 1), (3, 0)}),
        ("sum", {(1, 12), (2, -1), (3, 0)}),
        ("min", {(1, 2), (2, -1)}),
        ("max", {(1, 5), (2, -1)}),
        ("mean", {(1, 4.0), (2, -1.0)}),
    ],
)
def test_aggregate_per_outer_binding(kind: str, expected: set[Row]) -> None:
    """Node 3 has no cost. The two costs of 5 differ in the wildcard, so both count."""
    agg = Agg(kind, None if kind == "count" else A, (COST,), N)
    assert derived("p", [rule(atom("p", X, N), atom("node", X), agg)], node=NODES, cost=COSTS) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("count", {(0,)}), ("sum", {(0,)}), ("min", set()), ("max", set()), ("mean", set())]
)
def test_aggregate_of_nothing(kind: str, expected: set[Row]) -> None:
    agg = Agg(kind, None if kind == "count" else A, (COST,), N)
    assert derived("p", [rule(atom("p", N), agg, Compare("=", X, Const(9)))], cost=COSTS) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("count", {(1, 2), (2, 1), (3, 0)}),
        ("sum", {(1, 4), (2, 0), (3, 0)}),
        ("min", {(1, 4)}),
        ("max", {(1, 4)}),
        ("mean", {(1, 4.0)}),
    ],
)
def test_aggregate_leaves_out_nulls(kind: str, expected: set[Row]) -> None:
    """A NULL is an assignment to count, but no value to aggregate."""
    agg = Agg(kind, None if kind == "count" else A, (atom("e", X, A),), N)
    rules = [rule(atom("p", X, N), atom("node", X), agg)]
    assert derived("p", rules, node=NODES, e={(1, 4), (1, None), (2, None)}) == expected


def test_inner_variables_are_of_their_aggregate() -> None:
    """`a` is another variable in each aggregate; `x` is the same in all."""
    rules = [
        rule(
            atom("p", X, N, Z),
            atom("node", X),
            Agg("count", None, (atom("e", X, A),), N),
            Agg("sum", A, (atom("e", A, X),), Z),
        )
    ]
    found = derived("p", rules, node=NODES, e={(1, 2), (1, 3), (3, 2)})
    assert found == {(1, 2, 0), (2, 0, 4), (3, 1, 1)}


def test_aggregate_of_a_join_with_tests() -> None:
    """Assignments of all inner variables: a, b and the wildcard."""
    body = (atom("e", A, B), atom("e", B, ANY), Compare("<", A, X), Not(atom("node", B)))
    rules = [rule(atom("p", X, N), atom("limit", X), Agg("count", None, body, N))]
    edges: set[Row] = {(1, 7), (2, 7), (1, 2), (7, 8), (7, 9), (2, 5)}
    assert derived("p", rules, e=edges, node=NODES, limit={(1,), (2,), (3,)}) == {(1, 0), (2, 2), (3, 4)}


def test_aggregate_of_two_outer_variables() -> None:
    rules = [rule(atom("p", X, Y, N), E, Agg("sum", A, (atom("cost", X, A, ANY), Compare("!=", A, Y)), N))]
    found = derived("p", rules, e={(1, 5), (1, 2), (1, None), (2, 5)}, cost=COSTS)
    assert found == {(1, 5, 2), (1, 2, 10), (1, None, 0), (2, 5, -1)}


def test_aggregate_of_arithmetic_and_of_an_outer_variable() -> None:
    rules = [
        rule(atom("p", N), Agg("sum", Arith("*", A, B), (atom("e", A, B),), N)),
        rule(atom("q", X, N), atom("node", X), Agg("sum", X, (atom("e", ANY, ANY),), N)),
    ]
    found = evaluate(rules, {"e": {(2, 3), (4, 5)}, "node": NODES})
    assert found["p"] == {(26,)}
    assert found["q"] == {(1, 2), (2, 4), (3, 6)}


def test_aggregate_with_a_known_result_is_a_test() -> None:
    rules = [rule(atom("p", X), atom("e", X, N), Agg("count", None, (atom("e", X, ANY),), N))]
    assert derived("p", rules, e={(1, 1), (2, 1), (2, 2), (3, 5), (4, None)}) == {(1,), (2,)}


# NULL and comparisons --------------------------------------------------------------------------------


def test_null_joins_and_negates_as_a_value() -> None:
    rules = [
        rule(atom("j", X, Z), E, E_YZ),
        rule(atom("twice", X), atom("e", X, X)),
        rule(atom("not", X), atom("node", X), Not(atom("e", X, ANY))),
        rule(atom("const", X), atom("e", X, None)),
    ]
    found = evaluate(rules, {"e": {(1, None), (None, 2), (None, None)}, "node": {(None,), (1,), (2,)}})
    assert found["j"] == {(1, 2), (1, None), (None, 2), (None, None)}
    assert found["twice"] == {(None,)}
    assert found["not"] == {(2,)}
    assert found["const"] == {(1,), (None,)}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("=", {(1, 1), (None, None)}),
        ("!=", {(1, 2), (2, 1)}),
        ("<", {(1, 2)}),
        ("<=", {(1, 1), (1, 2)}),
        (">", {(2, 1)}),
        (">=", {(1, 1), (2, 1)}),
    ],
)
def test_comparisons(op: str, expected: set[Row]) -> None:
    pairs: set[Row] = {(1, 1), (1, 2), (2, 1), (1, None), (None, 2), (None, None)}
    assert derived("p", [rule(P, E, Compare(op, X, Y))], e=pairs) == expected


@pytest.mark.parametrize(("op", "expected"), [("+", {(5,), (None,)}), ("-", {(1,), (None,)}), ("*", {(6,), (None,)})])
def test_arithmetic(op: str, expected: set[Row]) -> None:
    values: set[Row] = {(3, 2), (3, None), (None, None)}
    assert derived("p", [rule(atom("p", Arith(op, X, Y)), E)], e=values) == expected
    assert derived("p", [rule(atom("p", Z), Compare("=", Arith(op, X, Y), Z), E)], e=values) == expected


def test_assignment_goes_either_way() -> None:
    for compare in (Compare("=", X, Y), Compare("=", Y, X)):
        assert derived("p", [rule(P, compare, atom("node", X))], node={(1,), (None,)}) == {(1, 1), (None, None)}


# safety ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unsafe",
    [
        rule(P, atom("node", X)),
        rule(atom("p", X), Not(atom("node", X))),
        rule(atom("p", X), atom("node", X), Compare("<", X, Y)),
        rule(atom("p", X), Compare("=", X, X)),
        rule(atom("p", X), Compare("=", X, Arith("+", Y, Const(1))), Compare("=", Y, Arith("-", X, Const(1)))),
        rule(atom("p", X, N), Agg("count", None, (atom("e", X, ANY),), N)),
        rule(atom("p", N), Agg("sum", B, (atom("e", A, ANY),), N)),
        rule(atom("p", N), Agg("count", None, (atom("e", A, ANY), Not(atom("e", A, B))), N)),
        rule(atom("p", N), Agg("count", None, (atom("e", N, ANY),), N)),
    ],
    ids=rule_text,
)
def test_unsafe(unsafe: Rule) -> None:
    with pytest.raises(Unsafe):
        evaluate([unsafe], {})


@pytest.mark.parametrize(
    "bad",
    [
        rule(atom("p", ANY), atom("node", X)),
        rule(atom("p", X), atom("node", X), Compare("<", Arith("+", X, ANY), Const(1))),
        rule(atom("p", X), atom("node", X), atom("node", Arith("+", X, Const(1)))),
        rule(atom("p", N), Agg("count", A, (atom("node", A),), N)),
        rule(atom("p", N), Agg("sum", None, (atom("node", A),), N)),
    ],
    ids=rule_text,
)
def test_not_well_formed(bad: Rule) -> None:
    with pytest.raises(ValueError, match=r"wildcard|arithmetic|count"):
        evaluate([bad], {"node": NODES})


# every assignment ------------------------------------------------------------------------------------


class Enumeration:
    """What a rule derives by trying all values for all of its variables."""

    def __init__(self, one: Rule, relations: Relations) -> None:
        self.rule = one
        self.relations = relations
        self.outer = sorted(outer_variables(one))
        values: set[Value] = {value for rows in relations.values() for row in rows for value in row}
        self.values: list[Value] = [*{*values, *NUMBERS, *WORDS, 1.5}]
        found = solutions(one.body, [{}], set(self.outer), relations)
        computed = {value for binding in found for value in binding.values()}
        self.more_values: list[Value] = [*{*computed, *self.values, *range(-9, 19)}]
        self.aggregates: dict[tuple[Any, ...], list[Value]] = {}

    def domain(self, name: str) -> list[Value]:
        """The values to try: more of them for a variable that may be computed."""
        bound = {name for part in self.rule.body if isinstance(part, Atom) for name in variables(part)}
        return self.values if name in bound else self.more_values

    def size(self) -> int:
        inner = [variables(part) for part in self.rule.body if isinstance(part, Agg)]
        wild = [str(part).count("Wild()") for part in self.rule.body if isinstance(part, Agg)]
        most = max((len(names - {*self.outer}) + more for names, more in zip(inner, wild, strict=True)), default=0)
        return max(int(len(self.values) ** most), math.prod(len(self.domain(name)) for name in self.outer))

    def rows(self) -> set[Row]:
        found = set()
        for values in itertools.product(*map(self.domain, self.outer)):
            binding = dict(zip(self.outer, values, strict=True))
            if self.all_true(self.rule.body, binding):
                found.add(tuple(value_of(term, binding) for term in self.rule.head.terms))
        return found

    def all_true(self, body: Iterable[Literal], binding: dict[str, Value]) -> bool:
        """Whether all literals are true; those first that no kind of value makes an error."""
        order = (Atom, Not, Compare, Agg)
        late = sorted(body, key=lambda part: (isinstance(part, Compare) and part.op != "=", order.index(type(part))))
        return all(self.is_true(literal, binding) for literal in late)

    def is_true(self, literal: Literal, binding: dict[str, Value]) -> bool:
        match literal:
            case Atom(pred, terms):
                choices = [self.values if term == ANY else [value_of(term, binding)] for term in terms]
                return any(row in self.relations[pred] for row in itertools.product(*choices))
            case Not(inner):
                return not self.is_true(inner, binding)
            case Compare(op, left, right):
                return holds(op, value_of(left, binding), value_of(right, binding))
            case Agg(_, target, body, result):
                read = {name for part in (target, *body) for name in variables(part)} & {*self.outer}
                key = (literal, *sorted((name, binding[name]) for name in read))
                if key not in self.aggregates:
                    self.aggregates[key] = self.aggregate(literal, {name: binding[name] for name in read})
                return binding[result.name] in self.aggregates[key]

    def aggregate(self, agg: Agg, outer: dict[str, Value]) -> list[Value]:
        """The aggregate over all assignments of inner variables; wildcards are made such first."""
        body: list[Literal] = []
        for n, part in enumerate(agg.body):
            if isinstance(part, Atom):
                terms = (Var(f"_{n}_{m}") if term == ANY else term for m, term in enumerate(part.terms))
                body.append(Atom(part.pred, tuple(terms)))
            else:
                body.append(part)
        inner = sorted({name for part in body for name in variables(part)} - {*self.outer})
        targets = []
        for values in itertools.product(self.values, repeat=len(inner)):
            binding = {**outer, **dict(zip(inner, values, strict=True))}
            if self.all_true(body, binding):
                targets.append(None if agg.target is None else value_of(agg.target, binding))
        return aggregated(agg.kind, targets)


@pytest.mark.parametrize("seeds", [20, *long(60)])
def test_rules_hold_for_exactly_the_assignments_that_satisfy_them(seeds: int) -> None:
    """The evaluator's orders and look-ups against trying everything, on rules where that is possible."""
    checked = Counter[str]()
    for seed in range(seeds):
        program = random_program(random.Random(seed))
        relations = evaluate(program.rules, program.facts)
        for one in program.rules:
            everything = Enumeration(one, relations)
            if everything.size() <= 30_000:
                assert consequences(one, relations) == everything.rows(), rule_text(one)
                checked.update({type(part).__name__ for part in one.body} | {"rule"})
    assert checked["rule"] >= 2.5 * seeds
    assert min(checked[kind] for kind in ("Atom", "Not", "Compare", "Agg")) >= seeds / 2, checked


# random programs -------------------------------------------------------------------------------------


@functools.cache
def programs() -> list[Program]:
    return [random_program(random.Random(seed)) for seed in range(PROGRAMS)]


def test_random_programs_are_safe_and_stratified_and_end_soon() -> None:
    for seed, program in enumerate(programs()):
        for one in program.rules:
            check_safe(one)
        strata(program.rules)
        start = time.process_time()
        found = evaluate(program.rules, program.facts)
        assert time.process_time() - start < 1, f"seed {seed}"
        assert 2 <= len(program.derived) <= 6
        assert {one.head.pred for one in program.rules} == {relation.name for relation in program.derived}
        check_kinds(program, found)


def check_kinds(program: Program, found: Relations) -> None:
    """Rows have the declared kinds, and numbers stay small."""
    for relation in program.relations:
        types = [{NUMBER: int, WIDE: int, SYMBOL: str, FLOAT: float}[kind] for kind in relation.kinds]
        for row in found.get(relation.name, ()):
            assert len(row) == len(types)
            assert all(value is None or type(value) is kind for value, kind in zip(row, types, strict=True))
            small = [value for value, kind in zip(row, relation.kinds, strict=True) if kind == NUMBER]
            assert {*small} <= {None, *range(7)}
            assert all(abs(value) < 2**31 for value in row if isinstance(value, int | float))


def test_most_derived_relations_have_rows() -> None:
    sizes = []
    for program in programs():
        found = evaluate(program.rules, program.facts)
        sizes += [len(found[relation.name]) for relation in program.derived]
    assert sum(size > 0 for size in sizes) > 0.8 * len(sizes)
    assert sum(size > 4 for size in sizes) > 0.4 * len(sizes)


def test_random_programs_have_everything() -> None:
    """Each feature is in at least so many programs of a hundred."""
    found = Counter(name for program in programs() for name in features(program))
    least = {
        **dict.fromkeys(["recursive alone", "left-linear", "right-linear", "non-linear", "above recursion"], 20),
        **dict.fromkeys(["mutual 2", "recursion above recursion", "constant", "repeated variable", "wildcard"], 15),
        **dict.fromkeys(["negation in rule", "negation in recursive rule", "negation with wildcard"], 15),
        **dict.fromkeys(["aggregate in rule", "aggregate of a join or test", "count", "sum", "min", "max"], 12),
        **dict.fromkeys(["arithmetic in rule", "arithmetic in recursive rule", "NULL", "virtual"], 15),
        **dict.fromkeys([f"compare {op}" for op in ("=", "!=", "<", "<=", ">", ">=")], 12),
        **dict.fromkeys(["mutual 3", "mean", "aggregate in recursive rule", "fact", "arithmetic in head"], 5),
    }
    rare = {name: found[name] for name, share in least.items() if found[name] < share * PROGRAMS / 100}
    assert not rare


def test_a_seed_always_gives_the_same_program() -> None:
    for seed, program in enumerate(programs()[:20]):
        rng = random.Random(seed)
        assert random_program(rng) == program
        again = random.Random(seed)
        random_program(again)
        assert random_transaction(rng, program.facts) == random_transaction(again, program.facts)
        assert random_rule_change(rng, program) == random_rule_change(again, program)


def test_text() -> None:
    for program in programs():
        lines = to_text(program).splitlines()
        declared = re.findall(r"^\.decl (\w+)\(", to_text(program), re.MULTILINE)
        assert declared == [relation.name for relation in program.relations]
        assert {line[7:] for line in lines if line.startswith(".input ")} == set(program.facts)
        assert f".output {program.derived[-1].name}" in lines
        assert [line for line in lines if not line.startswith(".")] == [rule_text(one) for one in program.rules]
    agg = Agg("sum", Arith("*", Arith("+", A, Const(1)), B), (atom("e", A, B), Not(atom("e", B, ANY))), N)
    one = rule(atom("p", X, N, "a", 1.5, -2), atom("q", X), agg, Compare("!=", N, Const(0)))
    assert rule_text(one) == ('p(x, n, "a", 1.5, -2) :- q(x), n = sum (a + 1) * b : { e(a, b), !e(b, _) }, n != 0.')
    assert rule_text(rule(atom("p", 1))) == "p(1)."
    with pytest.raises(ValueError, match="NULL"):
        rule_text(rule(atom("p", None)))


@pytest.mark.parametrize("seeds", [50, *long(PROGRAMS)])
def test_random_transactions(seeds: int) -> None:
    """They are net changes of several relations, some empty, some emptying one, and mostly change what is derived."""
    seen = Counter[str]()
    for seed, program in enumerate(programs()[:seeds]):
        rng = random.Random(seed)
        facts, before = program.facts, evaluate(program.rules, program.facts)
        for _ in range(4):
            change = random_transaction(rng, facts)
            for name, (new, gone) in change.items():
                assert gone <= facts[name]
                assert not new & facts[name]
                seen["emptied"] += bool(gone == facts[name] and not new)
                seen["mixed"] += bool(new and gone)
            facts = after(facts, change)
            found = evaluate(program.rules, facts)
            check_kinds(program, found)
            seen["all"] += 1
            seen["empty"] += not change
            seen["several"] += len(change) > 1
            seen["effective"] += any(found[relation.name] != before[relation.name] for relation in program.derived)
            before = found
    assert seen["effective"] > 0.6 * seen["all"]
    assert seen["several"] > 0.3 * seen["all"]
    assert min(seen["emptied"], seen["mixed"], seen["empty"]) > 0.03 * seen["all"]


def test_transactions_of_other_relations() -> None:
    """Kinds are taken from rows; a relation without any is left alone."""
    changes = [random_transaction(random.Random(seed), {"mine": {("a", 1)}, "none": set()}) for seed in range(50)]
    assert any(new for change in changes for new, _ in change.values())
    assert {name for change in changes for name in change} == {"mine"}
    for change in changes:
        assert all(row[0] is None or isinstance(row[0], str) for new, _ in change.values() for row in new)
    assert random_transaction(random.Random(0), {}) == {}


@pytest.mark.parametrize("seeds", [25, *long(100)])
def test_random_rule_changes(seeds: int) -> None:
    """The program stays safe, stratified and quick through several of them, and most change what is derived."""
    seen = Counter[str]()
    for seed, program in enumerate(programs()[:seeds]):
        rng = random.Random(seed)
        before = evaluate(program.rules, program.facts)
        for _ in range(3):
            sign, one = random_rule_change(rng, program)
            assert (one in program.rules) == (sign == "-")
            program = changed(program, (sign, one))
            found = evaluate(program.rules, program.facts)
            check_kinds(program, found)
            seen[sign] += 1
            seen["effective"] += any(
                found.get(relation.name, set()) != before.get(relation.name, set()) for relation in program.derived
            )
            before = found
    assert min(seen["+"], seen["-"]) > 0.3 * (seen["+"] + seen["-"])
    assert seen["effective"] > 0.6 * (seen["+"] + seen["-"])
