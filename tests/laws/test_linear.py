"""δ(op S) = op(δS)        δ(S ⊎ T) = δS ⊎ δT        δ(constant) = ∅"""

from __future__ import annotations

from tests.laws.specification import bag, changed, law_holds, like, minus, new, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column, integer
from viewkeeper.delta.compile import differentiate
from viewkeeper.sql.templates import templated as text


def union() -> n.Union:
    s, t = table("s")[0], table("t")[0]
    return n.Union((s, t), tuple(like(a) for a in s.outputs))


def test_law_of_a_scan() -> None:
    law_holds(table("s")[0])


def test_law_of_select() -> None:
    s, a, b = table("s")
    law_holds(n.Filter(s, text("{} > {}", a, b)))


def test_law_of_project() -> None:
    s, a, b = table("s")
    law_holds(n.Project(s, ((new("x"), text("{} + 1", a)), (b, column(b)))))


def test_law_of_generate() -> None:
    s, a, b = table("s")
    law_holds(n.Generate(s, text("explode(array({}, {}))", a, b), (new("g"),)))


def test_law_of_union_all() -> None:
    law_holds(union())


def test_what_leaves_one_branch_for_the_other_makes_no_change() -> None:
    assert changed(union(), {"s": bag((1, 1)), "t": {}}, {"s": minus((1, 1)), "t": bag((1, 1))}) == {}


def test_a_projection_adds_weights_up() -> None:
    s, a, _ = table("s")
    narrow = n.Project(s, ((a, column(a)),))
    assert changed(narrow, {"s": bag((1, 1))}, {"s": bag((1, 2), (1, 3))}) == {(1,): 2}


def test_a_constant_does_not_change() -> None:
    constant = n.Rows((new("x"),), ((integer(1),),))
    s = table("s")[0]
    assert differentiate(constant, {"s"}) is None
    law = differentiate(n.Join((s, constant)), {"s"})
    assert law is not None
    assert [type(part) for part in law.inputs] == [n.Scan, n.Rows]


def test_a_fallible_expression_is_not_computed_for_rows_that_cancel() -> None:
    """The inserted row of s meets the deleted one of t in both terms of the join: the pair is in neither state."""
    s, a, b = table("s")
    t, c, d = table("t")
    join = n.Join((s, t), (n.Equality(a, c),))
    old, changes = {"s": {}, "t": bag((1, 7))}, {"s": bag((1, 7)), "t": minus((1, 7))}
    fallible = text("reciprocal({} - {})", b, d, raises=True)
    assert changed(n.Filter(join, fallible), old, changes) == {}
    assert changed(n.Project(join, ((new("x"), fallible),)), old, changes) == {}
