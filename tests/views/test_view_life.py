"""The life of views, through SQL and Python, on both engines: made, read, replaced, refreshed, verified, dropped."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.errors import AlreadyExists, NotFound, SqlError

TABLES = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING NOT NULL, amount DECIMAL(8,2));
INSERT INTO orders VALUES (1, 'EU', 10), (2, 'US', 20), (3, 'EU', 5)
"""
TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT region, sum(amount) AS total FROM orders GROUP BY region"


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    db.sql(TABLES)
    return db


def caught(action: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as found:
        action()
    return str(found.value)


def rows(db: vk.Database, text: str) -> list[tuple[Any, ...]]:
    return sorted(db.sql(text).rows(), key=repr)


def test_a_materialized_view_follows_its_table(shop: vk.Database) -> None:
    made = shop.sql(TOTALS).commit
    assert made is not None
    assert made.changes["totals"].weights() == {("EU", Decimal(15)): 1, ("US", Decimal(20)): 1}
    commit = shop.sql("DELETE FROM orders WHERE id = 3").commit
    assert commit is not None
    assert set(commit.changes) == {"orders", "totals"}
    assert commit.changes["totals"].weights() == {("EU", Decimal(15)): -1, ("EU", Decimal(10)): 1}
    assert commit.report["totals"].strategy == "incremental"
    view = shop.view("totals")
    assert sorted(view.read().rows()) == [("EU", Decimal(10)), ("US", Decimal(20))]
    assert sorted(view.read(as_of=made.epoch).rows()) == [("EU", Decimal(15)), ("US", Decimal(20))]
    feed = {epoch: change.weights() for epoch, change in view.changes(since=made.epoch)}
    assert feed == {commit.epoch: {("EU", Decimal(15)): -1, ("EU", Decimal(10)): 1}}
    assert view.describe()["column"].to_pylist() == ["region", "total"]
    assert (view.kind, view.sql) == ("materialized", TOTALS.split(" AS ", 1)[1])


def test_a_virtual_view_stores_nothing_and_shows_the_same(shop: vk.Database) -> None:
    shop.sql("CREATE VIEW big (nr, cents) AS SELECT id, amount * 100 FROM orders WHERE amount >= 10")
    made = shop.epoch
    assert rows(shop, "SELECT nr FROM big") == [(1,), (2,)]
    changed = shop.sql("UPDATE orders SET amount = 30 WHERE id = 3").commit
    assert changed is not None
    assert rows(shop, "SELECT b.nr FROM big AS b JOIN orders AS o ON b.nr = o.id WHERE o.region = 'EU'") == [(1,), (3,)]
    assert rows(shop, f"SELECT nr FROM big AS OF EPOCH {made}") == [(1,), (2,)]
    assert [(epoch, change.weights()) for epoch, change in shop.view("big").changes(since=made)] == [
        (changed.epoch, {(3, Decimal(3000)): 1})
    ]
    assert shop.ls()[0]["files"] == 0
    with shop.transaction() as tx:
        tx.sql("DELETE FROM orders WHERE id = 1")
        assert sorted(tx.sql("SELECT nr FROM big").rows()) == [(2,), (3,)]
        assert rows(shop, "SELECT nr FROM big") == [(1,), (2,), (3,)]


@pytest.mark.spark_long
def test_views_over_views_in_one_transaction(shop: vk.Database) -> None:
    with shop.transaction() as tx:
        tx.sql("CREATE VIEW eu AS SELECT * FROM orders WHERE region = 'EU'")
        tx.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM eu")
        tx.sql("INSERT INTO orders VALUES (4, 'EU', 1)")
    assert shop.sql("SELECT n FROM n").rows() == [(3,)]
    shop.sql("DELETE FROM orders WHERE region = 'EU'")
    assert shop.sql("SELECT n FROM n").rows() == [(0,)]


@pytest.mark.spark_long
def test_replacing_a_view_gives_the_difference(shop: vk.Database) -> None:
    shop.sql(TOTALS)
    before = shop.epoch
    text = "SELECT region, sum(amount) AS total FROM orders WHERE amount > 5 GROUP BY region"
    changed = shop.sql(f"ALTER MATERIALIZED VIEW totals AS {text}").commit
    assert changed is not None
    assert changed.changes["totals"].weights() == {("EU", Decimal(15)): -1, ("EU", Decimal(10)): 1}
    assert shop.view("totals").sql == text
    assert sorted(shop.view("totals").read(as_of=before).rows()) == [("EU", Decimal(15)), ("US", Decimal(20))]
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW totals WITH (refresh = 'full') AS SELECT count(*) AS n FROM orders")
    assert shop.sql("SELECT * FROM totals").rows() == [(3,)]
    assert shop.view("totals").options["refresh"] == "full"
    full = shop.sql("DELETE FROM orders WHERE id = 1").commit
    assert full is not None
    assert full.report["totals"].strategy == "full"
    shop.sql("CREATE VIEW w AS SELECT id FROM orders; CREATE OR REPLACE VIEW w AS SELECT id + 1 AS id FROM orders")
    assert rows(shop, "SELECT id FROM w") == [(3,), (4,)]
    assert rows(shop, f"SELECT id FROM w AS OF EPOCH {shop.epoch - 1}") == [(2,), (3,)]


@pytest.mark.spark_long
def test_a_demand_view_waits_for_refresh(shop: vk.Database) -> None:
    shop.sql("CREATE MATERIALIZED VIEW ids WITH (on = 'demand') AS SELECT id FROM orders")
    commit = shop.sql("INSERT INTO orders VALUES (4, 'EU', 1)").commit
    assert commit is not None
    assert set(commit.changes) == {"orders"}
    assert rows(shop, "SELECT id FROM ids") == [(1,), (2,), (3,)]
    assert shop.verify("ids").equal
    shop.sql("DELETE FROM orders WHERE id = 1")
    refreshed = shop.sql("REFRESH MATERIALIZED VIEW ids").commit
    assert refreshed is not None
    assert refreshed.changes["ids"].weights() == {(4,): 1, (1,): -1}
    assert rows(shop, "SELECT id FROM ids") == [(2,), (3,), (4,)]
    assert shop.verify("ids").equal
    assert "is a table: there is nothing to refresh" in caught(lambda: shop.sql("REFRESH TABLE orders"), SqlError)


@pytest.mark.spark_long
def test_dropping(shop: vk.Database) -> None:
    shop.sql(TOTALS)
    shop.sql("CREATE VIEW top AS SELECT region FROM totals WHERE total > 15")
    assert (
        caught(lambda: shop.sql("DROP TABLE orders"), SqlError)
        == """orders cannot be dropped: top, totals read it
at line 1, column 12:
  DROP TABLE orders
             ^^^^^^
hint: DROP TABLE orders CASCADE drops them too"""
    )
    assert "top reads it" in caught(lambda: shop.sql("DROP VIEW totals"), SqlError)
    assert (
        caught(lambda: shop.sql("DROP MATERIALIZED VIEW top"), SqlError)
        == """top is a view
at line 1, column 24:
  DROP MATERIALIZED VIEW top
                         ^^^
hint: DROP VIEW top"""
    )
    assert "hint: DROP TABLE orders" in caught(lambda: shop.sql("DROP VIEW orders"), SqlError)
    epoch = shop.epoch
    shop.sql("DROP TABLE orders CASCADE")
    assert shop.ls(hidden=True) == []
    assert rows(shop, f"SELECT region FROM top AS OF EPOCH {epoch}") == [("US",)]
    shop.sql("DROP VIEW IF EXISTS top; DROP MATERIALIZED VIEW IF EXISTS totals")
    assert "there is no" in caught(lambda: shop.sql("DROP VIEW top"), NotFound)


@pytest.mark.spark_long
def test_names_that_are_taken(shop: vk.Database) -> None:
    shop.sql("CREATE VIEW v AS SELECT 1 AS a")
    text = "there is already a view named 'v'\nhint: DROP VIEW v"
    assert caught(lambda: shop.sql("CREATE VIEW v AS SELECT 2 AS a"), AlreadyExists).startswith(text)
    assert caught(lambda: shop.sql("CREATE MATERIALIZED VIEW v AS SELECT 2 AS a"), AlreadyExists).startswith(text)
    assert shop.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 2 AS a").commit is None
    assert "there is already a table" in caught(lambda: shop.sql("CREATE VIEW orders AS SELECT 1 AS a"), AlreadyExists)
    assert caught(lambda: shop.sql("INSERT INTO v VALUES (1)"), SqlError).startswith(
        "v is a view: its rows come from its query alone\n"
    )


@pytest.mark.spark_long
def test_reserved_column_names(shop: vk.Database) -> None:
    for text in (
        "CREATE VIEW v AS SELECT 1 AS _weight",
        "CREATE MATERIALIZED VIEW v (_weight) AS SELECT id FROM orders",
    ):
        told = caught(lambda text=text: shop.sql(text), SqlError)  # type: ignore[misc]
        assert told.startswith("'_weight' is a reserved column name\nat line 1, column ")


@pytest.mark.spark_long
def test_hints_can_be_typed(shop: vk.Database) -> None:
    shop.sql("CREATE VIEW `v w` AS SELECT id FROM orders; CREATE VIEW x AS SELECT id FROM `v w`")
    assert "hint: DROP VIEW `v w` CASCADE" in caught(lambda: shop.sql("DROP VIEW `v w`"), SqlError)
    assert "hint: ALTER VIEW `v w` AS" in caught(
        lambda: shop.sql("ALTER MATERIALIZED VIEW `v w` AS SELECT 1"), SqlError
    )
    assert "hint: SHOW VIEWS" in caught(lambda: shop.sql("ALTER VIEW orders AS SELECT 1"), SqlError)
    assert "hint: SHOW VIEWS" in caught(lambda: shop.sql("VERIFY orders"), NotFound)
    assert "hint: DROP VIEW `v w`, or CREATE OR REPLACE VIEW `v w`" in caught(
        lambda: shop.sql("CREATE VIEW `v w` AS SELECT 1 AS a"), AlreadyExists
    )


def test_verify_and_explain(shop: vk.Database) -> None:
    shop.sql(TOTALS)
    shop.sql("CREATE VIEW w AS SELECT id FROM orders")
    certificate = shop.verify()
    assert (certificate.equal, certificate.rows, certificate.epoch) == (True, 2, shop.epoch)
    assert [row[:4] for row in shop.sql("VERIFY VIEW totals").rows()] == [("totals", True, shop.epoch, 2)]
    assert shop.sql("VERIFY").rows()[0][5] is None
    assert "is a table, not a view" in caught(lambda: shop.verify("orders"), NotFound)
    text = shop.explain("totals")
    assert "totals" in text
    assert [line for (line,) in shop.sql("EXPLAIN VIEW totals").rows()] == text.splitlines()
    assert shop.view("totals").explain() == text
    assert isinstance(json.loads(shop.explain("totals", format="json")), dict)
    assert isinstance(json.loads(shop.view("w").explain(format="json")), dict)


@pytest.mark.spark_long
def test_explain_of_an_update_passes_by_what_does_not_read_the_column(shop: vk.Database) -> None:
    shop.sql("CREATE MATERIALIZED VIEW per_region AS SELECT region, count(*) AS n FROM orders GROUP BY region")
    shop.sql("CREATE VIEW ids AS SELECT id FROM orders; CREATE VIEW dear AS SELECT id FROM orders WHERE amount > 9")
    assert [line for (line,) in shop.sql("EXPLAIN UPDATE orders SET amount = 1").rows()] == [
        "UPDATE changes orders: only amount of its rows",
        "  reaches dear, a view that stores nothing",
        "  does not reach ids, which does not read amount",
        "  does not reach per_region, which does not read amount",
    ]
    commit = shop.sql("UPDATE orders SET amount = 1").commit
    assert commit is not None
    assert set(commit.changes) == {"orders"}


def test_everything_is_there_after_reopening(connect: Callable[..., vk.Database], engine: str) -> None:
    with connect() as db:
        db.sql(TABLES)
        db.sql(TOTALS)
        db.sql("CREATE VIEW w AS SELECT id FROM orders")
    with connect() as db:
        db.sql("INSERT INTO orders VALUES (9, 'AS', 9)")
        assert rows(db, "SELECT * FROM totals") == [("AS", Decimal(9)), ("EU", Decimal(15)), ("US", Decimal(20))]
        assert rows(db, "SELECT * FROM w") == [(1,), (2,), (3,), (9,)]
        assert db.verify().equal
