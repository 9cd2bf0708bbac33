"""refresh = 'auto' chooses the cheaper refresh, says why, and EXPLAIN VIEW shows it beforehand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

import viewkeeper as vk
from viewkeeper.maintain import planning as layout

ROWS = 200_000
JOINED = "SELECT a.id, a.grp, a.x, b.y FROM a JOIN b ON a.id = b.id"
MISSING = "SELECT b.id, b.y FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.id = b.id AND a.x > 0)"
PER_GROUP = "SELECT grp, count(*) AS n, sum(x) AS total FROM a GROUP BY grp"
COSTS = re.compile(
    r"incremental about [\d.,]+ m?s \(([\d,]+) rows? changed(?:, [\d,]+ reads? by key)?(?:, [\d,]+ rows? in full)?\), "
    r"full about [\d.,]+ m?s \(([\d,]+) rows\)"
)

pytestmark = pytest.mark.compiled


@pytest.fixture
def large(db: vk.Database) -> vk.Database:
    db.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, grp INT, x INT); CREATE TABLE b (id BIGINT PRIMARY KEY, y INT)")
    db.sql(f"INSERT INTO a SELECT id, CAST(id % 20000 AS INT), CAST(id % 77 AS INT) FROM range({ROWS})")
    db.sql(f"INSERT INTO b SELECT id, CAST(id % 5 AS INT) FROM range({ROWS})")
    return db


def truth(query: str, *changes: str) -> list[tuple[Any, ...]]:
    """What DuckDB makes of the same tables and changes."""
    with duckdb.connect() as oracle:
        oracle.sql(f"CREATE TABLE a AS SELECT range AS id, range % 20000 AS grp, range % 77 AS x FROM range({ROWS})")
        oracle.sql(f"CREATE TABLE b AS SELECT range AS id, range % 5 AS y FROM range({ROWS})")
        for change in changes:
            oracle.execute(change)
        return sorted(oracle.sql(query).fetchall())


def done(db: vk.Database, change: str) -> vk.Commit:
    commit = db.sql(change).commit
    assert commit is not None
    return commit


@pytest.mark.spark_long
def test_auto_follows_a_small_change_and_computes_anew_after_a_large_one(large: vk.Database) -> None:
    large.sql(f"CREATE MATERIALIZED VIEW v AS {MISSING}")
    few = "UPDATE a SET x = 0 WHERE id IN (5, 20005, 49999)"
    report = done(large, few).report["v"]
    assert report.strategy == "incremental"
    told = COSTS.fullmatch(report.reason)
    assert told is not None, report.reason
    assert told.groups() == ("6", f"{2 * ROWS + 6:,}")
    newest = large.history(limit=1)[0]["changes"]
    assert f"v: 3 rows changed (incremental: {report.reason})" in newest

    most = "UPDATE a SET x = x + 1 WHERE id >= 10"
    report = done(large, most).report["v"]
    assert report.strategy == "full", report.reason
    told = COSTS.fullmatch(report.reason)
    assert told is not None, report.reason
    assert told[1] == f"{2 * (ROWS - 10):,}"
    assert f"(full: {report.reason})" in large.history(limit=1)[0]["changes"]
    assert sorted(large.sql("SELECT * FROM v").rows()) == truth(MISSING, few, most)
    assert large.verify("v").equal


@pytest.mark.spark_long
def test_options_are_obeyed(large: vk.Database) -> None:
    for refresh in ("incremental", "full"):
        large.sql(f"CREATE MATERIALIZED VIEW {refresh}_v WITH (refresh = '{refresh}') AS {JOINED}")
        large.sql(f"CREATE MATERIALIZED VIEW {refresh}_g WITH (refresh = '{refresh}') AS {PER_GROUP}")
    changes = ("UPDATE a SET x = 1000 WHERE id = 7", "UPDATE a SET x = x + 1 WHERE id >= 10")
    for change in changes:
        report = done(large, change).report
        for name in ("v", "g"):
            for refresh in ("incremental", "full"):
                way = report[f"{refresh}_{name}"]
                assert (way.strategy, way.reason) == (refresh, f"refresh = '{refresh}'")
    for refresh in ("incremental", "full"):
        assert sorted(large.sql(f"SELECT * FROM {refresh}_v").rows()) == truth(JOINED, *changes)
        assert sorted(large.sql(f"SELECT * FROM {refresh}_g").rows()) == truth(PER_GROUP, *changes)
        for name in ("v", "g"):
            text = large.explain(f"{refresh}_{name}")
            assert f"  refresh = '{refresh}' decides, whatever it costs" in text
            assert "refresh = 'auto'" not in text


@pytest.mark.spark_long
def test_the_report_tells_what_was_decided_for_an_auxiliary_relation(large: vk.Database) -> None:
    large.sql(f"CREATE MATERIALIZED VIEW g AS {PER_GROUP}")
    change = "UPDATE a SET x = 1000 WHERE id = 7"
    reason = done(large, change).report["g"].reason
    assert COSTS.search(reason), reason
    assert "; its auxiliary relation was maintained incrementally: incremental about" in reason
    assert sorted(large.sql("SELECT * FROM g").rows()) == truth(PER_GROUP, change)


def test_small_tables_always_follow_the_change(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 1), (2, NULL)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, rank() OVER (ORDER BY x) AS place FROM t")
    reports = [done(db, text).report["v"] for text in ("INSERT INTO t VALUES (3, 3)", "UPDATE t SET x = 9 - id")]
    assert [report.strategy for report in reports] == ["incremental", "incremental"]
    assert reports[0].reason == "1 row changed, 3 rows to compute it from: too few to matter"
    turn = json.loads(db.explain("v", format="json"))["changes"]["t"]["cost"]["full from"]
    assert turn is None or turn > 9_000  # which depends on the engine's rates
    assert done(db, "DELETE FROM t").report["v"].strategy == "incremental"
    assert db.sql("SELECT * FROM v").rows() == []


@pytest.mark.spark_long
def test_a_demand_view_counts_all_it_has_to_catch_up_with(large: vk.Database) -> None:
    large.sql(f"CREATE MATERIALIZED VIEW v WITH (on = 'demand') AS {MISSING}")
    changes = ("UPDATE a SET x = 0 WHERE id = 1", "UPDATE a SET x = x + 1 WHERE id >= 10")
    large.sql(changes[0])
    told = COSTS.fullmatch(done(large, "REFRESH v").report["v"].reason)
    assert told is not None
    assert told[1] == "2"
    large.sql(changes[1])
    report = done(large, "REFRESH v").report["v"]
    told = COSTS.fullmatch(report.reason)
    assert told is not None
    assert (report.strategy, told[1]) == ("full", f"{2 * (ROWS - 10):,}")
    assert sorted(large.sql("SELECT * FROM v").rows()) == truth(MISSING, *changes)


@pytest.mark.spark_long
def test_explain_view_shows_both_costs(large: vk.Database) -> None:
    large.sql(f"CREATE MATERIALIZED VIEW v AS {MISSING}; CREATE VIEW virtual AS {MISSING}")
    lines = large.explain("v").splitlines()
    costs = [line for line in lines if line.startswith("  cost, incremental: ")]
    sizes = r"\S+ m?s for 1 row, \S+ m?s for 1,000 rows, \S+ m?s for 100,000 rows"
    shape = rf"  cost, incremental: about {sizes}; full: about \S+ m?s"
    assert len(costs) == 2
    assert all(re.fullmatch(shape, line) for line in costs), costs
    body = json.loads(large.explain("v", format="json"))
    assert set(body["changes"]) == {"a", "b"}
    for told in body["changes"].values():
        cost = told["cost"]
        assert list(cost) == ["incremental", "full", "refresh", "full from"]
        assert 0 < cost["incremental"]["1"] <= cost["incremental"]["1000"] <= cost["incremental"]["100000"]
        assert cost["incremental"]["1"] < cost["full"]
        assert cost["refresh"] == "auto"
        turn = cost["full from"]
        way = "is always incremental" if turn is None else f"is full from about {turn:,} rows changed on"
        assert f"  refresh = 'auto' {way}" in lines
    assert 10_000 < body["changes"]["a"]["cost"]["full from"] <= 2 * ROWS
    virtual = large.explain("virtual")
    assert "  cost, incremental: about " in virtual
    assert "refresh = " not in virtual
    cost = json.loads(large.explain("virtual", format="json"))["changes"]["a"]["cost"]
    assert (cost["refresh"], cost["full from"]) == (None, None)


@pytest.mark.spark_long
def test_a_plan_is_laid_out_once(large: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    large.sql(f"CREATE MATERIALIZED VIEW v AS {JOINED}")
    laid_out: list[str] = []
    original: Callable[..., Any] = layout._make_plan

    def noted(*arguments: Any) -> Any:
        laid_out.append(arguments[2].name)
        return original(*arguments)

    monkeypatch.setattr(layout, "_make_plan", noted)
    for number in range(3):
        done(large, f"UPDATE a SET x = -{number + 1} WHERE id = 3")
    assert laid_out == ["v"]


@pytest.mark.spark_long
@pytest.mark.parametrize(
    "condition", ["d > 1", "d >= 1.5", "d BETWEEN 0.05 AND 7", "d IN (1, 2.5)", "d > -3", "i > 5", "day > '2024-01-01'"]
)
def test_a_change_that_no_condition_lets_pass_ends_on_the_driver(db: vk.Database, condition: str) -> None:
    db.sql("CREATE TABLE t (i INT, d DECIMAL(10,2), day DATE)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT i FROM t WHERE {condition}")
    commit = db.sql("INSERT INTO t VALUES (-100, -100, DATE'2000-01-01'), (NULL, NULL, NULL)").commit
    assert commit is not None
    assert (commit.report["v"].strategy, commit.report["v"].reason) == ("none", "no changed row can reach it")
    commit = db.sql("INSERT INTO t VALUES (7, 2.5, DATE'2024-02-01')").commit
    assert commit is not None
    assert commit.changes["v"].weights() == {(7,): 1}


def test_groups_that_lose_an_extremum_are_foreseen(large: vk.Database) -> None:
    """20,000 groups of ten rows: a changed row was the minimum or maximum of its group with a probability of 2/10."""
    query = "SELECT grp, min(id) AS low, max(id) AS high FROM a GROUP BY grp"
    large.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    fewer = "DELETE FROM a WHERE grp < 2000 AND id < 40000"
    assert "4,000 rows changed, 1 read by key, about 800 groups read again" in done(large, fewer).report["v"].reason
    more = "INSERT INTO a SELECT id, CAST(id % 20000 AS INT), 1 FROM range(300000, 304000)"
    reason = done(large, more).report["v"].reason
    assert "4,000 rows changed, 1 read by key)" in reason, "inserted rows take no extremum away"
    again = more.replace("range(300000, 304000)", "(SELECT range AS id FROM range(300000, 304000))")
    assert sorted(large.sql("SELECT * FROM v").rows()) == truth(query, fewer, again)
    assert large.verify("v").equal
