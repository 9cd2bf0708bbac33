"""Neighbors: a percentile of a large group follows changes, and what is kept around it is as it is in the table.

The views are compared with DuckDB after every transaction, which takes the two values from a sorted list; the neighbors
with the rows of the table: per group they are all values from a first to a last one, with their copies.
"""

from __future__ import annotations

import decimal
import math
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewkeeper as vk
from tests.marks import long
from tests.oracle import Oracle, bag
from viewkeeper.algebra.nodes import Share
from viewkeeper.algebra.rows import NAN, row_tuples
from viewkeeper.algebra.shares import percentile, places
from viewkeeper.catalog.relations import Derived
from viewkeeper.store.scans import Source, pick

Connect = Callable[..., vk.Database]

FEW = vk.Tuning(large_group=4, neighbors=1, runners_up=2, topk_slack=2)
TABLES = """
    CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, h STRING, x DOUBLE, y DECIMAL(10,2), z INT);
    CREATE TABLE s (g INT, name STRING);
"""
MODE = (
    "(SELECT {0} FROM t u WHERE u.g IS NOT DISTINCT FROM t.g AND {0} IS NOT NULL GROUP BY {0} "
    "ORDER BY count(*) DESC, {0} LIMIT 1)"
)
VIEWS = {
    "per_group": (
        "SELECT g, count(*) AS n, median(x) AS a, percentile(x, 0.9) AS b, percentile_cont(0.3) WITHIN GROUP "
        "(ORDER BY y DESC) AS c, percentile_disc(0.4) WITHIN GROUP (ORDER BY z) AS d FROM t GROUP BY g",
        "SELECT g, count(*), cont(x, 0.5), cont(x, 0.9), cont_desc(y, 0.3), disc(z, 0.4) FROM t GROUP BY g",
    ),
    "per_pair": (
        "SELECT g, h, percentile(z, 0.3) AS p, min(z) AS lo, sum(z) AS s, max(y) AS hi FROM t GROUP BY g, h",
        "SELECT g, h, cont(z, 0.3), min(z), sum(z), max(y) FROM t GROUP BY g, h",
    ),
    "of_all": (
        "SELECT median(x) AS m, percentile_disc(0.99) WITHIN GROUP (ORDER BY x DESC) AS d, count(x) AS n FROM t",
        "SELECT cont(x, 0.5), disc_desc(x, 0.99), count(x) FROM t",
    ),
    "joined": (
        "SELECT name, median(y) AS m FROM t JOIN s ON t.g = s.g WHERE z > 1 GROUP BY name",
        "SELECT name, cont(y, 0.5) FROM t JOIN s ON t.g = s.g WHERE z > 1 GROUP BY name",
    ),
    "mixed": (
        "SELECT g, median(x) AS m, count(DISTINCT z) AS d FROM t GROUP BY g",
        "SELECT g, cont(x, 0.5), count(DISTINCT z) FROM t GROUP BY g",
    ),
    "above": (
        "SELECT g, m FROM (SELECT g, median(z) AS m, percentile(z, 0.1) AS lo FROM t GROUP BY g) v WHERE m > lo",
        "SELECT g, m FROM (SELECT g, cont(z, 0.5) AS m, cont(z, 0.1) AS lo FROM t GROUP BY g) v WHERE m > lo",
    ),
    "frequent": (
        "SELECT g, mode(h) AS a, mode(z) AS b, median(z) AS m, count(DISTINCT z) AS d FROM t GROUP BY g",
        f"SELECT g, {MODE.format('h')}, {MODE.format('z')}, cont(z, 0.5), count(DISTINCT z) FROM t GROUP BY g",
    ),
    "negative": (
        "SELECT g, median(-x) AS m, percentile_disc(0.7) WITHIN GROUP (ORDER BY y * 0 - y) AS d FROM t GROUP BY g",
        "SELECT g, cont(-x, 0.5), disc(-y, 0.7) FROM t GROUP BY g",
    ),
    "filtered": (
        "SELECT g, percentile(y, 0.5) FILTER (WHERE z > 2) AS m FROM t GROUP BY g",
        "SELECT g, cont(CASE WHEN z > 2 THEN y END, 0.5) FROM t GROUP BY g",
    ),
}
MACROS = """
    CREATE MACRO between_two(l, k) AS CASE WHEN k = floor(k) OR l[floor(k)::INT + 1] = l[ceil(k)::INT + 1]
        THEN l[floor(k)::INT + 1]
        ELSE (1 - (k - floor(k))) * l[floor(k)::INT + 1] + (k - floor(k)) * l[ceil(k)::INT + 1] END;
    CREATE MACRO values_of(x) AS list(x::DOUBLE) FILTER (WHERE x IS NOT NULL);
    CREATE MACRO cont(x, p) AS between_two(list_sort(values_of(x)), (count(x) - 1) * p::DOUBLE);
    CREATE MACRO cont_desc(x, p) AS between_two(list_reverse_sort(values_of(x)), (count(x) - 1) * p::DOUBLE);
    CREATE MACRO disc(x, p) AS list_sort(values_of(x))[greatest(ceil(count(x) * p::DOUBLE)::INT, 1)];
    CREATE MACRO disc_desc(x, p) AS list_reverse_sort(values_of(x))[greatest(ceil(count(x) * p::DOUBLE)::INT, 1)];
"""
STEPS = {"sail": 30, "spark": 3}


def row(key: int, rng: random.Random, shift: float) -> tuple[Any, ...]:
    def perhaps(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    return (
        key,
        rng.choice((1, 1, 1, 2, None)),
        perhaps(rng.choice("ab")),
        rng.choice((None, 0.0, -0.0, math.nan, math.inf, -math.inf, float(rng.randint(-3, 3)), shift, rng.random())),
        perhaps(decimal.Decimal(int(shift * 100) + rng.randint(-300, 300)).scaleb(-2)),
        perhaps(rng.randint(0, 5) + int(shift)),
    )


class World:
    """A database, the rows of its table, and DuckDB with the same tables."""

    def __init__(self, db: vk.Database, seed: int) -> None:
        self.db, self.rng = db, random.Random(seed)
        self.oracle = Oracle()
        for macro in MACROS.split(";")[:-1]:
            self.oracle.connection.execute(macro)
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.notes: list[str] = []
        self.following = 0
        self.shift = 0.0
        db.sql(TABLES)
        for text in TABLES.split(";")[:2]:
            self.oracle.create_table(text)
        with db.transaction() as tx:
            tx.insert("s", [(1, "one"), (2, "two"), (1, "uno")])
        self._tell("s", [(1, "one"), (2, "two"), (1, "uno")])
        for name, (query, _) in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")

    def _tell(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(rows[0]))
        self.oracle.connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def step(self) -> None:
        """One transaction: rows come, at times greater or less than before, and rows go, at random or by a column."""
        rng = self.rng
        self.shift += rng.choice((-2, 0, 0, 0, 2)) * rng.random()
        new = [row(self.following + i, rng, self.shift) for i in range(rng.choice((0, 1, 3, 8)))]
        self.following += len(new)
        keys = sorted(self.rows)
        column = rng.choice((3, 4, 5))
        ranked = sorted(keys, key=lambda key: _order(self.rows[key][column]), reverse=rng.random() < 0.5)
        gone = rng.choice((ranked[: rng.randint(0, 6)], rng.sample(keys, min(len(keys), 2)), []))
        if rng.random() < 0.05:
            gone = [key for key in keys if self.rows[key][1] == 1]
        changed = [
            (key, *row(key, rng, self.shift)[1:]) for key in rng.sample(keys, min(len(keys), 2)) if key not in gone
        ]
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
        for name, (_, query) in VIEWS.items():
            found = bag(self.db.sql(f"SELECT * FROM {name}").rows())
            assert found == bag(self.oracle.connection.execute(query).fetchall()), name
        check_neighbors(self.db, list(self.rows.values()))


def _order(value: Any) -> tuple[int, float]:
    if value is None:
        return (0, 0.0)
    return (2, 0.0) if value == NAN or value != value else (1, float(value))


def neighbors(db: vk.Database, view: str, number: int = 0) -> Counter[tuple[Any, ...]]:
    """The neighbors of an auxiliary relation of a view: the first, unless another is named."""
    state = db._store.refresh()
    relation = state.find(view)
    assert isinstance(relation, Derived)
    owner = state.relations[relation.definition.hidden[number]]
    assert isinstance(owner, Derived)
    held = state.relations[owner.definition.neighbors]
    net = db._store.small.net_rows(pick(Source(held.schema, held.files, state.epoch)))
    assert set(net["_weight"].to_pylist()) <= {1}
    return Counter(row_tuples(net.drop_columns(["_weight"])))


def check_neighbors(db: vk.Database, rows: list[tuple[Any, ...]]) -> None:
    """Those of two views: per group all values from the first to the last, with copies, and the number below."""
    for view, groups, columns in (("per_group", (1,), (3, 3, 4, 5)), ("of_all", (), (3, 3))):
        held = neighbors(db, view)
        for place, column in enumerate(columns):
            found: dict[Any, list[tuple[Any, int, int | None]]] = {}
            for *group_and_values, copies, below in held:
                value = group_and_values[len(groups) + place]
                assert sum(each is not None for each in group_and_values[len(groups) :]) == 1
                if value is not None:
                    found.setdefault(tuple(group_and_values[: len(groups)]), []).append((value, copies, below))
            for group, mine in found.items():
                mine.sort(key=lambda each: _order(each[0]))
                there = Counter(
                    _order(each[column])
                    for each in rows
                    if tuple(each[i] for i in groups) == group and each[column] is not None
                )
                first, last = _order(mine[0][0]), _order(mine[-1][0])
                inside = {_order(value): copies for value, copies, _ in mine if copies}
                assert inside == {value: copies for value, copies in there.items() if first <= value <= last}
                assert mine[0][2] == sum(copies for value, copies in there.items() if value < first)
                assert all(copies for _, copies, _ in mine[1:-1])
                assert all(below is None for _, _, below in mine[1:])


@pytest.mark.parametrize("seed", [1, 2, *long(*range(3, 20))])
def test_random_changes(connect: Connect, engine: str, seed: int) -> None:
    world = World(connect(tuning=FEW, durability="process"), seed)
    for _ in range(STEPS[engine]):
        world.step()
        world.check()
    assert world.db.verify().equal
    if engine == "sail":
        assert any("read again for percentiles" in note for note in world.notes)
        assert not all("read again for percentiles" in note for note in world.notes)


@pytest.mark.spark_long
@pytest.mark.parametrize(
    "tuning",
    [
        vk.Tuning(large_group=1, neighbors=1, small_rows=3),  # no group's fit
        vk.Tuning(large_group=2, neighbors=2, driver_rows=0, whole_rows=0, inlined_rows=0),
    ],
)
def test_random_changes_with_little_memory(connect: Connect, tuning: vk.Tuning) -> None:
    world = World(connect(tuning=tuning, durability="process"), 4)
    for _ in range(12):
        world.step()
        world.check()


NASTY = [0.1, 0.3, 1 / 3, 7.7, 1e300, -1e300, math.inf, -math.inf, math.nan, 5e-324, -0.0, 2.0**53 + 2]


def test_percentiles_are_the_engines(connect: Connect) -> None:
    """The engine's own percentiles are those of the formula on the driver, to the last bit."""
    rng, groups = random.Random(7), {}
    for group in range(200):
        size = rng.choice((1, 2, 3, 4, 5, 7, 10, 11, 21, 33, 100))
        groups[group] = [rng.choice(NASTY) if group % 2 else rng.randint(-50, 50) / 10 for _ in range(size)]
    db = connect(durability="process")
    db.sql("CREATE TABLE t (g INT, x DOUBLE)")
    with db.transaction() as tx:
        tx.insert("t", [(group, value) for group, values in groups.items() for value in values])
    written = {
        f"percentile(x, {part})": Share(part) for part in ("0", "0.1", "0.3", "0.5", "0.7", "0.99", "1", "0.123456789")
    }
    for part in ("0", "0.05", "0.3", "0.9", "1"):
        for descending, order in ((False, ""), (True, " DESC")):
            for name in ("cont", "disc"):
                text = f"percentile_{name}({part}) WITHIN GROUP (ORDER BY x{order})"
                written[text] = Share(part, descending, name == "disc")
    found = db.sql(f"SELECT g, {', '.join(written)} FROM t GROUP BY g").rows()
    assert len(found) == len(groups)
    for group, *results in found:
        values = np.sort(np.array(groups[group]) + 0.0)
        count = np.array([len(values)])
        for (text, share), result in zip(written.items(), results, strict=True):
            first, last = places(share, count)
            (expected,) = percentile(share, count, values[first], values[last])
            assert repr(float(expected)) == repr(result), (text, sorted(groups[group]))


def large(connect: Connect, **tuning: Any) -> vk.Database:
    """4,000 rows in two groups, x from 0 to 1,999 in each, and a view of their medians."""
    db = connect(tuning=vk.Tuning(**tuning))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x INT)")
    with db.transaction() as tx:
        tx.insert("t", [(i, i % 2, i // 2) for i in range(4_000)])
    db.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS SELECT g, median(x) AS m FROM t GROUP BY g")
    return db


def delete(db: vk.Database, keys: list[int]) -> Any:
    with db.transaction() as tx:
        tx.delete_by_key("t", keys)
    assert tx.commit_info is not None
    return tx.commit_info.report["v"]


def medians(db: vk.Database) -> list[tuple[Any, ...]]:
    return sorted(db.sql("SELECT * FROM v").rows())


@pytest.mark.spark_long
@pytest.mark.parametrize("upward", [False, True])
def test_a_bounded_number_of_rows_is_read(connect: Connect, upward: bool) -> None:
    """The median is moved through its neighbors until they are used up; the group then has more of them."""
    db = large(connect, neighbors=10)
    held = len(neighbors(db, "v"))
    assert 40 <= held <= 50
    ends = list(range(0, 400)) if upward else list(range(3_999, 3_599, -1))
    again, read = 0, 0
    for start in range(0, 200, 10):
        report = delete(db, ends[start : start + 10])
        again += "2 groups were read again for percentiles" in report.reason
        read += report.rows_read
    assert again in (1, 2, 3)
    assert read < again * 5_000
    assert medians(db) == [(0, 1049.5 if upward else 949.5), (1, 1049.5 if upward else 949.5)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_small_groups_have_none(connect: Connect) -> None:
    db = large(connect, large_group=3_000)
    assert not neighbors(db, "v")
    assert "1 group was read again for percentiles" in delete(db, [0]).reason
    assert not neighbors(db, "v")
    assert medians(db) == [(0, 1000.0), (1, 999.5)]


@pytest.mark.spark_long
def test_groups_without_values_and_without_rows(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(large_group=3, neighbors=2))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x INT)")
    db.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS SELECT g, median(x) AS m FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW w WITH (refresh = 'incremental') AS SELECT median(x) AS m FROM t")
    with db.transaction() as tx:
        tx.insert("t", [(i, 1, None) for i in range(10)])
    assert medians(db) == [(1, None)]
    for key, value, expected in ((10, 5, 5.0), (11, 9, 7.0), (12, 1, 5.0)):
        db.sql(f"INSERT INTO t VALUES ({key}, 1, {value})")
        assert medians(db) == [(1, expected)]
    assert neighbors(db, "v")
    report = delete(db, [10, 11, 12])
    assert medians(db) == [(1, None)]
    assert "read again" not in report.reason
    assert db.sql("INSERT INTO t VALUES (20, 1, 4)").commit.report["v"].rows_read == 0
    assert medians(db) == [(1, 4.0)]
    db.sql("DELETE FROM t")
    assert medians(db) == []
    assert not neighbors(db, "v")
    assert db.sql("SELECT * FROM w").rows() == [(None,)]
    db.sql("INSERT INTO t VALUES (20, 1, 4)")
    assert db.sql("SELECT * FROM w").rows() == [(4.0,)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_views_with_an_equal_group_by_share_them_and_the_last_one_drops_them(connect: Connect) -> None:
    db = large(connect)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT g, percentile(x, 0.5) AS other FROM t GROUP BY g")
    assert len([row for row in db.ls(hidden=True) if row["name"].startswith("neighbors of")]) == 1
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql("DELETE FROM t WHERE x > 1990")
    assert sorted(db.sql("SELECT other FROM w").rows()) == [(995.0,), (995.0,)]
    db.sql("DROP MATERIALIZED VIEW w")
    assert [row["name"] for row in db.ls(hidden=True)] == ["t"]


@pytest.mark.spark_long
def test_a_new_definition_has_its_own(connect: Connect) -> None:
    db = large(connect, neighbors=5)
    db.sql("ALTER MATERIALIZED VIEW v AS SELECT g, median(x) AS m FROM t WHERE x < 1001 GROUP BY g")
    assert medians(db) == [(0, 500.0), (1, 500.0)]
    delete(db, [0, 1])
    assert medians(db) == [(0, 500.5), (1, 500.5)]
    assert delete(db, [2, 3]).rows_read == 0
    assert medians(db) == [(0, 501.0), (1, 501.0)]
    db.sql("ALTER MATERIALIZED VIEW v AS SELECT g, percentile(x, 0.1) AS m FROM t GROUP BY g")
    delete(db, [4, 5])
    assert db.verify().equal


@pytest.mark.spark_long
def test_full_refreshes_suspended_and_demand_views(connect: Connect) -> None:
    db = large(connect, neighbors=5)
    db.sql("CREATE MATERIALIZED VIEW later WITH (on = 'demand') AS SELECT g, median(x) AS m FROM t GROUP BY g")
    db.sql("ALTER MATERIALIZED VIEW v SUSPEND")
    db.sql("DELETE FROM t WHERE x > 1980")
    db.sql("REFRESH MATERIALIZED VIEW v")
    db.sql("REFRESH MATERIALIZED VIEW later")
    for top in range(1980, 1970, -1):
        expected = [(0, top / 2), (1, top / 2)]
        assert medians(db) == sorted(db.sql("SELECT * FROM later").rows()) == expected
        db.sql(f"DELETE FROM t WHERE x = {top}")
        db.sql("REFRESH MATERIALIZED VIEW later")
    db.sql("INSERT INTO t SELECT id + 10000, g, x FROM t")
    db.sql("DELETE FROM t WHERE x > 1000")
    db.sql("REFRESH MATERIALIZED VIEW later")
    assert sorted(db.sql("SELECT * FROM later").rows()) == [(0, 500.0), (1, 500.0)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_two_processes_and_files_that_are_merged(connect: Connect, tmp_path: Path) -> None:
    db = large(connect, neighbors=5, flushed_batches=3)
    other = vk.connect(db.path, tuning=vk.Tuning(neighbors=5))
    for number in range(8):
        writer = other if number % 2 else db
        writer.sql(f"DELETE FROM t WHERE x = {1999 - number}")
        writer.sql(f"INSERT INTO t VALUES ({5_000 + number}, 0, {1000 + number})")
        db.compact()
    assert medians(db) == [(0, 999.5), (1, 995.5)]
    assert db.verify().equal
    other.close()


@pytest.mark.spark_long
def test_they_are_there_when_the_database_is_opened_again(connect: Connect) -> None:
    db = large(connect)
    path = db.path
    db.close()
    again = vk.connect(path)
    assert delete(again, [3_998]).rows_read == 0
    assert medians(again) == [(0, 999.0), (1, 999.5)]
    again.close()


@pytest.mark.spark_long
def test_a_change_too_large_for_the_driver_drops_them(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(large_group=10, neighbors=5, small_rows=200))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x INT)")
    db.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS SELECT g, median(x) AS m FROM t GROUP BY g")
    db.sql("INSERT INTO t SELECT id, id % 2, id FROM range(100)")
    delete(db, [99, 98])
    assert delete(db, [97, 96]).rows_read == 0
    db.sql("INSERT INTO t SELECT id + 1000, id % 2, id FROM range(500)")
    assert delete(db, [1499, 1498]).rows_read == 0
    db.sql("DELETE FROM t WHERE x > 50")
    assert medians(db) == [(0, 25.0), (1, 25.0)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_explain_and_the_report_say_what_is_read(connect: Connect) -> None:
    db = large(connect, neighbors=10)
    text = db.explain("v")
    assert "neighbors, among which the percentiles of large groups move: " in text
    assert "the groups that have no neighbors of a percentile, by group" in text
    assert "t@new" not in text
    db.sql("CREATE MATERIALIZED VIEW few AS SELECT x % 500 AS g, median(x) AS m FROM t GROUP BY x % 500")
    assert "t@new: " in db.explain("few")


@pytest.mark.spark_long
def test_estimates_count_the_groups_and_not_the_rows_of_their_changes(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(negligible_rows=0))
    db.sql("CREATE TABLE t (g INT, x INT); INSERT INTO t SELECT id % 5, id FROM range(60000)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, collect_list(x) AS l FROM t GROUP BY g")
    commits = [db.sql(f"INSERT INTO t VALUES (1, {-i})").commit for i in range(6)]
    reasons = [
        re.search(r"incremental about [^,]*", commit.report["v"].reason.split("auxiliary")[-1]) for commit in commits
    ]
    assert len({found[0] for found in reasons if found is not None}) == 1
    assert db.verify().equal


@pytest.mark.spark_long
def test_extrema_beside_percentiles_have_runners_up(connect: Connect) -> None:
    db = large(connect)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT g, median(x) AS m, max(x) AS hi FROM t GROUP BY g")
    report = db.sql("DELETE FROM t WHERE id = 3998").commit.report["w"]
    assert "1 group lost an extremum: its runner-up followed" in report.reason
    assert report.rows_read == 0
    assert sorted(db.sql("SELECT * FROM w").rows()) == [(0, 999.0, 1998), (1, 999.5, 1999)]
    assert db.verify().equal
