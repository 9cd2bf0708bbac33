"""Subscriptions: frames come exactly once, in order, without gaps; bound, resumed, slow and in every quality."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from tests.feed.copies import Copy, bag
from viewkeeper.errors import Gone, NotFound, SqlError, StorageError
from viewkeeper.feed.subscription import MOST_FRAMES

TABLES = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, region STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, total BIGINT);
CREATE TABLE edges (a BIGINT, b BIGINT);
INSERT INTO customers VALUES (1, 'EU'), (2, 'US'), (3, NULL);
"""
BY_REGION = (
    "SELECT region, count(*) AS n, sum(total) AS total FROM orders JOIN customers c ON customer = c.id GROUP BY region"
)
PATHS = (
    "WITH RECURSIVE p(a, b) AS (SELECT a, b FROM edges UNION SELECT p.a, e.b FROM p JOIN edges e ON p.b = e.a) "
    "SELECT a, b FROM p"
)


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    db.sql(TABLES)
    db.sql(f"CREATE VIEW by_region AS {BY_REGION}; CREATE MATERIALIZED VIEW stored AS {BY_REGION}")
    db.sql(f"CREATE VIEW paths AS {PATHS}; CREATE MATERIALIZED VIEW stored_paths AS {PATHS}")
    return db


def steps(db: vk.Database) -> None:
    """Some transactions: inserts, an update of a key, deletes, several tables at once, and no net effect."""
    db.sql("INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20), (3, 2, 5), (4, 3, 1)")
    with db.transaction() as tx:
        tx.sql("UPDATE customers SET region = 'US' WHERE id = 1")
        tx.sql("INSERT INTO edges VALUES (1, 2), (2, 3), (2, 3)")
        tx.sql("DELETE FROM orders WHERE id = 3")
    db.sql("UPDATE orders SET id = 7, total = total + 1 WHERE id = 2")
    with db.transaction() as tx:
        tx.sql("INSERT INTO edges VALUES (3, 1)")
        tx.sql("DELETE FROM edges WHERE a = 1")
    db.sql("DELETE FROM orders")


def contents(db: vk.Database, view: str, epoch: int | None = None) -> dict[tuple[Any, ...], int]:
    suffix = "" if epoch is None else f" AS OF EPOCH {epoch}"
    return bag(db.sql(f"SELECT * FROM {view}{suffix}").rows())


def test_copies_equal_their_views(shop: vk.Database) -> None:
    names = ["customers", "orders", "edges", "by_region", "stored", "paths", "stored_paths"]
    copies = {name: Copy(shop.subscribe(name)) for name in names}
    late = {name: Copy(shop.subscribe(name, since=shop.epoch)) for name in names}
    for name in names:
        late[name].rows.update(contents(shop, name))
    steps(shop)
    for name in names:
        copies[name].follow(shop.epoch)
        late[name].follow(shop.epoch)
        assert copies[name].rows == contents(shop, name), name
        assert late[name].rows == contents(shop, name), name
    assert copies["paths"].epochs == copies["stored_paths"].epochs
    assert next(each for each in shop.ls(hidden=True) if each["name"] == "paths")["stored_rows"] == 0


def test_a_virtual_view_and_its_stored_twin_have_equal_feeds(shop: vk.Database) -> None:
    begin = shop.epoch
    steps(shop)
    for virtual, stored in (("by_region", "stored"), ("paths", "stored_paths")):
        frames = {}
        for name in (virtual, stored):
            with shop.subscribe(name, since=begin, until=shop.epoch) as subscription:
                frames[name] = [(frame.epoch, frame.committed_at, frame.change.weights()) for frame in subscription]
        assert frames[virtual] == frames[stored]
        assert len(frames[virtual]) >= 2
        for epoch, _, weights in frames[virtual]:
            before, after = contents(shop, virtual, epoch - 1), contents(shop, virtual, epoch)
            after.subtract(before)  # type: ignore[attr-defined]
            assert weights == {row: weight for row, weight in after.items() if weight}


@pytest.mark.parametrize(
    ("view", "where", "part"),
    [
        ("by_region", "region = 'US'", lambda row: row[0] == "US"),
        ("stored", "region = 'US'", lambda row: row[0] == "US"),
        ("by_region", "n >= 2 OR region IS NULL", lambda row: row[1] >= 2 or row[0] is None),
        ("orders", "total > 9 AND customer = 1", lambda row: row[2] > 9 and row[1] == 1),
        ("paths", "a = 2", lambda row: row[0] == 2),
        ("paths", "b = 3 AND a = 2", lambda row: row == (2, 3)),
        ("by_region", "region = 'it''s'", lambda row: False),
    ],
)
def test_bound_subscriptions(shop: vk.Database, view: str, where: str, part: Callable[[tuple[Any, ...]], bool]) -> None:
    copy = Copy(shop.subscribe(view, where=where))
    resumed = Copy(shop.subscribe(view, where=where, since=0))
    steps(shop)
    for one in (copy, resumed):
        one.follow(shop.epoch)
        assert one.rows == {row: n for row, n in contents(shop, view).items() if part(row)}
    middle = shop.epoch - 3
    with shop.subscribe(view, where=where, since=middle, until=shop.epoch) as rest:
        copy.rows = type(copy.rows)({row: n for row, n in contents(shop, view, middle).items() if part(row)})
        copy.epochs = [middle]
        for frame in rest:
            copy.apply(frame)
    assert copy.rows == {row: n for row, n in contents(shop, view).items() if part(row)}


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_many_bound_subscriptions_share_one_derivation(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from viewkeeper.feed.followed import Followed

    derived: list[str] = []
    change = Followed.change

    def counted(self: Followed, *given: Any) -> Any:
        derived.append(self.text)
        return change(self, *given)

    shop.sql("CREATE VIEW totals AS SELECT customer, sum(total) AS total FROM orders GROUP BY customer")
    copies = {n: Copy(shop.subscribe("totals", where=f"customer = {n}")) for n in range(1000)}
    for copy in copies.values():
        copy.follow(shop.epoch)
    monkeypatch.setattr(Followed, "change", counted)
    shop.sql("INSERT INTO orders SELECT id, id % 2000, id FROM range(3000)")
    for number, copy in copies.items():
        copy.follow(shop.epoch)
        assert copy.rows == {(number, number + (number + 2000 if number < 1000 else 0)): 1}
    assert derived == [""]


def test_a_query_is_followed(shop: vk.Database) -> None:
    query = "SELECT DISTINCT region FROM by_region WHERE total > 5"
    copy = Copy(shop.subscribe(query))
    steps(shop)
    copy.follow(shop.epoch)
    assert copy.rows == bag(shop.sql(query).rows())
    assert len(copy.epochs) >= 3


def test_redefinitions_are_changes(shop: vk.Database) -> None:
    view, query = Copy(shop.subscribe("by_region")), Copy(shop.subscribe("SELECT * FROM by_region WHERE n > 0"))
    shop.sql("INSERT INTO orders VALUES (1, 1, 10), (2, 2, 20)")
    shop.sql("CREATE OR REPLACE VIEW by_region AS " + BY_REGION.replace("GROUP BY", "WHERE region = 'US' GROUP BY"))
    for copy in (view, query):
        copy.follow(shop.epoch)
        assert copy.rows == {("US", 1, 20): 1}
    with shop.subscribe("by_region", since=shop.epoch - 2, every="demand") as gap:
        frame = gap.next()
        assert frame is not None
        assert frame.change.weights() == {("US", 1, 20): 1}


def test_dropping_ends_a_subscription(shop: vk.Database) -> None:
    subscription = shop.subscribe("by_region")
    Copy(subscription).follow(shop.epoch)
    shop.sql("DROP VIEW by_region")
    with pytest.raises(NotFound, match=f"by_region was dropped in epoch {shop.epoch}"):
        subscription.next(20.0)


def test_commits_of_other_handles_are_followed(shop: vk.Database) -> None:
    copy = Copy(shop.subscribe("by_region")).follow(shop.epoch)
    with vk.connect(shop.path, engine=shop._store.engine.kind) as other:
        steps(other)
        copy.follow(other.epoch)
    assert copy.rows == contents(shop, "by_region")


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_slow_subscriber_gets_the_net_of_what_it_missed(shop: vk.Database) -> None:
    slow = shop.subscribe("orders")
    first = slow.next()
    assert first is not None
    assert first.snapshot
    for number in range(MOST_FRAMES + 5):
        shop.sql(f"INSERT INTO orders VALUES ({number}, 1, 1)")
        if number % 2:
            shop.sql(f"DELETE FROM orders WHERE id = {number}")
    copy = Copy(slow).follow(shop.epoch)
    assert copy.rows == contents(shop, "orders")
    assert len(copy.epochs) <= 2
    again = Copy(shop.subscribe("orders", since=first.epoch)).follow(shop.epoch)
    assert (again.rows, again.epochs) == (copy.rows, [shop.epoch])


def test_the_net_of_some_time(shop: vk.Database) -> None:
    timed = Copy(shop.subscribe("orders", every="0.2 seconds"))
    asked = shop.subscribe("orders", every="demand", snapshot=False)
    assert asked.next() is None
    steps(shop)
    timed.follow(shop.epoch)
    assert timed.rows == contents(shop, "orders") == {}
    assert asked.next() is None  # nothing is left of it
    shop.sql("INSERT INTO orders VALUES (1, 1, 1)")
    shop.sql("INSERT INTO orders VALUES (2, 1, 1)")
    frame = asked.poll()
    assert frame is not None
    assert (frame.epoch, frame.change.weights()) == (shop.epoch, {(1, 1, 1): 1, (2, 1, 1): 1})
    assert asked.poll() is None


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_history_that_is_gone(connect: Callable[..., vk.Database]) -> None:
    db = connect("short", keep="0 seconds")
    db.sql("CREATE TABLE t (k BIGINT); CREATE VIEW v AS SELECT k FROM t WHERE k > 1")
    for number in range(5):
        db.sql(f"INSERT INTO t VALUES ({number})")
    db.compact()
    oldest = db._store.refresh().oldest
    assert oldest > 3
    for what in ("t", "v", "SELECT k FROM v", "SELECT count(*) AS n FROM t"):
        with pytest.raises(Gone) as caught:
            db.subscribe(what, since=3)
        assert caught.value.oldest == oldest
        assert f"the oldest kept epoch is {oldest}" in str(caught.value)
        frame = db.subscribe(what, since=3, reset=True).next()
        assert frame is not None
        assert (frame.snapshot, frame.reset, frame.epoch) == (True, True, db.epoch)


def test_until_and_the_end(shop: vk.Database) -> None:
    begin = shop.epoch
    steps(shop)
    frames = list(shop.subscribe("orders", since=begin, until=begin + 2))
    assert [frame.epoch for frame in frames] == [begin + 1, begin + 2]
    waiting = shop.subscribe("orders", snapshot=False)
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(list(waiting)))
    thread.start()
    waiting.close()
    thread.join(20)
    assert ended == [[]]
    left = shop.subscribe("orders", snapshot=False)
    shop.close()
    assert left.next() is None
    with pytest.raises(StorageError):
        shop.subscribe("orders")


def test_asynchronously(shop: vk.Database) -> None:
    async def first_two() -> list[dict[tuple[Any, ...], int]]:
        found = []
        with shop.subscribe("orders") as subscription:
            async for frame in subscription:
                found.append(frame.change.weights())
                if len(found) == 2:
                    break
                shop.sql("INSERT INTO orders VALUES (1, 1, 1)")
        return found

    assert asyncio.run(first_two()) == [{}, {(1, 1, 1): 1}]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": "nothing"}, "there is no table named 'nothing'"),
        ({"what": "SELECT x FROM orders"}, "there is no column 'x'"),
        ({"what": "SELECT stddev(total) FROM orders"}, "stddev rounds by the order of the rows"),
        ({"what": "orders", "since": 999}, "there is no epoch 999 yet"),
        ({"what": "orders", "every": "soon"}, "'soon' is not a duration"),
        ({"what": "orders", "every": 0}, "every is a duration above 0"),
        ({"what": "orders", "precision": "rough"}, "there is no precision 'rough'"),
        ({"what": "orders", "where": "1 = 1) OR (1 = 1"}, "this is not a condition: 1 = 1) OR (1 = 1"),
        ({"what": "orders", "where": " "}, "this is not a condition:  "),
        ({"what": "orders", "where": "nothing = 1"}, "orders has no column 'nothing'"),
        (
            {"what": "orders", "where": "id IN (SELECT id FROM customers)"},
            "a condition on orders cannot contain a subquery",
        ),
        ({"what": "orders", "where": "count(*) > 1"}, "an aggregate cannot stand in WHERE"),
        ({"what": "orders", "where": "total = 1; DROP TABLE orders"}, "this is not a condition"),
        ({"what": "orders", "where": "total = 1 --"}, None),
    ],
)
def test_mistakes(shop: vk.Database, arguments: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert shop.subscribe(**arguments).next() is not None
        return
    with pytest.raises(vk.errors.ViewkeeperError) as caught:
        shop.subscribe(**arguments)
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, (SqlError, NotFound, vk.errors.NotMaintainable))
