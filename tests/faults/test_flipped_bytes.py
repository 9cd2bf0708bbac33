"""Single bytes of data files turned over: an error by name or the same rows, never other rows; doctor finds each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import viewkeeper as vk
import viewkeeper.store.batches as batch
from tests.inventory import FILES
from viewkeeper.cli.database_checks import check_database
from viewkeeper.errors import StorageError

Connect = Callable[..., vk.Database]
PLACES = 24


def files_of(db: vk.Database, table: str) -> list[Path]:
    relation = db._store.refresh().find(table)
    assert relation is not None
    return [Path(db.path) / file.path for file in relation.files]


def test_a_flipped_byte_never_gives_other_rows(connect: Connect) -> None:
    db = connect(tuning=FILES)
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, s STRING, d DOUBLE); CREATE TABLE u (k BIGINT)")
    rows = pa.table({"k": range(300), "s": [f"name {k % 7}" for k in range(300)], "d": [k / 3 for k in range(300)]})
    with db.transaction() as tx:
        tx.insert("t", rows)
        tx.insert("u", [(7,), (250,)])
    by_engine = f"SELECT * FROM t AS OF EPOCH {db.epoch}"
    right = Counter(db.sql(by_engine).rows())
    (file,) = files_of(db, "t")
    good = file.read_bytes()
    places = [*range(0, len(good), len(good) // PLACES), *range(len(good) - 8, len(good))]
    for place in places:
        damaged = bytearray(good)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(bytes(damaged))
        with pytest.raises(StorageError) as caught:
            db.sql(by_engine).rows()
        assert caught.value.message.startswith("the data file relations/")
        assert caught.value.message.endswith(" is damaged")
        assert caught.value.detail == "its checksum does not match"
        found = [finding.found for finding in check_database(db.path, quick=True) if finding.status == "problem"]
        assert found == [f"{os.path.relpath(file, db.path)} of t: its checksum does not match"]
    for statement in ("SELECT u.k, t.s FROM t JOIN u ON t.k = u.k", "UPDATE t SET d = 0 WHERE k = 3"):
        with pytest.raises(StorageError, match="is damaged"):
            db.sql(statement).rows()
    file.write_bytes(good)
    assert Counter(db.sql(by_engine).rows()) == right
    assert not [finding for finding in check_database(db.path, quick=False) if finding.status == "problem"]


def test_a_flipped_byte_in_what_an_engine_wrote(connect: Connect) -> None:
    """Files of a large change are written by the engine, and those of the next process are checked again."""
    db = connect()
    db.sql(
        "CREATE TABLE big (k BIGINT, s STRING); INSERT INTO big SELECT id, CAST(id % 9 AS STRING) FROM range(150000)"
    )
    db.sql("CREATE TABLE copy AS SELECT k FROM big WHERE k % 1000 = 1")
    file = files_of(db, "big")[-1]
    good = file.read_bytes()
    for place in (len(good) // 3, len(good) - 200):
        damaged = bytearray(good)
        damaged[place] ^= 4
        file.write_bytes(bytes(damaged))
        before = file.stat()
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns - 10**9))
        with pytest.raises(StorageError, match="is damaged"):
            db.sql("SELECT count(*), sum(k), min(s) FROM big").rows()
        found = [finding.found for finding in check_database(db.path, quick=True) if finding.status == "problem"]
        assert len(found) == 1
    file.write_bytes(good)
    assert db.sql("SELECT count(*), sum(k) FROM big").rows() == [(150_000, 150_000 * 149_999 // 2)]


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_apache_spark_compares_page_checksums(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """What executors read from an object store does not pass through the driver: Spark itself sees flipped values."""
    db = connect()
    db.sql("CREATE TABLE t (k BIGINT); INSERT INTO t SELECT id * 1000003 % 999983 FROM range(150000)")
    monkeypatch.setattr(batch, "check_files", lambda *_, **__: None)
    file = files_of(db, "t")[-1]
    good = file.read_bytes()
    session = db._store.engine.session

    def reads_other_rows(place: int) -> bool:
        file.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        try:
            return bool(session.read.parquet(str(file)).selectExpr("sum(k)").collect())
        except PySparkException:
            return False

    assert any(reads_other_rows(len(good) * part // 10) for part in range(1, 9))
    with pytest.raises(StorageError, match="a file of the database could not be read"):
        db.sql("SELECT sum(k) FROM t").rows()
