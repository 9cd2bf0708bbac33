"""Polarity of the ways between relations, and the rules of relevance that follow."""

from __future__ import annotations

import random

import pytest

from viewkeeper.datalog.graph import Arc, Graph, Sign, dependency_graph
from viewkeeper.datalog.normal import normalise
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.polarity import Kind, Polarity, polarities, relevant_kinds


def polarity_of(text: str) -> dict[tuple[str, str], Polarity]:
    return polarities(dependency_graph([rule for clause in parse(text).clauses for rule in normalise(clause)]))


def test_even_odd_and_both() -> None:
    found = polarity_of(
        """
        p(x) :- a(x), !q(x).
        q(x) :- b(x), !r(x).
        r(x) :- c(x), a(x).
        s(n) :- n = count : { d(_) }.
        t(x) :- a(x), !a(x).
        """
    )
    assert found["a", "p"] is Polarity.EVEN
    assert found["b", "p"] is Polarity.ODD
    assert found["c", "p"] is Polarity.EVEN
    assert found["c", "q"] is Polarity.ODD
    assert found["d", "s"] is Polarity.BOTH
    assert found["a", "t"] is Polarity.BOTH
    assert found["a", "a"] is Polarity.EVEN
    assert ("p", "a") not in found
    assert ("d", "p") not in found


def test_recursion_keeps_the_polarity() -> None:
    found = polarity_of(
        """
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z), !closed(y).
        lonely(x) :- node(x), !path(x, _).
        """
    )
    assert found["edge", "lonely"] is Polarity.ODD
    assert found["closed", "path"] is Polarity.ODD
    assert found["closed", "lonely"] is Polarity.EVEN
    assert found["path", "path"] is Polarity.EVEN


@pytest.mark.parametrize(
    ("polarity", "wanted", "kinds"),
    [
        (Polarity.EVEN, Kind.ADDITIONS, {Kind.ADDITIONS}),  # rule 1
        (Polarity.EVEN, Kind.REMOVALS, {Kind.REMOVALS}),  # rule 1
        (Polarity.ODD, Kind.REMOVALS, {Kind.ADDITIONS}),  # rule 2
        (Polarity.ODD, Kind.ADDITIONS, {Kind.REMOVALS}),  # rule 3
        (Polarity.BOTH, Kind.ADDITIONS, {Kind.ADDITIONS, Kind.REMOVALS}),
        (Polarity.BOTH, Kind.REMOVALS, {Kind.ADDITIONS, Kind.REMOVALS}),
    ],
)
def test_rules_1_to_3(polarity: Polarity, wanted: Kind, kinds: set[Kind]) -> None:
    assert relevant_kinds(polarity, wanted) == kinds


def test_random_graphs_against_all_ways_of_some_length() -> None:
    (rule,) = normalise(parse("p(1).").clauses[0])
    for seed in range(200):
        random_ = random.Random(seed)
        names = [f"n{i}" for i in range(random_.randint(1, 5))]
        arcs = tuple(
            Arc(random_.choice(names), random_.choice(names), random_.choice(list(Sign)), rule, rule.place)
            for _ in range(random_.randint(0, 7))
        )
        ways = {(name, name, 0) for name in names}
        for _ in range(2 * len(names) + 1):
            ways |= {
                (source, arc.target, (odd + flip) % 2)
                for source, middle, odd in ways
                for arc in arcs
                if arc.source == middle
                for flip in {Sign.POSITIVE: (0,), Sign.NEGATIVE: (1,), Sign.AGGREGATED: (0, 1)}[arc.sign]
            }
        expected = {}
        for source, target, _ in ways:
            parities = {odd for one, other, odd in ways if (one, other) == (source, target)}
            expected[source, target] = (
                Polarity.BOTH if len(parities) == 2 else Polarity.ODD if parities == {1} else Polarity.EVEN
            )
        assert polarities(Graph(tuple(names), arcs)) == expected, seed
