"""Q@new without Q@old  ⊆  N(Q)  ⊆  Q@new

N has all that is new, and nothing that is not in the new state. For most operators it is what δ(other S) touches.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from tests.laws.bag_semantics import Row, States, Weights
from tests.laws.specification import BIGINT, ROUNDS, bag, like, minus, net_change, new, random_row, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column
from viewkeeper.delta.positive import INSERTED, positive_differential
from viewkeeper.sql.templates import templated as text


def touched(node: n.Node, old: Mapping[str, Weights], changes: Mapping[str, Weights]) -> set[Row]:
    """N(node). That it lies between what is new and what is there is checked."""
    states = States(old, changes)
    for name, change in changes.items():
        states.of[n.NEW][f"{INSERTED}{name}"] = [(row, weight) for row, weight in change.items() if weight > 0]
    law = positive_differential(node, [name for name, change in changes.items() if change])
    found = set() if law is None else {row for row, _ in states.rows(law)}
    after = {row for row, _ in states.rows(n.at(node, n.NEW))}
    before = {row for row, _ in states.rows(n.at(node, n.OLD))}
    assert after - before <= found <= after, (old, changes)
    return found


def nodes() -> dict[str, n.Node]:
    s, a, b = table("s")
    t, c, d = table("t")
    union = (new("x"), new("y"))
    return {
        "filter": n.Filter(s, text("{} > 0", b)),
        "project": n.Project(s, ((new("x"), column(a)),)),
        "union": n.Union((s, t), union),
        "join": n.Join((s, t), (n.Equality(a, c),)),
        "semi join": n.Exists(s, t, (n.Equality(a, c),)),
        "anti join": n.Exists(s, t, (n.Equality(a, c),), negated=True),
        "outer join": n.Outer(s, t, (n.Equality(a, c),), (), tuple((like(q), q) for q in (c, d))),
        "distinct": n.Distinct(s),
        "except all": n.Monus(s, t, union),
        "group by": n.Aggregate(s, (a,), (n.Call(new("rows", BIGINT), "count"),)),
        "aggregate": n.Aggregate(s, (), (n.Call(new("rows", BIGINT), "count"),), whole=True),
    }


@pytest.mark.parametrize("name", sorted(nodes()))
def test_law_lies_between_what_is_new_and_what_is_there(name: str) -> None:
    node = nodes()[name]
    rng = random.Random(3)
    names = sorted({scan.relation for scan in n.scans(node)})
    for _ in range(ROUNDS):
        old = {each: bag(*(random_row(rng) for _ in range(rng.choice((0, 1, 3, 6))))) for each in names}
        chosen = rng.sample(names, rng.randint(1, len(names)))
        touched(node, old, {each: net_change(rng, old[each]) for each in chosen})


def test_a_row_that_was_there_before_is_touched_again() -> None:
    s, a, b = table("s")
    low = n.Project(n.Filter(s, text("{} < 140", b)), ((new("item"), column(a)),))
    update = {"s": {**bag((1, 120)), **minus((1, 130))}}
    assert touched(low, {"s": bag((1, 130), (2, 500))}, update) == {(1,)}


def test_a_group_whose_count_stays_is_touched() -> None:
    group = nodes()["group by"]
    assert touched(group, {"s": bag((1, 0), (2, 0))}, {"s": {**bag((1, 1)), **minus((1, 0))}}) == {(1, 1)}


def test_deletions_need_not_be_looked_at_where_nothing_is_counted_or_negated() -> None:
    law = positive_differential(nodes()["join"], ["s", "t"])
    assert law is not None
    assert {scan.state for scan in n.scans(law)} == {n.NEW}
