"""The command line over views: ls, show, explain, verify."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture
def views(run: Any, items: None) -> None:
    """Over the table of items: a virtual view, a materialized one, and one that is refreshed on demand."""
    run(
        "sql",
        "CREATE VIEW dear AS SELECT item, price FROM items WHERE price > 10;"
        "CREATE MATERIALIZED VIEW stock (pieces) AS SELECT sum(quantity) FROM items;"
        "CREATE MATERIALIZED VIEW late WITH (lag = '5 minutes') AS SELECT item FROM items",
    )


def test_ls_lists_kinds_and_options(run: Any, rows: Any, views: None) -> None:
    listed = {row["name"]: row for row in rows("ls")}
    assert {name: row["kind"] for name, row in listed.items()} == {
        "dear": "view",
        "items": "table",
        "late": "materialized view",
        "stock": "materialized view",
    }
    assert listed["late"]["options"] == "refresh = 'auto', on = 'demand', lag = '300 seconds'"
    assert listed["items"]["options"] == listed["dear"]["options"] == ""
    assert run("ls").stdout.splitlines()[0].endswith("| options")
    everything = {row["name"] for row in rows("ls", "--all")}
    assert everything >= set(listed)


def test_show_gives_a_definition_that_can_be_typed(run: Any, rows: Any, views: None) -> None:
    about = rows("show", "late", "--rows", "9")
    assert about["definition"] == (
        "CREATE MATERIALIZED VIEW late (item) WITH (refresh = 'auto', on = 'demand', lag = '300 seconds') AS\n"
        "SELECT item FROM items;"
    )
    assert (about["kind"], about["reads"]) == ("materialized view", ["items"])
    assert sorted(row["item"] for row in about["rows"]) == ["hat", "shirt", "shoe"]
    text = run("show", "dear", "--rows", "9").stdout
    assert text.startswith("CREATE VIEW dear (item, price) AS\nSELECT item, price FROM items WHERE price > 10;\n")
    assert "reads:       items" in text
    assert "shoe" in text
    run("sql", f"DROP VIEW late; {about['definition']}")
    assert rows("show", "late")["definition"] == about["definition"]


def test_rows_of_views_are_not_loaded(run: Any, views: None, tmp_path: Any) -> None:
    (tmp_path / "rows.csv").write_text("item,price\nhat,1\n")
    told = run("load", "dear", "rows.csv", code=1).stderr
    assert "error: dear is a view: its rows come from items\nhint: change those tables instead" in told


def test_explain(run: Any, rows: Any, views: None) -> None:
    assert "stock" in run("explain", "stock").stdout
    assert isinstance(rows("explain", "stock"), dict)
    assert run("--format", "csv", "explain", "stock").stdout.startswith("explanation\n")
    assert "items is a table, not a view" in run("explain", "items", code=1).stderr
    assert "there is no view named 'stok'\nhint: did you mean 'stock'?" in run("explain", "stok", code=1).stderr


def test_verify(run: Any, rows: Any, views: None, engine: str) -> None:
    assert "stock" in run("verify", "stock", engine=engine).stdout
    assert rows("verify")["equal"] is True
    run("verify", "nowhere", code=1)


def test_verify_finds_a_difference(run: Any, views: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import viewkeeper as vk
    from viewkeeper.transaction.commit import commit
    from viewkeeper.transaction.open_transaction import OpenTransaction
    from viewkeeper.transaction.row_changes import apply_rows

    with vk.connect("lake", engine="sail") as db:
        tx = OpenTransaction(db._store)
        late = tx.relation("late")
        apply_rows(tx, late, late.schema.signed_arrow.empty_table().from_pylist([{"item": "ghost", "_weight": 1}]))
        commit(tx)
    told = run("verify", "late", code=3)
    assert "ghost" in told.stdout
    found = json.loads(run("--format", "json", "verify", "late", code=3).stdout)
    assert found["equal"] is False
    run("verify", "stock")


def test_suspended_views_are_said_to_be_stale(run: Any, rows: Any, views: None) -> None:
    run("sql", "ALTER MATERIALIZED VIEW stock SUSPEND; INSERT INTO items VALUES ('tie', 1, 5)")
    listed = {row["name"]: row for row in rows("ls")}
    since = listed["stock"]["stale_since"]
    assert listed["late"]["stale_since"] is None
    assert rows("show", "stock")["stale_since"] == since
    assert f"stale since: epoch {since} (suspended)" in run("show", "stock").stdout
    remark = (
        f"stock is stale: it is suspended since epoch {since}; REFRESH MATERIALIZED VIEW stock brings it up to date"
    )
    read = run("sql", "SELECT * FROM stock")
    assert "225" in read.stdout
    assert remark in " ".join(read.stderr.split())
    assert remark in run("verify", "stock").stdout
    assert rows("verify", "stock")["views"][0]["stale"] == remark
    run("sql", "REFRESH MATERIALIZED VIEW stock")
    assert "stale_since" not in rows("ls")[0]
    assert "226" in run("sql", "SELECT * FROM stock").stdout
