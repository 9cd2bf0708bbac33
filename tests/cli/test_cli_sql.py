from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_a_query_prints_a_table_and_its_count_apart(run: Any, items: None) -> None:
    result = run("sql", "SELECT item, quantity FROM items ORDER BY item")
    assert result.stdout.splitlines() == [
        "item  | quantity",
        "------+---------",
        "hat   |       15",
        "shirt |      120",
        "shoe  |       90",
    ]
    assert result.stderr == "(3 rows)\n"


def test_both_engines_run_statements(run: Any, rows: Any, engine: str) -> None:
    created = run("sql", "CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", engine=engine)
    assert created.stdout == ""
    assert created.stderr.splitlines()[-2:] == ["epoch 1", "epoch 2, 2 rows"]
    assert rows("sql", "SELECT sum(id) AS total FROM t", engine=engine) == [{"total": 3}]
    assert rows("sql", "SELECT count(*) AS n FROM t AS OF EPOCH 1", engine=engine) == [{"n": 0}]


def test_json_holds_every_kind_of_value(rows: Any, items: None) -> None:
    (row,) = rows(
        "sql",
        "SELECT cast(1.50 AS DECIMAL(9,3)) AS dec, X'00FF' AS bin, cast('NaN' AS DOUBLE) AS nan, "
        "cast('-Infinity' AS DOUBLE) AS low, DATE'2024-01-02' AS day, TIMESTAMP'2024-01-02 03:04:05' AS at, "
        "array(1, NULL) AS list, map('k', 1.5D) AS map, named_struct('x', 1, 'y', DATE'2024-01-02') AS rec, "
        "map(array(1), 2) AS odd, NULL AS nothing, 1 AS a, 2 AS a, true AS yes",
    )
    assert row == {
        "dec": "1.500",
        "bin": "00ff",
        "nan": "NaN",
        "low": "-Infinity",
        "day": "2024-01-02",
        "at": "2024-01-02T03:04:05+00:00",
        "list": [1, None],
        "map": {"k": 1.5},
        "rec": {"x": 1, "y": "2024-01-02"},
        "odd": {"[1]": 2},
        "nothing": None,
        "a": 1,
        "a_2": 2,
        "yes": True,
    }


def test_no_rows_are_valid_in_every_form(run: Any, items: None) -> None:
    query = ("sql", "SELECT item, price FROM items WHERE quantity < 0")
    assert json.loads(run("--format", "json", *query).stdout) == []
    assert run("--format", "csv", *query).stdout == "item,price\n"
    assert run(*query).stdout == "item | price\n-----+------\n"


def test_csv_tells_null_from_empty_and_quotes(run: Any, items: None) -> None:
    run(
        "sql",
        """CREATE TABLE s (id INT, text STRING);
        INSERT INTO s VALUES (1, NULL), (2, ''), (3, 'a,b'), (4, 'say "x"'), (5, 'two\\nlines'), (6, ' x')""",
    )
    found = run("--format", "csv", "sql", "SELECT id, text FROM s ORDER BY id").stdout
    assert found == 'id,text\n1,\n2,""\n3,"a,b"\n4,"say ""x"""\n5,"two\nlines"\n6," x"\n'


def test_control_characters_do_not_reach_the_terminal(run: Any, items: None) -> None:
    result = run("sql", "SELECT concat('a', char(27), '[31m', char(10), 'b') AS x")
    assert result.stdout.splitlines()[-1] == "a\\x1b[31m\\nb"


def test_every_query_of_a_script_is_printed(run: Any, items: None, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELECT 1 AS one;\nUPDATE items SET quantity = 0 WHERE item = 'hat';\nSELECT 'ß' AS two;\n")
    result = run("sql", "-f", str(script))
    assert result.stdout == "one\n---\n  1\ntwo\n---\nß\n"
    assert "epoch 3, 1 row" in result.stderr


@pytest.mark.parametrize("arguments", [("sql", "-"), ("sql",), ("sql", "-f", "-")])
def test_statements_come_from_stdin(rows: Any, items: None, arguments: tuple[str, ...]) -> None:
    assert rows(*arguments, stdin="SELECT count(*) AS n FROM items") == [{"n": 3}]


def test_an_error_names_the_statement_and_the_place(run: Any, rows: Any, items: None) -> None:
    result = run("sql", "DELETE FROM items;\nSELECT * FROM itmes", code=1)
    assert result.stdout == ""
    assert "error: there is no table named 'itmes'" in result.stderr
    assert "in statement 2 of 2 (the statements before it stand)" in result.stderr
    assert "at line 2, column 15:\n  SELECT * FROM itmes\n                ^^^^^\n" in result.stderr
    assert "hint: did you mean 'items'?" in result.stderr
    assert rows("sql", "SELECT count(*) AS n FROM items") == [{"n": 0}]


def test_a_broken_key_is_told_and_nothing_changes(run: Any, rows: Any, items: None, engine: str) -> None:
    result = run("sql", "INSERT INTO items VALUES ('scarf', 1, 1), ('hat', 1, 1)", code=1, engine=engine)
    assert "error: PRIMARY KEY (item) of items is broken" in result.stderr
    assert rows("sql", "SELECT count(*) AS n FROM items") == [{"n": 3}]


def test_a_transaction_without_net_effect_makes_no_epoch(run: Any, rows: Any, items: None) -> None:
    script = "BEGIN; UPDATE items SET quantity = 150 WHERE item = 'shirt'; UPDATE items SET quantity = 120 "
    run("sql", script + "WHERE item = 'shirt'; COMMIT")
    assert [row["epoch"] for row in rows("history")] == [2, 1]


def test_a_forgotten_commit_is_an_error(run: Any, rows: Any, items: None) -> None:
    result = run("sql", "BEGIN; DELETE FROM items", code=1)
    assert "error: the statements end inside a transaction, so it was rolled back\nhint: end it with COMMIT;" in (
        result.stderr
    )
    assert rows("sql", "SELECT count(*) AS n FROM items") == [{"n": 3}]


def test_wrong_usage(run: Any, tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xff'")
    assert "not both" in run("sql", "SELECT 1", "-f", "latin.sql", code=2).stderr
    assert "not UTF-8" in run("sql", "-f", "latin.sql", code=2).stderr
    assert "no statements" in run("sql", " ", code=2).stderr
    assert "No such file" in run("sql", "-f", "nowhere.sql", code=2).stderr
    assert "there is no engine 'duck'" in run("ls", code=2, engine="duck").stderr
