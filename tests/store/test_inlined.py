"""Small commits are one file: their rows are inside the ledger entry, and are read, flushed and swept like files."""

from __future__ import annotations

import os
import random
import threading
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
import viewkeeper.store.compaction as compaction
from tests.inventory import check_ledger, check_nothing_left_over, disk_files, entries_with_data
from viewkeeper.catalog.data_files import DataFile, place_of
from viewkeeper.catalog.relations import Relation
from viewkeeper.cli.database_checks import check_database
from viewkeeper.errors import StorageError
from viewkeeper.log.inlined import Inlined, split_entry
from viewkeeper.log.ledger import FORMAT
from viewkeeper.log.storage import LocalStorage
from viewkeeper.store.flushing import flush, inlined_files

Connect = Callable[..., vk.Database]
EARLIER = Path(__file__).with_name("earlier_database.zip")

SHOP = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(10, 2));
CREATE MATERIALIZED VIEW large AS SELECT id, amount FROM orders WHERE amount >= 5;
CREATE MATERIALIZED VIEW totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer;
"""


def relation(db: vk.Database, name: str) -> Relation:
    found = db._store.refresh().find(name)
    assert found is not None
    return found


def batches(db: vk.Database, name: str) -> list[DataFile]:
    return inlined_files(relation(db, name))


def order(db: vk.Database, number: int, customer: str = "a") -> vk.Commit:
    with db.transaction() as tx:
        tx.insert("orders", [(number, customer, number)])
    assert tx.commit_info is not None
    return tx.commit_info


@pytest.fixture
def shop(connect: Connect) -> vk.Database:
    db = connect()
    db.sql(SHOP)
    return db


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_small_commit_is_one_file_with_two_syncs(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    order(shop, 1)
    data, entries = disk_files(shop.path, "relations"), disk_files(shop.path, "ledger")
    synced: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), sync(handle))[1])
    order(shop, 7)
    assert len(synced) == 2, "the entry and its directory"
    assert disk_files(shop.path, "relations") == data
    assert len(disk_files(shop.path, "ledger") - entries) == 1
    newest = {place_of(batches(shop, name)[-1].path)[0] for name in ("orders", "large", "totals")}
    assert newest == {f"ledger/{shop._store.state.number:012d}.json"}
    assert shop.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_commit_without_views_starts_no_thread(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("CREATE TABLE a (x BIGINT); CREATE TABLE b (x BIGINT)")
    started: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self.name), start(self))[1])
    with db.transaction() as tx:
        tx.insert("a", [(1,)])
        tx.insert("b", [(2,)])
    assert started == []


def test_rows_in_entries_are_read_at_every_epoch(shop: vk.Database, connect: Connect) -> None:
    for number in range(1, 8):
        order(shop, number, "ab"[number % 2])
    shop.sql("UPDATE orders SET amount = 50 WHERE id = 2; DELETE FROM orders WHERE id = 7")
    assert len(batches(shop, "orders")) == 9
    for reader in (shop, connect()):
        for epoch in range(4, 11):
            found = reader.sql(f"SELECT id FROM orders AS OF EPOCH {epoch}").rows()
            assert sorted(found) == [(number,) for number in range(1, epoch - 2)]
        assert sorted(reader.sql("SELECT id, amount FROM orders WHERE amount > 4").rows()) == [
            (2, 50), (5, 5), (6, 6)
        ]  # fmt: skip
        assert dict(row[:2] for row in reader.sql("SELECT * FROM totals").rows()) == {"a": 3, "b": 3}
        changes = {epoch: change.weights() for epoch, change in reader.view("large").changes(since=8)}
        assert changes == {9: {(6, 6): 1}, 10: {(7, 7): 1}, 11: {(2, 50): 1}, 12: {(7, 7): -1}}
    assert shop.verify().equal


@pytest.mark.spark_long
def test_what_is_not_inlined(connect: Connect) -> None:
    """Many rows, many bytes, and nested columns, which an engine has to read from files."""
    db = connect(tuning=vk.Tuning(inlined_rows=3, inlined_bytes=1_000))
    db.sql("CREATE TABLE t (x BIGINT, s STRING); CREATE TABLE nested (x BIGINT, a ARRAY<INT>, m STRUCT<y: INT>)")
    cases = {"few": [(1, "a"), (2, "b")], "many": [(n, "c") for n in range(3, 7)], "wide": [(7, "d" * 2_000)]}
    found = {}
    for name, rows in cases.items():
        with db.transaction() as tx:
            tx.insert("t", rows)
        found[name] = relation(db, "t").files[-1].is_inlined
    assert found == {"few": True, "many": False, "wide": False}
    with db.transaction() as tx:
        tx.insert("t", [(8, "e")])
        tx.insert("nested", [(1, [1, None], None), (2, None, {"y": 3})])
    assert [relation(db, name).files[-1].is_inlined for name in ("t", "nested")] == [True, False]
    assert db.sql("SELECT count(*), sum(x), sum(length(s)) FROM t").rows() == [(8, 36, 2_007)]
    assert sorted(db.sql("SELECT x, a, m FROM nested").rows()) == [(1, [1, None], None), (2, None, {"y": 3})]


def test_the_smallest_changes_are_inlined(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(inlined_rows=6))
    db.sql("CREATE TABLE a (x BIGINT); CREATE TABLE b (x BIGINT); CREATE TABLE c (x BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(x) AS s FROM a")
    for epoch, numbers in enumerate(((3, 4, 2), (5, 1, 1), (7, 0, 0))):
        with db.transaction() as tx:
            for name, number in zip("abc", numbers, strict=True):
                tx.insert(name, [(n,) for n in range(epoch * 10, epoch * 10 + number)])
    kinds = {name: [file.is_inlined for file in relation(db, name).files] for name in "abcv"}
    assert kinds == {"a": [False, False, False], "b": [False, True], "c": [True, True], "v": [True] * 4}
    counts = [db.sql(f"SELECT count(*) FROM {name}").rows() for name in "abc"]
    assert counts == [[(15,)], [(5,)], [(3,)]]
    assert db.verify().equal


def test_values_of_all_types(connect: Connect) -> None:
    db = connect()
    types = (
        "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38, 9), s STRING, "
        "x BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ"
    )
    db.sql(f"CREATE TABLE t ({types}); CREATE TABLE stored ({types})")
    values = """(true, -128, -32768, -2147483648, -9223372036854775808, CAST('NaN' AS FLOAT), CAST('-0.0' AS DOUBLE),
        12345678901234567890123456789.123456789, 'ärger 🙂', X'00FF', DATE '0001-01-01',
        TIMESTAMP '2026-11-18 10:00:00.123456', TIMESTAMP_NTZ '1899-12-31 23:59:59.999999'),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (false, 127, 32767, 2147483647, 9223372036854775807, CAST('-Infinity' AS FLOAT), CAST('NaN' AS DOUBLE),
        -0.000000001, '', X'', DATE '9999-12-31', TIMESTAMP '1969-12-31 23:59:59',
        TIMESTAMP_NTZ '2000-02-29 00:00:00')"""
    db.sql(f"INSERT INTO t VALUES {values}; INSERT INTO stored VALUES {values}")
    db.compact("stored")
    assert [relation(db, name).files[0].is_inlined for name in ("t", "stored")] == [True, False]
    both = "SELECT count(*) FROM (SELECT * FROM t EXCEPT ALL SELECT * FROM stored) AS other"
    assert db.sql(both).rows() == [(0,)]
    assert list(map(str, sorted(db.sql("SELECT * FROM t").rows(), key=str))) == list(
        map(str, sorted(db.sql("SELECT * FROM stored").rows(), key=str))
    )


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_bytes_that_are_not_held_are_read_again(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(held_bytes=0, cached_rows=0))
    db.sql(SHOP)
    for number in range(1, 6):
        order(db, number)
    assert db._store.storage.inlined.held == 0
    assert db.sql("SELECT count(*), sum(amount) FROM orders").rows() == [(5, 15)]
    assert db.verify().equal


def test_memory_for_entries_is_bounded(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), "process")
    held = Inlined()
    held.most = 100
    for number in range(10):
        storage.write(f"e{number}", b"{}\ncheck\n" + bytes([number]) * 30, "test")
        held.put(f"e{number}", bytes([number]) * 30)
        assert held.held <= 100
    assert [held.data(storage, f"e{number}") for number in (0, 9, 5)] == [b"\0" * 30, b"\x09" * 30, b"\x05" * 30]
    assert held.held == 90
    held.forget(["e5", "e5", "other"])
    assert held.held == 60
    storage.write("e1", b"{}\ncheck\n", "test")
    assert held.data(storage, "e1") is None
    assert held.data(storage, "e10") is None


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"{}\nabc\n", (b"{}\nabc\n", b"")),
        (b"{}\nabc\n\n\x00\n", (b"{}\nabc\n", b"\n\x00\n")),
        (b"{}\nabc", (b"{}\nabc", b"")),
        (b"garbage", (b"garbage", b"")),
        (b"", (b"", b"")),
    ],
)
def test_an_entry_is_a_head_and_data(data: bytes, parts: tuple[bytes, bytes]) -> None:
    assert split_entry(data) == parts


# flush -------------------------------------------------------------------------------------------


def test_a_flush_changes_no_rows_and_makes_no_epoch(shop: vk.Database, connect: Connect) -> None:
    for number in range(1, 6):
        order(shop, number, "ab"[number % 2])
    shop.sql("DELETE FROM orders WHERE id = 5")
    before = {epoch: sorted(shop.sql(f"SELECT * FROM orders AS OF EPOCH {epoch}").rows()) for epoch in range(4, 10)}
    epoch, number = shop.epoch, shop._store.state.number
    flushed = flush(shop._store)
    assert len(flushed) == 4, "two views, an auxiliary relation of one of them and the table"
    assert (shop.epoch, shop._store.state.number) == (epoch, number + 1)
    assert [len(relation(shop, name).files) for name in ("orders", "large", "totals")] == [1, 1, 1]
    assert not any(batches(shop, name) for name in ("orders", "large", "totals"))
    for reader in (shop, connect()):
        for at, rows in before.items():
            assert sorted(reader.sql(f"SELECT * FROM orders AS OF EPOCH {at}").rows()) == rows
        assert {at: change.weights() for at, change in reader.table("orders").changes(since=7)} == {
            8: {(5, "b", 5): 1}, 9: {(5, "b", 5): -1}
        }  # fmt: skip
    assert shop.verify().equal
    assert flush(shop._store) == []
    check_ledger(shop)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_many_batches_are_flushed_behind_the_commit(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    db = connect(tuning=vk.Tuning(flushed_batches=4))
    db.sql(SHOP)
    inside, go_on = threading.Event(), threading.Event()
    written = compaction.written

    def waiting(*arguments: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return written(*arguments)

    monkeypatch.setattr("viewkeeper.store.flushing.written", waiting)
    for number in range(1, 30):
        order(db, number)  # none of them waits for the flush
    assert inside.wait(60)
    assert len(batches(db, "orders")) == 16, "with a flush that is late the others are written to files"
    go_on.set()
    db._store.housekeeping.wait()
    assert len(batches(db, "orders")) < 16
    order(db, 30)
    db._store.housekeeping.wait()
    assert len(batches(db, "orders")) < 4
    assert db.sql("SELECT count(*), sum(id) FROM orders").rows() == [(30, 465)]
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_many_rows_are_flushed_too_and_close_waits(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(flushed_rows=200))
    db.sql("CREATE TABLE t (x BIGINT)")
    for start in (0, 150):
        with db.transaction() as tx:
            tx.insert("t", [(number,) for number in range(start, start + 150)])
    db.close()
    again = connect()
    assert [file.is_inlined for file in relation(again, "t").files] == [False]
    assert again.sql("SELECT count(*), sum(x) FROM t").rows() == [(300, 150 * 299)]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_two_flushes_and_a_compaction_cross(
    shop: vk.Database, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others replace the batches of one relation, and commit, between the files of a flush and its entry."""
    other = connect()
    for number in range(1, 5):
        order(shop, number)
    swap = compaction.swap

    def crossed(*arguments: Any) -> Any:
        monkeypatch.setattr("viewkeeper.store.flushing.swap", swap)
        other.compact("orders")
        order(other, 5)
        return swap(*arguments)

    monkeypatch.setattr("viewkeeper.store.flushing.swap", crossed)
    flushed = flush(shop._store)
    assert relation(shop, "orders").id not in flushed
    assert len(flushed) == 2, "a view and its auxiliary relation"
    assert [file.is_inlined for file in relation(shop, "orders").files] == [False, True]
    assert shop.sql("SELECT count(*), sum(id) FROM orders").rows() == [(5, 15)]
    assert len(flush(other._store)) == 4
    assert flush(shop._store) == []
    assert shop.verify().equal
    other.close()
    shop.vacuum(grace=0)
    check_nothing_left_over(shop)
    check_ledger(shop)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_flush_that_fails_leaves_nothing(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 5):
        order(shop, number)
    files = disk_files(shop.path, "relations")
    write = LocalStorage.write
    left = [2]

    def full(self: LocalStorage, path: str, data: bytes, mark: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StorageError("no room")
        write(self, path, data, mark)

    monkeypatch.setattr(LocalStorage, "write", full)
    with pytest.raises(StorageError, match="no room"):
        flush(shop._store)
    assert disk_files(shop.path, "relations") == files
    monkeypatch.setattr(LocalStorage, "write", write)
    assert len(batches(shop, "orders")) == 4
    assert shop.verify().equal
    assert len(flush(shop._store)) == 3
    assert shop.verify().equal


# vacuum ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_vacuum_strips_entries_that_nobody_reads(shop: vk.Database, connect: Connect) -> None:
    for number in range(1, 5):
        order(shop, number)
    reader = connect()
    result = reader.sql("SELECT sum(id) FROM orders")  # its batches stay until it is looked at
    reader._store.small.tuning = vk.Tuning(cached_rows=0)
    kept = entries_with_data(shop.path)
    assert len(kept) == 4
    flush(shop._store)
    shop.vacuum(grace=0)
    assert entries_with_data(shop.path) == kept
    assert result.rows() == [(10,)]
    del result
    reader.close()
    assert shop.vacuum(grace=3600).bytes == 0
    swept = shop.vacuum(grace=0)
    assert (swept.files, swept.bytes > 0) == (0, True)
    assert entries_with_data(shop.path) == set()
    check_ledger(shop)
    assert shop.sql("SELECT sum(id) FROM orders AS OF EPOCH 6").rows() == [(6,)]
    assert [row["epoch"] for row in shop.history()] == list(range(shop.epoch, 0, -1))
    assert not [each for each in check_database(shop.path, quick=False) if each.status == "problem"]
    shop.close()
    assert connect().sql("SELECT count(*) FROM orders").rows() == [(4,)]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_an_entry_is_stripped_when_the_last_of_its_batches_is_replaced(shop: vk.Database) -> None:
    order(shop, 9)
    (entry,) = {place_of(batches(shop, name)[-1].path)[0] for name in ("orders", "large")}
    shop.compact("orders")
    shop.vacuum(grace=0)
    assert entry in entries_with_data(shop.path)
    shop._store.storage.inlined.forget([entry])
    assert shop.sql("SELECT id FROM large").rows() == [(9,)]
    shop.compact()
    shop.vacuum(grace=0)
    assert entries_with_data(shop.path) == set()
    assert shop.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_dropped_view_is_read_as_before_after_a_flush(connect: Connect) -> None:
    """Also its auxiliary relations, whose history is kept for the feed of a virtual view."""
    db = connect()
    db.sql("CREATE TABLE t (g INT, x INT)")
    db.sql("CREATE VIEW v WITH (auxiliary = true) AS SELECT g, sum(x) AS total FROM t GROUP BY g")
    db.sql("INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (1, 2), (2, 5); DROP VIEW v; INSERT INTO t VALUES (1, 4)")
    before = {epoch: Counter(db.sql(f"SELECT * FROM v AS OF EPOCH {epoch}").rows()) for epoch in (2, 3, 4)}
    assert before == {2: Counter(), 3: Counter([(1, 1)]), 4: Counter([(1, 3), (2, 5)])}
    flush(db._store)
    db.vacuum(grace=0)
    assert {epoch: Counter(db.sql(f"SELECT * FROM v AS OF EPOCH {epoch}").rows()) for epoch in (2, 3, 4)} == before


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_batches_of_a_dropped_table_are_swept(connect: Connect) -> None:
    db = connect(keep="0 seconds")
    db.sql("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); DROP TABLE t")
    assert len(entries_with_data(db.path)) == 2
    db.sql("CREATE TABLE u (x BIGINT)")
    assert db.vacuum(grace=0).relations == ("t",)
    assert entries_with_data(db.path) == set()
    check_nothing_left_over(db)


# everything at random ------------------------------------------------------------------------------


def at_random(connect: Connect, seed: int, steps: int) -> None:
    """Commits, flushes, compactions, sweeps and other handles at random; every epoch stays what it was."""
    chance = random.Random(seed)
    tuning = vk.Tuning(inlined_rows=chance.choice([0, 3, 1_000]), flushed_batches=chance.choice([2, 5, 100]))
    db = connect(tuning=tuning)
    db.sql(SHOP)
    rows: dict[int, tuple[Any, ...]] = {}
    at: dict[int, Counter[tuple[Any, ...]]] = {}
    for step in range(steps):
        action = chance.choices(["commit", "flush", "compact", "vacuum", "again"], [8, 1, 1, 1, 1])[0]
        if action == "commit":
            with db.transaction() as tx:
                for key in {chance.randrange(12) for _ in range(chance.randint(1, 4))}:
                    if key in rows and chance.random() < 0.4:
                        tx.delete("orders", [rows.pop(key)])
                    else:
                        rows[key] = (key, chance.choice("abc"), chance.randint(0, 9))
                        tx.upsert("orders", [rows[key]])
        elif action == "flush":
            flush(db._store)
        elif action == "compact":
            db.compact(chance.choice(["orders", "large", "totals", None]))
        elif action == "vacuum":
            db.vacuum(grace=0)
        else:
            db.close()
            db = connect(tuning=tuning)
        at[db.epoch] = Counter(rows.values())
        if step % 5 == 4:
            chosen = chance.choice(list(at))
            assert Counter(db.sql(f"SELECT * FROM orders AS OF EPOCH {chosen}").rows()) == at[chosen]
    assert db.verify().equal
    for epoch, found in at.items():
        assert Counter(db.table("orders").read(epoch).rows()) == found
    moved: Counter[tuple[Any, ...]] = Counter()
    for _, change in db.table("orders").changes(since=3):
        moved.update(change.weights())
    assert {row: weight for row, weight in moved.items() if weight} == at[db.epoch]
    db._store.housekeeping.wait()
    db.vacuum(grace=0)
    check_nothing_left_over(db)
    check_ledger(db)
    db.close()


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_every_epoch_stays_what_it_was(connect: Connect) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print("seed", seed)
    at_random(connect, seed, 60)


@pytest.mark.long
@pytest.mark.parametrize("series", range(20))
def test_every_epoch_stays_what_it_was_for_long(connect: Connect, series: int) -> None:
    at_random(connect, series, 200)


# damage and versions -------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_damaged_data_of_an_entry(shop: vk.Database, connect: Connect) -> None:
    """The database opens and everything else is read; doctor and readers name the batch."""
    order(shop, 1)
    order(shop, 9)
    shop.sql("CREATE TABLE whole (y BIGINT); INSERT INTO whole VALUES (7)")
    path = batches(shop, "orders")[-1].path
    entry, position = place_of(path)
    file = Path(shop.path) / entry
    shop.close()
    good = file.read_bytes()
    start = len(split_entry(good)[0]) + position
    flipped = bytearray(good)
    flipped[start + 40] ^= 4
    cases = {
        "its checksum does not match": bytes(flipped),
        "the ledger says": good[: start + 100],
        "is missing": good[: start - position],
        "": good + b"more",
    }
    for found, data in cases.items():
        file.write_bytes(data)
        db = connect()
        assert db.sql("SELECT y FROM whole").rows() == [(7,)]
        reported = [each.found for each in check_database(db.path, quick=True) if each.status == "problem"]
        if found:
            with pytest.raises(StorageError) as caught:
                db.sql("SELECT * FROM orders").rows()
            assert caught.value.message.startswith(f"the data file {path} is ")
            assert found in f"{caught.value.message} {caught.value.detail}"
            assert any(path in each for each in reported)
            with pytest.raises(StorageError):
                flush(db._store)
        else:
            assert db.sql("SELECT sum(id) FROM orders").rows() == [(10,)]
            assert [each.split(":")[0] for each in reported] == [f"{entry} is damaged"]
        db.close()
    file.write_bytes(good)
    db = connect()
    assert db.verify().equal
    assert not [each for each in check_database(db.path, quick=False) if each.status == "problem"]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_an_earlier_database_says_that_its_format_is_newer_before_it_has_data(tmp_path: Path, connect: Connect) -> None:
    """A version that knows no data in entries would take them for damaged; it meets an entry of format 4 before."""
    with zipfile.ZipFile(EARLIER) as packed:
        packed.extractall(tmp_path / "lake")
    db = connect()
    ledger, number = db._store.ledger, db._store.state.number
    assert db._store.state.format < FORMAT
    db.sql("INSERT INTO edge VALUES ('x', 'y')")
    marked, commit = ledger.entry(number + 1), ledger.entry(number + 2)
    assert marked is not None
    assert commit is not None
    assert (marked["format"], marked["kind"], "data" in marked) == (FORMAT, "maintenance", False)
    assert (commit["kind"], commit["data"] > 0) == ("commit", True)
    db.sql("INSERT INTO edge VALUES ('y', 'z')")
    assert db._store.state.number == number + 3
    assert db.verify().equal
    check_ledger(db)
    fresh = connect("fresh")
    first = fresh._store.ledger.entry(1)
    assert first is not None
    assert first["format"] == FORMAT


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_long_heads_are_read_in_full(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.log.ledger.HEAD_BYTES", 100)
    db = connect()
    db.sql(SHOP)
    order(db, 1)
    assert connect().sql("SELECT id FROM orders").rows() == [(1,)]
    check_ledger(db)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_bulk_loads_beside_small_changes_of_views(connect: Connect) -> None:
    """The table's rows are written by the engine; the few that its view gains are part of the entry."""
    db = connect()
    db.sql("CREATE TABLE t (x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    with db.transaction() as tx:
        tx.insert("t", pa.table({"x": range(150_000)}))
    assert [relation(db, name).files[-1].is_inlined for name in ("t", "v")] == [False, True]
    assert db.sql("SELECT n FROM v").rows() == [(150_000,)]
    assert db.verify().equal
