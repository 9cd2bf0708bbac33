"""Stages of a commit: hooks react in rounds, marks, watched views, effects that run once, compaction after it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
import viewkeeper.store.compaction as compaction
from tests.inventory import FILES
from viewkeeper.errors import RuleLoop
from viewkeeper.transaction.change import Commit
from viewkeeper.transaction.marks import Mark, change_since, set_mark
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.row_changes import insert_rows

Connect = Callable[..., vk.Database]


class Recorder:
    """A hook that copies rows that a view gains into a log, and notes what it has seen."""

    def __init__(self, view: str = "big", *, most: int = 1) -> None:
        self.view, self.most = view, most
        self.considered: list[dict[Any, int]] = []
        self.told: list[int] = []
        self.happened: list[int] = []
        self.mark: Mark | None = None

    def begin(self, tx: OpenTransaction) -> None:
        self.mark = None

    def before_writing(self, tx: OpenTransaction) -> bool:
        relation = tx.relation(self.view)
        begins = Mark({}, {}) if self.mark is None else self.mark
        change = change_since(tx, begins, relation)
        self.mark = set_mark(tx)
        self.considered.append(change.weights())
        rows = [row for row, weight in change.weights().items() if weight > 0]
        if not rows or len([one for one in self.considered if one]) > self.most:
            return False
        tx.effects.append(lambda done: self.happened.append(done.epoch))
        insert_rows(tx, tx.table("seen"), rows)
        return True

    def after_entry(self, tx: OpenTransaction, done: Commit) -> None:
        self.told.append(done.epoch)


@pytest.fixture
def shop(connect: Connect) -> vk.Database:
    db = connect()
    db.sql("""
        CREATE TABLE t (k INT PRIMARY KEY, n INT);
        CREATE TABLE seen (k INT, n INT);
        CREATE MATERIALIZED VIEW big AS SELECT k, n FROM t WHERE n > 10;
        CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM seen;
        CREATE VIEW small AS SELECT k, n FROM t WHERE n <= 10;
    """)
    return db


def test_a_hook_reacts_to_the_change_of_a_view_and_views_follow(shop: vk.Database) -> None:
    hook = Recorder()
    shop._hooks.append(hook)
    with shop.transaction() as tx:
        tx.insert("t", [(1, 5), (2, 50), (3, 60)])
    assert hook.considered == [{(2, 50): 1, (3, 60): 1}, {}]
    assert tx.commit_info is not None
    assert hook.told == hook.happened == [tx.commit_info.epoch]
    assert tx.commit_info.changes["seen"].weights() == {(2, 50): 1, (3, 60): 1}
    assert tx.commit_info.changes["counted"].weights() == {(0,): -1, (2,): 1}
    assert shop.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_mark_sees_only_what_came_after_it(shop: vk.Database) -> None:
    for few in (100_000, 1):  # on the driver, and in staged files
        shop._store.engine.tuning = vk.Tuning(small_rows=few)
        before = {item.path for item in shop._store.storage.list("relations")}
        tx = OpenTransaction(shop._store)
        table = tx.table("t")
        insert_rows(tx, table, [(1, 5), (2, 50)])
        mark = set_mark(tx)
        assert change_since(tx, mark, table).weights() == {}
        insert_rows(tx, table, [(3, 7), (4, 8)])
        tx.settle()
        assert change_since(tx, mark, table).weights() == {(3, 7): 1, (4, 8): 1}
        assert change_since(tx, Mark({}, {}), table).weights() == {(1, 5): 1, (2, 50): 1, (3, 7): 1, (4, 8): 1}
        tx.discard()
        assert {item.path for item in shop._store.storage.list("relations")} == before


def test_a_watched_view_takes_part_without_being_stored(shop: vk.Database) -> None:
    hook = Recorder("small")
    shop._hooks.append(hook)
    with shop.transaction() as tx:
        tx._tx.watched.add(tx._tx.relation("small").id)
        tx.insert("t", [(1, 5), (2, 50)])
    assert hook.considered == [{(1, 5): 1}, {}]
    assert tx.commit_info is not None
    assert "small" not in tx.commit_info.changes
    assert shop.sql("SELECT * FROM seen").rows() == [(1, 5)]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_effects_happen_once_though_the_commit_is_prepared_again(connect: Connect, shop: vk.Database) -> None:
    hook = Recorder(most=2)
    shop._hooks.append(hook)
    with shop.transaction() as tx:
        tx.insert("t", [(2, 50)])
        append, tries = shop._store.ledger.append, []

        def slow(state: Any, entry: Any, data: bytes, added: Any) -> Any:
            if not tries:
                tries.append(1)
                connect().sql("INSERT INTO t VALUES (9, 90)")  # comes in between: this entry loses the number
            return append(state, entry, data, added)

        shop._store.ledger.append = slow  # type: ignore[method-assign]
    assert tx.commit_info is not None
    assert hook.happened == hook.told == [tx.commit_info.epoch]
    assert len(hook.considered) == 4
    assert shop.sql("SELECT * FROM seen").rows() == [(2, 50)]
    assert shop.verify().equal


@pytest.mark.spark_long
def test_reactions_that_never_end_are_given_up(shop: vk.Database) -> None:
    class Endless(Recorder):
        def before_writing(self, tx: OpenTransaction) -> bool:
            insert_rows(tx, tx.table("seen"), [(0, 0)])
            return True

    shop._hooks.append(Endless())
    with pytest.raises(RuleLoop, match="after 100 rounds"):
        shop.sql("INSERT INTO t VALUES (1, 1)")
    shop._hooks.clear()
    assert shop.sql("SELECT count(*) FROM t").rows() == [(0,)]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_compaction_is_behind_the_commit(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go_on = threading.Event(), threading.Event()
    replace = compaction._replace

    def waiting(*arguments: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return replace(*arguments)

    monkeypatch.setattr(compaction, "_replace", waiting)
    shop._store.engine.tuning = FILES
    for number in range(20):
        shop.sql(f"INSERT INTO t VALUES ({number}, {number})")  # none of them waits for the compaction
    assert inside.wait(60)
    go_on.set()
    shop._store.housekeeping.wait()
    table = shop._store.refresh().find("t")
    assert table is not None
    assert len(table.files) < 12
    assert shop.sql("SELECT count(*), sum(n) FROM t").rows() == [(20, 190)]
    assert shop.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_close_waits_for_compaction(connect: Connect) -> None:
    db = connect(tuning=FILES)
    db.sql("CREATE TABLE t (k INT)")
    for number in range(13):
        db.sql(f"INSERT INTO t VALUES ({number})")
    db.close()
    with_files = connect()._store.refresh().find("t")
    assert with_files is not None
    assert len(with_files.files) < 12
