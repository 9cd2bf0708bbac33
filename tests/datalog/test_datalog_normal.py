"""Normal rules: their form, the scope of variables, and what they mean."""

from __future__ import annotations

from typing import Any

import pytest

from tests.datalog.evaluate import derive
from viewkeeper.datalog.normal import NormalAggregate, NormalRule, normalize
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.sameness import canonical, same_rule


def normal(text: str) -> tuple[NormalRule, ...]:
    (clause,) = parse(text).clauses
    return normalize(clause)


def outer(aggregate: NormalAggregate) -> list[str]:
    return [variable.name for variable in aggregate.outer]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("p(1).", ["p(1)."]),
        ("p(x) :- q(x), true.", ["p(x) :- q(x)."]),
        ("p(1) :- true.", ["p(1)."]),
        ("p(x) :- q(x), false.", ["p(x) :- q(x), false."]),
        ("p(x), q(x) :- r(x).", ["p(x) :- r(x).", "q(x) :- r(x)."]),
        ("p(x) :- a(x); b(x), c(x).", ["p(x) :- a(x).", "p(x) :- b(x), c(x)."]),
        (
            "p(x) :- (a(x); b(x)), (c(x); d(x)).",
            ["p(x) :- a(x), c(x).", "p(x) :- a(x), d(x).", "p(x) :- b(x), c(x).", "p(x) :- b(x), d(x)."],
        ),
        ("p(x) :- x > 1, !b(x, _), a(x), x < 3.", ["p(x) :- a(x), !b(x, _), x > 1, x < 3."]),
        ('p(x + 1, "a") :- q(x, x, 3, x + 2).', ['p(x + 1, "a") :- q(x, x, 3, x + 2).']),
        (
            "deg(x, n) :- node(x), n = count : { edge(x, _) }.",
            ["deg(x, n) :- node(x), _1 = count : { edge(x, _) }, n = _1."],
        ),
        ("b(s, count : { c(s, _) }) :- w(s).", ["b(s, _1) :- w(s), _1 = count : { c(s, _) }."]),
        (
            "p(x) :- q(x), !r(count : { s(x, _) }).",
            ["p(x) :- q(x), !r(_1), _1 = count : { s(x, _) }."],
        ),
        (
            "p(_1) :- q(_1), 3 = count : { r(_1) } + sum y : { s(y) }.",
            ["p(_1) :- q(_1), _2 = count : { r(_1) }, _3 = sum y : { s(y) }, 3 = _2 + _3."],
        ),
    ],
)
def test_forms(text: str, rules: list[str]) -> None:
    assert [str(rule) for rule in normal(text)] == rules


def test_outer_variables_are_those_shared_with_the_rule() -> None:
    (rule,) = normal("p(x, n) :- a(x, y), n = count : { b(x, z), c(y, w), z < x }.")
    (aggregate,) = rule.body.aggregates
    assert outer(aggregate) == ["x", "y"]


def test_a_variable_of_two_aggregates_only_is_two_variables() -> None:
    (rule,) = normal("bar(1) :- 0 = count : { o(1, y), y != 1 }, 0 = count : { o(2, y), y != 2 }.")
    assert str(rule) == (
        "bar(1) :- _1 = count : { o(1, y), y != 1 }, _2 = count : { o(2, y_2), y_2 != 2 }, 0 = _1, 0 = _2."
    )
    assert [outer(aggregate) for aggregate in rule.body.aggregates] == [[], []]


def test_the_target_s_variable_belongs_to_the_aggregate() -> None:
    (rule,) = normal("b(x, y) :- a(x, z), y = sum z : { a(x, z), z > 0 }.")
    (aggregate,) = rule.body.aggregates
    assert str(aggregate) == "_1 = sum z_2 : { a(x, z_2), z_2 > 0 }"
    assert outer(aggregate) == ["x"]


def test_a_target_s_variable_that_the_body_has_not_comes_from_outside() -> None:
    (rule,) = normal("b(x, y) :- a(x, z), y = sum z : { c(x, w) }.")
    (aggregate,) = rule.body.aggregates
    assert outer(aggregate) == ["z", "x"]


def test_aggregates_in_aggregates() -> None:
    (rule,) = normal(
        "a(l, x) :- a(l, _), x = min y : { a(k, y), y < max y : { a(l, y) } }, z = max y : { b(y) }, k = z."
    )
    least, greatest = rule.body.aggregates
    (inner,) = least.body.aggregates
    assert str(least) == "_1 = min y : { a(k, y), _2 = max y_2 : { a(l, y_2) }, y < _2 }"
    assert str(greatest) == "_3 = max y_3 : { b(y_3) }"
    assert (outer(least), outer(inner), outer(greatest)) == (["k", "l"], ["l"], [])


def test_scopes_are_those_of_each_alternative() -> None:
    first, second = normal("p(n) :- (a(1); b(y)), n = count : { c(y) }.")
    assert outer(first.body.aggregates[0]) == []
    assert outer(second.body.aggregates[0]) == ["y"]
    assert (first.alternative, second.alternative) == (1, 2)


def test_wildcards_are_marked() -> None:
    (rule,) = normal("p(x) :- q(x, _), !r(_, x, _), 0 = count : { s(_, x), !t(x, _) }.")
    assert rule.body.positive[0].wildcards == (1,)
    assert rule.body.negated[0].wildcards == (0, 2)
    inside = rule.body.aggregates[0].body
    assert (inside.positive[0].wildcards, inside.negated[0].wildcards) == ((0,), (1,))


def test_a_negated_atom_stands_where_its_sign_stands() -> None:
    (rule,) = normal("p(x) :- q(x), !r(x).")
    assert (rule.body.negated[0].place.column, rule.body.negated[0].place.length) == (15, 5)


# when two rules are the same ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("p(x) :- q(x).", "- p( y ):-q(y) .", True),
        ("p(x, y) :- q(x, y).", "p(y, x) :- q(y, x).", True),
        ("p(x, y) :- q(x, y).", "p(y, x) :- q(x, y).", False),
        ("p(x, y) :- q(x), r(y).", "p(x, x) :- q(x), r(x).", False),
        ("p(x) :- q(x, _).", "p(x) :- q(x, y).", False),
        ("p(x) :- q(x), r(x).", "p(x) :- r(x), q(x).", False),
        ("p(x) :- (q(x)); r(x).", "p(y) :- q(y); r(y).", True),
        ("p(x) :- q(x), 2 < x.", "p(x) :- q(x), 2 <= x.", False),
        ("p(1).", "p(1).", True),
        ("p(1).", "p(2).", False),
        ("p(1) :- q(x).", "p(1.0) :- q(x).", False),
        ("b(x, y) :- a(x, z), y = sum z : { a(x, z) }.", "b(u, v) :- a(u, w), v = sum k : { a(u, k) }.", True),
        ("b(x, y) :- a(x, z), y = sum z : { a(x, z) }.", "b(u, v) :- a(u, w), v = sum k : { a(w, k) }.", False),
        ("p(n) :- n = count : { a(x) }.", "p(n) :- n = count : a(x).", True),
    ],
)
def test_sameness(one: str, other: str, same: bool) -> None:
    first, second = parse(one).clauses[0], parse(other).clauses[0]
    assert same_rule(first, second) is same
    assert (hash(canonical(first)) == hash(canonical(second))) or not same


def test_one_of_several_heads_is_found_by_its_normal_rule() -> None:
    both = normal("p(x), q(x) :- r(x).")
    (one,) = parse("- q(z) :- r(z).").clauses
    assert [same_rule(rule, one) for rule in both] == [False, True]


# what they mean ---------------------------------------------------------------------------------------------

ROWS: dict[str, set[tuple[Any, ...]]] = {
    "node": {(1,), (2,), (3,)},
    "edge": {(1, 2), (1, 3), (2, 3)},
    "a": {(1, 10), (1, 20), (2, 5)},
    "n": {(2,), (3,), (5,)},
    "o": {(1, 1), (1, 2), (2, 2)},
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("deg(x, n) :- node(x), n = count : { edge(x, _) }.", {(1, 2), (2, 1), (3, 0)}),
        ("lonely(x) :- node(x), !edge(x, _).", {(3,)}),
        ("p(x) :- node(x), (edge(x, 3); x = 3).", {(1,), (2,), (3,)}),
        ("s(n) :- n = sum y : n(y).", {(10,)}),
        ("b(x, y) :- a(x, z), y = sum z : { a(x, z), z > 5 }.", {(1, 30), (2, 0)}),
        ("b(x, y) :- a(x, z), y = sum z : { edge(x, _) }.", {(1, 20), (1, 40), (2, 5)}),
        ("below(c, x) :- n(x), c = count : { n(y), y < x }.", {(0, 2), (1, 3), (2, 5)}),
        ("m(x, y) :- node(x), y = min z : { a(x, z) }.", {(1, 10), (2, 5)}),
        ("m(x, y) :- node(x), y = mean z : { a(x, z) }.", {(1, 15), (2, 5)}),
        ("second(x, y) :- node(x), y = max z : { a(x, z), z < max z : { a(x, z) } }.", {(1, 10)}),
        ("q(x, 2 * sum s : { a(x, s) } + 2) :- node(x), edge(x, _).", {(1, 62), (2, 12)}),
        ("p(x + 1) :- edge(x, x + 1).", {(2,), (3,)}),
        ("p(x) :- o(x, x).", {(1,), (2,)}),
        ("bar(1) :- 1 = count : { o(1, y), y != 1 }, 0 = count : { o(2, y), y != 2 }.", {(1,)}),
        ("p(x, y) :- edge(x, _), y = x + 1, y < 3.", {(1, 2)}),
        ("p(s) :- edge(x, _), s = max(x, 2).", {(2,)}),
        ("p(x) :- node(x), false.", set()),
    ],
)
def test_meaning(text: str, rows: set[tuple[Any, ...]]) -> None:
    assert derive(normal(text), ROWS) == rows
