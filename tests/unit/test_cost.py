"""The cost model with plain numbers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from viewkeeper.algebra.tuning import Tuning
from viewkeeper.plan.choice import Choice, choose, count, reads, span, turns
from viewkeeper.plan.cost import RATES, Changed, Lane, Plan, Rates, Reading, Stored, full_seconds, incremental_seconds

ENGINES = tuple(RATES)
UNIT = Rates(query=1000.0, row=1.0, passed=0.5, worked=2.0, changed=4.0, staged=32.0, written=8.0, compared=16.0)
NOTHING = Rates(query=0, row=0, passed=0, worked=0, changed=0, staged=0, written=0, compared=0, look_up=0, found=0)
WHOLE = Reading("r", "t", "old", rows=1_000_000, files=10)
BOUND = Reading("r", "t", "old", ("k",), rows=1_000_000, files=10)
SORTED = Reading("r", "t", "old", ("k",), sorted=True, rows=1_000_000, files=10)
VIEW = Stored(rows=500_000, inputs=(1_000_000, 1_000_000), heavy=True, queries=3)
SIZES = (0, 1, 2, 9, 10, 11, 500, 10_000, 99_999, 100_000, 100_001, 1_000_000, 5_000_000)


def follow(reading: Reading, rows: int, rates: Rates, known: bool = True) -> float:
    return incremental_seconds(VIEW, [Changed(rows, Plan((reading,)), known)], rates)


def test_anew_adds_up() -> None:
    stored = Stored(rows=10, inputs=(100, 50), heavy=False, queries=2)
    moved = 4 * 10 / 100
    assert full_seconds(stored, 4, UNIT) == pytest.approx(2 * 1000 + 150 * 1 + 2 * 10 * 16 + moved * 16)
    heavy = Stored(rows=10, inputs=(100, 50), heavy=True, queries=2)
    assert full_seconds(heavy, 4, UNIT) - full_seconds(stored, 4, UNIT) == pytest.approx(150 * 2)


def test_by_change_adds_up() -> None:
    stored = Stored(rows=10, inputs=(100,), heavy=False)
    plain = incremental_seconds(stored, [Changed(4, Plan(()))], UNIT)
    assert plain == pytest.approx(1000 + 4 * 4 + 4 * 10 / 100 * 8)
    in_files = incremental_seconds(stored, [Changed(4, Plan((), passes=3), known=False)], UNIT)
    assert in_files == pytest.approx(1000 + 4 * (32 + 1) + 4 * 10 / 100 * 8)
    heavy = incremental_seconds(replace(stored, heavy=True), [Changed(4, Plan((), passes=3), known=False)], UNIT)
    assert heavy - in_files == pytest.approx(4 * 3 * 2)

    def more(reading: Reading, known: bool = True) -> float:
        without = incremental_seconds(stored, [Changed(4, Plan(()), known)], UNIT)
        return incremental_seconds(stored, [Changed(4, Plan((reading,)), known)], UNIT) - without

    whole = Reading("r", "t", "old", rows=100, files=10)
    by_key = Reading("r", "t", "old", ("k",), rows=100, files=10)
    assert more(whole) == pytest.approx(1000 + 100)
    assert more(by_key) == pytest.approx(1000 + 96 * 0.5 + 4)
    assert more(Reading("r", "t", "old", ("k",), True, 100, 10)) == pytest.approx(1000 + 36 * 0.5 + 4)
    assert more(Reading("r", "t", "old", ("k",), True, 100, 10), known=False) == pytest.approx(1000 + 100)
    assert more(Reading("r", "t", "old", rows=100, files=1, local=True)) == pytest.approx(100)
    assert more(Reading("r", "t", "old", ("k",), rows=100, files=10, per_key=5.0)) == pytest.approx(
        1000 + 80 * 0.5 + 20
    )


def test_an_empty_database_costs_queries_alone() -> None:
    stored = Stored(rows=0, inputs=(), heavy=True)
    assert full_seconds(stored, 0, UNIT) == 1000
    assert incremental_seconds(stored, [Changed(0, Plan(()))], UNIT) == 1000
    assert incremental_seconds(stored, [], UNIT) == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reading", [WHOLE, BOUND, SORTED])
def test_more_changed_rows_never_cost_less(engine: str, reading: Reading) -> None:
    for fewer, more in itertools.pairwise(SIZES):
        less = follow(reading, fewer, RATES[engine], fewer <= 100_000)
        assert less <= follow(reading, more, RATES[engine], more <= 100_000)
        assert full_seconds(VIEW, fewer, RATES[engine]) <= full_seconds(VIEW, more, RATES[engine])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", SIZES)
def test_reading_by_key_never_costs_more_than_reading_all(engine: str, rows: int) -> None:
    rates = RATES[engine]
    assert follow(SORTED, rows, rates) <= follow(BOUND, rows, rates) <= follow(WHOLE, rows, rates)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_found_costs_at_least_as_much_as_one_passed_by(engine: str) -> None:
    assert RATES[engine].passed <= RATES[engine].row


def test_options_decide_without_looking() -> None:
    def never() -> list[Changed]:
        raise AssertionError

    for refresh in ("full", "incremental"):
        choice = choose(refresh, 5_000_000, VIEW, RATES["sail"], Tuning(), never)
        assert (choice.strategy, choice.reason) == (refresh, f"refresh = '{refresh}'")
    small = Stored(rows=3, inputs=(3,), heavy=True)
    choice = choose("auto", 1, small, RATES["sail"], Tuning(), never)
    assert (choice.strategy, choice.weighed) == ("incremental", False)
    assert choice.reason == "1 row changed, 3 rows to compute it from: too few to matter"


def test_the_reason_has_both_costs() -> None:
    rates = replace(NOTHING, query=0.01, row=1e-6)
    choice = choose("auto", 20, VIEW, rates, Tuning(), lambda: [Changed(20, Plan((SORTED, BOUND, SORTED)))])
    assert choice.strategy == "incremental"
    assert choice.reason == (
        "incremental about 40 ms (20 rows changed, 3 reads by key), full about 2.0 s (2,000,000 rows)"
    )
    choice = choose("auto", 20, VIEW, rates, Tuning(), lambda: [Changed(20, Plan((WHOLE, WHOLE, WHOLE, BOUND)))])
    assert choice.strategy == "full"
    assert choice.reason == (
        "incremental about 3.1 s (20 rows changed, 1 read by key, 3,000,000 rows in full), "
        "full about 2.0 s (2,000,000 rows)"
    )


def test_a_slightly_cheaper_recompute_is_not_worth_it() -> None:
    rates = replace(NOTHING, row=1e-6)
    stored = Stored(rows=0, inputs=(1_000_000,), heavy=False)
    for share, strategy in ((1.0, "incremental"), (1.2, "incremental"), (1.3, "full")):
        reading = Reading("r", "t", "old", rows=round(share * 1_000_000), files=1)
        choice = choose("auto", 1, stored, rates, Tuning(), lambda r=reading: [Changed(1, Plan((r,)))])
        assert choice.strategy == strategy


def test_the_turning_point_is_where_the_choice_turns() -> None:
    def chosen(rows: int) -> Choice:
        stored = Stored(rows=500_000, inputs=(1_000_000 + rows,), heavy=False, queries=2)
        known = rows <= Tuning().small_rows
        return choose("auto", rows, stored, RATES["sail"], Tuning(), lambda: [Changed(rows, Plan(()), known)])

    turn = turns(chosen, 10_000_000)
    assert turn is not None
    assert 10_000 < turn < 2_000_000
    assert chosen(turn).strategy == "full"
    before = turn * 9 // 10
    assert chosen(before).strategy == "incremental"
    assert turns(chosen, before) is None
    assert turns(lambda _: Choice("full", ""), 5) == 1
    assert turns(lambda _: Choice("incremental", ""), 5) is None


def test_words() -> None:
    assert [span(s) for s in (0, 0.0004, 0.012, 0.0996, 0.456, 0.9996, 2.13, 9.99, 123)] == [
        "1 ms", "1 ms", "12 ms", "100 ms", "460 ms", "1.0 s", "2.1 s", "10 s", "120 s",
    ]  # fmt: skip
    assert [count(rows) for rows in (0, 1, 6_001_215)] == ["0 rows", "1 row", "6,001,215 rows"]
    assert reads([Changed(5, Plan((SORTED, WHOLE)), known=False)]) == ["2,000,000 rows in full"]
    assert reads([Changed(5, Plan((Reading("r", "t", "old"),)))]) == []
    assert str(SORTED) == "t@old: by k (files picked by it)"
    assert str(BOUND) == "t@old: by k (all files, rows picked by it)"
    assert str(WHOLE) == "t@old: reads all 1,000,000 rows"
    assert str(Reading("r", "t", "new")) == "t@new: holds nothing"


def test_what_the_driver_looks_up_is_no_query() -> None:
    stored = Stored(rows=10, inputs=(1_000_000,), heavy=False)
    lane = Lane(keys=10, found=40, rows=45)
    rates = replace(NOTHING, query=1000, look_up=10, found=1)
    four = Reading("r", "t", "old", ("k",), rows=1_000_000, files=10, per_key=4.0)

    def cost(rows: int, *readings: Reading, known: bool = True) -> float:
        return incremental_seconds(stored, [Changed(rows, Plan(readings, queries=3, waiting=0), known, lane)], rates)

    assert cost(0) == 3000, "no row is no small change"
    assert cost(5) == 0
    assert cost(5, four) == 10 + 20
    assert cost(9, four, four) == 3000 + 2 * (10 + 36), "the reads find too many rows together"
    assert cost(10, four) == 3000 + 10 + 40, "and with the change"
    assert cost(11, four) == 3000 + 1000, "too many keys"
    assert cost(5, four, known=False) == 3000 + 1000
    assert cost(5, known=False) == 3000, "the driver has all that is read, but not the change"
    assert cost(5, four, WHOLE) == 3000 + 30 + 1000


def test_groups_that_lose_an_extremum_are_foreseen() -> None:
    stored = Stored(rows=1_000, inputs=(100_000,), heavy=True)
    lane = Lane(keys=10_000, found=50_000, rows=200_000)
    rates = replace(NOTHING, query=1000, look_up=10, found=1)
    groups = Reading("r", "t", "new", ("g",), rows=100_000, files=10, per_key=100.0, share=2 / 100)

    def changed(rows: int, *, deletes: bool = True) -> list[Changed]:
        plan = Plan((), queries=0, waiting=0, again=(groups,))
        return [Changed(rows, plan, known=rows <= 10_000, lane=lane, deletes=deletes)]

    def cost(rows: int, *, deletes: bool = True) -> float:
        return incremental_seconds(stored, changed(rows, deletes=deletes), rates)

    assert cost(0) == 0
    assert cost(10) == pytest.approx(0.2 * (10 + 100)), "one row in fifty was the extremum of its group"
    assert cost(500) == 10 + 10 * 100
    assert cost(500, deletes=False) == 0, "inserted rows take no extremum away"
    assert cost(25_000) == 10 + 500 * 100
    assert cost(50_000) == 1000, "all groups: so many rows are left to a query"
    assert cost(5_000_000) == 1000
    assert reads(changed(10)) == []
    assert reads(changed(50)) == ["about 1 group read again"]
    assert reads(changed(5_000_000)) == ["about 1,000 groups read again"]
    assert reads(changed(500, deletes=False)) == []
