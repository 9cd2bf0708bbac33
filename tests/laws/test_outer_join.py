"""δ(S ⟕ T) = (δS ⟕ T@new)  ⊎  (S@old ⋉K ⟕ T@new ⋉K) − (S@old ⋉K ⟕ T@old ⋉K)        K = the join keys of δT

S ⟗ T = (S ⟕ T)  ⊎  (T ▷ S) padded with NULLs
"""

from __future__ import annotations

import pytest

from tests.laws.specification import bag, changed, law_holds, like, minus, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.printing import formula
from viewkeeper.delta.compile import differentiate
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


@KINDS
@pytest.mark.parametrize("inner_full", [False, True], ids=["over left", "over full"])
def test_law_of_a_chain(full: bool, inner_full: bool) -> None:
    """The second join is by a column of either side of the first, which may be missing there."""
    for side in (0, 2):
        below = outer(full=inner_full)
        u, e, _ = table("u")
        padded = tuple((like(q), q) for q in ((*below.outputs, *u.outputs) if full else u.outputs))
        law_holds(n.Outer(below, u, (n.Equality(below.outputs[side], e),), (), padded, full))
        turned = tuple((like(q), q) for q in ((*u.outputs, *below.outputs) if full else below.outputs))
        law_holds(n.Outer(u, below, (n.Equality(e, below.outputs[side]),), (), turned, full))


@KINDS
@pytest.mark.parametrize("negated", [False, True], ids=["semi", "anti"])
def test_law_of_semi_and_anti_joins_with_it(full: bool, negated: bool) -> None:
    for side in (0, 2):
        below = outer(full=full)
        u, e, _ = table("u")
        law_holds(n.Exists(below, u, (n.Equality(below.outputs[side], e),), (), negated))
        law_holds(n.Exists(u, below, (n.Equality(e, below.outputs[side]),), (), negated))


def test_the_change_of_full_joins_in_a_row_stays_short() -> None:
    def length(count: int) -> int:
        node: n.Node
        node, key, _ = table("s")
        for _ in range(count):
            t, c, _ = table("t")
            padded = tuple((like(q), q) for q in (*node.outputs, *t.outputs))
            node = n.Outer(node, t, (n.Equality(key, c),), (), padded, full=True)
            key = node.outputs[0]
        found = differentiate(node, {"s"})
        assert found is not None
        return len({id(part) for part in found.walk()})

    assert length(6) < 4 * length(3)


def test_the_change_of_a_chain_of_full_joins_shares_what_it_has_twice() -> None:
    """Each object is hashed, walked, replaced and printed once: along all paths there are 4 to the power of 24."""
    node: n.Node = table("s")[0]
    for _ in range(24):
        t, c, _ = table("t")
        padded = tuple((like(a), a) for a in (*node.outputs, *t.outputs))
        node = n.Outer(node, t, (n.Equality(node.outputs[-1], c),), (), padded, full=True)
    change = differentiate(node, {"s", "t"})
    assert change is not None
    operators = len(list(change.walk()))
    assert operators < 5_000
    assert hash(change) == hash(change)
    assert len(list(n.at(change, n.OLD).walk())) == operators
    assert n.at(change, n.NEW) is not change
    assert n.transform(change, lambda part: part) is change
    assert len(formula(change)) < 200_000
