"""A pushed filter changes no rows: σ commutes with the operators it passes, and stays above the others."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.laws.bag_semantics import States, net
from tests.laws.specification import BIGINT, like, new, random_row, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, column
from viewkeeper.plan.pushed_filters import with_pushed_filters
from viewkeeper.sql.templates import templated as text

Made = tuple[n.Node, tuple[Attribute, ...]]


def joined() -> Made:
    s, a, b = table("s")
    t, c, d = table("t")
    return n.Join((s, t), (n.Equality(a, c),), (text("{} <= {}", b, d),)), (a, b, c, d)


def left() -> Made:
    s, a, b = table("s")
    t, c, _ = table("t")
    padded = tuple((like(q), q) for q in t.outputs)
    made = n.Outer(s, t, (n.Equality(a, c),), (), padded)
    return made, (a, b, padded[0][0])


def full() -> Made:
    s, a, _ = table("s")
    t, c, _ = table("t")
    padded = tuple((like(q), q) for q in (*s.outputs, *t.outputs))
    return n.Outer(s, t, (n.Equality(a, c),), (), padded, full=True), (padded[0][0], padded[2][0])


def semi(negated: bool) -> Callable[[], Made]:
    def made() -> Made:
        s, a, b = table("s")
        t, c, _ = table("t")
        return n.Exists(s, t, (n.Equality(a, c),), (), negated), (a, b)

    return made


def union() -> Made:
    s, t = table("s")[0], table("t")[0]
    outputs = tuple(like(a) for a in s.outputs)
    return n.Union((n.Distinct(s), t, s), outputs), outputs


def grouped() -> Made:
    s, a, b = table("s")
    made = n.Aggregate(s, (a,), (n.Call(new("n", BIGINT), "count"), n.Call(new("t", BIGINT), "count", b)))
    return made, made.outputs


def whole() -> Made:
    s = table("s")[0]
    made = n.Aggregate(s, (), (n.Call(new("n", BIGINT), "count"),), whole=True)
    return made, made.outputs


def projected() -> Made:
    s, a, b = table("s")
    x, y, z = new("x"), new("y"), new("z")
    return n.Project(s, ((x, column(b)), (y, text("{} + 1", a)), (z, column(a)))), (x, y, z)


def first_rows() -> Made:
    s, a, b = table("s")
    return n.Top(s, (), (n.Order(a), n.Order(b)), 3, 0), (a, b)


def except_all() -> Made:
    s, t = table("s")[0], table("t")[0]
    outputs = tuple(like(a) for a in s.outputs)
    return n.Monus(s, t, outputs), outputs


MADE = [joined, left, full, semi(False), semi(True), union, grouped, whole, projected, first_rows, except_all]


def conditions(columns: tuple[Attribute, ...]) -> list[Expression]:
    found = [text(form, a) for a in columns for form in ("{} = 1", "{} IS NULL", "{} > 0")]
    found += [text("{} = {}", a, b) for a in columns for b in columns if a != b]
    return found


@pytest.mark.parametrize("make", MADE)
def test_the_rows_stay_the_same(make: Callable[[], Made]) -> None:
    rng = random.Random(3)
    node, columns = make()
    for condition in conditions(columns):
        for above in (n.Filter(node, condition), n.Distinct(n.Filter(n.Filter(node, condition), condition))):
            pushed = with_pushed_filters(above)
            for _ in range(6):
                bags = {name: net([(random_row(rng), 1) for _ in range(rng.randint(0, 8))]) for name in "stu"}
                states = States(bags, {})
                assert net(states.rows(pushed)) == net(states.rows(above)), f"{condition} over {make}"


def filters_at_scans(node: n.Node) -> list[str]:
    return sorted(
        part.input.name for part in node.walk() if isinstance(part, n.Filter) and isinstance(part.input, n.Scan)
    )


def test_how_far_a_filter_comes() -> None:
    node, (a, _, c, _) = joined()
    for attribute in (a, c):  # equal columns: both inputs are bound
        condition = text("{} = 1", attribute)
        assert filters_at_scans(with_pushed_filters(n.Filter(node, condition))) == ["s", "t"]
    group, columns = grouped()
    assert filters_at_scans(with_pushed_filters(n.Filter(group, conditions(columns[:1])[0]))) == ["s"]
    assert filters_at_scans(with_pushed_filters(n.Filter(group, conditions(columns[1:2])[0]))) == []
    fallible = n.Filter(group, text("{} / 0 = 1", columns[0], raises=True))
    assert with_pushed_filters(fallible) == fallible


def test_a_filtered_parent_no_longer_matches_every_child() -> None:
    node, (_, _, _, d) = joined()
    assert isinstance(node, n.Join)
    known = n.Join(node.inputs, node.equalities, (), ((0, 1),))
    pushed = with_pushed_filters(n.Filter(known, text("{} = 1", d)))
    assert isinstance(pushed, n.Join)
    assert pushed.parents == ()
