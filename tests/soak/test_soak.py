"""Ten views stay true over thousands of small transactions, and nothing but the ledger grows."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.soak.changing_shop import ChangingShop, anonymous_megabytes

BUSY = vk.Tuning(flushed_batches=8, merged_files=4)
"""Flushes and merges that come so often that a short run has many of them."""

GROWTH, PER_TRANSACTION = 100.0, 0.3
"""Most megabytes that the second half of a run may add, and for each of its transactions: views with windows and top-k
ask Sail, which keeps some of the memory of every query."""


@pytest.mark.parametrize("transactions", [60, *long(10_000)])
@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.long)], indirect=True)
def test_many_small_transactions(connect: Callable[..., vk.Database], transactions: int) -> None:
    db = connect(keep="0 seconds", tuning=BUSY if transactions < 1_000 else vk.Tuning())
    shop = ChangingShop(db, seed=7)
    checked = set(random.Random(7).sample(range(transactions), 2 + transactions // 500))
    swept = max(15, transactions // 20)
    named, on_disk, memory = [], [], []
    for number in range(transactions):
        shop.step()
        if number in checked:
            shop.check()
        if number % swept == swept - 1:
            db.vacuum(0)
            found = shop.files()
            named.append(found[0])
            on_disk.append(found[1])
            memory.append(anonymous_megabytes())
    shop.check()
    assert db.verify().equal
    assert len(db._store.small._kept) <= 3 * max(named), "small files in memory, most of them replaced long ago"
    assert _later(named) <= 1.5 * _earlier(named) + 20, f"files that the ledger names: {named}"
    assert _later(on_disk) <= 1.5 * _earlier(on_disk) + 20, f"files on disk: {on_disk}"
    allowed = GROWTH + PER_TRANSACTION * transactions / 2
    assert _later(memory) <= _earlier(memory) + allowed, f"megabytes: {memory}"


def _earlier(values: list[float]) -> float:
    return max(values[: len(values) // 2])


def _later(values: list[float]) -> float:
    return max(values[len(values) // 2 :])
