"""Directories: tables of other systems, folders that are columns, files with other columns, damaged files."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import viewkeeper as vk
from viewkeeper.errors import TypeMismatch, ViewkeeperError
from viewkeeper.sources.source import open_source


def refused(path: Path, form: str | None = None) -> str:
    with pytest.raises(ViewkeeperError) as problem:
        open_source(str(path), form, {}, {})
    return str(problem.value).replace(str(path.parent), "")


def test_a_delta_table_is_loaded_without_removed_files(db: vk.Database, tmp_path: Path) -> None:
    plain, parts = str(tmp_path / "a b c" / "plain"), str(tmp_path / "a b c" / "parts")
    write_deltalake(plain, pa.table({"id": [1, 2, 3], "s": ["x", "y", None]}))
    DeltaTable(plain).delete("id = 2")
    write_deltalake(plain, pa.table({"id": [4], "s": ["w"], "late": [0.5]}), mode="append", schema_mode="merge")
    write_deltalake(parts, pa.table({"id": [1, 2, 3], "k": ["a b/c", "100%", None]}), partition_by=["k"])
    DeltaTable(parts).update(updates={"id": "20"}, predicate="id = 2")
    with db.transaction() as tx:
        assert tx.load("plain", plain, create=True) == 3
        assert tx.load("parts", parts, create=True) == 3
        found = [sorted(tx.sql(f"SELECT * FROM {name}").rows()) for name in ("plain", "parts")]
    assert found == [[(1, "x", None), (3, None, None), (4, "w", 0.5)], [(1, "a b/c"), (3, None), (20, "100%")]]


def test_delta_features_that_hide_rows_are_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    log.write_text("\n".join(json.dumps(line) for line in lines))
    assert refused(tmp_path / "t").startswith("the Delta table /t uses deletionVectors, which is not supported\nhint: ")
    log.write_text("nonsense")
    assert refused(tmp_path / "t").startswith("/t cannot be read as a Delta table")


def test_directories_whose_files_are_not_their_rows_are_refused(tmp_path: Path) -> None:
    for name in ("ice/metadata/v1.metadata.json", "hudi/.hoodie/hoodie.properties", "lake/t/_delta_log/0.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    for name in ("ice/data/a.parquet", "hudi/a.parquet", "lake/t/k=1/a.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [1]}), tmp_path / name)
    assert refused(tmp_path / "ice").startswith("/ice is an Iceberg table, which cannot be loaded\ndetail: its files")
    assert refused(tmp_path / "hudi").startswith("/hudi is a Hudi table, which cannot be loaded\ndetail: its files")
    assert refused(tmp_path / "lake").startswith("/lake holds the Delta table t\nhint: load the tables one by one: /l")
    assert "is a folder of the Delta table" in refused(tmp_path / "lake" / "t" / "k=1")
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.csv").write_text("id\n1\n")
    (tmp_path / "mixed" / "a.json").write_text('{"id": 1}\n')
    assert refused(tmp_path / "mixed").startswith("/mixed holds files of several formats: csv, json\nhint: say which")


def test_folders_named_key_value_are_columns(db: vk.Database, tmp_path: Path) -> None:
    """In all formats; their text reads as the column's type, and is not guessed at."""
    for form in ("parquet", "csv", "json"):
        for folder in ("zip=007", "zip=__HIVE_DEFAULT_PARTITION__", "zip=a%20b"):
            (tmp_path / form / folder).mkdir(parents=True)
            path = tmp_path / form / folder / f"part.{form}"
            number = len(folder)
            if form == "parquet":
                pq.write_table(pa.table({"n": [number]}), path)
            else:
                path.write_text(f"n\n{number}\n" if form == "csv" else f'{{"n": {number}}}\n')
        (tmp_path / form / "_SUCCESS").write_text("")
    with db.transaction() as tx:
        tx.sql("CREATE TABLE t (zip STRING, n BIGINT)")
        for form in ("parquet", "csv", "json"):
            tx.load("t", str(tmp_path / form))
        found = sorted(tx.sql("SELECT * FROM t").rows(), key=str)
    assert found == sorted([("007", 7), (None, 30), ("a b", 9)] * 3, key=str)
    assert open_source(str(tmp_path / "csv"), None, {}, {}).columns("UTC") == [("n", "bigint"), ("zip", "string")]


def test_parquet_files_with_other_columns_and_odd_names(db: vk.Database, tmp_path: Path) -> None:
    (tmp_path / "d[1]").mkdir()
    pq.write_table(pa.table({"id": [1], "x": [1.5]}), tmp_path / "d[1]" / "a.parquet")
    pq.write_table(pa.table({"later": ["z"], "ID": pa.array([2], pa.int32())}), tmp_path / "d[1]" / "b*.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "d[1]" / "a.parquet").read_bytes()[:-20])
    with db.transaction() as tx:
        tx.sql("CREATE TABLE t (id BIGINT, x DOUBLE, later STRING)")
        assert tx.load("t", str(tmp_path / "d[1]")) == 2
        assert tx.load("t", str(tmp_path / "d[1]" / "a.parquet")) == 1
        with pytest.raises(ViewkeeperError, match=r"cut.parquet could not be read") as problem:
            tx.load("t", str(tmp_path / "cut.parquet"))
        assert "database" not in str(problem.value)
        found = sorted(tx.sql("SELECT * FROM t").rows(), key=str)
    assert found == [(1, 1.5, None), (1, 1.5, None), (2, None, "z")]


def test_json_keeps_digits_and_late_columns(db: vk.Database, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": n} for n in range(1_500)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    text += '[{"ID": 1500, "d": 12345678901234567890.12345, "x": 5984.2, "m": {"k": 1}, "t": "2024-01-01T00:00:00Z"}]\n'
    (tmp_path / "a.jsonl").write_text(text)
    with db.transaction() as tx:
        tx.sql("CREATE TABLE t (id INT, d DECIMAL(30,5), x DOUBLE, m MAP<STRING, INT>, t TIMESTAMP)")
        assert tx.load("t", str(tmp_path / "a.jsonl")) == 1_501
        found = tx.sql("SELECT id, d, x, m['k'], CAST(t AS STRING) FROM t WHERE x IS NOT NULL").rows()
    assert found == [(1500, Decimal("12345678901234567890.12345"), 5984.2, 1, "2024-01-01 00:00:00")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1}\n{"id": \n', "line 2 of /a.json is not a JSON object\ndetail: Expecting value"),
        ('{"id": 1}\n\n7\n', "line 3 of /a.json is not a JSON object\ndetail: a int is not a row"),
        ('{"id": 1}\n{"id": "x"}\n', "'x' does not fit column 'id' of t, which is INT\ndetail: in line 2 of /a.json"),
        ('{"id": 1}\n{"no": 2}\n', "line 2 of /a.json names a column 'no' that t does not have"),
    ],
)
def test_a_damaged_json_file_is_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    from viewkeeper.algebra.schema import Column, make_schema
    from viewkeeper.algebra.types import parse_type

    (tmp_path / "a.json").write_text(text)
    schema = make_schema([Column("id", parse_type("INT"))], [])
    with pytest.raises(TypeMismatch) as problem:
        list(open_source(str(tmp_path / "a.json"), None, {}, {}).tables(schema, "t", "UTC"))
    assert str(problem.value).replace(str(tmp_path), "").startswith(message)
