"""Which kind of change leads to which, by the operators on the way (Rules 1 to 3 of Harrison and Dietrich)."""

from __future__ import annotations

import pytest

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import Attribute, Equality, column
from viewkeeper.algebra.types import Type
from viewkeeper.analysis.polarity import Kinds, Polarity, polarities, relevant_kinds

A, B, C, D = (Attribute(number, f"c{number}", Type("int")) for number in range(4))
LEFT, RIGHT = n.Scan("l", "l", (A,)), n.Scan("r", "r", (B,))
SAME = (Equality(A, B),)

EXPRESSIONS = {
    "join": (n.Join((LEFT, RIGHT), SAME), Polarity.EVEN, Polarity.EVEN),
    "semi join": (n.Exists(LEFT, RIGHT, SAME), Polarity.EVEN, Polarity.EVEN),
    "anti join": (n.Exists(LEFT, RIGHT, SAME, negated=True), Polarity.EVEN, Polarity.ODD),
    "EXCEPT ALL": (n.Monus(LEFT, RIGHT, (C,)), Polarity.EVEN, Polarity.ODD),
    "INTERSECT ALL": (n.Least(LEFT, RIGHT, (C,)), Polarity.EVEN, Polarity.EVEN),
    "UNION": (n.Distinct(n.Union((LEFT, RIGHT), (C,))), Polarity.EVEN, Polarity.EVEN),
    "left join": (n.Outer(LEFT, RIGHT, SAME, (), ((C, B),)), Polarity.EVEN, Polarity.BOTH),
    "full join": (n.Outer(LEFT, RIGHT, SAME, (), ((C, B), (D, A)), full=True), Polarity.BOTH, Polarity.BOTH),
    "count": (n.Aggregate(n.Join((LEFT, RIGHT)), (A,), (n.Call(C, "count"),)), Polarity.BOTH, Polarity.BOTH),
    "GROUP BY alone": (n.Aggregate(n.Join((LEFT, RIGHT)), (A,), ()), Polarity.EVEN, Polarity.EVEN),
    "top": (n.Top(n.Join((LEFT, RIGHT)), (), (n.Order(A),), 3), Polarity.BOTH, Polarity.BOTH),
    "order": (n.Top(n.Join((LEFT, RIGHT)), (), (n.Order(A),), None), Polarity.EVEN, Polarity.EVEN),
    "twice": (n.Exists(n.Exists(LEFT, RIGHT, SAME), RIGHT, SAME, negated=True), Polarity.EVEN, Polarity.BOTH),
    "recursion": (
        n.Fixpoint(
            (LEFT, RIGHT),
            (Predicate("p", (C,)),),
            (
                Rule("p", (column(A),), (Literal(0, (A,)), Literal(1, (B,), negated=True)), SAME),
                Rule("p", (column(D),), (Literal("p", (D,)),)),
            ),
            "p",
            (C,),
        ),
        Polarity.EVEN,
        Polarity.ODD,
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_polarities(name: str) -> None:
    node, left, right = EXPRESSIONS[name]
    assert polarities(node) == {"l": left, "r": right}


@pytest.mark.parametrize(
    ("name", "wanted", "left", "right"),
    [
        ("join", Kinds.ADDITIONS, Kinds.ADDITIONS, Kinds.ADDITIONS),  # rule 1
        ("join", Kinds.REMOVALS, Kinds.REMOVALS, Kinds.REMOVALS),  # rule 1
        ("anti join", Kinds.REMOVALS, Kinds.REMOVALS, Kinds.ADDITIONS),  # rule 2
        ("anti join", Kinds.ADDITIONS, Kinds.ADDITIONS, Kinds.REMOVALS),  # rule 3
        ("recursion", Kinds.ADDITIONS, Kinds.ADDITIONS, Kinds.REMOVALS),
        ("left join", Kinds.ADDITIONS, Kinds.ADDITIONS, Kinds.BOTH),
    ],
)
def test_relevant_kinds(name: str, wanted: Kinds, left: Kinds, right: Kinds) -> None:
    assert relevant_kinds(EXPRESSIONS[name][0], wanted) == {"l": left, "r": right}
