"""Random transactions give what a plain bag of rows gives, on both engines, with and without kept history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driver import Driver

import viewkeeper as vk

STEPS = {"sail": 520, "spark": 50}


@pytest.mark.parametrize(("seed", "keep"), [(1, "7 days"), (2, "0 seconds")])
def test_random_transactions(connect: Callable[..., vk.Database], engine: str, seed: int, keep: str) -> None:
    driver = Driver(connect, seed, keep=keep)
    driver.run(STEPS[engine])
    assert driver.refused > 0


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(("seed", "keep"), [(3, "7 days"), (4, "0 seconds")])
def test_more_random_transactions(connect: Callable[..., vk.Database], seed: int, keep: str) -> None:
    Driver(connect, seed, keep=keep).run(STEPS["sail"])


@pytest.mark.long
@pytest.mark.parametrize("keep", ["7 days", "0 seconds"])
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_random_transactions(connect: Callable[..., vk.Database], engine: str, seed: int, keep: str) -> None:
    Driver(connect, seed, keep=keep).run({"sail": 3000, "spark": 200}[engine])
