"""δ(γ S) = γ(S@new ⋉ K) − γ(S@old ⋉ K)        K = the groups of δS; of linear aggregates, those where one changes"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from tests.laws.bag_semantics import States, Weights
from tests.laws.specification import BIGINT, bag, changed, law_holds, minus, new, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.rows import row_tuples, without_balanced
from viewkeeper.delta.compile import differentiate
from viewkeeper.sql.templates import templated as text


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


# linear aggregates ------------------------------------------------------------------------------------


def linear(*functions: str) -> n.Aggregate:
    """count(*), and functions of b, per a."""
    s, a, b = table("s")
    calls = (n.Call(new(function, BIGINT), function, b) for function in functions)
    return n.Aggregate(s, (a,), (n.Call(new("rows", BIGINT), "count"), *calls))


def looked_up(group: n.Aggregate, change: Weights) -> set[object]:
    """The groups that are read for a change."""
    law = differentiate(group, {"s"})
    assert law is not None
    (restricted,) = (part for part in law.walk() if isinstance(part, n.Restrict))
    return {row[0] for row, _ in States({"s": {}}, {"s": change}).rows(restricted.right)}


def test_law_of_counts() -> None:
    law_holds(linear("count"))


def test_law_of_sums() -> None:
    law_holds(linear("count", "sum"))


def test_law_of_groups_alone() -> None:
    s, a, _ = table("s")
    law_holds(n.Aggregate(s, (a,), ()))


def test_balanced_groups_are_not_read() -> None:
    balanced = {(1, 5): -1, (1, 8): 1, (2, 5): 1}
    assert looked_up(linear(), balanced) == {2}
    assert looked_up(linear("count"), balanced) == {2}
    assert looked_up(linear("sum"), balanced) == {1, 2}
    assert looked_up(linear("sum"), {(1, 5): -1, (1, 3): -1, (1, 6): 1, (1, 2): 1}) == set()
    assert looked_up(linear("count"), {(1, 5): -1, (1, None): 1}) == {1}
    assert looked_up(linear("sum"), {(1, 0): -1, (1, None): 1}) == {1}


def test_other_aggregates_look_at_every_touched_group() -> None:
    assert looked_up(linear("min"), {(1, 5): -1, (1, 8): 1}) == {1}
    assert looked_up(group_by(), {(1, 5): -1, (1, 8): 1}) == {1}


def test_balanced_groups_are_found_exactly() -> None:
    """Decimals of 38 digits, NULL as a group, and a value that is NULL on one side."""
    long = Decimal("9" * 38)
    groups = ["a", "a", "a", "b", "b", None, None, "c", "c"]
    less = Decimal("9" * 37 + "8")
    values = [long, Decimal(1), less, long, less, Decimal(2), Decimal(2), Decimal(0), None]
    weights = [-1, 1, 1, -1, 1, 1, -1, 1, -1]
    rows = pa.table(
        {"g": groups, "x": pa.array(values, pa.decimal128(38, 0)), "_weight": pa.array(weights, pa.int64())}
    )
    assert {row[0] for row in row_tuples(without_balanced(rows, ["g"], ["x"], ["x"]))} == {"a", "b", "c"}
    assert {row[0] for row in row_tuples(without_balanced(rows, ["g"], [], []))} == {"a"}
    only_inserted = rows.slice(1, 2)
    assert without_balanced(only_inserted, ["g"], ["x"], ["x"]) is only_inserted
