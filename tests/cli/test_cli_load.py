from __future__ import annotations

import datetime as dt
import decimal
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CSV = "id,name,price,day,at\n1,Ann,12.5,2024-01-02,2024-01-02 10:00:00\n2,,3.25,2024-02-03,2024-01-02 11:30:00\n"


@pytest.fixture
def people(tmp_path: Path) -> str:
    (tmp_path / "people.csv").write_text(CSV)
    return "people.csv"


def test_load_creates_the_same_table_on_both_engines(run: Any, rows: Any, people: str, engine: str) -> None:
    result = run("load", "people", people, "--create", engine=engine)
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == "2 rows loaded into people (epoch 1)"
    shown = rows("show", "people", "--rows", "5", engine=engine)
    types = [column["type"] for column in shown["columns"]]
    assert types == ["BIGINT", "STRING", "DOUBLE", "DATE", "TIMESTAMP"]
    assert sorted(shown["rows"], key=lambda row: row["id"])[1] == {
        "id": 2, "name": None, "price": 3.25, "day": "2024-02-03", "at": "2024-01-02T11:30:00+00:00"
    }  # fmt: skip
    assert [row["changes"] for row in rows("history")] == ["created people; people: 2 rows changed"]


def test_json_columns_of_nulls_become_strings(run: Any, rows: Any, tmp_path: Path, engine: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "none": null, "list": [1, 2]}\n{"id": 2, "none": null, "list": []}\n')
    run("load", "a", "a.jsonl", "--create", engine=engine)
    columns = {column["name"]: column["type"] for column in rows("show", "a")["columns"]}
    assert columns == {"id": "BIGINT", "none": "STRING", "list": "ARRAY<BIGINT>"}


def test_parquet_keeps_its_types(run: Any, rows: Any, tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array([1], pa.int32()),
            "d": pa.array([decimal.Decimal("1.50")], pa.decimal128(9, 2)),
            "t": pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us")),
        }
    )
    pq.write_table(table, tmp_path / "kept")
    assert "the format of kept is not known" in run("load", "kept", "kept", "--create", code=1).stderr
    run("load", "kept", "kept", "--create", "--format", "parquet")
    assert [c["type"] for c in rows("show", "kept")["columns"]] == ["INT", "DECIMAL(9,2)", "TIMESTAMP_NTZ"]
    assert rows("sql", "SELECT * FROM kept") == [{"n": 1, "d": "1.50", "t": "2024-01-02T00:00:00"}]


def test_load_adds_to_a_table(run: Any, rows: Any, people: str) -> None:
    run("sql", "CREATE TABLE p (name STRING, id INT PRIMARY KEY, price DECIMAL(5,1), day DATE, at STRING, more INT)")
    run("load", "P", people)
    assert rows("sql", "SELECT id, more FROM p ORDER BY id") == [{"id": 1, "more": None}, {"id": 2, "more": None}]
    again = run("load", "p", people, code=1)
    assert "PRIMARY KEY (id) of p is broken" in again.stderr
    assert len(rows("history")) == 2


def test_an_unknown_table_gives_a_hint_that_works(run: Any, rows: Any, people: str, items: None) -> None:
    result = run("load", "item", people, code=1)
    assert result.stderr == (
        "error: there is no table named 'item'\ndetail: did you mean 'items'?\n"
        "hint: --create makes the table from the file: viewkeeper load item people.csv --create\n"
    )
    run(*result.stderr.splitlines()[-1].split("viewkeeper ")[1].split())
    assert len(rows("ls")) == 2


def test_nothing_is_made_without_create(run: Any, people: str) -> None:
    result = run("--db", "new", "load", "t", people, "--format", "csv", code=1)
    assert "there is no database at new" in result.stderr
    assert "viewkeeper --db new load t people.csv --create --format csv" in result.stderr
    assert "there is no file nowhere.csv" in run("load", "t", "nowhere.csv", "--create", code=1).stderr
    assert os.listdir() == ["people.csv"]


def test_a_failed_load_makes_no_table(run: Any, rows: Any, tmp_path: Path, items: None) -> None:
    (tmp_path / "bad.csv").write_text("_weight,b\n1,2\n")
    assert "'_weight' is a reserved column name" in run("load", "bad", "bad.csv", "--create", code=1).stderr
    assert [row["name"] for row in rows("ls")] == ["items"]
