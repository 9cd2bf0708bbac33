"""δ(γ S) = γ(S@new ⋉ K) − γ(S@old ⋉ K)        K = the groups of δS"""

from __future__ import annotations

from tests.laws.specification import BIGINT, bag, changed, law_holds, minus, new, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import text
from viewkeeper.delta.compile import differentiate


def group_by(*, whole: bool = False) -> n.Aggregate:
    """count(*), count(b), sum(b), min(b) and max(b), per a or of all."""
    s, a, b = table("s")
    some = (n.Call(new(function, BIGINT), function, b) for function in ("count", "sum", "min", "max"))
    return n.Aggregate(s, () if whole else (a,), (n.Call(new("rows", BIGINT), "count"), *some), whole)


def test_law() -> None:
    law_holds(group_by())


def test_law_without_groups() -> None:
    law_holds(group_by(whole=True))


def test_law_above_a_join_and_below_a_condition() -> None:
    s, a, b = table("s")
    t, c, d = table("t")
    call = n.Call(new("total", BIGINT), "sum", d)
    inside = n.Aggregate(n.Join((s, t), (n.Equality(a, c),)), (b,), (call,))
    law_holds(n.Filter(inside, text("{} >= 1", call.output)))


def test_a_group_begins_and_ends_with_its_rows() -> None:
    group = group_by()
    assert changed(group, {"s": {}}, {"s": bag((None, 2))}) == {(None, 1, 1, 2, 2, 2): 1}
    assert changed(group, {"s": bag((None, 2))}, {"s": minus((None, 2))}) == {(None, 1, 1, 2, 2, 2): -1}


def test_a_row_that_moves_changes_both_groups() -> None:
    found = changed(group_by(), {"s": bag((1, 2), (1, 3))}, {"s": {(1, 3): -1, (2, 3): 1}})
    assert found == {(1, 2, 2, 5, 2, 3): -1, (1, 1, 1, 2, 2, 2): 1, (2, 1, 1, 3, 3, 3): 1}


def test_the_sum_of_nothing_but_nulls_is_null() -> None:
    found = changed(group_by(), {"s": bag((1, 5), (1, None))}, {"s": minus((1, 5))})
    assert found == {(1, 2, 1, 5, 5, 5): -1, (1, 1, 0, None, None, None): 1}


def test_without_groups_there_is_always_one_row() -> None:
    found = changed(group_by(whole=True), {"s": bag((1, 5))}, {"s": minus((1, 5))})
    assert found == {(1, 1, 5, 5, 5): -1, (0, 0, None, None, None): 1}


def test_only_touched_groups_are_read() -> None:
    group = group_by()
    law = differentiate(group, {"s"})
    assert law is not None
    (restricted,) = (part for part in law.walk() if isinstance(part, n.Restrict))
    assert restricted.on == ((group.groups[0], group.groups[0]),)
