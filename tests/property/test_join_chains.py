"""Random chains of outer, inner, semi and anti joins: small changes read by key, and views are what DuckDB computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.oracle import Bag, Oracle, difference, transpiled, weights
from tests.property.join_chains import TABLES, Chains
from viewkeeper.maintain.state_reader import StateReader

ROWS = 400
FILES = 40
VIEWS = 6
TUNING = vk.Tuning(inlined_rows=0, whole_rows=0, picked_rows=0, cached_rows=0, file_rows=ROWS // FILES, stage_rows=100)
"""Small tables are handled like large ones: no table is read in full because it is small."""

ENGINE = replace(TUNING, driver_rows=0)
"""All operators run on the engine: what is known of their rows is known without looking at them."""

CHANGES = (
    "INSERT INTO {} VALUES (5000, 55, 77, 3)",
    "UPDATE {} SET v = 8 WHERE id = 5000",
    "UPDATE {} SET k = 9000, j = 9001 WHERE id = 5000",
    "UPDATE {} SET k = NULL, j = NULL WHERE id = 5000",
    "DELETE FROM {} WHERE id = 5000",
    "UPDATE {} SET k = 202 WHERE id = 301",
    "DELETE FROM {} WHERE id = 201",
    "INSERT INTO {} VALUES (201, 201, 407, 5)",
)

STEPS = [
    *([change.format(table)] for table in TABLES for change in CHANGES),
    *([change.format(table) for table in TABLES] for change in CHANGES),
]
"""Changes of one row, then of a row of each table together."""


@pytest.fixture
def read_in_full(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The reads of more than half of a table's files: the view's id, the table and its state."""
    found: list[tuple[str, str]] = []
    scan_relation = StateReader.scan

    def watched(reader: StateReader, scan: Any, binding: Any) -> Any:
        before = reader.work.files_read
        done = scan_relation(reader, scan, binding)
        if reader.own and reader.work.files_read - before > FILES / 2:
            found.append((reader.own, f"{scan.name}@{scan.state}"))
        return done

    monkeypatch.setattr(StateReader, "scan", watched)
    return found


def set_up(db: vk.Database, oracle: Oracle, views: dict[str, str]) -> None:
    """The tables, of many small files, and the views."""
    for table in TABLES:
        made = f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, k BIGINT, j BIGINT, v BIGINT)"
        db.sql(made)
        oracle.create_table(made)
        rows = "id, CASE WHEN id % 97 = 0 THEN NULL ELSE id - id % 2 END, id * 2 + 5, id % 11"
        db.sql(f"INSERT INTO {table} SELECT {rows} FROM range({ROWS})")
        oracle.connection.execute(f"INSERT INTO {table} SELECT {rows} FROM range({ROWS}) AS r(id)")
    for name, text in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {text}")
        oracle.create_view(name, transpiled(text))


def problems_of(
    db: vk.Database, oracle: Oracle, views: dict[str, str], read_in_full: list[tuple[str, str]]
) -> dict[str, str]:
    """What is wrong or read in full, by view: the first such step of each."""
    held: dict[str, Bag] = {name: oracle.bag(name) for name in views}
    ids = {db._store.state.find(name).id: name for name in views}  # type: ignore[union-attr]
    problems: dict[str, str] = {}
    for statements in STEPS:
        read_in_full.clear()
        with db.transaction() as tx:
            for statement in statements:
                tx.sql(statement)
                oracle.run(statement)
        for key, read in read_in_full:
            problems.setdefault(ids[key], f"{statements} reads {read} in full: {views[ids[key]]}")
        for name, text in views.items():
            now = oracle.bag(name)
            expected, held[name] = difference(now, held[name]), now
            change = tx.commit_info.changes.get(name) if tx.commit_info is not None else None
            if (weights(change.weights()) if change else {}) != expected:
                problems.setdefault(name, f"{statements} changes it by {change}, not {expected}: {text}")
    return problems


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(*range(2, 40))])
@pytest.mark.parametrize("tuning", [TUNING, *long(ENGINE)], ids=["driver", "engine"])
def test_chains_of_joins_stay_bound(
    connect: Callable[..., vk.Database], read_in_full: list[tuple[str, str]], seed: int, tuning: vk.Tuning
) -> None:
    check(connect, read_in_full, seed, tuning)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [391, *long(310)])
def test_chains_that_were_read_in_full(
    connect: Callable[..., vk.Database], read_in_full: list[tuple[str, str]], seed: int
) -> None:
    """A full join that is read by its merged key, and one below NOT IN, whose other columns are not known."""
    check(connect, read_in_full, seed, ENGINE)


def check(
    connect: Callable[..., vk.Database], read_in_full: list[tuple[str, str]], seed: int, tuning: vk.Tuning
) -> None:
    """Makes the views of a seed, changes the tables, and compares every change with DuckDB's."""
    chains = Chains(seed)
    views = {f"view{number}": chains.query() for number in range(VIEWS)}
    db, oracle = connect(tuning=tuning, durability="process"), Oracle()
    set_up(db, oracle, views)
    assert problems_of(db, oracle, views, read_in_full) == {}
    assert db.verify().equal
