"""δ(ε S) = ε(S@new ⋉ K) − ε(S@old ⋉ K)        K = the rows of δS"""

from __future__ import annotations

from tests.laws.specification import bag, changed, law_holds, like, minus, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column


def test_law() -> None:
    s, a, _ = table("s")
    law_holds(n.Distinct(s))
    law_holds(n.Distinct(n.Project(s, ((a, column(a)),))))


def test_law_of_union_distinct() -> None:
    s, t = table("s")[0], table("t")[0]
    law_holds(n.Distinct(n.Union((s, t), tuple(like(a) for a in s.outputs))))


def test_only_the_first_and_the_last_copy_make_a_change() -> None:
    distinct = n.Distinct(table("s")[0])
    row = (None, 1)
    assert changed(distinct, {"s": {}}, {"s": bag(row, row)}) == {row: 1}
    assert changed(distinct, {"s": bag(row)}, {"s": bag(row)}) == {}
    assert changed(distinct, {"s": bag(row, row)}, {"s": minus(row)}) == {}
    assert changed(distinct, {"s": bag(row, row)}, {"s": minus(row, row)}) == {row: -1}
