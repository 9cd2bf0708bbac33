"""Subscriptions that derive their frames while the channel distributes: none is lost, repeated or another's."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from tests.feed.copies import Copy
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.feed import feeds
from viewkeeper.feed.channels import Channel
from viewkeeper.feed.followed import Followed
from viewkeeper.feed.shared_changes import Parts, SharedChanges
from viewkeeper.feed.subscription import MOST_FRAMES
from viewkeeper.store.store import Store
from viewkeeper.transaction.change import Change


@pytest.fixture(params=["sail"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(connect: Callable[..., vk.Database]) -> vk.Database:
    db = connect(durability="process")
    db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING)")
    db.sql("CREATE VIEW by_region AS SELECT region, count(*) AS n FROM orders GROUP BY region")
    return db


def test_one_that_has_caught_up_during_a_distribution(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Copy(shop.subscribe("by_region", where="region = 'EU'")).follow(shop.epoch)
    late = Copy(shop.subscribe("by_region", where="region = 'US'"))
    before = shop._store.hold()
    derive = Channel.derive

    def slowly(self: Channel, *given: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(Store, "hold", lambda _: before)  # it began before the commit, and ends now
            frame = late.subscription.poll()
        if frame is not None:
            late.apply(frame)
        return derive(self, *given)

    monkeypatch.setattr(Channel, "derive", slowly)
    shop.sql("INSERT INTO orders VALUES (1, 'EU'), (2, 'US')")
    live.follow(shop.epoch)
    monkeypatch.setattr(Channel, "derive", derive)
    late.follow(shop.epoch)
    assert late.rows == {("US", 1): 1}


def test_one_that_is_ahead_of_its_channel(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Copy(shop.subscribe("orders")).follow(shop.epoch)
    monkeypatch.setattr(feeds, "commits_after", lambda *_: [])  # the channel stays where it is
    shop.sql("INSERT INTO orders VALUES (1, 'EU')")
    ahead = Copy(shop.subscribe("orders")).follow(shop.epoch)
    assert ahead.subscription.channel is copy.subscription.channel
    assert ahead.subscription.is_live
    with shop._feeds.changed:
        ahead.subscription.fall_behind()
    shop.sql("INSERT INTO orders VALUES (2, 'EU')")
    ahead.follow(shop.epoch)  # checks that no frame comes twice
    assert ahead.rows == {(1, "EU"): 1, (2, "EU"): 1}


def test_a_snapshot_is_not_dropped_with_frames_that_are_too_many(shop: vk.Database) -> None:
    shop.sql("INSERT INTO orders VALUES (-1, 'EU')")
    shop.sql("INSERT INTO orders VALUES (-2, 'EU')")
    slow = Copy(shop.subscribe("orders"))
    slow.subscription._catch_up()  # a thread that stops between deriving and reading
    for number in range(MOST_FRAMES + 2):
        shop.sql(f"INSERT INTO orders VALUES ({number}, 'EU')")
    Copy(shop.subscribe("orders")).follow(shop.epoch)
    slow.follow(shop.epoch)
    assert sum(slow.rows.values()) == MOST_FRAMES + 4


def test_values_of_others_are_never_derived_instead(shop: vk.Database) -> None:
    class Slow(Channel):
        """Two threads that both have remembered what they derive before either goes on."""

        both = threading.Barrier(2)
        remembered: Any = None

        @property
        def _bound(self) -> Any:
            return self.remembered

        @_bound.setter
        def _bound(self, given: Any) -> None:
            self.remembered = given
            if given is not None:
                self.both.wait(20)

    followed = shop.subscribe("by_region", where="region = 'EU'").channel.followed
    channel = Slow(followed, ("region",), shop.epoch)
    found: dict[str, str] = {}

    def ask(region: str) -> None:
        found[region] = channel.source(frozenset(((region,),))).text

    threads = [threading.Thread(target=ask, args=(region,)) for region in ("EU", "US")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert all(f"'{region}'" in found[region] for region in ("EU", "US"))


def test_before_the_snapshot_nothing_is_handed_out(shop: vk.Database) -> None:
    asked = shop.subscribe("orders", every="demand")
    assert asked.epoch == -1  # who went on after an epoch before the snapshot would never get it
    assert asked.next() is not None
    assert asked.epoch == shop.epoch


def test_those_that_resume_at_the_same_epoch_share_what_is_derived(
    shop: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = shop.epoch
    for number in range(3):
        shop.sql(f"INSERT INTO orders VALUES ({number}, 'EU')")
    derived: list[tuple[int, int]] = []
    change = Followed.change

    def counted(self: Followed, held: Any, since: int, until: int) -> Any:
        derived.append((since, until))
        return change(self, held, since, until)

    monkeypatch.setattr(Followed, "change", counted)
    copies = [Copy(shop.subscribe("by_region", since=begin)) for _ in range(5)]
    threads = [threading.Thread(target=copy.follow, args=(shop.epoch,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [copy.rows for copy in copies] == [{("EU", 3): 1}] * 5
    assert derived == [(epoch, epoch + 1) for epoch in range(begin, shop.epoch)]


@pytest.mark.parametrize("where", [None, "region = 'US'"])
def test_what_takes_long_is_handed_out_by_and_by(
    shop: vk.Database, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    monkeypatch.setattr("viewkeeper.feed.subscription.STEP_SECONDS", 0.0)
    begin = shop.epoch
    for number in range(6):
        shop.sql(f"INSERT INTO orders VALUES ({number}, '{'US' if number == 4 else 'EU'}')")
    slow = Copy(shop.subscribe("by_region", since=begin, where=where))
    frame = slow.subscription.poll()
    assert slow.subscription.epoch == begin + 1  # the others are derived when they are asked for
    if frame is not None:
        slow.apply(frame)
    slow.follow(shop.epoch)
    assert slow.rows == ({("EU", 5): 1, ("US", 1): 1} if where is None else {("US", 1): 1})
    assert len(slow.epochs) == (6 if where is None else 1)


def change_of(rows: int) -> Parts:
    """A change that inserts some rows."""
    table = pa.table({"k": list(range(rows)), WEIGHT: [1] * rows})
    return Parts(Change(Schema((Column("k", parse_type("BIGINT")),)), lambda: table), None)


def test_what_fails_for_one_is_derived_by_the_others() -> None:
    shared, begun, end = SharedChanges(), threading.Event(), threading.Event()

    def fail() -> Any:
        begun.set()
        end.wait(20)
        raise TimeoutError

    def first() -> None:
        with pytest.raises(TimeoutError):
            shared.get(1, fail)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(20)
    threading.Timer(0.1, end.set).start()
    made = change_of(1)
    assert shared.get(1, lambda: made) is made
    thread.join(20)
    assert shared.get(1, lambda: made) is made


def test_only_so_many_rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.feed.shared_changes.MOST_ROWS", 100)
    shared = SharedChanges()
    made: list[int] = []

    def derive(key: int, rows: int) -> Parts:
        made.append(key)
        return change_of(rows)

    for key, rows in ((1, 10), (2, 10), (1, 10), (3, 85), (1, 10), (2, 10), (4, 101), (1, 10)):
        shared.get(key, functools.partial(derive, key, rows))
    assert made == [1, 2, 3, 2, 4, 1]
