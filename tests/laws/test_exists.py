"""δ(S ⋉ T) = (δS ⋉ T@new)  ⊎  (S@old ⋉K ⋉ T@new ⋉K) − (S@old ⋉K ⋉ T@old ⋉K)        K = the join keys of δT

and the same with ▷ for ⋉.
"""

from __future__ import annotations

import pytest

from tests.laws.specification import bag, changed, law_holds, minus, table
from viewkeeper.algebra import nodes as n
from viewkeeper.delta.compile import differentiate
from viewkeeper.sql.templates import templated as text

SIGNS = pytest.mark.parametrize("negated", [False, True], ids=["semi", "anti"])


@SIGNS
def test_law_by_key(negated: bool) -> None:
    s, a, b = table("s")
    t, c, d = table("t")
    law_holds(n.Exists(s, t, (n.Equality(a, c),), (), negated))
    law_holds(n.Exists(s, t, (n.Equality(a, c, null_safe=True),), (text("{} < {}", b, d),), negated))


@SIGNS
def test_law_without_an_equality(negated: bool) -> None:
    s, _, b = table("s")
    t, _, d = table("t")
    law_holds(n.Exists(s, t, (), (text("{} < {}", b, d),), negated))


@SIGNS
def test_law_of_any_row(negated: bool) -> None:
    s, a, _ = table("s")
    t, _, _ = table("t")
    law_holds(n.Exists(s, t, (), (), negated))
    law_holds(n.Exists(s, t, (), (text("{} > 1", a),), negated))


@SIGNS
def test_law_with_one_table_on_both_sides(negated: bool) -> None:
    s, a, _ = table("s")
    again, _, y = table("s")
    law_holds(n.Exists(s, again, (n.Equality(a, y),), (), negated))


def not_in() -> n.Exists:
    """a NOT IN (SELECT c FROM t): an anti join in which NULL on either side counts as a partner."""
    s, a, _ = table("s")
    t, c, _ = table("t")
    return n.Exists(s, t, (), (text("{} = {} OR {} IS NULL OR {} IS NULL", a, c, a, c),), negated=True)


def test_law_of_not_in() -> None:
    law_holds(not_in())


def test_not_in_turns_with_the_first_row_and_with_the_first_null() -> None:
    old = bag((1, 0), (2, 0), (None, 0))
    first = changed(not_in(), {"s": old, "t": {}}, {"t": bag((1, 0))})
    assert first == minus((1, 0), (None, 0)), "of an empty list, NULL NOT IN is true"
    null = changed(not_in(), {"s": old, "t": bag((1, 0))}, {"t": bag((None, 0))})
    assert null == minus((2, 0)), "with a NULL in the list, NOT IN is never true"
    assert changed(not_in(), {"s": old, "t": bag((None, 0))}, {"t": minus((None, 0))}) == old


def test_a_second_partner_makes_no_change() -> None:
    s, a, _ = table("s")
    t, c, _ = table("t")
    semi = n.Exists(s, t, (n.Equality(a, c),))
    assert changed(semi, {"s": bag((1, 0)), "t": bag((1, 0))}, {"t": bag((1, 1))}) == {}
    assert changed(semi, {"s": bag((1, 0)), "t": bag((1, 0))}, {"t": {**bag((1, 1)), **minus((1, 0))}}) == {}


def test_both_sides_change_under_one_key() -> None:
    """The row that leaves S with its last partner is counted once."""
    s, a, _ = table("s")
    t, c, _ = table("t")
    semi = n.Exists(s, t, (n.Equality(a, c),))
    old = {"s": bag((1, 0), (1, 1)), "t": bag((1, 0))}
    assert changed(semi, old, {"s": minus((1, 0)), "t": minus((1, 0))}) == minus((1, 0), (1, 1))


def test_both_sides_are_read_by_the_keys_of_the_change() -> None:
    s, a, _ = table("s")
    t, c, _ = table("t")
    law = differentiate(n.Exists(s, t, (n.Equality(a, c),)), {"t"})
    assert law is not None
    restricted = [part.left for part in law.walk() if isinstance(part, n.Restrict)]
    assert restricted == [n.at(s, n.OLD), n.at(t, n.OLD)]
