"""Risch and Sköld 1999, section 1.5.2: physical events are added with the delta union; only the net effect counts."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeeper as vk

ITEM = ":item1"


def delta(tx: vk.database.Transaction) -> tuple[set[Any], set[Any]]:
    """The Δ-set of min_stock: the tuples added and the tuples removed."""
    change = tx.preview().get("min_stock")
    if change is None:
        return set(), set()
    weights = change.weights()
    return {row for row, weight in weights.items() if weight > 0}, {
        row for row, weight in weights.items() if weight < 0
    }


@pytest.mark.spark_long
def test_setting_min_stock_to_150_and_back_to_100(db: vk.Database) -> None:
    db.sql("CREATE TABLE min_stock (item STRING, amount INT)")
    db.sql(f"INSERT INTO min_stock VALUES ('{ITEM}', 100)")
    epoch = db.epoch
    with db.transaction() as tx:
        tx.delete("min_stock", [(ITEM, 100)])
        assert delta(tx) == (set(), {(ITEM, 100)})
        tx.insert("min_stock", [(ITEM, 150)])
        assert delta(tx) == ({(ITEM, 150)}, {(ITEM, 100)})
        tx.delete("min_stock", [(ITEM, 150)])
        assert delta(tx) == (set(), {(ITEM, 100)})
        tx.insert("min_stock", [(ITEM, 100)])
        assert delta(tx) == (set(), set())
    assert tx.commit_info is None
    assert db.epoch == epoch
    assert list(db.table("min_stock").changes(since=epoch)) == []


def test_the_same_by_update(db: vk.Database) -> None:
    db.sql("CREATE TABLE min_stock (item STRING PRIMARY KEY, amount INT)")
    db.sql(f"INSERT INTO min_stock VALUES ('{ITEM}', 100)")
    epoch = db.epoch
    with db.transaction() as tx:
        tx.sql(f"UPDATE min_stock SET amount = 150 WHERE item = '{ITEM}'")
        assert delta(tx) == ({(ITEM, 150)}, {(ITEM, 100)})
        tx.sql(f"UPDATE min_stock SET amount = 100 WHERE item = '{ITEM}'")
        assert delta(tx) == (set(), set())
    assert tx.commit_info is None
    assert db.epoch == epoch


def test_old_state_from_the_new_one(db: vk.Database) -> None:
    """B_old = (B ∪ Δ-B) - Δ+B."""
    db.sql("CREATE TABLE b (x INT PRIMARY KEY); INSERT INTO b VALUES (1), (2), (3)")
    old = set(db.sql("SELECT x FROM b").rows())
    commit = db.sql(
        "MERGE INTO b USING (SELECT * FROM VALUES (3), (4) AS v(x)) AS s ON b.x = s.x "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND b.x < 2 THEN DELETE"
    ).commit
    new = set(db.sql("SELECT x FROM b").rows())
    weights = commit.changes["b"].weights()
    added = {row for row, weight in weights.items() if weight > 0}
    removed = {row for row, weight in weights.items() if weight < 0}
    assert (added, removed) == ({(4,)}, {(1,)})
    assert (new | removed) - added == old
