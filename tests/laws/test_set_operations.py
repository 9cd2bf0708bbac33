"""δ(S op T) = (S@new ⋉ K) op (T@new ⋉ K) − (S@old ⋉ K) op (T@old ⋉ K)        K = the rows of δS and of δT"""

from __future__ import annotations

from tests.laws.specification import bag, changed, law_holds, like, minus, table
from viewkeeper.algebra import nodes as n

ROW = (1, None)


def except_all() -> n.Monus:
    s, t = table("s")[0], table("t")[0]
    return n.Monus(s, t, tuple(like(a) for a in s.outputs))


def intersect_all() -> n.Least:
    s, t = table("s")[0], table("t")[0]
    return n.Least(s, t, tuple(like(a) for a in s.outputs))


def test_law_of_except_all() -> None:
    law_holds(except_all())


def test_law_of_intersect_all() -> None:
    law_holds(intersect_all())


def test_law_of_except_and_intersect() -> None:
    for kind in (n.Monus, n.Least):
        s, t = table("s")[0], table("t")[0]
        law_holds(kind(n.Distinct(s), n.Distinct(t), tuple(like(a) for a in s.outputs)))


def test_law_with_one_table_on_both_sides() -> None:
    s, again = table("s")[0], table("s")[0]
    u = table("u")[0]
    more = n.Union((again, u), tuple(like(a) for a in again.outputs))
    law_holds(n.Monus(more, s, tuple(like(a) for a in s.outputs)))


def test_both_sides_change_by_the_same() -> None:
    """3 - 1 = 2 before, 4 - 2 = 2 after."""
    old = {"s": bag(ROW, ROW, ROW), "t": bag(ROW)}
    assert changed(except_all(), old, {"s": bag(ROW), "t": bag(ROW)}) == {}
    assert changed(intersect_all(), old, {"s": bag(ROW), "t": bag(ROW)}) == {ROW: 1}


def test_nothing_is_taken_from_nothing() -> None:
    """max(0, 1 - 3) = 0 before, max(0, 2 - 3) = 0 and max(0, 2 - 1) = 1 after."""
    old = {"s": bag(ROW), "t": bag(ROW, ROW, ROW)}
    assert changed(except_all(), old, {"s": bag(ROW)}) == {}
    assert changed(except_all(), old, {"s": bag(ROW), "t": minus(ROW, ROW)}) == {ROW: 1}
