"""δ(S ⟕ T) = (δS ⟕ T@new)  ⊎  (S@old ⋉K ⟕ T@new ⋉K) − (S@old ⋉K ⟕ T@old ⋉K)        K = the join keys of δT

S ⟗ T = (S ⟕ T)  ⊎  (T ▷ S) padded with NULLs
"""

from __future__ import annotations

import pytest

from tests.laws.specification import bag, changed, law_holds, like, minus, table
from viewkeeper.algebra import nodes as n
from viewkeeper.sql.templates import templated as text

KINDS = pytest.mark.parametrize("full", [False, True], ids=["left", "full"])


def outer(*, full: bool, equal: bool = True, more: bool = False, null_safe: bool = False) -> n.Outer:
    s, a, b = table("s")
    t, c, d = table("t")
    padded = tuple((like(q), q) for q in ((*s.outputs, *t.outputs) if full else t.outputs))
    equalities = (n.Equality(a, c, null_safe),) if equal else ()
    return n.Outer(s, t, equalities, (text("{} <= {}", b, d),) if more else (), padded, full)


@KINDS
def test_law_by_key(full: bool) -> None:
    law_holds(outer(full=full))
    law_holds(outer(full=full, more=True))
    law_holds(outer(full=full, null_safe=True))


@KINDS
def test_law_without_an_equality(full: bool) -> None:
    law_holds(outer(full=full, equal=False, more=True))
    law_holds(outer(full=full, equal=False))


def test_the_first_partner_replaces_the_padded_row_and_the_last_brings_it_back() -> None:
    left = outer(full=False)
    row = (1, 0)
    first = {(1, 0, None, None): -1, (1, 0, 1, 5): 1}
    assert changed(left, {"s": bag(row), "t": {}}, {"t": bag((1, 5))}) == first
    assert changed(left, {"s": bag(row), "t": bag((1, 5))}, {"t": bag((1, 6))}) == {(1, 0, 1, 6): 1}
    gone = {row: -weight for row, weight in first.items()}
    assert changed(left, {"s": bag(row), "t": bag((1, 5))}, {"t": minus((1, 5))}) == gone


@KINDS
def test_null_keys_have_no_partner(full: bool) -> None:
    found = changed(outer(full=full), {"s": bag((None, 1)), "t": {}}, {"s": bag((None, 2)), "t": bag((None, 3))})
    alone = {(None, None, None, 3): 1} if full else {}
    assert found == {(None, 2, None, None): 1, **alone}


def test_a_row_and_its_partner_leave_together() -> None:
    for full in (False, True):
        old = {"s": bag((1, 0)), "t": bag((1, 5))}
        found = changed(outer(full=full), old, {"s": minus((1, 0)), "t": minus((1, 5))})
        assert found == {(1, 0, 1, 5): -1}
