"""No room to write: an error that says so, nothing lost, nothing half there, and all well when there is room again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import full_disk
import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from inventory import check_ledger, check_nothing_left_over
from processes import child

LOADED = 150_000


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql("CREATE TABLE t (x BIGINT, s STRING); CREATE TABLE small (y BIGINT)")
        db.sql("INSERT INTO small VALUES (0)")
        for _ in range(3):
            with db.transaction() as tx:
                tx.insert("t", full_disk.noise(100))
    return tmp_path / "lake"


def run(lake: Path, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    with child(Path(full_disk.__file__), lake, what) as worker:
        said, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
    first, second = (json.loads(line) for line in said.splitlines())
    assert second["problem"] is None
    return first, second


def counts(lake: Path) -> tuple[int, int]:
    with vk.connect(lake, engine="sail") as db:
        check_ledger(db)
        db.vacuum(grace=0)
        check_nothing_left_over(db)
        ((rows,),) = db.sql("SELECT count(*) FROM t").rows()
        ((small,),) = db.sql("SELECT count(*) FROM small").rows()
    return rows, small


def test_a_batch_does_not_fit(lake: Path) -> None:
    first, second = run(lake, "rows")
    assert first["problem"]["class"] == "StorageError"
    assert "failed: File too large" in first["problem"]["message"]
    assert first["problem"]["hint"] == "a file-size limit is in force (ulimit -f); nothing was changed"
    assert first["epoch"] == 6
    assert first["files"] == 4, "the part that did fit was removed"
    assert second["epoch"] == 7
    assert counts(lake) == (1_300, 2)


def test_a_load_does_not_fit(lake: Path) -> None:
    pq.write_table(full_disk.noise(LOADED), lake.parent / "bulk.parquet")
    first, second = run(lake, "load")
    assert first["problem"]["class"] == "StorageError"
    assert first["problem"]["message"] == "the engine could not write a file: file too large"
    assert first["problem"]["hint"] == "free some space, or run `viewkeeper vacuum`; nothing was changed"
    assert first["epoch"] == 6
    assert second["epoch"] == 7
    assert counts(lake) == (300 + LOADED, 1)


def test_a_snapshot_does_not_fit(lake: Path) -> None:
    """The commit has happened and a snapshot is only a short cut: no error."""
    first, second = run(lake, "snapshot")
    assert first["problem"] is None
    assert first["epoch"] == second["epoch"]
    assert [name for name in os.listdir(lake / "ledger") if "snapshot" in name] == []
    assert counts(lake) == (300, first["epoch"] - 5)


def test_a_compaction_does_not_fit(lake: Path) -> None:
    first, second = run(lake, "compact")
    assert first["problem"]["class"] == "StorageError"
    assert "failed: File too large" in first["problem"]["message"]
    assert first["epoch"] == second["epoch"] == 6
    assert counts(lake) == (300, 1)
