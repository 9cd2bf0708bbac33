"""The keys of watched views are derived once, and again when a view below gets another query."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.maintain import declared_keys

pytestmark = pytest.mark.spark_long


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was derived from keys."""
    found: list[str] = []

    def counted(name: str) -> None:
        derive = getattr(declared_keys, name)

        def derive_and_note(*given: Any) -> Any:
            found.append(name)
            return derive(*given)

        monkeypatch.setattr(declared_keys, name, derive_and_note)

    counted("keys_of")
    counted("without_needless")
    return found


def test_keys_are_derived_once_for_many_rounds(db: vk.Database, derived: list[str]) -> None:
    db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE TABLE log (event STRING, b INT)")
    db.sql("CREATE MATERIALIZED VIEW low AS SELECT a, b FROM t")
    db.sql(
        """CREATE RULE r IMMEDIATE ON (SELECT a, b FROM low WHERE b < 9) WHEN INSERTED OR DELETED OR UPDATED DO BEGIN
        INSERT INTO log SELECT 'inserted', b FROM inserted;
        INSERT INTO log SELECT 'deleted', b FROM deleted;
        INSERT INTO log SELECT 'updated', b FROM new;
        UPDATE t SET b = b + 1 WHERE b < 3;
        END"""
    )
    db.sql("INSERT INTO t VALUES (1, 0)")
    assert derived
    derived.clear()
    db.sql("UPDATE t SET b = 0")
    assert derived == []
    assert sorted(db.sql("SELECT * FROM log").rows()) == [
        ("inserted", 0),
        *[("updated", b) for b in (0, 1, 1, 2, 2, 3, 3)],
    ]


def test_keys_follow_a_view_that_gets_another_query(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE TABLE log (event STRING, b INT)")
    db.sql("CREATE MATERIALIZED VIEW low AS SELECT a, b FROM t; INSERT INTO t VALUES (1, 1)")
    db.sql(
        """CREATE RULE r ON (SELECT a, b FROM low) WHEN INSERTED OR UPDATED DO BEGIN
        INSERT INTO log SELECT 'inserted', b FROM inserted; INSERT INTO log SELECT 'updated', b FROM new; END"""
    )
    db.sql("UPDATE t SET b = 2")
    db.sql("ALTER MATERIALIZED VIEW low AS SELECT a, b FROM t UNION ALL SELECT a, b FROM t WHERE b > 5")
    db.sql("UPDATE t SET b = 6")
    assert sorted(db.sql("SELECT * FROM log").rows()) == [("inserted", 6), ("updated", 2)]
