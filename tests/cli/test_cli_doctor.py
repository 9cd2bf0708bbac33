from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from viewkeeper.cli.checks import check_java, check_space, fits


def problems(found: list[dict[str, Any]], status: str = "problem") -> list[str]:
    return [row["found"] for row in found if row["status"] == status]


def data_file(run: Any, tmp_path: Path) -> Path:
    """The file of the table; the first commit wrote its rows into the ledger entry."""
    run("compact")
    (path,) = (tmp_path / "lake").glob("relations/*/*.parquet")
    return path


def test_all_is_well(run: Any, rows: Any, items: None) -> None:
    found = rows("--db", "lake", "doctor")
    assert not problems(found)
    assert not problems(found, "note")
    said = {row["check"]: row["found"] for row in found}
    assert said["Sail"].startswith("answers as Spark ")
    assert said["Ledger"] == "epochs 0 to 2, 1 table, made with the engine sail"
    assert said["Data files"].startswith("1 file (")
    assert {"Python", "Java", "pyspark", "pysail", "pyarrow", "sqlglot", "Disk space"} <= set(said)
    result = run("doctor", "--quick", "--db", "lake")
    assert result.stderr == "all is well\n"
    assert "Sail" not in result.stdout


@pytest.mark.spark_long
def test_both_engines_are_started_unless_one_is_named(engine: str, rows: Any) -> None:
    name = {"spark": "Apache Spark", "sail": "Sail"}[engine]
    (found,) = [row for row in rows("doctor", engine=engine) if row["check"] in ("Apache Spark", "Sail")]
    assert (found["check"], found["status"]) == (name, "ok")


def test_a_missing_file(run: Any, rows: Any, items: None, tmp_path: Path) -> None:
    data_file(run, tmp_path).unlink()
    (found,) = problems(rows("doctor", "--quick", code=1))
    assert found.endswith(" of items: it is missing")
    result = run("doctor", code=1)
    assert result.stderr == "1 problem found\n"
    assert "-> restore it from a backup of the database" in result.stdout


@pytest.mark.parametrize("quick", [True, False])
def test_a_file_with_other_rows(run: Any, rows: Any, items: None, tmp_path: Path, quick: bool) -> None:
    path = data_file(run, tmp_path)
    table = pq.read_table(path).slice(1)
    pq.write_table(table, path)
    (found,) = problems(rows("doctor", *(["--quick"] if quick else []), code=1))
    assert " bytes, the ledger says " in found


@pytest.mark.parametrize("quick", [True, False])
def test_a_damaged_file(run: Any, rows: Any, items: None, tmp_path: Path, quick: bool) -> None:
    path = data_file(run, tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    (found,) = problems(rows("doctor", *(["--quick"] if quick else []), code=1))
    assert " bytes, the ledger says " in found


def test_a_damaged_page_is_found_by_its_checksum(run: Any, rows: Any, items: None, tmp_path: Path) -> None:
    path = data_file(run, tmp_path)
    data = bytearray(path.read_bytes())
    data[4:60] = b"\xff" * 56
    path.write_bytes(bytes(data))
    for quick in (["--quick"], []):
        (found,) = problems(rows("doctor", *quick, code=1))
        assert found.endswith("of items: its checksum does not match")


def test_a_damaged_ledger(rows: Any, items: None, tmp_path: Path) -> None:
    entry = tmp_path / "lake" / "ledger" / f"{2:012d}.json"
    entry.write_bytes(entry.read_bytes().replace(b"items", b"itemz"))
    (found,) = [row for row in rows("doctor", "--quick", code=1) if row["status"] == "problem"]
    assert "is damaged: its checksum does not match" in found["found"]
    assert found["todo"].startswith("restore this file from a backup")


def test_leftovers_are_noted_and_vacuum_clears_them(rows: Any, run: Any, items: None, tmp_path: Path) -> None:
    path = data_file(run, tmp_path)
    shutil.copy(path, path.with_name("0123456789abcdef-left.parquet"))
    (tmp_path / "lake" / "leases").mkdir(exist_ok=True)
    (tmp_path / "lake" / "leases" / "0123456789abcdef.json").write_text('{"entry": 1}')
    left, orphan = [row for row in rows("doctor", "--quick") if row["status"] == "note"]
    assert left["found"] == "1 lease of dead processes"
    assert orphan["found"].startswith("1 file (")
    assert (tmp_path / "lake" / "leases" / "0123456789abcdef.json").exists()
    run("vacuum", "--grace", "0 seconds")
    assert not problems(rows("doctor", "--quick"), "note")


def test_no_database_where_one_is_named(rows: Any, tmp_path: Path) -> None:
    assert problems(rows("--db", "nowhere", "doctor", "--quick", code=1)) == ["there is no database at nowhere"]
    assert not problems(rows("doctor", "--quick"))
    assert os.listdir(tmp_path) == []


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = check_java(needed=True)
    assert (found.status, found.found) == ("problem", "not found")
    assert "--engine sail" in found.todo
    assert check_java(needed=False).status == "ok"


def test_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java(needed=True).found == f"8 ({java}), which is too old"


def test_an_engine_that_does_not_answer_is_a_problem(rows: Any) -> None:
    (found,) = problems(rows("doctor", engine="sc://127.0.0.1:1", code=1))
    assert "did not answer" in found


def test_versions_are_compared_as_numbers() -> None:
    assert fits("4.2.1", "pyspark[connect]<4.3,>=4.2.1")
    assert fits("4.10", "x<5,>=4.9")
    assert not fits("4.3.0", "pyspark[connect]<4.3,>=4.2.1")
    assert not fits("4.2", "pyspark>=4.2.1")


def test_space_is_looked_up_for_a_path_to_be(tmp_path: Path) -> None:
    assert f"free at {tmp_path}" in check_space(str(tmp_path / "a" / "b"), "Disk space").found
