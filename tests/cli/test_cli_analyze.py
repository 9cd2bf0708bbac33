"""viewkeeper analyze: views analyzed before they are created, without a database or an engine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tpch_queries import QUERIES
from benchmarks.tpch_schema import ORDER, create_statement

SCRIPT = """
CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT);
CREATE TABLE s (k INT PRIMARY KEY, t INT NOT NULL);
CREATE VIEW low AS SELECT id, g FROM t WHERE x < 5;
CREATE MATERIALIZED VIEW per_g (label, n) AS SELECT g, count(*) FROM low GROUP BY g;
CREATE MATERIALIZED VIEW pairs AS SELECT s.k, p.n FROM s JOIN per_g p ON s.t = p.n
"""


@pytest.mark.parametrize("command", ["analyze", "rules"])
def test_text_that_is_not_utf_8(run: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "bad.sql").write_bytes(b"\xff\xfeCREATE")
    for given in ("bad.sql", "-"):
        found = run(command, given, stdin=b"\xff\xfeCREATE", code=2)
        assert "the statements are not UTF-8 text" in found.output


def test_a_mark_at_the_beginning_of_a_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(SCRIPT, encoding="utf-8-sig")
    assert run("analyze", "views.sql").stdout.startswith("low: id, g\n")


def test_every_view_is_analyzed(run: Any, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(SCRIPT)
    text = run("analyze", "views.sql").stdout
    assert text.startswith("low: id, g\nkeys: (id)\n")
    assert "per_g: label, n\nkeys: (label)\n" in text
    found = json.loads(run("--format", "json", "analyze", "-", stdin=SCRIPT).stdout)["views"]
    assert [(view["view"], view["keys"], view["duplicates"]) for view in found] == [
        ("low", [["id"]], False),
        ("per_g", [["label"]], False),
        ("pairs", [], True),
    ]
    pairs = {reference["table"]: reference for reference in found[2]["references"]}
    assert pairs["s"]["safe"]
    assert pairs["s"]["operations"]["insert"] == {
        "effort": "bound",
        "cost": "in proportion to the change and the rows that its keys select in other tables",
        "reads": ["per_g by n"],
        "remarks": [],
    }
    assert not pairs["per_g"]["safe"]
    assert not (tmp_path / "viewkeeper").exists()


def test_what_is_no_table_or_view_is_refused(run: Any) -> None:
    result = run("analyze", "-", stdin="CREATE TABLE t (a INT);\nINSERT INTO t VALUES (1)", code=1)
    assert result.stderr == (
        "error: this is neither a table, a view, an assertion nor a rule\n"
        "at line 2, column 1:\n"
        "  INSERT INTO t VALUES (1)\n"
        "  ^\n"
        "hint: give CREATE TABLE, CREATE [MATERIALIZED] VIEW, CREATE ASSERTION and CREATE RULE statements only\n"
    )


def test_rules_that_may_trigger_each_other(run: Any) -> None:
    script = (
        "CREATE TABLE t (a INT); CREATE RULE r ON t WHEN INSERTED DO INSERT INTO t SELECT a + 1 FROM inserted;"
        "CREATE ASSERTION few CHECK (NOT EXISTS (SELECT a FROM t WHERE a > 9))"
    )
    warning = (
        "the rule r may trigger itself: it writes t, which it watches; "
        "a cascade without end is given up, and nothing is changed"
    )
    result = run("analyze", "-", stdin=script)
    assert result.stdout == (
        "few: an assertion\nt\n"
        "  DELETE cannot break it: deletes from t can only delete rows of the query\n"
        "  INSERT and UPDATE are checked:\n"
        "    only changed rows with a > 9 are looked at\n"
        "    δ = σ[a > 9](δt)\n"
        "    reads nothing but the change\n"
        "δR = ΔR − ∇R: inserted rows less deleted ones; @old and @new: before and after; ⋉K: only touched keys\n\n"
        f"r: a rule that changes of t can trigger, writes t\n  {warning}\n"
    )
    found = json.loads(run("--format", "json", "analyze", "-", stdin=script).stdout)
    assert found["rules"] == [{"rule": "r", "watches": ["t"], "writes": ["t"], "warnings": [warning]}]


def test_an_unknown_table_is_named(run: Any) -> None:
    result = run("analyze", "-", stdin="CREATE VIEW v AS SELECT a FROM nowhere", code=1)
    assert "there is no table or view named 'nowhere'" in result.stderr
    assert "hint: give the CREATE TABLE statements as well" in result.stderr


def test_all_of_tpch_in_two_seconds_without_spark(tmp_path: Path) -> None:
    views = [f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in QUERIES.items()]
    tables = [create_statement(table, foreign_keys=True) for table in ORDER]
    (tmp_path / "tpch.sql").write_text(";\n".join([*tables, *views]))
    program = (
        "import sys\nfrom viewkeeper.cli import cli\n"
        "try:\n    cli(['--format', 'json', 'analyze', 'tpch.sql'])\n"
        "finally:\n    assert not any(name.split('.')[0] == 'pyspark' for name in sys.modules), 'Spark was loaded'\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    found = {view["view"]: view for view in json.loads(done.stdout)["views"]}
    assert len(found) == 22
    assert found["q3"]["keys"] == [["l_orderkey"]]
    assert found["q10"]["keys"] == [["c_custkey"]]
    assert found["q18"]["keys"] == [["o_orderkey"]]
    assert found["q2"]["duplicates"]
    customer = next(reference for reference in found["q3"]["references"] if reference["table"] == "customer")
    assert customer["operations"]["insert"]["effort"] == "nothing"
    assert took < 60, "two seconds on a quiet machine"


@pytest.mark.parametrize("form", ["table", "csv"])
def test_forms(run: Any, form: str) -> None:
    assert "keys: (id)" in run("--format", form, "analyze", "-", stdin=SCRIPT).stdout


def test_rules_of_the_views_that_are_stored(run: Any) -> None:
    script = """
        CREATE TABLE t (id INT PRIMARY KEY, g STRING);
        CREATE VIEW low AS SELECT id FROM t WHERE id < 5;
        CREATE MATERIALIZED VIEW v AS SELECT id, g FROM t WHERE g IS NOT NULL
    """
    text = run("rules", "-", stdin=script).stdout
    assert [line for line in text.splitlines() if line.startswith("create rule")] == [
        "create rule del-t-v",
        "create rule old-upd-t-v",
        "create rule ins-t-v",
        "create rule new-upd-t-v",
    ]
    moved = run("rules", "-", "--rematerialize", "updated t", stdin=script).stdout
    assert moved.startswith("create rule rematerialize-v\nwhen updated t\nthen delete from v;\n")
    assert "upd-t-v" not in moved


def test_a_view_without_rules_is_refused(run: Any) -> None:
    script = (
        "CREATE TABLE t (id INT, g STRING);\nCREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g"
    )
    result = run("rules", "-", stdin=script, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: no rules can be derived for v: it has GROUP BY\nat line 2, column 71:\n")
