"""Steps of a transaction: a failed one changes nothing, a repeated one changes once, and names are not confused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.engine.engine import Engine
from viewkeeper.errors import SessionLost, StorageError
from viewkeeper.store.batches import BatchWriter

STEPS: dict[str, Callable[[vk.Transaction], int]] = {
    "insert": lambda tx: tx.insert("p", ((i,) for i in (4, 5))),
    "upsert": lambda tx: tx.upsert("p", ((i,) for i in (4, 5))),
    "delete": lambda tx: tx.delete("p", ((i,) for i in (1, 100))),
    "delete_by_key": lambda tx: tx.delete_by_key("p", (i for i in (1, 100))),
}


@pytest.mark.spark_long
@pytest.mark.parametrize("step", list(STEPS))
def test_rows_from_a_generator_survive_a_lost_session(
    connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    db = connect(tuning=vk.Tuning(inlined_rows=0, whole_rows=0, picked_rows=0, lookup_keys=0))
    db.sql("CREATE TABLE p (k INT PRIMARY KEY); INSERT INTO p VALUES (1), (100)")
    fetch, lost = Engine.fetch, []

    def once(self: Engine, frame: Any) -> pa.Table:
        if not lost:
            lost.append(True)
            raise SessionLost("the engine no longer knows this session")
        return fetch(self, frame)

    monkeypatch.setattr(Engine, "fetch", once)
    with db.transaction() as tx:
        assert STEPS[step](tx) == 2
    assert lost
    assert tx.commit_info is not None
    assert len(tx.commit_info.changes["p"].weights()) == 2


def test_a_step_that_fails_to_spill_changes_nothing(
    connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = connect(tuning=vk.Tuning(small_rows=5))
    db.sql("CREATE TABLE b (a INT)")
    write = BatchWriter.write_rows

    def full(self: BatchWriter, rows: pa.Table, *, merged: bool = False) -> Any:
        raise StorageError("writing failed: No space left on device")

    with db.transaction() as tx:
        tx.insert("b", [(i,) for i in range(4)])
        monkeypatch.setattr(BatchWriter, "write_rows", full)
        with pytest.raises(StorageError):
            tx.insert("b", [(i,) for i in range(10, 14)])
        monkeypatch.setattr(BatchWriter, "write_rows", write)
    assert sorted(db.sql("SELECT a FROM b").rows()) == [(0,), (1,), (2,), (3,)]


def test_a_frame_of_a_transaction_outlives_its_scratch(db: vk.Database) -> None:
    db.sql("CREATE TABLE b (a INT); CREATE TABLE cpy (a INT); CREATE TABLE o (a INT)")
    with db.transaction() as tx:
        tx.insert("b", [(i,) for i in range(3000)])
        frame = tx.sql("SELECT * FROM b").spark()
        db.sql("INSERT INTO o VALUES (1)")
        assert tx.insert("cpy", frame) == 3000
    assert frame.count() == 3000
    assert db.sql("SELECT count(*) FROM cpy").rows() == [(3000,)]


def test_a_field_of_a_struct_is_not_the_column_of_its_name(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (a INT, s STRUCT<t: STRUCT<a: INT>>)")
    with db.transaction() as tx:
        tx.insert("t", [(1, {"t": {"a": 5}})])
    assert db.sql("DELETE FROM t WHERE s.t.a = 5").count == 1


def test_a_negated_string_is_not_the_string(db: vk.Database) -> None:
    db.sql("CREATE TABLE n (name STRING); INSERT INTO n VALUES ('-5')")
    found = db.sql("SELECT * FROM n WHERE name = -'5'").rows()
    assert db.sql("DELETE FROM n WHERE name = -'5'").count == len(found)


def test_two_columns_that_differ_in_case(db: vk.Database) -> None:
    db.sql("CREATE TABLE b (k INT)")
    tx = db.transaction()
    with pytest.raises(vk.errors.TypeMismatch, match="there are two columns named 'K'"):
        tx.insert("b", pa.table({"k": [111], "K": [222]}))
    tx.rollback()


def test_a_name_that_was_not_there(db: vk.Database, connect: Callable[..., vk.Database]) -> None:
    db.sql("CREATE TABLE j (a INT)")
    other = connect()
    one, two = db.transaction(), other.transaction()
    one.sql("DROP TABLE IF EXISTS fresh; INSERT INTO j VALUES (1)")
    assert two.sql("SELECT count(*) FROM j").rows() == [(0,)]
    two.sql("CREATE TABLE fresh (a INT)")
    two.commit()
    with pytest.raises(vk.errors.Conflict, match="created a table named 'fresh', which was not there before"):
        one.commit()


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_finished_transaction_is_freed_at_once(connect: Callable[..., vk.Database]) -> None:
    """As long as it lives, vacuum keeps the files that it may read; Python's collector of cycles may come late."""
    db = connect(durability="process")
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING); CREATE TABLE s (b STRING, y INT)")
    db.sql("CREATE VIEW named AS SELECT b, count(*) AS n FROM t GROUP BY b")
    db.sql("CREATE MATERIALIZED VIEW most AS SELECT t.b, max(y) AS y FROM t JOIN s ON t.b = s.b GROUP BY t.b")
    gc.collect()
    gc.disable()
    try:
        for number in range(2):
            with db.transaction() as tx:
                tx.insert("t", [(number, "x")])
                tx.sql("INSERT INTO s SELECT b, n FROM named")
                inner = weakref.ref(tx._tx)
            del tx
            assert inner() is None
    finally:
        gc.enable()
