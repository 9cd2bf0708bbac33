"""Risch and Sköld 1999, section 1.4: the rule monitor_items of the factory inventory, strict, nervous and per item."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from tests.marks import spark_long
from tests.papers.test_risch_skold import inventory

BELOW = "SELECT q.item FROM quantity q JOIN threshold t ON t.item = q.item WHERE q.amount < t.amount"
"""cnd_monitor_items."""

ORDER = (
    "INSERT INTO orders SELECT i.item, m.amount - q.amount FROM inserted i "
    "JOIN max_stock m ON m.item = i.item JOIN quantity q ON q.item = i.item"
)
"""act_monitor_items: order(i, max_stock(i) - quantity(i))."""

Orders = dict[tuple[str, int], int]


def factory(db: vk.Database, semantics: str = "STRICT", source: str = "cnd_monitor_items") -> None:
    """The paper's database with the rule monitor_items; each order is a row."""
    inventory(db)
    db.sql("CREATE TABLE orders (item STRING, amount INT)")
    db.sql(f"CREATE RULE monitor_items {semantics} ON {source} DO {ORDER}")


def orders(commit: vk.Commit | None) -> Orders:
    """What a commit has ordered."""
    if commit is None or "orders" not in commit.changes:
        return {}
    return dict(commit.changes["orders"].weights())


def set_value(db: vk.Database, name: str, item: str, amount: int) -> Orders:
    """AMOSQL's `set name(item) = amount` as a transaction of its own; what was ordered then."""
    return orders(db.sql(f"UPDATE {name} SET amount = {amount} WHERE item = '{item}'").commit)


@pytest.mark.parametrize("source", ["cnd_monitor_items", *spark_long(f"({BELOW})")], ids=["stored", "query"])
def test_an_item_is_ordered_once_when_it_becomes_low_in_stock(db: vk.Database, source: str) -> None:
    """Thresholds are 140 of :item1 and 290 of :item2; under STRICT an item that stays low is not ordered again."""
    factory(db, source=source)
    assert set_value(db, "quantity", ":item1", 140) == {}
    assert set_value(db, "quantity", ":item1", 139) == {(":item1", 4861): 1}
    assert set_value(db, "quantity", ":item1", 120) == {}
    assert set_value(db, "quantity", ":item2", 290) == {}
    assert set_value(db, "quantity", ":item2", 289) == {(":item2", 7211): 1}
    assert set_value(db, "quantity", ":item1", 5000) == {}
    assert set_value(db, "quantity", ":item1", 100) == {(":item1", 4900): 1}


@pytest.mark.spark_long
def test_every_influent_of_the_condition_can_trigger_the_rule(db: vk.Database) -> None:
    """The leaves of Figure 1.1: quantity, consume_freq, delivery_time, supplies and min_stock, but not max_stock."""
    factory(db)
    assert set_value(db, "max_stock", ":item1", 4000) == {}
    assert set_value(db, "min_stock", ":item1", 106) == {(":item1", 3855): 1}
    assert set_value(db, "min_stock", ":item1", 100) == {}
    assert set_value(db, "consume_freq", ":item1", 23) == {(":item1", 3855): 1}
    assert set_value(db, "consume_freq", ":item1", 20) == {}
    slower = db.sql("UPDATE delivery_time SET days = 3 WHERE item = ':item1'").commit
    assert orders(slower) == {(":item1", 3855): 1}
    assert orders(db.sql("DELETE FROM supplies WHERE supplier = ':sup1'").commit) == {}
    assert orders(db.sql("INSERT INTO supplies VALUES (':sup1', ':item1')").commit) == {(":item1", 3855): 1}


@pytest.mark.spark_long
@pytest.mark.parametrize("source", ["cnd_monitor_items", f"({BELOW})"], ids=["stored", "query"])
def test_a_nervous_rule_orders_again_when_a_low_item_drops_further(db: vk.Database, source: str) -> None:
    """An update makes the condition true without its having been false before: nervous semantics trigger."""
    factory(db, "NERVOUS", source)
    assert set_value(db, "quantity", ":item1", 140) == {}
    assert set_value(db, "quantity", ":item1", 139) == {(":item1", 4861): 1}
    assert set_value(db, "quantity", ":item1", 120) == {(":item1", 4880): 1}
    assert set_value(db, "min_stock", ":item1", 101) == {(":item1", 4880): 1}
    assert set_value(db, "quantity", ":item1", 5000) == {}


@pytest.mark.spark_long
@pytest.mark.parametrize("semantics", ["STRICT", "NERVOUS"])
def test_only_the_net_effect_of_a_transaction_triggers(db: vk.Database, semantics: str) -> None:
    """An event that later events of the transaction take back is no logical event."""
    factory(db, semantics)
    epoch = db.epoch
    with db.transaction() as tx:
        tx.sql("UPDATE min_stock SET amount = 150 WHERE item = ':item1'")
        assert tx.preview().rules == ["monitor_items"]
        tx.sql("UPDATE min_stock SET amount = 100 WHERE item = ':item1'")
        assert tx.preview().rules == []
    assert tx.commit_info is None
    assert db.epoch == epoch
    with db.transaction() as tx:
        tx.sql("UPDATE quantity SET amount = 50 WHERE item = ':item1'")
        tx.sql("UPDATE quantity SET amount = 200 WHERE item = ':item1'")
    assert orders(tx.commit_info) == {}
    assert db.sql("SELECT * FROM orders").rows() == []


@pytest.mark.spark_long
def test_the_condition_is_restored_by_another_influent(db: vk.Database) -> None:
    """The quantity stays low, and so many are consumed less that it is above the threshold again."""
    factory(db)
    with db.transaction() as tx:
        tx.sql("UPDATE quantity SET amount = 130 WHERE item = ':item1'")
        tx.sql("UPDATE consume_freq SET amount = 10 WHERE item = ':item1'")
    assert orders(tx.commit_info) == {}


@pytest.mark.spark_long
def test_the_action_is_applied_to_the_set_of_changes(db: vk.Database) -> None:
    """`for each item i in Δcnd_monitor_items() do act_monitor_items(i)`: both items in one firing."""
    factory(db)
    with db.transaction() as tx:
        tx.sql("UPDATE quantity SET amount = 100")
        assert tx.preview().rules == ["monitor_items"]
    assert orders(tx.commit_info) == {(":item1", 4900): 1, (":item2", 7400): 1}


@pytest.mark.spark_long
def test_the_action_for_each_row(db: vk.Database) -> None:
    """The same, with the procedure called for one item after the other."""
    inventory(db)
    db.sql("CREATE TABLE orders (item STRING, amount INT)")
    db.sql(
        "CREATE RULE monitor_items ON cnd_monitor_items FOR EACH ROW DO INSERT INTO orders "
        "SELECT new.item, m.amount - q.amount FROM max_stock m JOIN quantity q ON q.item = m.item "
        "WHERE m.item = new.item"
    )
    assert orders(db.sql("UPDATE quantity SET amount = 100").commit) == {(":item1", 4900): 1, (":item2", 7400): 1}


@pytest.mark.spark_long
def test_what_the_action_delivers_makes_the_condition_false_again(db: vk.Database) -> None:
    """Orders that arrive at once: the rule sees that its own action took the item from the condition, and rests."""
    inventory(db)
    db.sql(
        "CREATE RULE refill ON cnd_monitor_items DO MERGE INTO quantity q USING "
        "(SELECT m.* FROM inserted i JOIN max_stock m ON m.item = i.item) s ON q.item = s.item "
        "WHEN MATCHED THEN UPDATE SET amount = s.amount"
    )
    commit = db.sql("UPDATE quantity SET amount = 100 WHERE item = ':item1'").commit
    assert commit.changes["quantity"].weights() == {(":item1", 145): -1, (":item1", 5000): 1}
    assert "cnd_monitor_items" not in commit.changes
    assert db.verify().equal


# rules are activated and deactivated separately for different parameters ----------------------------

PER_ITEM = (
    "CREATE RULE monitor_item (watched STRING) {} ON "
    "(SELECT q.item FROM quantity q JOIN threshold t ON t.item = q.item "
    "WHERE q.amount < t.amount AND q.item = :watched) "
    "DO INSERT INTO orders SELECT m.item, m.amount - q.amount FROM max_stock m JOIN quantity q ON q.item = m.item "
    "WHERE m.item = :watched"
)


@pytest.mark.spark_long
@pytest.mark.parametrize("semantics", ["STRICT", "NERVOUS"])
def test_activation_per_item(db: vk.Database, semantics: str) -> None:
    inventory(db)
    db.sql("CREATE TABLE orders (item STRING, amount INT)")
    db.sql(PER_ITEM.format(semantics))
    assert set_value(db, "quantity", ":item1", 100) == {}, "the rule sleeps until it is activated"
    set_value(db, "quantity", ":item1", 1000)
    db.sql("ACTIVATE RULE monitor_item (':item1')")
    assert orders(db.sql("UPDATE quantity SET amount = 100").commit) == {(":item1", 4900): 1}
    db.sql("UPDATE quantity SET amount = 1000")
    db.sql("ACTIVATE RULE monitor_item (':item2')")
    both = db.sql("UPDATE quantity SET amount = 100").commit
    assert orders(both) == {(":item1", 4900): 1, (":item2", 7400): 1}
    db.sql("UPDATE quantity SET amount = 1000")
    db.sql("DEACTIVATE RULE monitor_item (':item1')")
    assert orders(db.sql("UPDATE quantity SET amount = 100").commit) == {(":item2", 7400): 1}


@pytest.mark.spark_long
def test_an_activation_does_not_react_to_what_was_true_before(db: vk.Database) -> None:
    """:item1 is low when the rule is activated for it: nothing changes its condition, so nothing is ordered."""
    inventory(db)
    db.sql("CREATE TABLE orders (item STRING, amount INT)")
    db.sql(PER_ITEM.format("STRICT"))
    set_value(db, "quantity", ":item1", 100)
    assert orders(db.sql("ACTIVATE RULE monitor_item (':item1')").commit) == {}
    assert set_value(db, "quantity", ":item1", 90) == {}
    assert set_value(db, "quantity", ":item1", 140) == {}
    assert set_value(db, "quantity", ":item1", 139) == {(":item1", 4861): 1}


@pytest.mark.spark_long
def test_a_rule_that_is_disabled_orders_nothing(db: vk.Database) -> None:
    factory(db)
    db.sql("ALTER RULE monitor_items DISABLE")
    assert set_value(db, "quantity", ":item1", 100) == {}
    db.sql("ALTER RULE monitor_items ENABLE")
    assert set_value(db, "quantity", ":item1", 90) == {}
    assert set_value(db, "quantity", ":item2", 289) == {(":item2", 7211): 1}
