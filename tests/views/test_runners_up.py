"""Runners-up: what follows a deleted extremum of a large group is there, and every value of it is one of the input's.

The views are compared with DuckDB after every transaction, and the runners-up with the rows of the table: per group
they are its first values, with as many copies.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.oracle import Oracle, bag
from viewkeeper.algebra.rows import NAN, row_tuples
from viewkeeper.catalog.relations import Derived
from viewkeeper.store.scans import Source, pick

Connect = Callable[..., vk.Database]

FEW = vk.Tuning(large_group=4, runners_up=2)
TABLES = """
    CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, h STRING, x DOUBLE, y DECIMAL(10,2), z INT, d DATE);
    CREATE TABLE s (g INT, name STRING);
"""
VIEWS = {
    "per_group": "SELECT g, count(*) AS n, min(x) AS lo, max(x) AS hi, min(y) AS y, max(d) AS d FROM t GROUP BY g",
    "per_pair": "SELECT g, h, max(y) AS hi, min(z) AS lo, sum(z) AS total FROM t GROUP BY g, h",
    "of_all": "SELECT min(x) AS lo, max(x) AS hi, max(h) AS last FROM t",
    "joined": "SELECT name, min(y) AS lo, max(x) AS hi FROM t JOIN s ON t.g = s.g WHERE z > 1 GROUP BY name",
    "above": "SELECT g, hi FROM (SELECT g, max(z) AS hi, min(z) AS lo FROM t GROUP BY g) v WHERE hi > lo",
}
STEPS = {"sail": 30, "spark": 3}


def row(key: int, rng: random.Random) -> tuple[Any, ...]:
    def perhaps(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    return (
        key,
        rng.choice((1, 1, 2, None)),
        perhaps(rng.choice("ab")),
        rng.choice((None, 0.0, -0.0, math.nan, math.inf, -math.inf, float(rng.randint(-3, 3)), rng.random())),
        perhaps(decimal.Decimal(rng.randint(-300, 300)).scaleb(-2)),
        perhaps(rng.randint(0, 5)),
        perhaps(dt.date(2000, 1, rng.randint(1, 28))),
    )


class World:
    """A database, the rows of its table, and DuckDB with the same tables."""

    def __init__(self, db: vk.Database, seed: int) -> None:
        self.db, self.rng = db, random.Random(seed)
        self.oracle = Oracle()
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.notes: list[str] = []
        self.following = 0
        db.sql(TABLES)
        for text in TABLES.split(";")[:2]:
            self.oracle.create_table(text)
        self.insert("s", [(1, "one"), (2, "two"), (1, "uno")])
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")
            self.oracle.create_view(name, query)

    def insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        with self.db.transaction() as tx:
            tx.insert(table, rows)
        self._tell(table, rows)

    def _tell(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(rows[0]))
        self.oracle.connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def step(self) -> None:
        """One transaction: rows come, and rows go: at random, the least or greatest by some column, or a group."""
        rng = self.rng
        new = [row(self.following + i, rng) for i in range(rng.choice((0, 1, 3, 8)))]
        self.following += len(new)
        keys = sorted(self.rows)
        column = rng.choice((3, 4, 5))
        ranked = sorted(keys, key=lambda key: _order(self.rows[key][column]), reverse=rng.random() < 0.5)
        gone = rng.choice((ranked[: rng.randint(0, 4)], rng.sample(keys, min(len(keys), 2)), []))
        if rng.random() < 0.05:
            gone = [key for key in keys if self.rows[key][1] == 1]
        changed = [(key, *row(key, rng)[1:]) for key in rng.sample(keys, min(len(keys), 2)) if key not in gone]
        with self.db.transaction() as tx:
            if gone:
                tx.delete_by_key("t", gone)
            if new:
                tx.insert("t", new)
            if changed:
                tx.upsert("t", changed)
        for key in (*gone, *(values[0] for values in changed)):
            self.rows.pop(key, None)
            self.oracle.connection.execute(f"DELETE FROM t WHERE id = {key}")
        if changed or new:
            self._tell("t", [*new, *changed])
        self.rows |= {values[0]: values for values in (*new, *changed)}
        if tx.commit_info is not None:
            self.notes += [report.reason for report in tx.commit_info.report.values()]

    def check(self) -> None:
        for name in VIEWS:
            found = bag(self.db.sql(f"SELECT * FROM {name}").rows())
            assert found == self.oracle.bag(name), name
        check_runners_up(self.db, list(self.rows.values()))


def _order(value: Any) -> tuple[int, float]:
    if value is None:
        return (0, 0.0)
    return (2, 0.0) if value != value else (1, float(value))


def runners_up(db: vk.Database, view: str) -> Counter[tuple[Any, ...]]:
    """The rows of the runners-up of a view, or of its first auxiliary relation."""
    state = db._store.refresh()
    relation = state.find(view)
    assert isinstance(relation, Derived)
    owner = relation if relation.definition.runners_up else state.relations[relation.definition.hidden[0]]
    assert isinstance(owner, Derived)
    held = state.relations[owner.definition.runners_up]
    net = db._store.small.net_rows(pick(Source(held.schema, held.files, state.epoch)))
    assert set(net["_weight"].to_pylist()) <= {1}
    return Counter(row_tuples(net.drop_columns(["_weight"])))


def check_runners_up(db: vk.Database, rows: list[tuple[Any, ...]]) -> None:
    """Those of two views: per group the first values, each with its number of copies."""
    for view, groups, values in (
        ("per_group", (1,), {0: (3, 1), 1: (3, -1), 2: (4, 1), 3: (6, -1)}),
        ("of_all", (), {}),
    ):
        held = runners_up(db, view)
        assert all(sum(value is not None for value in each[len(groups) : -1]) == 1 for each in held)
        for place, (column, sign) in values.items():
            found: dict[Any, dict[Any, int]] = {}
            for each in held:
                value = each[len(groups) + place]
                if value is not None:
                    found.setdefault(each[: len(groups)], {})[value] = each[-1]
            for group, mine in found.items():
                there = Counter(
                    _hashable(each[column])
                    for each in rows
                    if tuple(each[i] for i in groups) == group and each[column] is not None
                )
                first = sorted(there, key=_rank, reverse=sign < 0)[: len(mine)]
                assert mine == {value: there[value] for value in first}, (view, group, mine)


def _hashable(value: Any) -> Any:
    if isinstance(value, float):
        return NAN if value != value else value + 0.0
    return value


def _rank(value: Any) -> Any:
    return (1, 0) if value is NAN or value == NAN else (0, value)


@pytest.mark.parametrize("seed", [1, 2, *long(*range(3, 20))])
def test_random_changes(connect: Connect, engine: str, seed: int) -> None:
    world = World(connect(tuning=FEW, durability="process"), seed)
    for _ in range(STEPS[engine]):
        world.step()
        world.check()
    assert world.db.verify().equal
    if engine == "sail":
        assert any("its runner-up followed" in note for note in world.notes)
        assert any("read again" in note for note in world.notes)


@pytest.mark.spark_long
@pytest.mark.parametrize(
    "tuning",
    [
        vk.Tuning(large_group=1, runners_up=1, small_rows=3),  # no group's fit
        vk.Tuning(large_group=2, runners_up=3, driver_rows=0, whole_rows=0, inlined_rows=0),
    ],
)
def test_random_changes_with_little_memory(connect: Connect, tuning: vk.Tuning) -> None:
    world = World(connect(tuning=tuning, durability="process"), 4)
    for _ in range(12):
        world.step()
        world.check()


def large(connect: Connect, **tuning: int) -> vk.Database:
    """3,000 rows in two groups, x from 0 to 1,499 in each, and a view of their extrema."""
    db = connect(tuning=vk.Tuning(**tuning))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x INT)")
    with db.transaction() as tx:
        tx.insert("t", [(i, i % 2, i // 2) for i in range(3_000)])
    db.sql(
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS "
        "SELECT g, count(*) AS n, min(x) AS lo, max(x) AS hi FROM t GROUP BY g"
    )
    return db


def delete(db: vk.Database, keys: list[int]) -> Any:
    with db.transaction() as tx:
        tx.delete_by_key("t", keys)
    assert tx.commit_info is not None
    return tx.commit_info.report["v"]


@pytest.mark.spark_long
def test_a_bounded_number_of_rows_is_read(connect: Connect) -> None:
    db = large(connect, runners_up=10)
    report = delete(db, [2_998, 2_999, 0])
    assert report.reason == "refresh = 'incremental'; 2 groups lost an extremum: its runner-up followed"
    assert report.rows_read == 0
    assert sorted(db.sql("SELECT * FROM v").rows()) == [(0, 1498, 1, 1498), (1, 1499, 0, 1498)]
    report = delete(db, list(range(2_960, 2_998)))
    assert report.reason == "refresh = 'incremental'; 2 groups lost an extremum and were read again"
    assert sorted(db.sql("SELECT g, hi FROM v").rows()) == [(0, 1479), (1, 1479)]
    report = delete(db, [1, 2_959])
    assert report.reason == "refresh = 'incremental'; 1 group lost an extremum: its runner-up followed"
    assert db.verify().equal


@pytest.mark.spark_long
def test_small_groups_have_none(connect: Connect) -> None:
    db = large(connect, large_group=2_000)
    assert not runners_up(db, "v")
    assert delete(db, [0]).reason == "refresh = 'incremental'; 1 group lost an extremum and was read again"
    assert not runners_up(db, "v")


@pytest.mark.spark_long
def test_a_group_that_grew_gets_them_when_it_first_loses_an_extremum(connect: Connect) -> None:
    db = connect(tuning=FEW)
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x INT)")
    db.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS SELECT g, max(x) AS hi FROM t GROUP BY g")
    for start in (0, 3):
        with db.transaction() as tx:
            tx.insert("t", [(i, 1, i) for i in range(start, start + 3)])
    assert not runners_up(db, "v")
    assert "read again" in delete(db, [5]).reason
    assert runners_up(db, "v") == {(1, 4, 1): 1, (1, 3, 1): 1}
    assert "its runner-up followed" in delete(db, [4]).reason
    assert db.sql("SELECT hi FROM v").rows() == [(3,)]


@pytest.mark.spark_long
def test_views_with_an_equal_group_by_share_them_and_the_last_one_drops_them(connect: Connect) -> None:
    db = large(connect)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT g, min(x) AS lo, max(x) AS hi FROM t GROUP BY g")
    names = [row["name"] for row in db.ls(hidden=True) if "runners-up" in row["name"]]
    assert len(names) == 2  # the rows of v are its own state
    db.sql("CREATE MATERIALIZED VIEW u AS SELECT g, max(x) AS hi, min(x) AS lo FROM t GROUP BY g")
    assert len([row["name"] for row in db.ls(hidden=True) if "runners-up" in row["name"]]) == 2
    db.sql("DROP MATERIALIZED VIEW v; DROP MATERIALIZED VIEW w")
    delete_all = db.sql("DELETE FROM t WHERE x > 1490").commit
    assert "its runner-up followed" in delete_all.report["u"].reason
    db.sql("DROP MATERIALIZED VIEW u")
    assert [row["name"] for row in db.ls(hidden=True)] == ["t"]


@pytest.mark.spark_long
def test_a_new_definition_has_its_own(connect: Connect) -> None:
    db = large(connect, runners_up=5)
    db.sql(
        "ALTER MATERIALIZED VIEW v AS "
        "SELECT g, count(*) AS n, min(x) AS lo, max(x) AS hi FROM t WHERE x < 1400 GROUP BY g"
    )
    assert sorted(db.sql("SELECT hi FROM v").rows()) == [(1399,), (1399,)]
    delete(db, [2 * 1399, 2 * 1399 + 1, 0])
    assert sorted(db.sql("SELECT lo, hi FROM v").rows()) == [(0, 1398), (1, 1398)]
    db.sql("ALTER MATERIALIZED VIEW v AS SELECT g, count(*) AS n, max(x) AS lo, min(x) AS hi FROM t GROUP BY g")
    delete(db, [2, 2_998])
    assert sorted(db.sql("SELECT lo, hi FROM v").rows()) == [(1498, 2), (1499, 0)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_full_refreshes_suspended_and_demand_views(connect: Connect) -> None:
    db = large(connect, runners_up=5)
    db.sql(
        "CREATE MATERIALIZED VIEW later WITH (on = 'demand') AS SELECT g, max(x) AS hi, sum(x) AS s FROM t GROUP BY g"
    )
    db.sql("ALTER MATERIALIZED VIEW v SUSPEND")
    db.sql("DELETE FROM t WHERE x > 1480")
    db.sql("REFRESH MATERIALIZED VIEW v")
    db.sql("REFRESH MATERIALIZED VIEW later")
    for top in (1480, 1479):
        assert sorted(db.sql("SELECT hi FROM v").rows()) == [(top,), (top,)]
        assert sorted(db.sql("SELECT hi FROM later").rows()) == [(top,), (top,)]
        db.sql(f"DELETE FROM t WHERE x = {top}")
        db.sql("REFRESH MATERIALIZED VIEW later")
    db.sql("INSERT INTO t SELECT id + 10000, g, x FROM t")
    db.sql("DELETE FROM t WHERE x > 1000")
    db.sql("REFRESH MATERIALIZED VIEW later")
    assert sorted(db.sql("SELECT hi FROM later").rows()) == [(1000,), (1000,)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_two_processes_and_files_that_are_merged(connect: Connect, tmp_path: Path) -> None:
    db = large(connect, runners_up=5, flushed_batches=3)
    other = vk.connect(db.path, tuning=vk.Tuning(runners_up=5))
    for number in range(8):
        writer = other if number % 2 else db
        writer.sql(f"DELETE FROM t WHERE x = {1499 - number}")
        writer.sql(f"INSERT INTO t VALUES ({5_000 + number}, 0, {1400 + number})")
        db.compact()
    assert sorted(db.sql("SELECT lo, hi FROM v").rows()) == [(0, 1491), (0, 1491)]
    assert db.verify().equal
    other.close()


@pytest.mark.spark_long
def test_a_change_too_large_for_the_driver_drops_them(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(large_group=10, runners_up=5, small_rows=200))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x INT)")
    db.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS SELECT g, max(x) AS hi FROM t GROUP BY g")
    db.sql("INSERT INTO t SELECT id, id % 2, id FROM range(100)")
    assert "read again" in delete(db, [99, 98]).reason
    assert len(runners_up(db, "v")) == 10
    db.sql("INSERT INTO t SELECT id + 1000, id % 2, id FROM range(500)")
    assert not runners_up(db, "v")
    assert "read again" in delete(db, [1499, 1498]).reason
    assert len(runners_up(db, "v")) == 10
    assert sorted(db.sql("SELECT * FROM v").rows()) == [(0, 496), (1, 497)]
    db.sql("DELETE FROM t WHERE x > 50")
    assert sorted(db.sql("SELECT * FROM v").rows()) == [(0, 50), (1, 49)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_explain_shows_them(connect: Connect) -> None:
    db = large(connect, runners_up=10)
    line = "runners-up, which replace deleted extrema of large groups: 40 rows in 1 file"
    assert line in db.explain("v")
