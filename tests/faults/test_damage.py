"""Damaged and missing files: a clear error that names the cure, nothing else lost, and all well after the repair."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.inventory import FILES, check_ledger
from tests.marks import spark_long
from viewkeeper.errors import ConstraintViolation, StorageError

Connect = Callable[..., vk.Database]
GARBAGE = b"\x00\xffnot what you expect\n" * 20


def ledger_file(db_path: str, number: int, kind: str = "json") -> Path:
    return Path(db_path) / "ledger" / f"{number:012d}.{kind}"


def fill(db: vk.Database, rows: int) -> None:
    db.sql("CREATE TABLE t (x BIGINT)")
    for number in range(1, rows + 1):
        with db.transaction() as tx:
            tx.insert("t", [(number,)])


def total(db: vk.Database) -> int:
    return int(db.sql("SELECT sum(x) FROM t").rows()[0][0])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        fill(db, 5)
    return tmp_path / "lake"


@pytest.mark.parametrize("data", [GARBAGE, b"", b"{}\n"], ids=["garbage", "empty", "short"])
def test_damaged_ledger_entry(lake: Path, data: bytes) -> None:
    entry = ledger_file(str(lake), 4)
    good = entry.read_bytes()
    entry.write_bytes(data)
    with pytest.raises(StorageError) as caught:
        vk.connect(lake, engine="sail")
    assert caught.value.message == "ledger/000000000004.json is damaged: its checksum does not match"
    assert caught.value.hint == "restore this file from a backup; the other files are not affected"
    entry.write_bytes(good)
    with vk.connect(lake, engine="sail") as db:
        assert total(db) == 15
        db.sql("INSERT INTO t VALUES (6)")
        assert total(db) == 21


def test_one_changed_letter_in_the_ledger_is_seen(lake: Path) -> None:
    entry = ledger_file(str(lake), 3)
    good = entry.read_bytes()
    entry.write_bytes(good.replace(b'"rows":1', b'"rows":2'))
    with pytest.raises(StorageError, match="is damaged"):
        vk.connect(lake, engine="sail")


def test_an_open_handle_meets_a_damaged_entry(lake: Path) -> None:
    with vk.connect(lake, engine="sail") as db, vk.connect(lake, engine="sail") as other:
        other.sql("INSERT INTO t VALUES (6)")
        entry = ledger_file(str(lake), other._store.state.number)
        good = entry.read_bytes()
        entry.write_bytes(GARBAGE)
        with pytest.raises(StorageError, match="is damaged"):
            db.sql("INSERT INTO t VALUES (7)")
        entry.write_bytes(good)
        db.sql("INSERT INTO t VALUES (7)")
        assert total(db) == 28


@pytest.mark.parametrize("newest", ["garbage", "missing", "whole"])
@pytest.mark.parametrize("older", ["garbage", "missing", "whole"])
def test_damaged_snapshots(tmp_path: Path, older: str, newest: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail", durability="process") as db:
        db.sql("CREATE TABLE t (x BIGINT)")
        rows = 0
        while db._store.state.number < 205:
            rows += 1
            with db.transaction() as tx:
                tx.insert("t", [(rows,)])
        db._store.housekeeping.wait()
        expected = db._store.state.to_json()
    for number, condition in ((100, older), (200, newest)):
        snapshot = ledger_file(str(tmp_path / "lake"), number, "snapshot.json")
        assert snapshot.exists()
        if condition == "garbage":
            snapshot.write_bytes(GARBAGE)
        elif condition == "missing":
            snapshot.unlink()
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        assert db._store.state.to_json() == expected
        check_ledger(db)
        assert total(db) == rows * (rows + 1) // 2
        db.sql("INSERT INTO t VALUES (0)")
        assert db.epoch == rows + 2


@pytest.mark.parametrize("kind", ["json", "snapshot.json"])
def test_ledger_of_a_newer_version(tmp_path: Path, kind: str) -> None:
    lake = tmp_path / "lake"
    with vk.connect(lake, engine="sail", durability="process") as db:
        db.sql("CREATE TABLE t (x BIGINT)")
        while db._store.state.number < 100:
            with db.transaction() as tx:
                tx.insert("t", [(1,)])
        rows = db.epoch - 1
    file = ledger_file(str(lake), 100, kind)
    good = file.read_bytes()
    text = json.dumps({**json.loads(good.split(b"\n")[0]), "format": 99}).encode()
    file.write_bytes(text + b"\n" + f"{zlib.crc32(text):08x}\n".encode())
    if kind == "json":
        ledger_file(str(lake), 100, "snapshot.json").unlink()
    with pytest.raises(StorageError) as caught:
        vk.connect(lake, engine="sail")
    assert caught.value.message == "the database was written by a newer version of Viewkeeper (ledger format 99)"
    assert caught.value.hint == "upgrade: pip install --upgrade viewkeeper"
    file.write_bytes(good)
    with vk.connect(lake, engine="sail") as db:
        assert total(db) == rows


def damage(file: Path, how: str) -> None:
    if how == "missing":
        file.unlink()
    elif how == "garbage":
        file.write_bytes(GARBAGE)
    else:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("how", ["missing", "garbage", "cut"])
def test_damaged_data_file(connect: Connect, how: str) -> None:
    db = connect(tuning=FILES)
    db.sql("CREATE TABLE t (x BIGINT); CREATE TABLE whole (y BIGINT)")
    db.sql("INSERT INTO t VALUES (1), (2); INSERT INTO t VALUES (3); INSERT INTO whole VALUES (7)")
    relation = db._store.state.find("t")
    assert relation is not None
    file = Path(db.path) / relation.files[0].path
    good = file.read_bytes()
    epoch = db.epoch
    damage(file, how)
    message = f"the data file {relation.files[0].path} is {'missing' if how == 'missing' else 'damaged'}"
    for read in ("SELECT sum(x) FROM t", "SELECT * FROM t AS OF EPOCH 3", "SELECT * FROM t JOIN whole ON x = y"):
        with pytest.raises(StorageError) as caught:
            db.sql(read).rows()
        assert caught.value.message == message
        assert "viewkeeper doctor" in str(caught.value.hint)
    with pytest.raises(StorageError) as caught:
        db.sql("UPDATE t SET x = x + 1")
    assert caught.value.message == message
    with pytest.raises(StorageError) as caught:
        db.compact("t")
    assert caught.value.message == message
    assert "viewkeeper doctor" in str(caught.value.hint)
    assert db.epoch == epoch

    assert db.sql("SELECT y FROM whole").rows() == [(7,)]
    for number in range(20):  # more than enough to start a compaction after a commit: the commits stand all the same
        with db.transaction() as tx:
            tx.insert("t", [(100 + number,)])
    assert db.epoch == epoch + 20
    db.vacuum(grace=0)
    file.write_bytes(good)
    expected = 1 + 2 + 3 + sum(range(100, 120))
    assert db.sql("SELECT sum(x) FROM t").rows() == [(expected,)]
    db.compact()
    db.vacuum(grace=0)
    assert db.sql("SELECT sum(x) FROM t").rows() == [(expected,)]


@pytest.mark.parametrize("how", ["garbage", *spark_long("missing", "cut")])
def test_damaged_data_file_behind_a_key(connect: Connect, how: str) -> None:
    """The look-up of a key must not take a file that cannot be read for one without the key."""
    db = connect(tuning=FILES)
    db.sql("CREATE TABLE t (x BIGINT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1), (3); INSERT INTO t VALUES (2)")
    relation = db._store.state.find("t")
    assert relation is not None
    file = Path(db.path) / relation.files[0].path
    good = file.read_bytes()
    damage(file, how)
    with pytest.raises(ConstraintViolation), db.transaction() as tx:
        tx.insert("t", [(3,)])  # this handle has looked into the file before
    db = connect()
    with pytest.raises(StorageError), db.transaction() as tx:
        tx.insert("t", [(3,)])
    with db.transaction() as tx:
        tx.insert("t", [(9,)])
    file.write_bytes(good)
    assert sorted(db.sql("SELECT x FROM t").rows()) == [(1,), (2,), (3,), (9,)]
