"""What people type first: options anywhere, changes of views, JSON for programs, Datalog, files of all kinds."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def totals(run: Any) -> None:
    run("sql", "CREATE TABLE sales (id BIGINT PRIMARY KEY, region STRING, amount INT)")
    run("sql", "CREATE MATERIALIZED VIEW totals AS SELECT region, sum(amount) AS total FROM sales GROUP BY region")


def test_a_change_prints_the_rows_of_the_views_it_changes(run: Any, totals: None) -> None:
    first = run("sql", "INSERT INTO sales VALUES (1, 'EU', 5), (2, 'US', 7)")
    assert first.stdout.splitlines() == ["totals", "  + EU | 5", "  + US | 7"]
    assert first.stderr == "epoch 3, 2 rows\n"
    second = run("sql", "UPDATE sales SET amount = 6 WHERE id = 1; SELECT 1 AS one")
    assert second.stdout.splitlines()[:3] == ["totals", "  − EU | 5", "  + EU | 6"]
    many = run("sql", "INSERT INTO sales SELECT id, CAST(id AS STRING), 1 FROM range(10, 60)")
    assert len(many.stdout.splitlines()) == 21
    assert "  ... and 30 more" in many.stderr


def test_a_change_is_one_line_of_json(run: Any, totals: None) -> None:
    made = run("--format", "json", "sql", "INSERT INTO sales VALUES (1, 'EU', 5)")
    assert json.loads(made.stdout) == {
        "epoch": 3,
        "count": 1,
        "changes": {
            "sales": {"updates": [{"row": [1, "EU", 5], "diff": 1}]},
            "totals": {"updates": [{"row": ["EU", 5], "diff": 1}]},
        },
        "rules": [],
    }


def test_options_may_stand_after_the_verb(run: Any, totals: None) -> None:
    assert json.loads(run("sql", "SELECT 1 AS a", "--format", "json").stdout) == [{"a": 1}]
    assert json.loads(run("sql", "--format=json", "SELECT 1 AS a", "--db", "lake").stdout) == [{"a": 1}]
    assert "there is no database at elsewhere" in run("ls", "--db", "elsewhere", code=1).stderr
    assert "may stand here too" in run("sql", "--help").stdout
    Path("other.txt").write_text("id,region,amount\n5,EU,1\n")
    run("load", "sales", "other.txt", "--format", "csv", "--db=lake")  # the verb's own --format


def test_errors_are_json_where_data_is(run: Any, totals: None) -> None:
    failed = run("--format", "json", "sql", "SELECT nme FROM sales", code=1)
    problem = json.loads(failed.stderr)
    assert problem["code"] == "not-found"
    assert problem["place"]["column"] == 8
    missing = run("ls", "--db", "elsewhere", "--format", "json", code=1)
    assert json.loads(missing.stderr)["code"] == "storage"


def test_changes_of_past_epochs(run: Any, totals: None) -> None:
    run("sql", "INSERT INTO sales VALUES (1, 'EU', 5)")
    run("sql", "UPDATE sales SET amount = 6")
    assert run("changes", "totals", "--since", "0").stdout.splitlines() == [
        "epoch 3", "  + EU | 5", "epoch 4", "  − EU | 5", "  + EU | 6"
    ]  # fmt: skip
    lines = run("changes", "totals", "--since", "3", "--format", "json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"epoch": 4, "updates": [{"row": ["EU", 5], "diff": -1}, {"row": ["EU", 6], "diff": 1}]}
    ]
    assert run("changes", "totals", "--since", "3", "--format", "csv").stdout.splitlines() == [
        "_epoch,_diff,region,total", "4,-1,EU,5", "4,1,EU,6"
    ]  # fmt: skip
    assert run("changes", "totals", "--since", "4").stderr == "nothing has changed in totals since epoch 4\n"
    assert "there is no table" in run("changes", "nothing", "--since", "0", code=1).stderr


def test_a_datalog_program_and_a_question(run: Any, rows: Any) -> None:
    Path("graph.dl").write_text(
        ".decl edge(x:number, y:number)\n.input edge\n.decl path(x:number, y:number)\n.output path\n"
        "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"
    )
    assert run("datalog", "graph.dl").stderr.splitlines()[-1] == "epoch 1"
    run("sql", "INSERT INTO edge VALUES (1, 2), (2, 3)")
    assert rows("datalog", "-q", "path(1, Y)") == [{"Y": 2}, {"Y": 3}]
    assert run("datalog", "-", stdin="- path(x, z) :- path(x, y), edge(y, z).").stderr.splitlines()[-1] == "epoch 3"
    assert rows("datalog", "-q", "path(1, Y)") == [{"Y": 2}]
    assert "give the FILE" in run("datalog", code=2).stderr


ROWS = [{"id": 1, "region": "EU", "amount": 9}, {"id": 3, "region": "US", "amount": 1}]
TEXT = "id;region;amount\n1;EU;9\n3;US;1\n"


@pytest.mark.parametrize("form", ["csv.gz", "csv.bz2", "json", "jsonl", "json array", "stdin", "pattern", "several"])
def test_files_of_all_kinds_are_upserted(run: Any, rows: Any, totals: None, form: str) -> None:
    run("sql", "INSERT INTO sales VALUES (1, 'EU', 5), (2, 'US', 7)")
    given, stdin = ["new"], None
    if form == "csv.gz":
        Path("new.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
        given = ["new.csv.gz", "--delimiter", ";"]
    elif form == "csv.bz2":
        Path("new.csv.bz2").write_bytes(bz2.compress(TEXT.replace(";", "\t").encode()))
        given = ["new.csv.bz2", "--delimiter", "tab"]
    elif form == "json":
        Path("new.json").write_text(json.dumps(ROWS))
        given = ["new.json"]
    elif form == "jsonl":
        Path("new.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
        given = ["new.jsonl"]
    elif form == "json array":
        Path("new.json").write_text(json.dumps(ROWS, indent=2))
        given = ["new.json"]
    elif form == "stdin":
        given, stdin = ["-", "--format", "csv", "--option", "sep=;"], TEXT
    else:
        Path("new").mkdir()
        for number, row in enumerate(ROWS):
            Path(f"new/{number}.json").write_text(json.dumps(row))
        given = ["new/*.json"] if form == "pattern" else ["new/0.json", "new/1.json"]
    loaded = run("load", "sales", *given, "--upsert", stdin=stdin)
    assert loaded.stderr.splitlines()[-1] == "2 rows loaded into sales (epoch 4)"
    assert rows("sql", "SELECT * FROM sales ORDER BY id") == [
        ROWS[0], {"id": 2, "region": "US", "amount": 7}, ROWS[1]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[\n{"id": 1},\n{"id": }\n]', "line 3 of bad.json is not a JSON object"),
        ('[\n{"id": 1},\n', "of bad.json is not a JSON object"),
        ('[\n{"id": 1}\n]\n{"id": 2}', "line 3 of bad.json is not a JSON object"),
        ('[\n{"id": 1},\n7\n]', "line 3 of bad.json is not a JSON object"),
    ],
)
def test_a_broken_array_names_its_line(run: Any, totals: None, text: str, message: str) -> None:
    Path("bad.json").write_text(text)
    assert message in run("load", "sales", "bad.json", code=1).stderr


def test_what_cannot_be_loaded_is_said(run: Any, totals: None) -> None:
    assert "no file matches none*.csv" in run("load", "sales", "none*.csv", code=1).stderr
    assert "say what standard input is" in run("load", "sales", "-", code=2).stderr
    assert "write it as NAME=VALUE" in run("load", "sales", "x*.csv", "--option", "sep", code=2).stderr
    run("sql", "CREATE TABLE bag (a INT)")
    Path("a.csv").write_text("a\n1\n")
    assert "bag has no PRIMARY KEY" in run("load", "bag", "a.csv", "--upsert", code=1).stderr
