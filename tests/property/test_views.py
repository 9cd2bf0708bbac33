"""Random views stay what DuckDB computes from scratch, through random transactions, on both engines."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

import viewkeeper as vk
from tests.inventory import MIXED
from tests.marks import long
from tests.property.shrinking import keep_reproduction
from tests.property.view_cases import Maker
from tests.property.view_driver import Outcome, Run

VIEWS = 24
TRANSACTIONS = 9
SHOWN = 3
"""How many failures of a seed are shrunk and written down."""


ENGINE = replace(MIXED, driver_rows=0)
"""All operators of plans run on the engine."""


def check(connect: Callable[..., vk.Database], seed: int, tuning: vk.Tuning = MIXED, **sizes: int) -> Outcome:
    """Runs the case of a seed; what fails is shrunk and written down as a golden file."""
    case = Maker(seed, **sizes).case()
    numbers = itertools.count()

    def again() -> vk.Database:
        return connect(f"again{next(numbers)}", durability="process", tuning=tuning)

    outcome = Run(connect(f"views{seed}", durability="process", tuning=tuning), case).run()
    if outcome.wrong:
        kept = [keep_reproduction(case, name, what, seed, again) for name, what in list(outcome.wrong.items())[:SHOWN]]
        pytest.fail(f"seed {seed}: {len(outcome.wrong)} wrong\n{outcome}\nwritten: {[path.name for path in kept]}")
    return outcome


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(0, *range(2, 10))])
def test_random_views_on_sail(connect: Callable[..., vk.Database], seed: int) -> None:
    outcome = check(connect, seed, views=VIEWS, transactions=TRANSACTIONS)
    assert outcome.pairs >= 200, "few pairs of a view and a transaction were checked"
    assert len(outcome.full) <= VIEWS / 4, f"seldom kept incrementally: {outcome.full}"


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(*range(2, 10))])
def test_the_same_views_on_the_engine(connect: Callable[..., vk.Database], seed: int) -> None:
    """The same transactions in the other lane: both have the changes that DuckDB has, so they have the same."""
    assert check(connect, seed, ENGINE, views=VIEWS, transactions=TRANSACTIONS).pairs >= 200


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_the_same_views_on_the_engine_of_spark(connect: Callable[..., vk.Database]) -> None:
    assert check(connect, 101, ENGINE, views=9, transactions=6).pairs >= 50


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("seed", [101, *long(100)])
def test_random_views_on_spark(connect: Callable[..., vk.Database], seed: int) -> None:
    assert check(connect, seed, views=9, transactions=6).pairs >= 50


@pytest.mark.long
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_random_views(connect: Callable[..., vk.Database], seed: int) -> None:
    assert check(connect, seed, views=40, transactions=15).pairs >= 500


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("seed", range(2000, 2010))
def test_many_random_views_on_spark(connect: Callable[..., vk.Database], seed: int) -> None:
    assert check(connect, seed, views=24, transactions=10).pairs >= 200
