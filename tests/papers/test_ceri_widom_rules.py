"""Ceri and Widom 1991, section 3: net effects, composite transitions, precedence, transition tables, assertion points.

Each rule of a test is a Python function that notes what it was given, so that the order and the transition tables of
all firings can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.api.transaction import Transaction

EVENTS = "inserted or deleted or updated"
Action = Callable[[Transaction], object]


class Firings:
    """The firings of some rules, in their order: rule, and the transition tables that are not empty."""

    def __init__(self, db: vk.Database) -> None:
        self._db = db
        self.seen: list[tuple[str, dict[str, list[tuple[Any, ...]]]]] = []

    def rule(self, name: str, on: str, when: str = EVENTS, action: Action | None = None, **options: Any) -> None:
        """Makes a rule that notes what it sees and then acts."""

        def noting(change: Any, tx: Any) -> None:
            tables = {table: sorted(row_tuples(getattr(change, table))) for table in ("inserted", "deleted")}
            tables |= {table: row_tuples(getattr(change, table)) for table in ("old", "new")}
            self.seen.append((name, {table: rows for table, rows in tables.items() if rows}))
            if action is not None:
                action(tx)

        self._db.rule(on=on, when=when, name=name, **options)(noting)

    def taken(self) -> list[tuple[str, dict[str, list[tuple[Any, ...]]]]]:
        """The firings since the last call."""
        found, self.seen = self.seen, []
        return found


@pytest.fixture
def firings(db: vk.Database) -> Firings:
    """A database with a table t of two rows."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 10), (2, 20)")
    return Firings(db)


# triggered by the net effect ------------------------------------------------------------------------

SEQUENCES = {
    "INSERT INTO t VALUES (3, 30)": {"inserted": [(3, 30)]},
    "DELETE FROM t WHERE k = 1": {"deleted": [(1, 10)]},
    "UPDATE t SET a = 11 WHERE k = 1": {"old": [(1, 10)], "new": [(1, 11)]},
    "INSERT INTO t VALUES (3, 30); DELETE FROM t WHERE k = 3": None,
    "INSERT INTO t VALUES (3, 30); UPDATE t SET a = 31 WHERE k = 3": {"inserted": [(3, 31)]},
    "UPDATE t SET a = 11 WHERE k = 1; DELETE FROM t WHERE k = 1": {"deleted": [(1, 10)]},
    "UPDATE t SET a = 11 WHERE k = 1; UPDATE t SET a = 12 WHERE k = 1": {"old": [(1, 10)], "new": [(1, 12)]},
    "UPDATE t SET a = 11 WHERE k = 1; UPDATE t SET a = 10 WHERE k = 1": None,
    "INSERT INTO t VALUES (3, 3); UPDATE t SET a = 4 WHERE k = 3; DELETE FROM t WHERE k = 3": None,
    "DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 10)": None,
    # a tuple has no other identity than its key: deleted and inserted with another value, it was updated
    "DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 12)": {"old": [(1, 10)], "new": [(1, 12)]},
    "UPDATE t SET k = 3 WHERE k = 1": {"inserted": [(3, 10)], "deleted": [(1, 10)]},
}


def test_a_transition_is_the_net_effect_of_its_operations(db: vk.Database, firings: Firings) -> None:
    firings.rule("watch", "t")
    for statements, wanted in SEQUENCES.items():
        db.sql("DELETE FROM t; INSERT INTO t VALUES (1, 10), (2, 20)")
        firings.taken()
        with db.transaction() as tx:
            tx.sql(statements)
        assert firings.taken() == ([] if wanted is None else [("watch", wanted)]), statements


@pytest.mark.spark_long
def test_a_rule_is_triggered_by_its_operations_alone(db: vk.Database, firings: Firings) -> None:
    """Each rule names one operation, or several of which one is enough; it sees the tables of those that it names."""
    for name in ("inserted", "deleted", "updated", "inserted or deleted"):
        firings.rule(f"on_{name}".replace(" ", "_"), "t", name)
    db.sql("INSERT INTO t VALUES (3, 30)")
    assert firings.taken() == [(f"on_{name}", {"inserted": [(3, 30)]}) for name in ("inserted", "inserted_or_deleted")]
    db.sql("DELETE FROM t WHERE k = 3")
    assert firings.taken() == [(f"on_{name}", {"deleted": [(3, 30)]}) for name in ("deleted", "inserted_or_deleted")]
    db.sql("UPDATE t SET a = 11 WHERE k = 1")
    assert firings.taken() == [("on_updated", {"old": [(1, 10)], "new": [(1, 11)]})]
    with db.transaction() as tx:
        tx.sql("DELETE FROM t WHERE k = 2; INSERT INTO t VALUES (4, 40)")
    assert firings.taken() == [
        ("on_inserted", {"inserted": [(4, 40)]}),
        ("on_deleted", {"deleted": [(2, 20)]}),
        ("on_inserted_or_deleted", {"inserted": [(4, 40)], "deleted": [(2, 20)]}),
    ]


@pytest.mark.spark_long
def test_the_four_transition_tables_in_sql(db: vk.Database, firings: Firings) -> None:
    db.sql("CREATE TABLE log (what STRING, k INT, a INT)")
    tables = ("inserted", "deleted", "old", "new")
    body = " ".join(f"INSERT INTO log SELECT '{table}', * FROM {table};" for table in tables)
    db.sql(f"CREATE RULE watch ON t WHEN INSERTED OR DELETED OR UPDATED DO BEGIN {body} END")
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 30), (4, 40); UPDATE t SET a = 11 WHERE k = 1; DELETE FROM t WHERE k = 2")
    assert tx.commit_info is not None
    assert tx.commit_info.changes["log"].weights() == {
        ("inserted", 3, 30): 1,
        ("inserted", 4, 40): 1,
        ("deleted", 2, 20): 1,
        ("old", 1, 10): 1,
        ("new", 1, 11): 1,
    }


# precedence -----------------------------------------------------------------------------------------


@pytest.mark.spark_long
def test_the_highest_triggered_rule_comes_first(db: vk.Database, firings: Firings) -> None:
    """Lower numbers precede; rules of the same number come in the order of their creation."""
    firings.rule("late", "t", priority=5)
    firings.rule("second", "t", priority=1)
    firings.rule("third", "t", priority=1)
    firings.rule("first", "t", priority=-1)
    db.sql("INSERT INTO t VALUES (3, 30)")
    assert [name for name, _ in firings.taken()] == ["first", "second", "third", "late"]


@pytest.mark.spark_long
def test_after_an_action_the_highest_rule_is_chosen_again(db: vk.Database, firings: Firings) -> None:
    """What `low` does triggers `high`, which then comes before `lowest`."""
    db.sql("CREATE TABLE u (k INT PRIMARY KEY)")
    firings.rule("high", "u", priority=1)
    firings.rule("low", "t", priority=2, action=lambda tx: tx.sql("INSERT INTO u VALUES (7)"))
    firings.rule("lowest", "t", priority=3)
    db.sql("INSERT INTO t VALUES (3, 30)")
    assert [name for name, _ in firings.taken()] == ["low", "high", "lowest"]


# composite transitions ------------------------------------------------------------------------------


def test_other_rules_see_an_action_as_part_of_the_initial_transition(db: vk.Database, firings: Firings) -> None:
    """`second` has not run: it sees the composite of the user's operations and of the action of `first`."""
    firings.rule("first", "t", "inserted", priority=1, action=lambda tx: tx.sql("UPDATE t SET a = a + 1 WHERE k > 1"))
    firings.rule("second", "t", priority=2)
    db.sql("INSERT INTO t VALUES (3, 30)")
    assert firings.taken() == [
        ("first", {"inserted": [(3, 30)]}),
        ("second", {"inserted": [(3, 31)], "old": [(2, 20)], "new": [(2, 21)]}),
    ]


@pytest.mark.spark_long
def test_a_rule_is_not_triggered_any_more_if_an_action_undoes_what_triggered_it(
    db: vk.Database, firings: Firings
) -> None:
    """Insertion and deletion of the same tuple compose to nothing."""
    firings.rule("first", "t", "inserted", priority=1, action=lambda tx: tx.sql("DELETE FROM t WHERE k = 3"))
    firings.rule("second", "t", "inserted", priority=2)
    assert db.sql("INSERT INTO t VALUES (3, 30)").commit is None
    assert firings.taken() == [("first", {"inserted": [(3, 30)]})]


@pytest.mark.spark_long
def test_a_rule_that_has_run_sees_its_own_action_alone(db: vk.Database, firings: Firings) -> None:
    """It has processed the initial transition: what triggers it again is what its action did, as often as it does."""
    firings.rule("count", "t", "updated", action=lambda tx: tx.sql("UPDATE t SET a = a + 1 WHERE k = 1 AND a < 14"))
    db.sql("UPDATE t SET a = 12 WHERE k = 1")
    assert firings.taken() == [
        ("count", {"old": [(1, 10)], "new": [(1, 12)]}),
        ("count", {"old": [(1, 12)], "new": [(1, 13)]}),
        ("count", {"old": [(1, 13)], "new": [(1, 14)]}),
    ]


@pytest.mark.spark_long
def test_a_rule_that_has_run_sees_later_actions_of_others_since_then(db: vk.Database, firings: Firings) -> None:
    """The composite since it last ran: its own action, and what another did after it, without the initial part."""
    firings.rule("first", "t", "inserted", priority=1, action=lambda tx: tx.sql("DELETE FROM t WHERE k = 1"))
    firings.rule("second", "t", "deleted", priority=2, action=lambda tx: tx.sql("INSERT INTO t VALUES (9, 90)"))
    db.sql("INSERT INTO t VALUES (3, 30)")
    assert firings.taken() == [
        ("first", {"inserted": [(3, 30)]}),
        ("second", {"deleted": [(1, 10)]}),
        ("first", {"inserted": [(9, 90)]}),
    ]


@pytest.mark.spark_long
def test_an_update_of_an_inserted_tuple_is_an_update_for_a_rule_that_saw_the_insertion(
    db: vk.Database, firings: Firings
) -> None:
    """For `early` the tuple was there before; for `late` insertion and update are an insertion."""
    firings.rule("early", "t", priority=1)
    firings.rule("middle", "t", "inserted", priority=2, action=lambda tx: tx.sql("UPDATE t SET a = 31 WHERE k = 3"))
    firings.rule("late", "t", priority=3)
    db.sql("INSERT INTO t VALUES (3, 30)")
    assert firings.taken() == [
        ("early", {"inserted": [(3, 30)]}),
        ("middle", {"inserted": [(3, 30)]}),
        ("early", {"old": [(3, 30)], "new": [(3, 31)]}),
        ("late", {"inserted": [(3, 31)]}),
    ]


@pytest.mark.spark_long
def test_rules_on_views_see_composite_transitions_too(db: vk.Database, firings: Firings) -> None:
    """The transitions of an aggregate: the key of the view is that of its groups."""
    db.sql("CREATE VIEW sums AS SELECT k % 2 AS odd, sum(a) AS total FROM t GROUP BY k % 2")
    firings.rule("first", "t", "inserted", priority=1, action=lambda tx: tx.sql("UPDATE t SET a = a + 1 WHERE k = 3"))
    firings.rule("second", "sums", priority=2)
    db.sql("INSERT INTO t VALUES (3, 30)")
    assert firings.taken()[1:] == [("second", {"old": [(1, 10)], "new": [(1, 41)]})]
    db.sql("DELETE FROM t WHERE k = 2")
    assert firings.taken() == [("second", {"deleted": [(0, 20)]})]


# old T ----------------------------------------------------------------------------------------------


@pytest.mark.spark_long
def test_old_t_is_derived_from_the_transition_tables(db: vk.Database, firings: Firings) -> None:
    """old T = (T minus inserted T minus new updated T) union deleted T union old updated T."""
    db.sql("CREATE TABLE before (k INT, a INT); CREATE TABLE derived (k INT, a INT)")
    db.sql(
        "CREATE RULE watch ON t WHEN INSERTED OR DELETED OR UPDATED DO BEGIN "
        "INSERT INTO before SELECT * FROM t AS OF OLD; "
        "INSERT INTO derived (SELECT * FROM t EXCEPT SELECT * FROM inserted EXCEPT SELECT * FROM new) "
        "UNION SELECT * FROM deleted UNION SELECT * FROM old; END"
    )
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 30); UPDATE t SET a = 11 WHERE k = 1; DELETE FROM t WHERE k = 2")
    assert sorted(db.sql("SELECT * FROM before").rows()) == [(1, 10), (2, 20)]
    assert sorted(db.sql("SELECT * FROM derived").rows()) == [(1, 10), (2, 20)]
    assert sorted(db.sql("SELECT * FROM t").rows()) == [(1, 11), (3, 30)]


@pytest.mark.spark_long
def test_the_old_value_of_a_table_that_did_not_trigger_the_rule(db: vk.Database, firings: Firings) -> None:
    """Rules of section 5.4 join deleted tuples with old values of the other tables."""
    db.sql("CREATE TABLE u (k INT PRIMARY KEY, b STRING); INSERT INTO u VALUES (1, 'one'), (2, 'two')")
    db.sql("CREATE TABLE gone (a INT, b STRING)")
    db.sql(
        "CREATE RULE watch ON t WHEN DELETED DO "
        "INSERT INTO gone SELECT d.a, u.b FROM deleted d JOIN u AS OF OLD AS u ON u.k = d.k"
    )
    with db.transaction() as tx:
        tx.sql("DELETE FROM t WHERE k = 1; DELETE FROM u WHERE k = 1; UPDATE u SET b = 'zwei' WHERE k = 2")
    assert db.sql("SELECT * FROM gone").rows() == [(10, "one")]


# assertion points -----------------------------------------------------------------------------------


def test_assertion_points_inside_a_transaction(db: vk.Database, firings: Firings) -> None:
    """At CHECK the transition since the start is processed, at the commit the one since CHECK."""
    firings.rule("watch", "t")
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 30); UPDATE t SET a = 31 WHERE k = 3")
        assert firings.taken() == []
        tx.sql("CHECK")
        assert firings.taken() == [("watch", {"inserted": [(3, 31)]})]
        tx.sql("UPDATE t SET a = 32 WHERE k = 3")
    assert firings.taken() == [("watch", {"old": [(3, 31)], "new": [(3, 32)]})]
    assert tx.commit_info is not None
    assert tx.commit_info.changes["t"].weights() == {(3, 32): 1}


@pytest.mark.spark_long
def test_what_was_processed_at_an_assertion_point_is_not_processed_again(db: vk.Database, firings: Firings) -> None:
    firings.rule("watch", "t")
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 30)")
        tx.check()
        tx.check()
        assert firings.taken() == [("watch", {"inserted": [(3, 30)]})]
    assert firings.taken() == []


@pytest.mark.spark_long
def test_after_an_assertion_point_every_rule_begins_there(db: vk.Database, firings: Firings) -> None:
    """`deletions` had no reason to run at CHECK; the insertion before it and the deletion after do not compose."""
    firings.rule("deletions", "t", "deleted")
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 30); CHECK; DELETE FROM t WHERE k = 3")
    assert firings.taken() == [("deletions", {"deleted": [(3, 30)]})]
    assert tx.commit_info is None


@pytest.mark.spark_long
def test_what_an_action_does_at_an_assertion_point_can_be_seen_by_the_transaction(
    db: vk.Database, firings: Firings
) -> None:
    db.sql("CREATE TABLE log (k INT)")
    db.sql("CREATE RULE note ON t DO INSERT INTO log SELECT k FROM inserted")
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 30)")
        assert tx.sql("SELECT * FROM log").rows() == []
        tx.sql("CHECK")
        assert tx.sql("SELECT * FROM log").rows() == [(3,)]
        tx.sql("INSERT INTO t VALUES (4, 40)")
    assert sorted(db.sql("SELECT * FROM log").rows()) == [(3,), (4,)]


@pytest.mark.spark_long
def test_rule_processing_ends_when_no_rule_is_triggered(db: vk.Database, firings: Firings) -> None:
    """A cascade of deletions along a chain, one level for each run of the rule, until nothing is deleted."""
    db.sql("CREATE TABLE tree (k INT PRIMARY KEY, parent INT)")
    db.sql("INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, 1), (6, NULL), (7, 6)")
    cascade = "DELETE FROM tree WHERE parent IS NOT NULL AND parent NOT IN (SELECT k FROM tree)"
    firings.rule("cascade", "tree", "deleted", action=lambda tx: tx.sql(cascade))
    db.sql("DELETE FROM tree WHERE k = 1")
    assert [seen["deleted"] for _, seen in firings.taken()] == [[(1, None)], [(2, 1), (5, 1)], [(3, 2)], [(4, 3)]]
    assert sorted(db.sql("SELECT k FROM tree").rows()) == [(6,), (7,)]
