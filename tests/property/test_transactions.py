"""Random transactions give what a plain bag of rows gives, on both engines, with and without kept history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.property.driver import Driver

ON_SPARK = 25
"""Statements of a run there."""


@pytest.mark.parametrize(("seed", "keep"), [(1, "7 days"), pytest.param(2, "0 seconds", marks=pytest.mark.spark_long)])
@pytest.mark.parametrize("steps", [110, *long(180)])
def test_random_transactions(
    connect: Callable[..., vk.Database], engine: str, seed: int, keep: str, steps: int
) -> None:
    driver = Driver(connect, seed, keep=keep)
    driver.run(steps if engine == "sail" else ON_SPARK)
    assert driver.refused > 0


@pytest.mark.long
@pytest.mark.parametrize("keep", ["7 days", "0 seconds"])
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_random_transactions(connect: Callable[..., vk.Database], engine: str, seed: int, keep: str) -> None:
    Driver(connect, seed, keep=keep).run({"sail": 3000, "spark": 200}[engine])
