"""SHOW RULES, SHOW RULE FIRINGS and SHOW ASSERTIONS."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from viewkeeper.log.rule_listing import rule_firings

pytestmark = pytest.mark.spark_long

TABLES = "CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE TABLE log (a INT)"


def test_rules_are_listed_with_what_they_watch_and_how_often_they_are_active(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE RULE first ON t WHEN INSERTED OR UPDATED DO INSERT INTO log SELECT a FROM inserted")
    db.sql(
        """CREATE RULE above (x INT) NERVOUS IMMEDIATE PRIORITY 3 ON (SELECT * FROM t WHERE b > :x)
        DO INSERT INTO log SELECT a FROM inserted"""
    )
    db.sql("ACTIVATE RULE above (1); ACTIVATE RULE above (2); ACTIVATE RULE above (3); DEACTIVATE RULE above (2)")
    db.sql("ALTER RULE first DISABLE")
    listed = db.sql("SHOW RULES")
    assert listed.columns == ["name", "on", "when", "coupling", "semantics", "priority", "enabled", "activations"]
    assert listed.rows() == [
        ("first", "t", "inserted or updated", "deferred", "strict", 0, False, None),
        ("above", "(SELECT * FROM t WHERE b > :x)", "inserted", "immediate", "nervous", 3, True, 2),
    ]


def test_assertions_are_listed_with_their_definitions(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE ASSERTION positive ON VIOLATION WARN CHECK (NOT EXISTS (SELECT * FROM t WHERE b < 0))")
    listed = db.sql("SHOW ASSERTIONS")
    assert listed.columns == ["name", "on_violation", "definition"]
    assert listed.rows() == [("positive", "warn", "SELECT * FROM t WHERE b < 0")]


def test_firings_are_listed_by_epoch_the_newest_first_and_in_order_inside_one(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE RULE later PRIORITY 2 ON t DO INSERT INTO log SELECT a FROM inserted")
    db.sql("CREATE RULE sooner PRIORITY 1 ON t DO INSERT INTO log SELECT a FROM inserted")
    db.sql("INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (2, 2), (3, 3)")
    newest = db.epoch
    rows = [(row["epoch"], row["rule"], row["rows"], row["outcome"]) for row in db.rule_firings()]
    assert rows == [
        (newest, "sooner", 2, "done"),
        (newest, "later", 2, "done"),
        (newest - 1, "sooner", 1, "done"),
        (newest - 1, "later", 1, "done"),
    ]
    assert all(row["milliseconds"] > 0 for row in db.rule_firings())
    assert [row["epoch"] for row in db.rule_firings(limit=3)] == [newest, newest, newest - 1]
    assert rule_firings(db._store.ledger, db._store.state, 1)[0]["rule"] == "sooner"
    assert db.sql("SHOW RULE FIRINGS").columns == ["epoch", "rule", "rows", "milliseconds", "outcome"]


def test_a_waiting_firing_is_dropped_with_its_rule_and_that_is_recorded(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE RULE silent DETACHED ON t DO PYTHON nobody; INSERT INTO t VALUES (1, 1)")
    epoch = db.epoch
    assert db.sql("SHOW RULE FIRINGS").rows() == [
        (epoch, "silent", 1, None, "waiting: this process has no function nobody")
    ]
    db.sql("DROP RULE silent")
    assert db.sql("SHOW RULE FIRINGS").rows() == [(epoch, "silent", 1, 0.0, "dropped with its rule")]
