"""A database whose expressions were stored as text opens, reads and goes on.

`text_expressions.zip` was written on Sail by the last version that stored text in place of trees, and is never written
again: it has views that filter and compute, group, join, rank rows and look for what is not there, and an assertion.
"""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.errors import ViewkeeperError

EARLIER = Path(__file__).with_name("text_expressions.zip")


@pytest.fixture
def earlier(tmp_path: Path, connect: Callable[..., vk.Database]) -> vk.Database:
    with zipfile.ZipFile(EARLIER) as packed:
        packed.extractall(tmp_path / "lake")
    return connect("lake")


def rows(db: vk.Database, view: str) -> list[tuple[object, ...]]:
    return sorted(db.sql(f"SELECT * FROM {view}").rows(), key=str)


@pytest.mark.spark_long
def test_views_go_on(earlier: vk.Database) -> None:
    assert rows(earlier, "large") == [
        (1, Decimal("21.00"), "A", 2),
        (3, Decimal("14.00"), "IT'S", 5),
        (4, Decimal("16.00"), "Z", 7),
    ]
    earlier.sql(
        "INSERT INTO orders VALUES (5, 2, 9.00, DATE'2024-03-01', 'new'); DELETE FROM orders WHERE id IN (2, 4)"
    )
    assert rows(earlier, "large")[-1] == (5, Decimal("18.00"), "NEW", 7)
    assert rows(earlier, "totals") == [
        ("north", 1, Decimal("10.50"), Decimal("10.500000"), 1, dt.date(2024, 1, 1)),
        ("south", 2, Decimal("16.00"), Decimal("8.000000"), 2, dt.date(2024, 3, 1)),
        (None, 1, None, None, 0, None),
    ]
    assert rows(earlier, "ranked") == [(1, 1, 1), (3, 2, 2), (5, 2, 1)]
    assert rows(earlier, "idle") == [("Cid",)]
    assert all(view.equal for view in earlier.verify().views)
    with pytest.raises(ViewkeeperError):
        earlier.sql("INSERT INTO orders VALUES (6, 1, -1.00, NULL, NULL)")


@pytest.mark.spark_long
def test_definitions_are_replaced_by_trees(earlier: vk.Database) -> None:
    earlier.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW large AS SELECT id, amount * 3 AS thrice FROM orders WHERE amount > 6"
    )
    assert rows(earlier, "large")[0] == (1, Decimal("31.50"))
    assert all(view.equal for view in earlier.verify().views)
