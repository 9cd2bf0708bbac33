"""Rules keep their meaning over reopening, compaction, vacuum and the redefinition of what they watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.errors import AssertionViolated, NotFound, SqlError

Connect = Callable[..., vk.Database]

TABLES = """
    CREATE TABLE t (k INT PRIMARY KEY, n INT);
    CREATE TABLE log (what STRING, k INT, n INT);
    INSERT INTO t VALUES (1, 5), (2, 20), (3, 30);
"""

BOTH = """WHEN INSERTED OR DELETED DO BEGIN
    INSERT INTO log SELECT '+', * FROM inserted; INSERT INTO log SELECT '-', * FROM deleted;
END"""


def logged(db: vk.Database) -> list[tuple[Any, ...]]:
    """What rules have written since the last time, in a fixed order."""
    rows = sorted(db.sql("SELECT * FROM log").rows())
    db.sql("TRUNCATE TABLE log")
    return rows


@pytest.mark.spark_long
def test_the_change_that_a_redefinition_makes_fires_rules(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE VIEW v AS SELECT k, n FROM t WHERE n > 10")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT k, n FROM t WHERE n > 10")
    db.sql("CREATE VIEW over AS SELECT k, n FROM v")
    db.sql(f"CREATE RULE r ON v {BOTH}")
    db.sql("ALTER VIEW v AS SELECT k, n FROM t WHERE n > 25")
    assert logged(db) == [("-", 2, 20)]
    db.sql("ALTER VIEW v AS SELECT 7 AS k, 8 AS n FROM t WHERE n > 15")  # it had a key, now it has duplicates
    assert logged(db) == [("+", 7, 8), ("-", 3, 30)]
    db.sql("INSERT INTO t VALUES (4, 40)")
    assert logged(db) == [], "the row is there already"
    db.sql(f"CREATE OR REPLACE RULE r ON over {BOTH}")
    db.sql("ALTER VIEW v AS SELECT k, n FROM t WHERE n > 35")  # a view that the watched one reads
    assert logged(db) == [("+", 4, 40), ("-", 7, 8)]
    db.sql(f"CREATE OR REPLACE RULE r ON m {BOTH}")
    db.sql("ALTER MATERIALIZED VIEW m AS SELECT k, n FROM t WHERE n > 2")
    assert logged(db) == [("+", 1, 5)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_a_redefinition_fires_nervous_rules_once(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE VIEW v AS SELECT k, n FROM t WHERE n > 10; CREATE MATERIALIZED VIEW m AS SELECT k, n FROM v")
    db.sql("CREATE RULE r NERVOUS ON m DO INSERT INTO log SELECT '+', * FROM inserted")
    with db.transaction() as tx:
        tx.sql("ALTER VIEW v AS SELECT k, n FROM t WHERE n > 2")
        tx.check()
        tx.sql("UPDATE t SET n = 31 WHERE k = 3")
    assert logged(db) == [("+", 1, 5), ("+", 3, 31)]


@pytest.mark.spark_long
def test_a_view_keeps_the_key_and_the_columns_that_a_rule_needs(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(
        "CREATE VIEW v AS SELECT k, n FROM t; CREATE RULE r ON v WHEN UPDATED DO INSERT INTO log SELECT '~', * FROM new"
    )
    with pytest.raises(SqlError, match="rows of v would have no key, by which the rule r finds the updated ones"):
        db.sql("ALTER VIEW v AS SELECT 1 AS k, n FROM t")
    with pytest.raises(SqlError, match="v cannot get other columns: the rule r uses it"):
        db.sql("ALTER VIEW v AS SELECT k FROM t")
    db.sql("UPDATE t SET n = 6 WHERE k = 1")
    assert logged(db) == [("~", 1, 6)]


@pytest.mark.spark_long
def test_what_a_rule_uses_is_dropped_with_it_or_not_at_all(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(f"CREATE VIEW v AS SELECT k, n FROM t; CREATE RULE r ON v {BOTH}")
    for name in ("VIEW v", "TABLE log", "TABLE t"):
        with pytest.raises(SqlError, match=r"cannot be dropped: .*the rule r"):
            db.sql(f"DROP {name}")
    db.sql("DROP TABLE log CASCADE")
    assert not db._store.refresh().rules
    assert [row["name"] for row in db.ls(hidden=True)] == ["t", "v"], "the hidden views of the rule are gone"
    db.sql("DROP VIEW v; DROP TABLE t")


@pytest.mark.spark_long
def test_rules_live_on_in_another_process(connect: Connect) -> None:
    db = connect()
    db.sql(TABLES)
    db.sql("CREATE VIEW big AS SELECT k, n FROM t WHERE n > 10")
    db.sql(
        "CREATE RULE r (low INT) ON (SELECT k, n FROM big WHERE n > :low) "
        "DO INSERT INTO log SELECT '+', k, :low FROM inserted"
    )
    db.sql("ACTIVATE RULE r (50); ACTIVATE RULE r (70); CREATE ASSERTION few CHECK ((SELECT count(*) FROM t) <= 5)")
    for _ in range(3):
        db.sql("UPDATE t SET n = n + 1")
    db.compact()
    db.vacuum(grace=0)
    db.close()
    again = connect()
    again.sql("INSERT INTO t VALUES (4, 60), (5, 80)")
    assert logged(again) == [("+", 4, 50), ("+", 5, 50), ("+", 5, 70)]
    with pytest.raises(AssertionViolated, match="the assertion few is violated"):
        again.sql("INSERT INTO t VALUES (6, 0)")
    again.sql("DEACTIVATE RULE r (50)")
    again.sql("UPDATE t SET n = 0 WHERE k > 3")
    again.sql("UPDATE t SET n = 90 WHERE k > 3")
    assert logged(again) == [("+", 4, 70), ("+", 5, 70)]


@pytest.mark.spark_long
def test_a_rule_takes_part_from_the_next_transaction_on(db: vk.Database) -> None:
    db.sql(TABLES)
    with db.transaction() as tx:
        tx.sql(f"CREATE RULE r ON t {BOTH}")
        tx.sql("INSERT INTO t VALUES (4, 40)")
    assert logged(db) == []
    db.sql("ALTER RULE r DISABLE")
    db.sql("INSERT INTO t VALUES (5, 50)")
    assert logged(db) == []
    with db.transaction() as tx:
        tx.sql("ALTER RULE r ENABLE")
        tx.sql("INSERT INTO t VALUES (6, 60)")
    assert logged(db) == []
    db.sql("INSERT INTO t VALUES (7, 70)")
    assert logged(db) == [("+", 7, 70)]
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (8, 80)")
        tx.sql("DROP RULE r")
    assert logged(db) == []


@pytest.mark.spark_long
def test_an_activation_takes_part_from_the_next_transaction_on(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(
        "CREATE RULE r (p INT) ON (SELECT k, n FROM t WHERE n > 10 AND k = :p) "
        "DO INSERT INTO log SELECT '+', * FROM inserted"
    )
    assert db.sql("ACTIVATE RULE r (2)").count == 1
    assert db.sql("ACTIVATE RULE r (2)").count == 0, "it is active already"
    assert logged(db) == [], "what is there already does not come to satisfy the query"
    with db.transaction() as tx:
        tx.sql("ACTIVATE RULE r (9)")
        tx.sql("INSERT INTO t VALUES (9, 90)")
        tx.sql("UPDATE t SET n = 0 WHERE k = 2")
    assert logged(db) == []
    db.sql("UPDATE t SET n = 91 WHERE k IN (2, 9)")
    assert logged(db) == [("+", 2, 91)], "9 has satisfied it all the time"


@pytest.mark.spark_long
def test_a_python_action_is_registered_in_every_process(connect: Connect) -> None:
    db = connect()
    db.sql(TABLES)
    seen: list[Any] = []

    def keep(database: vk.Database) -> None:
        @database.rule(on="t", when="inserted or updated")
        def copy(change: Any, tx: vk.Transaction) -> None:
            seen.append((change.inserted.to_pylist(), change.old.to_pylist(), change.new.to_pylist()))
            tx.insert("log", [("py", row["k"], row["n"]) for row in change.inserted.to_pylist()])

    keep(db)
    epoch = db.epoch
    db.sql("INSERT INTO t VALUES (4, 40); UPDATE t SET n = 41 WHERE k = 4")
    assert seen == [([{"k": 4, "n": 40}], [], []), ([], [{"k": 4, "n": 40}], [{"k": 4, "n": 41}])]
    assert logged(db) == [("py", 4, 40)]
    db.close()
    again = connect()
    with pytest.raises(NotFound, match="the rule copy calls a Python function that this process has not registered"):
        again.sql("INSERT INTO t VALUES (5, 50)")
    assert again.sql("SELECT count(*) FROM t").rows() == [(4,)]
    keep(again)
    assert again.epoch > epoch
    again.sql("INSERT INTO t VALUES (5, 50)")
    assert logged(again) == [("py", 5, 50)]


@pytest.mark.spark_long
def test_a_transaction_that_loses_to_another_considers_its_rules_again(connect: Connect) -> None:
    db = connect()
    db.sql(TABLES)
    db.sql("CREATE VIEW total AS SELECT sum(n) AS s FROM t")
    db.sql(
        "CREATE RULE r ON (SELECT s FROM total WHERE s > 100) "
        "DO INSERT INTO log SELECT 'over', 0, CAST(s AS INT) FROM inserted"
    )
    with db.transaction() as tx:
        tx.insert("t", [(4, 40)])  # 95: not over by itself
        connect().sql("INSERT INTO t VALUES (5, 10)")
    assert logged(db) == [("over", 0, 105)]


@pytest.mark.spark_long
def test_a_python_action_reads_and_changes_tables_only(db: vk.Database) -> None:
    db.sql(TABLES)

    @db.rule(on="t")
    def wrong(change: Any, tx: vk.Transaction) -> None:
        assert tx.sql("SELECT count(*) FROM t").rows() == [(4,)]
        tx.sql("DROP TABLE log")

    with pytest.raises(SqlError) as caught:
        db.sql("INSERT INTO t VALUES (4, 40)")
    assert (
        str(caught.value)
        == """the action of a rule reads and changes tables: DROP cannot be part of it
at line 1, column 1:
  DROP TABLE log
  ^^^^
detail: in the action of the rule wrong
hint: use SELECT, INSERT, UPDATE, DELETE, MERGE or TRUNCATE"""
    )
    assert db.sql("SELECT count(*) FROM t").rows() == [(3,)]
