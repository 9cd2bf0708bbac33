"""Strata: components in order, which are recursive, and cycles through negation and aggregates."""

from __future__ import annotations

import itertools
import random

import pytest

from viewkeeper.datalog.normal import NormalRule, normalize
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.rule_graph import Arc, Sign, components, dependency_graph
from viewkeeper.datalog.strata import stratify
from viewkeeper.errors import DatalogError


def rules(text: str) -> tuple[NormalRule, ...]:
    return tuple(rule for clause in parse(text).clauses for rule in normalize(clause))


def test_the_graph_has_signs() -> None:
    graph = dependency_graph(rules("p(x) :- a(x), !b(x), 0 = count : { c(x), !d(x), 1 < max y : { e(y) } }."))
    assert graph.relations == ("p", "a", "b", "c", "d", "e")
    assert [(arc.source, arc.sign.value, arc.function) for arc in graph.arcs] == [
        ("a", "positive", ""),
        ("b", "negative", ""),
        ("c", "aggregated", "count"),
        ("d", "aggregated", "count"),
        ("e", "aggregated", "max"),
    ]


def test_strata_stand_in_order() -> None:
    found = stratify(
        rules(
            """
            lonely(x) :- node(x), !path(x, _).
            path(x, y) :- edge(x, y).
            path(x, z) :- path(x, y), edge(y, z).
            even(x) :- zero(x).
            even(y) :- odd(x), next(x, y).
            odd(y) :- even(x), next(x, y).
            n(c) :- c = count : { lonely(_) }, even(c).
            """
        )
    )
    assert [(stratum.relations, len(stratum.rules), stratum.is_recursive) for stratum in found] == [
        (("node",), 0, False),
        (("edge",), 0, False),
        (("path",), 2, True),
        (("lonely",), 1, False),
        (("zero",), 0, False),
        (("next",), 0, False),
        (("even", "odd"), 3, True),
        (("n",), 1, False),
    ]


def test_recursion_beside_negation_of_a_lower_stratum() -> None:
    found = stratify(rules("p(x) :- a(x). p(y) :- p(x), e(x, y), !b(y), 0 = count : { c(y) }."))
    assert [stratum.relations for stratum in found if stratum.is_recursive] == [("p",)]


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ("p(x) :- a(x), !p(x).", "p -> !p"),
        ("p(x) :- a(x), !q(x). q(x) :- p(x).", "p -> !q -> p"),
        ("q(x) :- p(x). p(x) :- a(x), !q(x).", "p -> !q -> p"),
        ("win(x) :- move(x, y), !win(y).", "win -> !win"),
        ("p(x) :- a(x), !q(x). q(x) :- a(x), !p(x).", "p -> !q -> !p"),
        ("p(n) :- n = sum x : { q(x) }. q(x) :- r(x). r(x) :- p(x).", "p -> sum : { q } -> r -> p"),
        ("a(x) :- b(x). b(x) :- c(x), d(x). c(x) :- e(x), !a(x). d(x) :- a(x).", "c -> !a -> b -> c"),
    ],
)
def test_a_cycle_is_named_as_a_whole(text: str, cycle: str) -> None:
    with pytest.raises(DatalogError) as found:
        stratify(rules(text))
    assert found.value.message.endswith(f", {cycle}")
    assert found.value.place is not None


def reached(start: str, successors: dict[str, list[str]]) -> set[str]:
    found, work = set(), [start]
    while work:
        for other in successors[work.pop()]:
            if other not in found:
                found.add(other)
                work.append(other)
    return found


def test_components_of_random_graphs() -> None:
    for seed in range(300):
        random_ = random.Random(seed)
        nodes = [f"n{i}" for i in range(random_.randint(1, 9))]
        successors = {node: random_.choices(nodes, k=random_.randint(0, 3)) for node in nodes}
        reach = {node: reached(node, successors) | {node} for node in nodes}
        found = components(nodes, successors)
        assert sorted(itertools.chain.from_iterable(found)) == sorted(nodes)
        level = {node: number for number, part in enumerate(found) for node in part}
        for one, other in itertools.product(nodes, nodes):
            together = other in reach[one] and one in reach[other]
            assert (level[one] == level[other]) is together, seed
            assert other not in reach[one] or level[other] <= level[one], seed


def test_a_long_chain_needs_no_recursion() -> None:
    chain = rules("".join(f"p{i}(x) :- p{i + 1}(x).\n" for i in range(3000)))
    found = stratify(chain + rules("p3000(x) :- p0(x)."))
    assert len(found) == 1
    assert found[0].is_recursive
    assert len(stratify(chain)) == 3001


def test_random_programs_are_stratified_or_have_a_cycle() -> None:
    """Where strata are given, what is negated or aggregated lies strictly below, and the rest not above."""
    refused = 0
    for seed in range(200):
        random_ = random.Random(seed)
        names = "abcde"
        lines = []
        for _ in range(random_.randint(1, 7)):
            literals = [
                random_.choice(["{}(x)", "!{}(x)", "0 = count : {{ {}(x) }}", "{}(x)"]).format(random_.choice(names))
                for _ in range(random_.randint(1, 2))
            ]
            lines.append(f"{random_.choice(names)}(x) :- t(x), {', '.join(literals)}.")
        program = rules("\n".join(lines))
        arcs = dependency_graph(program).arcs
        try:
            strata = stratify(program)
        except DatalogError:
            refused += 1
            assert any(arc.sign is not Sign.POSITIVE and _closes_a_cycle(arc, arcs) for arc in arcs), seed
            continue
        level = {name: number for number, stratum in enumerate(strata) for name in stratum.relations}
        for arc in arcs:
            assert level[arc.source] <= level[arc.target], seed
            assert arc.sign is Sign.POSITIVE or level[arc.source] < level[arc.target], seed
    assert 20 < refused < 180


def _closes_a_cycle(arc: Arc, arcs: tuple[Arc, ...]) -> bool:
    successors: dict[str, list[str]] = {name: [] for each in arcs for name in (each.source, each.target)}
    for each in arcs:
        successors[each.source].append(each.target)
    return arc.source in reached(arc.target, successors) | {arc.target}
