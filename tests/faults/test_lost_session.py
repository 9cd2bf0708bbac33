"""The engine forgets its session: the next statement starts another, and nothing is done twice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from tests.marks import spark_long

WAYS = {
    "released": lambda session: session.client.release_session(),
    "stopped": lambda session: session.stop(),
    "disconnected": lambda session: session.client.close(),
}


@pytest.fixture(params=WAYS)
def lose(request: pytest.FixtureRequest, db: vk.Database) -> Callable[[], None]:
    """Loses the session of the database; one that is lost already may say so."""

    def action() -> None:
        with contextlib.suppress(Exception):
            WAYS[request.param](db._store.engine.session)

    return action


@pytest.fixture
def filled(db: vk.Database) -> vk.Database:
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 10), (2, 20)")
    return db


def rows(db: vk.Database) -> list[tuple[int, int]]:
    return sorted(db.sql("SELECT k, v FROM t").rows())


def test_queries(filled: vk.Database, lose: Callable[[], None]) -> None:
    lose()
    assert rows(filled) == [(1, 10), (2, 20)]
    lose()
    assert sorted(filled.table("t").read(as_of=2).rows()) == [(1, 10), (2, 20)]
    early = filled.sql("SELECT k FROM t WHERE k > 1")
    lose()
    assert early.columns == ["k"]
    lose()
    assert early.rows() == [(2,)]


@pytest.mark.parametrize("lose", ["released", *spark_long("stopped", "disconnected")], indirect=True)
def test_single_statements(filled: vk.Database, lose: Callable[[], None]) -> None:
    for statement in (
        "INSERT INTO t VALUES (3, 30)",
        "UPDATE t SET v = v + 1",
        "DELETE FROM t WHERE k = 2",
        "MERGE INTO t USING (SELECT 1 AS k, 5 AS v) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v",
        "CREATE TABLE u AS SELECT k FROM t",
    ):
        before = filled.epoch
        lose()
        filled.sql(statement)
        assert filled.epoch == before + 1
    assert rows(filled) == [(1, 5), (3, 31)]
    assert sorted(filled.sql("SELECT k FROM u").rows()) == [(1,), (3,)]


@pytest.mark.parametrize("lose", ["released", *spark_long("stopped", "disconnected")], indirect=True)
def test_inside_a_transaction(filled: vk.Database, lose: Callable[[], None]) -> None:
    before = filled.epoch
    with filled.transaction() as tx:
        lose()
        tx.sql("UPDATE t SET v = v + 1 WHERE k = 1")
        lose()
        tx.insert("t", [(0, 0), (3, 30)])
        lose()
        assert sorted(tx.sql("SELECT k, v FROM t").rows()) == [(0, 0), (1, 11), (2, 20), (3, 30)]
        lose()
        tx.upsert("t", [(3, 31)])
        lose()
        tx.delete_by_key("t", [2])
        lose()
        tx.delete("t", [(0, 0)])
        lose()
    assert filled.epoch == before + 1
    assert rows(filled) == [(1, 11), (3, 31)]


@pytest.mark.compiled
@pytest.mark.spark_long
def test_a_large_transaction(filled: vk.Database, lose: Callable[[], None], tmp_path: Path) -> None:
    """Parts that cancel each other are made net by the engine when the transaction commits."""
    many = pa.table({"k": range(10, 150_010), "v": [1] * 150_000})
    pq.write_table(many, tmp_path / "many.parquet")
    with filled.transaction() as tx:
        lose()
        tx.load("t", str(tmp_path / "many.parquet"))
        lose()
        tx.sql("DELETE FROM t WHERE k >= 20")
        lose()
    assert rows(filled) == [(1, 10), (2, 20), *((k, 1) for k in range(10, 20))]
    assert filled.table("t").describe().num_rows == 2
    lose()
    filled.compact()
    assert len(rows(filled)) == 12
