"""A ledger whose entries are lost, moved, copied or changed: an error before anything is read or written."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from tests.inventory import FILES, check_ledger
from viewkeeper.cli.checks import Finding
from viewkeeper.cli.database_checks import check_database
from viewkeeper.errors import StorageError
from viewkeeper.log.inlined import split_entry

LEAVE = "restore this file from a backup of the database; leave the other files as they are"


def entry(lake: Path, number: int, kind: str = "json") -> Path:
    return lake / "ledger" / f"{number:012d}.{kind}"


def insert(db: vk.Database, number: int) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(number,)])


def total(db: vk.Database) -> int:
    return int(db.sql("SELECT sum(x) FROM t").rows()[0][0])


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Another body with a checksum that fits."""
    head, data = split_entry(path.read_bytes())
    text = json.dumps(change(json.loads(head.split(b"\n")[0])), separators=(",", ":")).encode()
    path.write_bytes(text + b"\n" + f"{zlib.crc32(text):08x}\n".encode() + data)


def problems(lake: Path) -> list[Finding]:
    return [finding for finding in check_database(str(lake), quick=True) if finding.status == "problem"]


def refused(lake: Path) -> StorageError:
    """The error that opening ends with; nothing was written, and doctor finds it too and advises to delete nothing."""
    before = {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()}
    with pytest.raises(StorageError) as caught:
        vk.connect(lake, engine="sail")
    assert {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()} == before
    findings = list(check_database(str(lake), quick=True))
    assert caught.value.message in [finding.found for finding in findings if finding.status == "problem"]
    assert not [finding for finding in findings if "vacuum" in finding.todo or "delete" in finding.todo]
    return caught.value


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Entry 1 creates the database, 2 the table, 3 to 7 insert a row each."""
    with vk.connect(tmp_path / "lake", engine="sail", durability="process") as db:
        db.sql("CREATE TABLE t (x BIGINT)")
        for number in range(1, 6):
            insert(db, number)
    return tmp_path / "lake"


@pytest.fixture(scope="module")
def long_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than a hundred entries, so that there is a snapshot; housekeeping may add one more at the end."""
    place = tmp_path_factory.mktemp("long") / "lake"
    with vk.connect(place, engine="sail", durability="process") as db:
        db.sql("CREATE TABLE t (x BIGINT)")
        while db._store.state.number < 103:
            insert(db, 1)
    return place


def test_a_lost_entry_is_no_end_of_history(lake: Path) -> None:
    for lost in (1, 2, 3, 4, 6):
        good = entry(lake, lost).read_bytes()
        entry(lake, lost).unlink()
        problem = refused(lake)
        assert problem.message == f"ledger/{lost:012d}.json is missing, but the ledger goes on to entry 7"
        assert problem.hint == LEAVE
        entry(lake, lost).write_bytes(good)
    kept = [(entry(lake, number), entry(lake, number).read_bytes()) for number in (3, 4, 5, 6)]
    for path, _ in kept:
        path.unlink()
    assert "ledger/000000000003.json is missing" in refused(lake).message
    assert [finding.found.split(" ")[0] for finding in problems(lake)] == [
        f"ledger/{n:012d}.json" for n in (3, 4, 5, 6)
    ]
    for path, data in kept:
        path.write_bytes(data)
    with vk.connect(lake, engine="sail") as db:
        assert total(db) == 15
        check_ledger(db)


def test_an_open_handle_meets_a_lost_entry(lake: Path) -> None:
    with vk.connect(lake, engine="sail") as db, vk.connect(lake, engine="sail") as other:
        assert total(db) == 15
        for number in (6, 7, 8):
            insert(other, number)
        good = entry(lake, 8).read_bytes()
        entry(lake, 8).unlink()
        listed = sorted(os.listdir(lake / "ledger"))
        for action in (lambda: total(db), lambda: insert(db, 9), lambda: db.vacuum(0), lambda: db.compact("t")):
            with pytest.raises(
                StorageError, match=r"000000000008\.json is missing, but the ledger goes on to entry 10"
            ):
                action()
        with pytest.raises(StorageError, match=r"000000000008\.json is missing"):
            other.history()
        assert sorted(os.listdir(lake / "ledger")) == listed
        entry(lake, 8).write_bytes(good)
        insert(db, 9)
        assert total(db) == 45
        check_ledger(db)


def test_an_open_handle_sees_that_its_own_entry_is_gone(lake: Path) -> None:
    with vk.connect(lake, engine="sail") as db:
        insert(db, 6)
        good = entry(lake, 8).read_bytes()
        entry(lake, 8).unlink()
        with pytest.raises(StorageError, match=r"000000000008\.json is missing, but it was there before"):
            insert(db, 7)
        assert not entry(lake, 9).exists()
        entry(lake, 8).write_bytes(good)
        insert(db, 7)
        assert total(db) == 28


@pytest.mark.parametrize("copied", [(5, 6), (7, 8), (6, 5)], ids=["over the next", "as the next", "over the last"])
def test_a_copied_entry(lake: Path, copied: tuple[int, int]) -> None:
    source, target = copied
    shutil.copy(entry(lake, source), entry(lake, target))
    problem = refused(lake)
    assert problem.message == f"ledger/{target:012d}.json holds entry {source}: it was copied or renamed"
    assert problem.hint == LEAVE


def test_swapped_entries(lake: Path) -> None:
    four, five = entry(lake, 4).read_bytes(), entry(lake, 5).read_bytes()
    entry(lake, 4).write_bytes(five)
    entry(lake, 5).write_bytes(four)
    assert refused(lake).message == "ledger/000000000004.json holds entry 5: it was copied or renamed"


def test_an_entry_that_was_written_again_otherwise(lake: Path) -> None:
    """Its number and its checksum fit, but it is not the one after which the next was written."""
    rewrite(entry(lake, 4), lambda body: {**body, "at": body["at"] + 1})
    problem = refused(lake)
    assert problem.message == (
        "ledger/000000000005.json does not follow ledger/000000000004.json: the chain of entries is broken"
    )
    assert problem.hint == "restore ledger/ from a backup of the database; leave the other files as they are"
    with pytest.raises(StorageError, match="does not follow"):
        vk.connect(lake, engine="sail")


def test_an_empty_ledger_beside_data_is_no_new_database(lake: Path) -> None:
    with vk.connect(lake, engine="sail") as db:
        db.compact()
    shutil.move(lake / "ledger", lake.parent / "ledger")
    (lake / "ledger").mkdir()
    with pytest.raises(StorageError, match="is empty, but there are data files: its entries are lost") as caught:
        vk.connect(lake, engine="sail")
    assert caught.value.hint == "restore ledger/ from a backup of the database; leave the other files as they are"
    assert os.listdir(lake / "ledger") == []
    assert len(problems(lake)) == 1
    entry(lake.parent, 7).unlink()
    shutil.copy(entry(lake.parent, 1), entry(lake, 1))


@pytest.fixture
def long(long_lake: Path, tmp_path: Path) -> Path:
    shutil.copytree(long_lake, tmp_path / "lake")
    return tmp_path / "lake"


def test_entries_before_a_snapshot_count_too(long: Path) -> None:
    good = entry(long, 50).read_bytes()
    last = max(int(path.stem) for path in (long / "ledger").glob("[0-9]*[0-9].json"))  # compaction may have added some
    entry(long, 50).unlink()
    assert f"000000000050.json is missing, but the ledger goes on to entry {last}" in refused(long).message
    entry(long, 50).write_bytes(good)
    for number in range(98, last + 1):
        entry(long, number).unlink()
    assert "000000000098.json is missing, but the ledger goes on to entry 100" in refused(long).message


def test_a_snapshot_that_does_not_fit_is_not_used(long: Path) -> None:
    with vk.connect(long, engine="sail") as db:
        right = total(db)
        check_ledger(db)
    snapshot = entry(long, 100, "snapshot.json")
    good = snapshot.read_bytes()
    for wrong in ({"link": "0" * 64}, {"number": 99, "relations": []}, {"relations": []}, {"epoch": 3}):
        rewrite(snapshot, lambda body, wrong=wrong: {**body, **wrong})
        with vk.connect(long, engine="sail") as db:
            assert total(db) == right
        (note,) = [finding for finding in check_database(str(long), quick=True) if finding.status == "note"]
        assert note.found == "ledger/000000000100.snapshot.json does not agree with the entries before it"
        assert note.todo == "nothing is lost and it is not used: the entries say what it should"
        snapshot.write_bytes(good)


def unchained(lake: Path) -> None:
    """The ledger as versions wrote it that had no chain and no checksums of data files."""

    def older(body: dict[str, Any]) -> dict[str, Any]:
        for files in body.get("files", {}).values():
            for file in files:
                del file["crc32"]
        return {**{name: value for name, value in body.items() if name not in ("before", "link")}, "format": 1}

    for path in (lake / "ledger").glob("*[0-9].json"):
        rewrite(path, older)
    for path in (lake / "ledger").glob("*.snapshot.json"):
        path.unlink()


def test_a_ledger_without_a_chain_is_read_and_chained_from_then_on(lake: Path) -> None:
    unchained(lake)
    with vk.connect(lake, engine="sail", tuning=FILES) as db:
        assert total(db) == 15
        assert [row["epoch"] for row in db.history()] == [6, 5, 4, 3, 2, 1]
        insert(db, 6)
        insert(db, 7)
        db.compact()
        assert total(db) == 28
        check_ledger(db)
    assert problems(lake) == []
    good = entry(lake, 9).read_bytes()
    rewrite(entry(lake, 9), lambda body: {name: value for name, value in body.items() if name != "before"})
    assert "000000000009.json does not follow" in refused(lake).message
    entry(lake, 9).write_bytes(good)
    rewrite(entry(lake, 7), lambda body: {**body, "at": body["at"] + 1})
    assert "000000000008.json does not follow" in refused(lake).message


def test_garbled_leases_hold_files_or_are_swept(lake: Path) -> None:
    with vk.connect(lake, engine="sail") as db:
        for name, data in {"a": b"", "b": b"[]", "c": b'{"entry": "x"}', "d": b"\x00\xff", "e": b"null"}.items():
            (lake / "leases" / f"{name}.json").write_bytes(data)
        assert len([f for f in check_database(str(lake), quick=True) if "5 leases of dead processes" in f.found]) == 1
        (lake / db._store.lease.path).write_bytes(b"\x00garbled")  # of a live process: holds everything
        with vk.connect(lake, engine="sail") as other:
            other.compact()
            assert other.vacuum(0).files == 0
        assert sorted(os.listdir(lake / "leases")) == [f"{db._store.lease.id}.json"]
        assert total(db) == 15
