"""Rows and parameters as users give them: every kind of frame, for every kind of change; on both engines."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.errors import NotFound, SqlError, TypeMismatch

KINDS: dict[str, Callable[[vk.Database, list[tuple[int, str]]], Any]] = {
    "tuples": lambda db, rows: rows,
    "dicts": lambda db, rows: [{"ID": key, "name": name} for key, name in rows],
    "generator": lambda db, rows: (row for row in rows),
    "pandas": lambda db, rows: pd.DataFrame(rows, columns=["id", "name"]),
    "polars": lambda db, rows: pl.DataFrame(rows, schema=["id", "name"], orient="row"),
    "arrow": lambda db, rows: _arrow(rows),
    "batch": lambda db, rows: _arrow(rows).to_batches()[0],
    "reader": lambda db, rows: duckdb.from_arrow(_arrow(rows)),
    "spark": lambda db, rows: db.sql("SELECT * FROM given WHERE id IN (?, ?)", [key for key, _ in rows]).spark(),
}  # fmt: skip


def _arrow(rows: list[tuple[int, str]]) -> pa.Table:
    return pa.table({"id": [key for key, _ in rows], "name": [name for _, name in rows]})


@pytest.mark.parametrize("kind", KINDS)
def test_every_change_takes_every_kind_of_rows(db: vk.Database, kind: str) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING); CREATE TABLE given (id BIGINT, name STRING)")
    db.insert("given", [(1, "new"), (4, "four"), (3, "c")])
    db.insert("t", [(1, "a"), (2, "b"), (3, "c")])
    make = KINDS[kind]
    assert db.upsert("t", make(db, [(1, "new"), (4, "four")])).count == 2
    assert db.table("t").read().arrow().sort_by("id").to_pydict()["name"] == ["new", "b", "c", "four"]
    assert db.delete("t", make(db, [(1, "new"), (3, "c")])).count == 2
    keys = db.sql("SELECT id FROM t WHERE id = ?", [2]).spark() if kind == "spark" else _keys(kind)
    assert db.delete_by_key("t", keys).count == 1
    assert db.table("t").read().rows() == [(4, "four")]


def _keys(kind: str) -> Any:
    table = pa.table({"id": [2]})
    frames = {"pandas": table.to_pandas(), "polars": pl.from_arrow(table), "batch": table.to_batches()[0],
              "arrow": table, "reader": duckdb.from_arrow(table), "dicts": [{"id": 2}], "tuples": [(2,)]}  # fmt: skip
    return frames.get(kind, [2])


def test_a_change_of_its_own_is_part_of_an_open_transaction(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    db.sql("BEGIN")
    db.insert("t", [(1,)])
    db.sql("ROLLBACK")
    assert len(db.table("t").read()) == 0
    commit = db.insert("t", [(1,)]).commit
    assert commit is not None
    assert commit.changes["t"].weights() == {(1,): 1}
    with pytest.raises(NotFound):
        db.delete_by_key("t", [7])
    assert db.delete_by_key("t", [7], missing="ignore").count == 0


def test_what_has_no_columns_is_refused(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with pytest.raises(TypeMismatch):
        db.insert("t", pl.Series([1, 2]))
    with pytest.raises(TypeMismatch):
        db.insert("t", "text")


def test_parameters_in_every_kind_of_statement(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING, at TIMESTAMP, d DECIMAL(9,2), f DOUBLE)")
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    values = {"id": 1, "name": "it's; :id ?", "at": moment, "d": decimal.Decimal("-1.50"), "f": -2.5}
    db.sql("INSERT INTO t VALUES (:id, :name, :at, :d, :f)", values)
    assert db.sql("SELECT * FROM t WHERE id = :id AND name = :name", {"id": 1, "name": values["name"]}).rows() == [
        (1, "it's; :id ?", moment, decimal.Decimal("-1.50"), -2.5)
    ]
    db.sql("UPDATE t SET name = ? WHERE at <= ?", ["new", moment])
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT name FROM t WHERE f - :f = 0", {"f": -2.5})
    assert db.table("t").read().rows()[0][1] == "new"
    assert db.view("v").read().rows() == [("new",)]
    assert "-2.5" in db.view("v").sql
    with db.transaction() as tx:
        tx.sql("DELETE FROM t WHERE id = :id", {"id": 1})
    assert list(db.view("v").read()) == []


def test_a_parameter_without_a_value_is_named(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with pytest.raises(SqlError) as refused:
        db.sql("SELECT * FROM t WHERE id = :id")
    assert refused.value.message == "the parameter :id has no value"
    assert refused.value.place is not None
    with pytest.raises(SqlError) as refused:
        db.sql("DELETE FROM t WHERE id = ?")
    assert refused.value.message == "the parameter ? has no value"


def test_mistakes_are_marked_in_the_text_as_written(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with pytest.raises(NotFound) as refused:
        db.sql("SELECT id FROM t WHERE id = :a_long_name AND nme = 1", {"a_long_name": 1})
    assert refused.value.place is not None
    assert refused.value.place.text == "SELECT id FROM t WHERE id = :a_long_name AND nme = 1"
    assert refused.value.place.marked == "nme"


def test_a_database_opens_with_its_own_engine(
    connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    connect().close()
    monkeypatch.delenv("VIEWKEEPER_ENGINE", raising=False)
    assert connect(engine=None).store.engine.kind == engine
