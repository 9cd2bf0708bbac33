"""viewkeeper bench calibrate: what it measures, where that is stored, and who uses it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.plan.cost import RATES, Rates

ROWS = ("--rows", "30000")


def stored(engine: str = "sail") -> Path:
    return Path("lake", "costs", f"{engine}.json")


def write_costs(engine: str = "sail", named: str | None = None, **rates: Any) -> None:
    """Costs as the command stores them, some of them changed or, with None, left out."""
    body = {**asdict(RATES["sail"]), **rates}
    body = {name: seconds for name, seconds in body.items() if seconds is not None}
    stored(engine).parent.mkdir(exist_ok=True)
    whole = {"engine": named or engine, "measured_at": 1.8e9, "machine": "Linux x86_64, 2 cores", "rates": body}
    stored(engine).write_text(json.dumps(whole))


def rates_in_use() -> Rates:
    with vk.connect("lake", engine="sail") as db:
        return db.store.engine.rates


@pytest.mark.spark_long
def test_costs_are_measured_and_used_from_the_next_open_on(engine: str, run: Any, rows: Any) -> None:
    run("sql", "CREATE TABLE t (a INT)", engine=engine)
    measured = rows("--db", "lake", "bench", "calibrate", *ROWS, engine=engine)
    assert [row["cost"] for row in measured] == [field.name for field in fields(Rates)]
    assert all(row["measured"] > 0 and row["of"] for row in measured)
    assert [row["built_in"] for row in measured] == list(asdict(RATES[engine]).values())
    with vk.connect("lake", engine=engine) as db:
        for row in measured:
            assert getattr(db.store.engine.rates, row["cost"]) == pytest.approx(row["measured"], rel=0.01)
    found = run("--db", "lake", "doctor", "--quick").stdout
    assert f"of {engine}, measured on 20" in found
    assert run("--db", "lake", "bench", "calibrate", "--forget").stderr == f"dropped the costs of {engine}\n"
    assert not stored(engine).exists()
    assert run("--db", "lake", "bench", "calibrate", "--forget").stderr == "no costs are stored\n"


def test_without_a_database_it_only_prints(run: Any) -> None:
    result = run("bench", "calibrate", *ROWS)
    assert not Path("lake").exists()
    assert result.stdout.splitlines()[0].split(" | ")[0].strip() == "cost"
    assert "query     | a query, whatever it reads " in result.stdout
    assert result.stderr.splitlines()[0] == "measuring: filling scratch tables"
    assert result.stderr.splitlines()[-1] == "nothing was stored: --db DIR stores them with a database"


def test_wrong_usage(run: Any) -> None:
    assert "calibrate" in run("bench", "--help").stdout
    assert "there is no database at lake" in run("--db", "lake", "bench", "calibrate", code=1).stderr
    assert "name it by --db DIR" in run("bench", "calibrate", "--forget", code=2).stderr


def test_stored_costs_decide_and_explain_shows_them() -> None:
    with vk.connect("lake", engine="sail") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x DOUBLE)")
        db.sql("INSERT INTO t SELECT id, CAST(id % 5 AS INT), id * 0.5 FROM range(30000)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, stddev(x) AS s FROM t GROUP BY g")

    def update() -> tuple[str, dict[str, Any]]:
        """How the view is refreshed when a fifth of the table changes, and what EXPLAIN says of it."""
        with vk.connect("lake", engine="sail") as db:
            cost: dict[str, Any] = json.loads(db.explain("v", format="json"))["changes"]["t"]["cost"]
            commit = db.sql("UPDATE t SET x = x + 1 WHERE g = 1").commit
            assert commit is not None
            assert db.verify("v").equal
            return commit.report["v"].strategy, cost

    write_costs(query=1e-6, row=1e-9, worked=1e-9, compared=1e-9, changed=1e-3, found=1e-3)
    how, cost = update()
    assert how == "full"
    assert cost["full"] < 0.001
    assert cost["full from"] < 10
    write_costs(query=1000.0, look_up=1e-6, found=1e-9, changed=1e-9)
    how, cost = update()
    assert how == "incremental", "a full refresh is two queries"
    assert 2000 < cost["full"] < 2001
    assert cost["full from"] is None or cost["full from"] > 6_000
    stored().unlink()
    assert update()[1]["full"] < 0.1


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "[]", "{}", "null", '{"rates": 3}', '{"rates": {"query": []}}',
        '{"engine": "sail", "measured_at": 0, "machine": "", "rates": {}}',
    ],
)  # fmt: skip
def test_damaged_costs_count_as_none(run: Any, rows: Any, items: None, text: str) -> None:
    stored().parent.mkdir()
    stored().write_text(text)
    assert rates_in_use() == RATES["sail"]
    (found,) = [row for row in rows("--db", "lake", "doctor", "--quick") if row["check"] == "Costs"]
    assert found["status"] == "note"
    assert found["found"] == "those stored for sail cannot be used: the built-in ones count"


@pytest.mark.parametrize("rates", [{"query": 0}, {"query": -1.0}, {"query": float("nan")}, {"row": float("inf")},
                                   {"row": None}, {"unknown": 1.0}, {"row": "much"}])  # fmt: skip
def test_costs_of_another_version_or_impossible_ones_count_as_none(run: Any, items: None, rates: Any) -> None:
    write_costs(**rates)
    assert rates_in_use() == RATES["sail"]


def test_costs_of_another_engine_are_not_used(run: Any, items: None) -> None:
    write_costs("spark", query=1.0)
    assert rates_in_use() == RATES["sail"]
    write_costs("sail", named="spark", query=1.0)
    assert rates_in_use() == RATES["sail"]
    write_costs("sail", query=1.0)
    assert rates_in_use().query == 1.0
    run("--db", "lake", "vacuum")
    assert rates_in_use().query == 1.0, "a vacuum leaves them"
