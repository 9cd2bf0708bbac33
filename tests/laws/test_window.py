"""δ(op S) = op(S@new ⋉ K) − op(S@old ⋉ K)        K = the partitions of δS"""

from __future__ import annotations

from tests.laws.specification import bag, changed, law_holds, minus, new, table
from viewkeeper.algebra import nodes as n
from viewkeeper.delta.compile import differentiate
from viewkeeper.sql.templates import templated as text


def window(*, partitioned: bool = True) -> n.Window:
    """row_number() and rank() over (partition by a order by b)."""
    s, a, b = table("s")
    calls = (n.WindowCall(new("r"), text("row_number()"), tie_break=True), n.WindowCall(new("k"), text("rank()")))
    return n.Window(s, (a,) if partitioned else (), (n.Order(b),), calls)


def top(limit: int, *, offset: int = 0, partitioned: bool = True) -> n.Top:
    """The first rows by b, the last value first, NULLs last."""
    s, a, b = table("s")
    return n.Top(s, (a,) if partitioned else (), (n.Order(b, descending=True, nulls_first=False),), limit, offset)


def test_law_of_window_functions() -> None:
    law_holds(window())


def test_law_of_window_functions_without_a_partition() -> None:
    law_holds(window(partitioned=False))


def test_law_of_top() -> None:
    law_holds(top(2))
    law_holds(top(1, offset=1))


def test_law_of_limit() -> None:
    law_holds(top(3, partitioned=False))
    law_holds(top(2, offset=1, partitioned=False))


def test_a_partition_that_is_emptied_leaves_the_others_alone() -> None:
    old = {"s": bag((None, 1), (None, 1), (1, 0))}
    emptied = changed(window(), old, {"s": minus((None, 1), (None, 1))})
    assert emptied == {(None, 1, 1, 1): -1, (None, 1, 2, 1): -1}
    assert changed(top(1), old, {"s": minus((None, 1), (None, 1))}) == {(None, 1): -1}


def test_a_new_first_row_moves_the_others_of_its_partition() -> None:
    found = changed(window(), {"s": bag((1, 5), (2, 5))}, {"s": bag((1, 3))})
    assert found == {(1, 5, 1, 1): -1, (1, 5, 2, 2): 1, (1, 3, 1, 1): 1}


def test_the_next_row_takes_the_place_of_one_that_is_deleted() -> None:
    old = {"s": bag((1, 9), (1, 8), (1, 7))}
    assert changed(top(2), old, {"s": minus((1, 9))}) == {(1, 9): -1, (1, 7): 1}
    assert changed(top(2), old, {"s": minus((1, 7))}) == {}


def test_only_touched_partitions_are_read() -> None:
    for node in (window(), top(1)):
        law = differentiate(node, {"s"})
        assert law is not None
        (restricted,) = (part for part in law.walk() if isinstance(part, n.Restrict))
        assert restricted.on == ((node.partition[0], node.partition[0]),)
