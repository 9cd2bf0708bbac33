"""WITH (keep = ...): how long the old epochs of a view can be read, longer or shorter than those of the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

import viewkeeper as vk
from tests.oracle import bag
from viewkeeper.catalog.state import MARK_SECONDS, State
from viewkeeper.log import ledger
from viewkeeper.log import vacuuming as vacuum
from viewkeeper.store import compaction

DAY = 86_400.0


class Clock:
    """The time that the store sees: commits are minutes apart."""

    def __init__(self) -> None:
        self.at = ledger.now()

    def now(self) -> float:
        return self.at

    def tick(self) -> float:
        self.at += 2 * MARK_SECONDS
        return self.at

    def go(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stands in for the real clock in ledger, compaction and vacuum."""
    clock = Clock()
    monkeypatch.setattr(ledger, "now", clock.tick)
    monkeypatch.setattr(compaction, "now", clock.now)
    monkeypatch.setattr(vacuum, "now", clock.now)
    return clock


def shop(connect: Callable[..., vk.Database], keep: str = "30 days") -> vk.Database:
    """A table and a view over it that is kept longer, at the epochs 1 to 6; the database keeps one day."""
    db = connect(keep="1 day")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT)")
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (keep = '{keep}') AS SELECT g, sum(x) AS total FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW plain AS SELECT g, sum(x) AS total FROM t GROUP BY g")
    db.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 5)")
    db.sql("INSERT INTO t VALUES (3, 'a', 2)")
    db.sql("DELETE FROM t WHERE id = 2")
    return db


ROWS = {3: [], 4: [("a", 1), ("b", 5)], 5: [("a", 3), ("b", 5)], 6: [("a", 3)]}
"""What v shows at each epoch."""


def said(action: Callable[[], object]) -> str:
    with pytest.raises(vk.errors.NotFound) as caught:
        action()
    return str(caught.value)


@pytest.mark.spark_long
def test_longer_than_the_database(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect)
    clock.go(2 * DAY)
    db.compact()
    state = db._store.refresh()
    assert (state.oldest, state.epoch) == (6, 6)
    for epoch, rows in ROWS.items():
        assert bag(db.view("v").read(as_of=epoch).rows()) == bag(rows)
        assert bag(db.sql(f"SELECT g, total FROM v AS OF EPOCH {epoch}").rows()) == bag(rows)
    assert said(lambda: db.table("t").read(as_of=5)) == (
        "epoch 5 of t is no longer kept\nhint: the oldest kept epoch of t is 6"
    )
    assert said(lambda: db.sql("SELECT * FROM plain AS OF EPOCH 5")) == (
        "epoch 5 of plain is no longer kept\nhint: the oldest kept epoch of plain is 6"
    )
    assert said(lambda: db.view("v").read(as_of=1)) == "epoch 1 is no longer kept\nhint: the oldest kept epoch is 6"
    assert [change.weights() for _, change in db.view("v").changes(since=4)] == [
        {("a", 1): -1, ("a", 3): 1},
        {("b", 5): -1},
    ]
    assert said(lambda: list(db.view("plain").changes(since=4))) == (
        "the changes since epoch 4 are no longer kept\nhint: the oldest kept epoch is 6"
    )
    db.sql("INSERT INTO t VALUES (4, 'a', 1)")
    assert [change.weights() for _, change in db.view("v").changes(since=6)] == [{("a", 3): -1, ("a", 4): 1}]
    assert db.verify().equal


@pytest.mark.spark_long
def test_shorter_than_the_database(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect, keep="1 hour")
    db.sql("CREATE VIEW over_v AS SELECT max(total) AS most FROM v")
    clock.go(3600.0)
    db.compact()
    state = db._store.refresh()
    relation = state.find("v")
    assert relation is not None
    assert (state.oldest, relation.oldest, sum(file.rows for file in relation.files)) == (0, 7, 1)
    assert said(lambda: db.view("v").read(as_of=5)) == (
        "epoch 5 of v is no longer kept\nhint: the oldest kept epoch of v is 7"
    )
    assert said(lambda: db.sql("SELECT * FROM t JOIN v ON t.g = v.g AS OF EPOCH 6")) == (
        "epoch 6 of v is no longer kept\nhint: the oldest kept epoch of v is 7"
    )
    assert said(lambda: db.view("over_v").read(as_of=6)).startswith("there was no table named 'over_v' at epoch 6")
    assert said(lambda: list(db.view("v").changes(since=5))) == (
        "the changes since epoch 5 are no longer kept\nhint: the oldest kept epoch is 7"
    )
    assert said(lambda: list(db.view("over_v").changes(since=6))) == (
        "the changes since epoch 6 are no longer kept\nhint: the oldest kept epoch is 7"
    )
    assert bag(db.table("t").read(as_of=4).rows()) == bag([(1, "a", 1), (2, "b", 5)])
    assert bag(db.view("plain").read(as_of=5).rows()) == bag(ROWS[5])
    assert len(list(db.view("plain").changes(since=0))) == 3
    db.sql("INSERT INTO t VALUES (4, 'c', 1)")
    assert [change.weights() for _, change in db.view("v").changes(since=7)] == [{("c", 1): 1}]
    assert db.verify().equal


@pytest.mark.spark_long
def test_folding_does_not_hide_a_change(connect: Callable[..., vk.Database], clock: Clock) -> None:
    """A transaction that has read rows of a view which are gone and folded since does not commit."""
    db = shop(connect, keep="1 second")
    db.sql("CREATE TABLE seen (n BIGINT)")
    with db.transaction() as tx:
        tx.insert("seen", [(tx.sql("SELECT count(*) FROM v").rows()[0][0],)])
        other = connect()
        other.sql("DELETE FROM t")
        clock.go(60.0)
        other.compact()
        with pytest.raises(vk.errors.Conflict, match="'v' was changed and compacted since the transaction began"):
            tx.commit()
    assert db.sql("SELECT * FROM seen").rows() == []


@pytest.mark.spark_long
def test_a_demand_view_over_a_shorter_one(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect, keep="1 second")
    db.sql("CREATE MATERIALIZED VIEW late WITH (on = 'demand') AS SELECT sum(total) AS s, count(*) AS n FROM v")
    db.sql("INSERT INTO t VALUES (7, 'a', 10); INSERT INTO t VALUES (8, 'b', 1); DELETE FROM t WHERE id = 7")
    clock.go(600.0)
    db.compact()
    assert bag(db.view("v").read(as_of=7).rows()) == bag([("a", 3)])
    commit = db.sql("REFRESH late").commit
    assert commit is not None
    assert commit.changes["late"].weights() == {(3, 1): -1, (4, 2): 1}
    clock.go(600.0)
    db.compact()
    assert said(lambda: db.view("v").read(as_of=10)).endswith("the oldest kept epoch of v is 11")
    assert db.verify().equal


def test_until_its_own_time_is_over(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect)
    clock.go(2 * DAY)
    db.compact()
    relation = db._store.refresh().find("v")
    assert relation is not None
    before = sum(file.rows for file in relation.files)
    db.vacuum(grace=0)
    assert bag(db.view("v").read(as_of=4).rows()) == bag(ROWS[4])
    clock.go(29 * DAY)
    db.compact()
    relation = db._store.refresh().find("v")
    assert relation is not None
    assert (before, sum(file.rows for file in relation.files), relation.oldest) == (5, 1, 6)
    assert said(lambda: db.view("v").read(as_of=5)) == "epoch 5 is no longer kept\nhint: the oldest kept epoch is 6"
    assert db.view("v").read(as_of=6).rows() == [("a", 3)]
    assert db.vacuum(grace=0).files > 0
    assert db.view("v").read().rows() == [("a", 3)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_it_is_still_there_after_opening_again(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect)
    clock.go(2 * DAY)
    db.compact()
    state = db._store.refresh()
    kept = State.from_json(json.loads(json.dumps(state.to_json())))
    seen = {"chained": state.chained, "format": state.format}  # in the entry
    assert replace(kept, **seen) == state
    db.close()
    again = connect()
    assert bag(again.view("v").read(as_of=4).rows()) == bag(ROWS[4])
    assert said(lambda: again.sql("SELECT * FROM t AS OF EPOCH 4")).startswith("epoch 4 of t is no longer kept")


@pytest.mark.spark_long
def test_virtual_views_need_all_they_read(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect)
    db.sql("CREATE VIEW over_v AS SELECT max(total) AS most FROM v")
    db.sql("CREATE VIEW both AS SELECT v.g, t.id FROM v JOIN t ON v.g = t.g")
    db.sql("INSERT INTO t VALUES (5, 'c', 7)")
    db.sql("DELETE FROM t WHERE id = 5")
    clock.go(2 * DAY)
    db.compact()
    assert db.epoch == db._store.state.oldest == 10
    assert db.view("over_v").read(as_of=9).rows() == [(7,)]
    assert db.view("over_v").read(as_of=8).rows() == [(3,)]
    assert said(lambda: db.view("both").read(as_of=9)) == (
        "epoch 9 of both is no longer kept\nhint: the oldest kept epoch of both is 10"
    )
    assert bag(db.view("both").read(as_of=10).rows()) == bag([("a", 1), ("a", 3)])
    db.sql("ALTER VIEW over_v AS SELECT min(total) AS most FROM v")
    clock.go(DAY)
    db.compact()
    assert db.view("over_v").read(as_of=9).rows() == [(7,)], "the definition of that epoch is kept too"


@pytest.mark.spark_long
def test_replacing_with_another_keep(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect)
    query = "SELECT g, sum(x) AS total FROM t GROUP BY g"
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW plain WITH (keep = '30 days') AS {query}")
    db.sql(f"ALTER MATERIALIZED VIEW v WITH (keep = '2 days') AS {query}")
    assert (db.view("plain").options["keep"], db.view("v").options["keep"]) == (30 * DAY, 2 * DAY)
    clock.go(3 * DAY)
    db.compact()
    assert bag(db.view("plain").read(as_of=4).rows()) == bag(ROWS[4])
    assert said(lambda: db.view("v").read(as_of=4)) == (
        "epoch 4 of v is no longer kept\nhint: the oldest kept epoch of v is 8"
    )
    db.sql(f"ALTER MATERIALIZED VIEW v WITH (keep = '30 days') AS {query}")
    assert said(lambda: db.view("v").read(as_of=4)).endswith("v is 8"), "what is folded does not come back"
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW plain AS {query}")
    assert said(lambda: db.view("plain").read(as_of=4)) == (
        "epoch 4 is no longer kept\nhint: the oldest kept epoch is 8"
    )
    db.sql(f"ALTER MATERIALIZED VIEW plain WITH (keep = '30 days') AS {query}")
    assert bag(db.view("plain").read(as_of=4).rows()) == bag(ROWS[4]), "nothing of it was folded in between"
    assert db.verify().equal


@pytest.mark.spark_long
def test_a_dropped_view_is_kept_as_the_database_says(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect)
    db.sql("DROP VIEW v")
    assert bag(db.sql("SELECT * FROM v AS OF EPOCH 5").rows()) == bag(ROWS[5])
    clock.go(2 * DAY)
    db.compact()
    assert said(lambda: db.sql("SELECT * FROM v AS OF EPOCH 5")) == (
        "epoch 5 is no longer kept\nhint: the oldest kept epoch is 7"
    )
    assert "v" in db.vacuum(grace=0).relations


@pytest.mark.spark_long
def test_a_demand_view_is_stronger(connect: Callable[..., vk.Database], clock: Clock) -> None:
    """What a view that waits for REFRESH has still to read stays, whatever else is asked for."""
    db = shop(connect, keep="2 days")
    db.sql("CREATE MATERIALIZED VIEW late WITH (on = 'demand') AS SELECT sum(total) AS s, count(*) AS n FROM v")
    db.sql("INSERT INTO t VALUES (7, 'a', 10); INSERT INTO t VALUES (8, 'b', 1); DELETE FROM t WHERE id = 7")
    clock.go(10 * DAY)
    db.compact()
    assert db._store.refresh().oldest == 7
    assert bag(db.view("v").read(as_of=8).rows()) == bag([("a", 13)])
    commit = db.sql("REFRESH late").commit
    assert commit is not None
    assert commit.changes["late"].weights() == {(3, 1): -1, (4, 2): 1}
    db.compact()
    assert said(lambda: db.view("v").read(as_of=8)).endswith("the oldest kept epoch is 10")
    assert db.verify().equal


@pytest.mark.spark_long
def test_what_is_kept_beside_a_view_has_no_history(connect: Callable[..., vk.Database], clock: Clock) -> None:
    db = shop(connect)
    (key,) = db.view("v").definition.hidden
    db.compact()
    state = db._store.refresh()
    kept = state.relations[key]
    assert (kept.oldest, sum(file.rows for file in kept.files), state.oldest) == (6, 1, 0)
    assert bag(db.view("v").read(as_of=4).rows()) == bag(ROWS[4])
    for number in range(10, 40):
        db.sql(f"INSERT INTO t VALUES ({number}, 'a', 1)")
    db.sql("DELETE FROM t WHERE id >= 10")
    assert db.sql("SELECT * FROM v").rows() == [("a", 3)]
    assert bag(db.view("v").read(as_of=4).rows()) == bag(ROWS[4])
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_the_times_of_commits_do_not_pile_up(connect: Callable[..., vk.Database]) -> None:
    """A view that is kept for years does not make the ledger remember every minute of them."""
    db = shop(connect, keep="1000 days")
    state = db._store.refresh()
    at = state.committed_at
    for _ in range(2_000):
        at += MARK_SECONDS
        entry = {"kind": "commit", "number": state.number + 1, "epoch": state.epoch + 1, "at": at, "hash": ""}
        state = state.apply(entry)
    assert len(state.marks) > 2_000
    later = at + 10 * DAY
    assert state.horizon(later) == state.epoch
    folded = {"kind": "maintenance", "number": state.number + 1, "at": later, "oldest": state.epoch, "hash": ""}
    thin = state.apply(folded)
    assert 2 < len(thin.marks) < 10
    view = thin.find("v")
    assert view is not None
    assert thin.horizon_of(view, later) == 0
    near = thin.horizon_of(view, at + 999.5 * DAY)
    assert 0 < near <= state.horizon_of(view, at + 999.5 * DAY)
