"""One INSERT traced through the packages: in the order of docs/architecture.md, and without needless hops."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import viewkeeper as vk

VALUES = {"algebra", "catalog", "errors"}
"""Packages of plain values: reading one is no hop."""

MOST_HOPS = 250


def package(frame: FrameType | None) -> str | None:
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("viewkeeper."):
            return str(name).split(".")[1]
        frame = frame.f_back
    return None


def followed(action: Callable[[], object]) -> tuple[Counter[tuple[str, str]], list[str]]:
    """The calls from package to package while something runs, and the functions called, by package, in order."""
    hops: Counter[tuple[str, str]] = Counter()
    called: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_globals.get("__name__", "").startswith("viewkeeper."):
            return
        here, caller = package(frame), package(frame.f_back)
        called.append(f"{here}.{frame.f_code.co_qualname}")
        if here is not None and caller is not None and here != caller:
            hops[caller, here] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return hops, called


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_one_insert_goes_forward_through_the_packages(db: vk.Database, capsys: pytest.CaptureFixture[str]) -> None:
    db.sql("""
        CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT);
        CREATE TABLE customer (id INT PRIMARY KEY, name STRING);
        INSERT INTO customer VALUES (1, 'a'), (2, 'b');
        INSERT INTO orders VALUES (1, 1, 10);
        CREATE MATERIALIZED VIEW named AS SELECT o.id, c.name FROM orders o JOIN customer c ON o.customer = c.id;
        CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
    """)
    hops, called = followed(lambda: db.sql("INSERT INTO orders VALUES (2, 2, 20)"))
    between = {pair: count for pair, count in hops.items() if not VALUES & set(pair)}
    with capsys.disabled():
        print(f"\none INSERT, two views: {sum(between.values())} hops between packages, {hops.total()} with values")
    assert sum(between.values()) < MOST_HOPS
    text = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    table = re.findall(r"^\| ([a-z]+) \| ([^|]*) \|", text.split("## One INSERT")[1], re.MULTILINE)
    told = [f"{where}.{name}" for where, names in table for name in re.findall(r"`([A-Za-z_.]+?)`", names)]
    wanted = [name for name in told if not name.endswith(".py")]
    assert len(wanted) > 12
    assert [name for name in wanted if name not in called] == []
    first = [called.index(name) for name in wanted if name not in ("maintain.Fold.maintain", "delta.differentiate")]
    assert first == sorted(first)
