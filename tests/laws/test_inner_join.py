"""δ(S1 ⋈ ... ⋈ Sn) = ⊎ over i of  S1@new ⋈ ... ⋈ δSi ⋈ ... ⋈ Sn@old"""

from __future__ import annotations

from tests.laws.specification import bag, changed, law_holds, minus, table
from viewkeeper.algebra import nodes as n
from viewkeeper.delta.compile import differentiate
from viewkeeper.sql.templates import templated as text


def test_law_of_two() -> None:
    s, a, b = table("s")
    t, c, d = table("t")
    law_holds(n.Join((s, t), (n.Equality(a, c),)))
    law_holds(n.Join((s, t), (n.Equality(a, c, null_safe=True),), (text("{} <= {}", b, d),)))


def test_law_of_three() -> None:
    s, a, _ = table("s")
    t, c, d = table("t")
    u, e, _ = table("u")
    law_holds(n.Join((s, t, u), (n.Equality(a, c), n.Equality(d, e))))


def many(count: int, *, star: bool = False) -> n.Join:
    """A join of so many tables, each with the one before it or all with the first."""
    tables = [table("st"[i % 2]) for i in range(count)]
    pairs = [(tables[0] if star else tables[i - 1], tables[i]) for i in range(1, count)]
    equalities = tuple(n.Equality(one[1], other[1], null_safe=True) for one, other in pairs)
    conditions = (text("{} <= {}", tables[0][2], tables[-1][2]), text("{} <= {}", tables[1][2], tables[0][2]))
    return n.Join(tuple(scan for scan, _, _ in tables), equalities, conditions)


def test_law_of_many() -> None:
    law_holds(many(5))
    law_holds(many(5, star=True))


def test_law_of_many_that_nothing_connects() -> None:
    joined = many(5)
    law_holds(n.Join(joined.inputs, joined.equalities[1:], joined.conditions))


def test_the_change_of_a_wide_self_join_grows_hardly_faster_than_the_join() -> None:
    """n log n, not n²."""

    def length(count: int) -> int:
        found = differentiate(many(count), {"s", "t"})
        assert found is not None
        return len(list(found.walk()))

    assert length(32) < 2.6 * length(16)
    assert length(64) < 2.6 * length(32)


def test_law_of_a_cross_join() -> None:
    law_holds(n.Join((table("s")[0], table("t")[0])))


def test_law_of_a_self_join() -> None:
    one, a, _ = table("s")
    other, _, y = table("s")
    join = n.Join((one, other), (n.Equality(a, y),))
    law_holds(join)
    assert changed(join, {"s": {}}, {"s": bag((1, 1))}) == {(1, 1, 1, 1): 1}


def test_weights_multiply() -> None:
    s, a, _ = table("s")
    t, c, _ = table("t")
    join = n.Join((s, t), (n.Equality(a, c),))
    old = {"s": bag((1, 0), (1, 0)), "t": bag((1, 5), (1, 5), (1, 5))}
    assert changed(join, old, {"s": minus((1, 0))}) == {(1, 0, 1, 5): -3}


def test_null_meets_nothing() -> None:
    s, a, _ = table("s")
    t, c, _ = table("t")
    join = n.Join((s, t), (n.Equality(a, c),))
    assert changed(join, {"s": bag((None, 0)), "t": {}}, {"t": bag((None, 0))}) == {}


def test_a_condition_is_not_computed_for_a_pair_that_is_in_no_state() -> None:
    """The inserted row meets the deleted one in both terms; they cancel before the condition could fail."""
    s, a, b = table("s")
    t, c, d = table("t")
    join = n.Join((s, t), (n.Equality(a, c),), (text("reciprocal({} - {}) > 0", b, d, raises=True),))
    assert changed(join, {"s": {}, "t": bag((1, 7))}, {"s": bag((1, 7)), "t": minus((1, 7))}) == {}


def test_terms_of_unchanged_inputs_vanish() -> None:
    s, a, _ = table("s")
    t, c, _ = table("t")
    law = differentiate(n.Join((s, t), (n.Equality(a, c),)), {"t"})
    assert isinstance(law, n.Join)
    assert [scan.state for scan in n.scans(law)] == [n.NEW, n.CHANGE]


def test_what_a_parent_gains_nobody_refers_to_yet() -> None:
    s, a, _ = table("s")
    t, c, _ = table("t")
    join = n.Join((s, t), (n.Equality(a, c),), parents=((1, 0),))
    assert differentiate(join, {"s"}, grown={"s"}) is None
    assert differentiate(join, {"s"}) is not None, "what it loses, somebody may have referred to"
    law = differentiate(join, {"s", "t"}, grown={"s", "t"})
    assert law is not None
    assert [scan.state for scan in n.scans(law)] == [n.NEW, n.CHANGE]
