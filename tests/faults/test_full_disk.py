"""No room to write: an error that says so, nothing lost, nothing half there, and all well when there is room again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from tests.faults import full_disk
from tests.inventory import FILES, check_ledger, check_nothing_left_over, disk_files, entries_with_data
from tests.processes import child

LOADED = 150_000


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with vk.connect(tmp_path / "lake", engine="sail", tuning=FILES) as db:
        db.sql("CREATE TABLE t (x BIGINT, s STRING); CREATE TABLE small (y BIGINT)")
        db.sql("INSERT INTO small VALUES (0)")
        for _ in range(3):
            with db.transaction() as tx:
                tx.insert("t", full_disk.noise(100))
    return tmp_path / "lake"


def run(lake: Path, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    with child(full_disk, lake, what) as worker:
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


def test_an_entry_with_rows_does_not_fit(lake: Path) -> None:
    first, second = run(lake, "inlined")
    assert first["problem"]["class"] == "StorageError"
    assert "failed: File too large" in first["problem"]["message"]
    assert (first["epoch"], first["files"], second["epoch"]) == (6, 4, 7)
    assert counts(lake) == (1_300, 2)


def test_vacuum_without_room_leaves_the_data_of_entries(lake: Path) -> None:
    """An entry loses its data by being replaced, for which there is no room; when there is, the data is removed."""
    with vk.connect(lake, engine="sail") as db:
        db.sql("INSERT INTO small VALUES (1)")
        db.compact()
    assert len(entries_with_data(lake)) == 1
    said, _ = sweep_without_room(lake, "vacuum")
    assert said == {"problem": None, "entries": 0, "files": 0, "rows": [300, 2]}
    assert len(entries_with_data(lake)) == 1
    assert counts(lake) == (300, 2)
    assert entries_with_data(lake) == set()


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


def sweep_without_room(lake: Path, what: str) -> tuple[dict[str, Any], str]:
    """What a process that can write nothing says, and its warnings."""
    with child(full_disk, lake, what) as worker:
        said, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
    return json.loads(said), errors


def test_vacuum_needs_no_room_and_no_grace_for_what_dead_writers_left(lake: Path) -> None:
    """A writer was killed a moment ago between its files and its entry; not a byte can be written now."""
    for point in ("entry-before", "batch-half"):
        with child(full_disk, lake, "insert", VIEWKEEPER_FAULT=f"kill:{point}") as writer:
            writer.wait(timeout=300)
            assert writer.returncode == -signal.SIGKILL
    known = named(lake)
    left = len(disk_files(lake, "relations") - known)
    assert left >= 3
    assert len(disk_files(lake, "leases")) == 2
    said, _ = sweep_without_room(lake, "vacuum")
    assert said == {"problem": None, "entries": 0, "files": left, "rows": [300, 1]}
    assert disk_files(lake, "relations") == known
    assert disk_files(lake, "leases") == set()
    assert counts(lake) == (300, 1)


def test_vacuum_without_room_leaves_what_the_ledger_must_be_told_of(lake: Path) -> None:
    """Files whose writer's lease is gone may be of a live one: they wait until the ledger can revoke it."""
    with vk.connect(lake, engine="sail") as db:
        db.compact("t")
    (some, *_) = sorted(named(lake))
    orphan = lake / some.replace(Path(some).name, "0123456789abcdef-0.parquet")
    orphan.write_bytes(b"left")
    for file in (lake / "relations").rglob("*"):
        os.utime(file, (0, 0))
    said, errors = sweep_without_room(lake, "vacuum")
    assert said["entries"] == 0
    assert orphan.exists()
    assert (
        "there is still no room to record in the ledger what was deleted; run vacuum again when there is some" in errors
    )
    assert counts(lake) == (300, 1)
    assert not orphan.exists()


def test_an_entry_does_not_fit(lake: Path) -> None:
    said, _ = sweep_without_room(lake, "entry")
    assert said["problem"]["class"] == "StorageError"
    assert "failed: File too large" in said["problem"]["message"]
    assert (said["entries"], said["rows"]) == (0, [300, 1])
    assert counts(lake) == (300, 1)


def named(lake: Path) -> set[str]:
    with vk.connect(lake, engine="sail") as db:
        return db._store.refresh().named_files()
