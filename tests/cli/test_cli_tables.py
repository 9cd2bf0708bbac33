"""ls, show, history, compact, vacuum, version, and commands where there is no database."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from viewkeeper.cli.output import size


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls",), ("show", "t"), ("history",), ("compact",), ("vacuum",),
        ("sql", "SELECT 1"), ("sql", "INSERT INTO t VALUES (1)"), ("sql", "DROP TABLE t"),
    ],
)  # fmt: skip
def test_no_database_is_said_and_none_is_made(run: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = run("--db", "my lake", *arguments, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith(
        "error: there is no database at my lake\nhint: make one: viewkeeper --db 'my lake' sql"
    )
    assert os.listdir(tmp_path) == []


def test_a_directory_of_something_else_is_left_alone(run: Any, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("x")
    for arguments in (("ls",), ("sql", "CREATE TABLE t (id INT)")):
        assert "is not a Viewkeeper database" in run("--db", "home", *arguments, code=1).stderr
    assert os.listdir(tmp_path / "home") == ["letter.txt"]


def test_the_environment_names_the_database(run: Any, rows: Any, items: None, monkeypatch: pytest.MonkeyPatch) -> None:
    os.rename("lake", "elsewhere")
    monkeypatch.setenv("VIEWKEEPER_DB", "elsewhere")
    assert [row["name"] for row in rows("ls")] == ["items"]


def test_ls(run: Any, rows: Any, items: None) -> None:
    run("sql", "CREATE TABLE Empty (id INT)")
    empty, full = rows("ls")
    assert empty == {"name": "Empty", "kind": "table", "columns": 1, "files": 0, "stored_rows": 0, "bytes": 0}
    assert (full["name"], full["columns"], full["files"], full["stored_rows"]) == ("items", 3, 1, 3)
    assert run("ls").stdout.splitlines()[0] == "name  | kind  | columns | files | stored_rows | size"


def test_show(run: Any, items: None) -> None:
    run("sql", "UPDATE items SET quantity = 1 WHERE item = 'hat'")
    result = run("show", "ITEMS", "--rows", "2")
    assert result.stdout.startswith(
        "CREATE TABLE items (\n  item STRING NOT NULL,\n  quantity INT NOT NULL,\n  price DECIMAL(8,2),\n"
        "  PRIMARY KEY (item)\n);\n"
    )
    for line in ("keys:        PRIMARY KEY (item)", "created:     epoch 1", "last change: epoch 3", "stored rows: 5"):
        assert line in result.stdout.splitlines()
    assert "readable:    epochs 1 to 3" in result.stdout
    assert result.stdout.count(" | ") == 3 * 2


def test_the_shown_definition_makes_the_same_table(run: Any, rows: Any) -> None:
    text = "CREATE TABLE `my table` (`a b` VARCHAR(5), `select` INT NOT NULL UNIQUE, m MAP<STRING,ARRAY<INT>>, "
    run("sql", text + "s STRUCT<x: INT, `y z`: STRING>, UNIQUE (`a b`, `select`))")
    (first,) = [rows("show", "my table")]
    run("--db", "copy", "sql", first["definition"])
    assert rows("--db", "copy", "show", "my table") == first


def test_show_as_of(run: Any, rows: Any, items: None, engine: str) -> None:
    run("sql", "DELETE FROM items WHERE item <> 'hat'; DROP TABLE items")
    now = run("show", "items", code=1).stderr
    assert "error: there is no table named 'items'" in now
    then = rows("show", "items", "--as-of", "3", "--rows", "9", engine=engine)
    assert then["rows"] == [{"item": "hat", "quantity": 15, "price": "9.50"}]
    assert (then["as_of"], then["changed_epoch"], then["readable_epochs"]) == (3, 3, [1, 4])
    assert run("--format", "csv", "show", "items", "--as-of", "2", "--rows", "9").stdout.count("\n") == 4
    assert "there is no epoch 9 yet\nhint: the newest is 4" in run("show", "items", "--as-of", "9", code=1).stderr
    assert "no table named 'items'" in run("show", "items", "--as-of", "0", code=1).stderr


def test_history(run: Any, rows: Any, items: None) -> None:
    newest, first = rows("history")
    assert (newest["epoch"], newest["changes"]) == (2, "items: 3 rows changed")
    assert (first["epoch"], first["changes"]) == (1, "created items")
    assert first["committed_at"] < newest["committed_at"]
    assert len(rows("history", "--limit", "1")) == 1
    run("history", "--limit", "0", code=2)


def test_counts_have_separators_in_tables_only(run: Any, rows: Any) -> None:
    run("sql", "CREATE TABLE many AS SELECT CAST(id AS INT) AS id FROM range(1234567) WHERE id > 1234000 OR id < 1000")
    assert "many: 1,566 rows changed" in run("history").stdout
    assert rows("history")[0]["changes"].endswith("many: 1566 rows changed")
    assert " | 1,566 | " in " ".join(run("ls").stdout.splitlines()[2].split())
    assert rows("ls")[0]["stored_rows"] == 1566
    assert ",1566," in run("--format", "csv", "ls").stdout
    shown = run("sql", "SELECT max(id) AS id, count(*) AS n FROM many").stdout.splitlines()[2]
    assert shown == "1234566 | 1566", "user data stays as it is"


def test_compact_and_vacuum_keep_contents_and_epochs(run: Any, rows: Any, items: None) -> None:
    for number in range(3):
        run("sql", f"INSERT INTO items VALUES ('sock {number}', {number}, NULL)")
    (done,) = rows("compact", "items")
    assert (done["relation"], done["files_before"], done["files_after"]) == ("items", 4, 1)
    assert rows("compact") == []
    assert "nothing to do" in run("compact").stderr
    assert rows("vacuum") == [{"files": 0, "bytes": 0, "forgotten_tables": []}]
    (swept,) = rows("vacuum", "--grace", "0 seconds")
    assert (swept["files"], swept["bytes"] > 0) == (0, True), "the rows were part of ledger entries"
    assert len(rows("history")) == 5
    assert rows("sql", "SELECT count(*) AS n FROM items AS OF EPOCH 2") == [{"n": 3}]
    assert "no table named 'itmes'" in run("compact", "itmes", code=1).stderr
    assert "is not a duration" in run("vacuum", "--grace", "soon", code=2).stderr


def test_version_and_help(run: Any) -> None:
    import viewkeeper

    assert run("version").stdout == run("--version").stdout == f"viewkeeper {viewkeeper.__version__}\n"
    assert json.loads(run("--format", "json", "version").stdout) == [{"version": viewkeeper.__version__}]
    listed = run("--help").stdout
    for verb in ("demo", "sql", "load", "ls", "show", "history", "compact", "vacuum", "doctor", "version"):
        assert f"\n  {verb} " in listed
        assert len(run(verb, "--help").stdout.split()) > 10


def test_sizes_are_readable() -> None:
    assert [size(n) for n in (0, 999, 1000, 2_360_000, 10**16)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "2.4 MB",
        "10000.0 TB",
    ]
