"""Serializable: a transaction commits only if what it has read still stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk


@pytest.fixture
def pair(connect: Callable[..., vk.Database]) -> tuple[vk.Database, vk.Database]:
    """Two handles of one database with a keyed table and one without a key."""
    one = connect()
    one.sql("CREATE TABLE k (id INT PRIMARY KEY, n INT); CREATE TABLE bag (a INT)")
    one.sql("INSERT INTO k VALUES (1, 10), (2, 20); INSERT INTO bag VALUES (1)")
    return one, connect()


@pytest.mark.spark_long
def test_blind_inserts_do_not_conflict(pair: tuple[vk.Database, vk.Database]) -> None:
    one, other = pair
    with one.transaction() as tx:
        tx.insert("k", [(3, 0)])
        tx.insert("bag", [(2,)])
        other.sql("INSERT INTO k VALUES (4, 0)")
        other.sql("INSERT INTO bag VALUES (2)")
    assert tx.commit_info is not None
    assert sorted(one.sql("SELECT id FROM k").rows()) == [(1,), (2,), (3,), (4,)]
    assert sorted(one.sql("SELECT a FROM bag").rows()) == [(1,), (2,), (2,)]


@pytest.mark.spark_long
def test_the_same_new_key_conflicts(pair: tuple[vk.Database, vk.Database]) -> None:
    one, other = pair
    tx = one.transaction()
    tx.insert("k", [(3, 0)])
    other.sql("INSERT INTO k VALUES (3, 1)")
    with pytest.raises(vk.errors.Conflict, match="has changed rows of 'k' that this one has read"):
        tx.commit()
    assert one.sql("SELECT n FROM k WHERE id = 3").rows() == [(1,)]


READS: dict[str, Callable[[vk.Transaction], Any]] = {
    "select": lambda tx: tx.sql("SELECT sum(n) FROM k").rows(),
    "update": lambda tx: tx.sql("UPDATE k SET n = n + 1 WHERE id = 1"),
    "upsert": lambda tx: tx.upsert("k", [(1, 5)]),
    "delete by key": lambda tx: tx.delete_by_key("k", [1]),
    "delete by row": lambda tx: tx.delete("k", [(1, 10)]),
    "merge": lambda tx: tx.sql("MERGE INTO k USING (SELECT 1 AS id) s ON k.id = s.id WHEN MATCHED THEN DELETE"),
}


@pytest.mark.spark_long
@pytest.mark.parametrize("read", list(READS))
def test_what_was_read_was_changed(pair: tuple[vk.Database, vk.Database], read: str) -> None:
    one, other = pair
    tx = one.transaction()
    READS[read](tx)
    tx.insert("bag", [(9,)])
    other.sql("UPDATE k SET n = 11 WHERE id = 1")
    with pytest.raises(vk.errors.Conflict):
        tx.commit()
    assert one.sql("SELECT n FROM k WHERE id = 1").rows() == [(11,)]
    assert one.sql("SELECT count(*) FROM bag").rows() == [(1,)]


@pytest.mark.spark_long
@pytest.mark.parametrize("read", [name for name in READS if name != "select"])
def test_other_rows_do_not_matter(pair: tuple[vk.Database, vk.Database], read: str) -> None:
    one, other = pair
    tx = one.transaction()
    READS[read](tx)
    other.sql("INSERT INTO k VALUES (5, 50)")
    assert tx.commit() is not None
    assert one.sql("SELECT n FROM k WHERE id = 5").rows() == [(50,)]


@pytest.mark.spark_long
def test_a_dropped_table_conflicts(pair: tuple[vk.Database, vk.Database]) -> None:
    one, other = pair
    tx = one.transaction()
    tx.insert("bag", [(9,)])
    other.sql("DROP TABLE bag")
    with pytest.raises(vk.errors.Conflict, match="another transaction has dropped the table 'bag'"):
        tx.commit()


@pytest.mark.spark_long
def test_compaction_does_not_hide_a_change(connect: Callable[..., vk.Database]) -> None:
    one = connect(keep="0 seconds")
    one.sql("CREATE TABLE k (id INT PRIMARY KEY); INSERT INTO k VALUES (1); CREATE TABLE seen (n BIGINT)")
    other = connect()
    with one.transaction() as tx:
        count = tx.sql("SELECT count(*) FROM k").rows()[0][0]
        tx.insert("seen", [(count,)])
        other.sql("DELETE FROM k WHERE id = 1")
        other.sql("INSERT INTO seen VALUES (0)")
        other.compact()
        with pytest.raises(vk.errors.Conflict, match="'k' was changed and compacted since the transaction began"):
            tx.commit()


def test_single_statements_try_again(pair: tuple[vk.Database, vk.Database]) -> None:
    one, other = pair
    with one.transaction() as tx:
        tx.sql("UPDATE k SET n = n + 1 WHERE id = 2")
    other.sql("UPDATE k SET n = n + 1 WHERE id = 2")
    assert one.sql("SELECT n FROM k WHERE id = 2").rows() == [(22,)]
