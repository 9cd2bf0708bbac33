"""Mistakes that the state machine of rules, or a reader, has found: each stays as a small case."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk

pytestmark = pytest.mark.spark_long

TABLES = (
    "CREATE TABLE bag (a BIGINT); CREATE TABLE item (id BIGINT PRIMARY KEY, v BIGINT); "
    "CREATE TABLE seen (r STRING, k STRING, a BIGINT);"
)


def reports(name: str, column: str = "a") -> str:
    """Statements of an action that note the rows of all transition tables."""
    kinds = {"+": "inserted", "-": "deleted", "<": "old", ">": "new"}
    parts = [f"INSERT INTO seen SELECT '{name}', '{kind}', {column} FROM {table}" for kind, table in kinds.items()]
    return f"BEGIN {'; '.join(parts)}; END"


def seen(session: vk.Database | vk.api.transaction.Transaction) -> list[tuple[object, ...]]:
    return sorted(row[1:] for row in session.sql("SELECT * FROM seen").rows())


def last_entry(db: vk.Database) -> dict[str, object]:
    store = db._store
    return next(iter(store.ledger.entries(store.refresh().number)))


@pytest.fixture
def made(connect: Callable[..., vk.Database]) -> vk.Database:
    db = connect(durability="process")
    db.sql(TABLES)
    return db


def test_immediate_rules_forget_a_statement_that_failed(made: vk.Database) -> None:
    """What they had seen of it was kept: the next statement seemed to delete its rows."""
    made.sql(f"CREATE RULE r IMMEDIATE ON bag WHEN INSERTED OR DELETED DO {reports('r')}")
    made.sql(
        "CREATE RULE fails IMMEDIATE PRIORITY 5 ON bag IF (EXISTS (SELECT 1 FROM inserted WHERE a = 9)) "
        "DO INSERT INTO item VALUES (NULL, 1)"
    )
    with made.transaction() as tx:
        tx.sql("INSERT INTO bag VALUES (2)")
        with pytest.raises(vk.errors.ConstraintViolation):
            tx.sql("INSERT INTO bag VALUES (9)")
        tx.sql("INSERT INTO bag VALUES (3)")
        assert seen(tx) == [("+", 2), ("+", 3)]
    assert [(fired["name"], fired["rows"]) for fired in last_entry(made)["fired"]] == [("r", 1), ("r", 1)]


def test_deferred_rules_forget_a_check_that_failed(made: vk.Database) -> None:
    """Their actions were taken back, and yet they counted as having seen everything."""
    made.sql(f"CREATE RULE r ON bag WHEN INSERTED OR DELETED DO {reports('r')}")
    made.sql("CREATE ASSERTION small CHECK (NOT EXISTS (SELECT * FROM bag WHERE a > 5))")
    with made.transaction() as tx:
        tx.sql("INSERT INTO bag VALUES (2), (9)")
        with pytest.raises(vk.errors.AssertionViolated):
            tx.check()
        tx.sql("DELETE FROM bag WHERE a = 9")
        assert tx.preview().rules == ["r"]
    assert seen(made) == [("+", 2)]
    assert [fired["rows"] for fired in last_entry(made)["fired"]] == [1]


def test_immediate_rules_see_a_statement_that_undoes_the_transaction(made: vk.Database) -> None:
    """Nothing was considered after a statement that left the transaction without net change."""
    made.sql(f"CREATE RULE r IMMEDIATE ON bag WHEN DELETED DO {reports('r')}")
    with made.transaction() as tx:
        tx.sql("INSERT INTO bag VALUES (2)")
        tx.sql("DELETE FROM bag")
        assert seen(tx) == [("-", 2)]


def test_immediate_rules_see_the_change_of_a_redefinition(made: vk.Database) -> None:
    """They saw it at the commit alone, unless the transaction had changed a table too."""
    made.sql("CREATE MATERIALIZED VIEW big AS SELECT id FROM item WHERE v > 5; INSERT INTO item VALUES (1, 4), (2, 6)")
    made.sql(f"CREATE RULE r IMMEDIATE ON big DO {reports('r', 'id')}")
    with made.transaction() as tx:
        tx.sql("ALTER MATERIALIZED VIEW big AS SELECT id FROM item WHERE v > 3")
        assert seen(tx) == [("+", 1)]


def test_a_waiting_firing_counts_the_rows_of_its_events(made: vk.Database) -> None:
    """Deleted rows were counted for a rule that reacts to inserted ones."""
    made.sql("INSERT INTO item VALUES (1, 1), (2, 2)")
    made.sql("CREATE RULE r DETACHED ON item DO DELETE FROM bag")
    with made.transaction() as tx:
        tx.sql("DELETE FROM item WHERE id = 1")
        tx.sql("INSERT INTO item VALUES (3, 3)")
    assert [firing["rows"] for firing in last_entry(made)["waiting"]] == [1]


def test_the_activations_of_a_rule_are_no_change_of_a_commit(made: vk.Database) -> None:
    """The hidden table of activations stood among the changes and in the report."""
    made.sql(f"CREATE RULE r (p BIGINT) ON (SELECT id FROM item WHERE v > :p) DO {reports('r', 'id')}")
    commit = made.sql("ACTIVATE RULE r (1)").commit
    assert commit is not None
    assert not commit.changes
    assert not commit.report


def test_a_row_that_goes_from_one_activation_to_another(made: vk.Database) -> None:
    """Each activation saw half an update, because the key of the query leaves the parameter out."""
    made.sql("INSERT INTO item VALUES (7, 1)")
    made.sql(
        "CREATE RULE r (p BIGINT) ON (SELECT id FROM item WHERE v = :p) WHEN INSERTED OR DELETED "
        "DO BEGIN INSERT INTO seen SELECT 'r', '+', :p FROM inserted; "
        "INSERT INTO seen SELECT 'r', '-', :p FROM deleted; END"
    )
    made.sql("ACTIVATE RULE r (1); ACTIVATE RULE r (2); UPDATE item SET v = 2 WHERE id = 7")
    assert seen(made) == [("+", 2), ("-", 1)]


def test_an_aggregate_of_all_rows_is_updated(made: vk.Database) -> None:
    """Its one row has no columns that are a key, and needs none."""
    made.sql("CREATE VIEW counted AS SELECT count(*) AS n FROM bag")
    made.sql(f"CREATE RULE r ON counted WHEN UPDATED DO {reports('r', 'n')}")
    made.sql("INSERT INTO bag VALUES (1), (2)")
    assert seen(made) == [("<", 0), (">", 2)]


def test_nervous_rules_on_a_demand_view_see_its_refresh(made: vk.Database) -> None:
    """They saw the changes of its tables, before the view had them."""
    made.sql("CREATE MATERIALIZED VIEW big WITH (on = 'demand') AS SELECT id FROM item WHERE v > 5")
    made.sql("CREATE VIEW above AS SELECT id FROM big")
    made.sql(f"CREATE RULE r NERVOUS ON big DO {reports('r', 'id')}")
    made.sql(f"CREATE RULE s NERVOUS ON above DO {reports('s', 'id')}")
    made.sql("INSERT INTO item VALUES (1, 6)")
    assert seen(made) == []
    made.sql("REFRESH MATERIALIZED VIEW big")
    assert seen(made) == [("+", 1), ("+", 1)]


def test_nervous_rules_on_a_suspended_view_see_its_return(made: vk.Database) -> None:
    made.sql("CREATE MATERIALIZED VIEW big AS SELECT id FROM item WHERE v > 5")
    made.sql(f"CREATE RULE r NERVOUS ON big DO {reports('r', 'id')}")
    made.sql("ALTER MATERIALIZED VIEW big SUSPEND; INSERT INTO item VALUES (1, 6)")
    assert seen(made) == []
    made.sql("REFRESH MATERIALIZED VIEW big")
    assert seen(made) == [("+", 1)]


def test_immediate_rules_see_the_change_of_a_datalog_rule(made: vk.Database) -> None:
    """They saw it at the commit alone."""
    made.datalog(".decl bag(a:number)\n.input bag\n.decl small(a:number)\n.output small\nsmall(a) :- bag(a), a < 3.")
    made.sql(f"INSERT INTO bag VALUES (1), (5); CREATE RULE r IMMEDIATE ON small DO {reports('r')}")
    with made.transaction() as tx:
        tx.datalog("+ small(a) :- bag(a), a > 4.")
        assert seen(tx) == [("+", 5)]


def test_an_activation_without_a_value_names_the_parameter(made: vk.Database) -> None:
    """The error named the hidden table of activations."""
    made.sql(f"CREATE RULE r (p BIGINT) ON (SELECT id FROM item WHERE v > :p) DO {reports('r', 'id')}")
    with pytest.raises(vk.errors.TypeMismatch, match="the parameter p of r cannot be NULL"):
        made.sql("ACTIVATE RULE r (NULL)")


def one_failed_firing(db: vk.Database) -> None:
    """A detached rule `r` with one firing that is parked."""
    db.sql("CREATE RULE r DETACHED ON bag DO INSERT INTO item SELECT a, a FROM inserted")
    db.sql("INSERT INTO item VALUES (1, 0)")
    db.sql("INSERT INTO bag VALUES (1)")
    assert db.wait_for_rules()
    assert [firing.parked != "" for firing in db._store.refresh().waiting] == [True]


def test_a_rule_is_dropped_with_a_firing_that_was_added_meanwhile(connect: Callable[..., vk.Database]) -> None:
    """The firing was left without its rule, and every commit after that failed."""
    db, other = connect(), connect()
    db.sql(TABLES)
    db.sql("CREATE RULE r DETACHED ON bag DO INSERT INTO item SELECT a, a FROM inserted")
    other._detached.close()
    tx = db.transaction()
    tx.sql("DROP RULE r")
    db._detached.close()
    other.sql("INSERT INTO bag VALUES (1)")
    with pytest.raises(vk.errors.Conflict, match="another transaction has fired the rule 'r'"):
        tx.commit()
    db.sql("DROP RULE r")
    assert db._store.refresh().waiting == ()
    db.sql("INSERT INTO bag VALUES (2)")


def test_a_firing_is_repeated_once_where_two_sessions_ask_for_it(connect: Callable[..., vk.Database]) -> None:
    """The second RETRY made a firing wait again that had come to its end."""
    db = connect(tuning=vk.Tuning(action_attempts=1))
    db.sql(TABLES)
    one_failed_firing(db)
    db.sql("DELETE FROM item")
    tx = connect().transaction()
    tx.sql("RETRY RULE r")
    db.sql("RETRY RULE r")
    assert db.wait_for_rules()
    db.sql("DELETE FROM item")
    with pytest.raises(vk.errors.Conflict, match="another transaction has ended the firing of the rule 'r' at epoch 6"):
        tx.commit()
    assert db.wait_for_rules()
    assert db.sql("SELECT * FROM item").rows() == []


def test_firings_are_not_repeated_after_their_rule_was_dropped(connect: Callable[..., vk.Database]) -> None:
    """They waited for a rule that was not there."""
    db = connect(tuning=vk.Tuning(action_attempts=1))
    db.sql(TABLES)
    one_failed_firing(db)
    tx = db.transaction()
    tx.sql("RETRY RULE r")
    connect().sql("DROP RULE r")
    with pytest.raises(vk.errors.Conflict, match="another transaction has ended the firing of the rule 'r' at epoch 6"):
        tx.commit()
    assert db._store.refresh().waiting == ()


def test_a_definition_that_fails_keeps_the_firings_of_the_rule(connect: Callable[..., vk.Database]) -> None:
    """The rule was kept, and its firings were dropped."""
    db = connect(tuning=vk.Tuning(action_attempts=1))
    db.sql(TABLES)
    one_failed_firing(db)
    with db.transaction() as tx:
        with pytest.raises(vk.errors.NotFound):
            tx.sql("CREATE OR REPLACE RULE r DETACHED ON bag DO INSERT INTO item SELECT nothing, a FROM inserted")
        tx.sql("INSERT INTO item VALUES (7, 7)")
    assert db.sql("RETRY RULE r").count == 1
