"""From E0 in the state before to E1 in the state after:

δ(⊎ branches)   branches in both: δb        only after: + b@new         only before: − b@old
δ(σp0 → σp1)    δ(σp0∧p1(S)) ⊎ σp1∧¬p0(S@new) − σp0∧¬p1(S@old)         ¬p: p is false or NULL
"""

from __future__ import annotations

import pytest

from tests.laws.specification import BIGINT, bag, becomes, changed_to, like, new, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import column
from viewkeeper.delta.redefinition import OtherwiseMade, redefined
from viewkeeper.sql.templates import templated as text


def follows(before: n.Node, after: n.Node) -> None:
    """The redefinition's change is after@new − before@old."""
    found = redefined(before, after)
    assert found.places
    becomes(before, after, lambda changed: found.change(found.node, tuple(changed)))


def selected(template: str) -> n.Node:
    """SELECT a, b FROM s WHERE ...; the condition may name b."""
    s, a, b = table("s")
    filtered = n.Filter(s, text(template, b))
    return n.Project(filtered, ((a, column(a)), (b, column(b))))


def branches(*names: str) -> n.Node:
    parts = tuple(table(name)[0] for name in names)
    return parts[0] if len(parts) == 1 else n.Union(parts, tuple(like(a) for a in parts[0].outputs))


def test_law_of_a_condition() -> None:
    follows(selected("{} > 0"), selected("{} < 1"))
    follows(selected("{} > 0"), selected("{} IS NULL"))


def test_law_of_branches() -> None:
    follows(branches("s"), branches("s", "t"))
    follows(branches("s", "t"), branches("s"))
    follows(branches("s", "t"), branches("u", "s"))
    follows(branches("s", "s", "t"), branches("s", "t"))


def test_law_of_a_condition_in_a_branch() -> None:
    def union(template: str) -> n.Node:
        part, t = selected(template), table("t")[0]
        return n.Union((part, t), tuple(like(a) for a in t.outputs))

    follows(union("{} > 0"), union("{} >= 0"))


def grouped(below: n.Node) -> n.Node:
    return n.Aggregate(below, (below.outputs[0],), (n.Call(new("n", BIGINT), "count"),))


def test_law_below_other_operators() -> None:
    follows(n.Distinct(branches("s")), n.Distinct(branches("s", "t")))
    follows(grouped(selected("{} > 0")), grouped(selected("{} < 1")))


def anti(template: str) -> n.Node:
    s, a, _ = table("s")
    t, c, d = table("t")
    return n.Exists(s, n.Filter(t, text(template, d)), (n.Equality(a, c),), negated=True)


def test_law_below_an_anti_join() -> None:
    follows(anti("{} > 0"), anti("{} >= 0"))


def joined(place: int) -> n.Node:
    s, *ours = table("s")
    t, *theirs = table("t")
    return n.Join((s, t), (n.Equality(ours[place], theirs[place]),))


def test_law_of_a_join_condition() -> None:
    follows(joined(0), joined(1))


def test_a_condition_that_is_null_is_not_true() -> None:
    """For a row with b NULL, neither b > 0 nor NOT b > 0 is true: it has not been there before."""
    before, after = selected("{} > 0"), selected("coalesce({}, 1) > 0")
    found = redefined(before, after)
    old = {"s": bag((1, None), (1, 0), (1, 1))}
    assert changed_to(before, after, lambda names: found.change(found.node, tuple(names)), old, {"s": {}}) == {
        (1, None): 1
    }


def test_other_differences_are_not_followed() -> None:
    s, a, b = table("s")
    one = n.Project(s, ((new("x"), column(a)),))
    other = n.Project(s, ((new("x"), text("{} + 1", b)),))
    with pytest.raises(OtherwiseMade):
        redefined(one, other)


def test_a_fallible_condition_does_not_follow_changed_rows() -> None:
    def fallible(template: str) -> n.Node:
        s, _, b = table("s")
        return n.Filter(s, text(template, b, raises=True))

    found = redefined(fallible("reciprocal({}) > 1"), fallible("reciprocal({}) > 2"))
    assert found.cannot_follow({"s"}) is not None
    assert found.cannot_follow({"t"}) is None
