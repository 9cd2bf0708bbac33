"""Detached rules: their actions run after the commit, in order, in a transaction of their own, with what they saw."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

import viewkeeper as vk
from tests.inventory import check_ledger
from viewkeeper.errors import ViewkeeperError

Connect = Callable[..., vk.Database]

TABLES = "CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE TABLE log (what STRING, n BIGINT)"
QUICK = vk.Tuning(retry_seconds=0.02, action_attempts=3)


def outcomes(db: vk.Database) -> list[tuple[str, str]]:
    return [(row["rule"], row["outcome"]) for row in db.rule_firings()]


def logged(db: vk.Database) -> list[tuple[object, ...]]:
    return sorted(db.sql("SELECT * FROM log").rows(), key=repr)


def committed(db: vk.Database, statement: str) -> int:
    """The epoch of a statement."""
    commit = db.sql(statement).commit
    assert commit is not None
    return commit.epoch


def wait_until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def ended(db: vk.Database) -> None:
    """Waits until all firings are over, also those that are tried again."""
    wait_until(lambda: db.wait_for_rules() and all(f.parked for f in db._store.refresh().waiting))


def test_an_action_sees_the_change_of_its_epoch_and_makes_one_of_its_own(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE RULE r DETACHED ON t WHEN INSERTED OR UPDATED DO INSERT INTO log SELECT 'new', a FROM inserted")
    with db.transaction() as tx:
        tx.insert("t", [(1, 1), (2, 2)])
        tx.delete("t", [(2, 2)])
    assert tx.commit_info is not None
    fired = tx.commit_info.epoch
    assert db.wait_for_rules()
    assert db.epoch == fired + 1
    assert logged(db) == [("new", 1)]
    (row,) = db.rule_firings()
    assert (row["epoch"], row["rule"], row["rows"], row["outcome"]) == (fired, "r", 1, "done")
    assert row["milliseconds"] > 0
    assert db._store.state.waiting == ()
    check_ledger(db)


@pytest.mark.parametrize(
    ("on", "given"),
    [
        ("t", [("deleted", 1), ("inserted", 4), ("new", 22), ("old", 20)]),
        ("stored", [("deleted", 10), ("inserted", 40), ("new", 22), ("old", 20)]),
        ("virtual", [("deleted", 10), ("inserted", 40), ("new", 22), ("old", 20)]),
        ("(SELECT a, b FROM t WHERE a < 3)", [("deleted", 10), ("new", 22), ("old", 20)]),
    ],
)
def test_transition_tables_are_those_of_the_epoch_whatever_came_after(
    connect: Connect, on: str, given: list[tuple[str, int]]
) -> None:
    """The rule is run by another handle, after further changes of the same rows."""
    key = "a" if on == "t" else "b"
    tables = " UNION ALL ".join(
        f"SELECT '{name}', {'b' if name in ('old', 'new') else key} FROM {name}"
        for name in ("inserted", "deleted", "old", "new")
    )
    db = connect()
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW stored AS SELECT a, b FROM t; CREATE VIEW virtual AS SELECT a, b FROM t")
    db.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    db.sql(f"CREATE RULE r DETACHED ON {on} WHEN INSERTED OR DELETED OR UPDATED DO INSERT INTO log {tables}")
    db.sql("ALTER RULE r DISABLE; ALTER RULE r ENABLE")
    db._detached.close()  # as if this process ran no actions
    with db.transaction() as tx:
        tx.delete("t", [(1, 10)])
        tx.upsert("t", [(2, 22), (4, 40)])
    db.sql("ALTER RULE r DISABLE; DELETE FROM t; INSERT INTO t VALUES (1, 7)")
    db.compact()
    db.vacuum(grace=0)
    assert outcomes(db) == [("r", "waiting: the rule is disabled")]
    db.sql("ALTER RULE r ENABLE")
    other = connect()
    ended(other)
    assert logged(other) == given


def test_as_of_old_is_the_state_before_the_epoch_that_fired(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE VIEW v AS SELECT * FROM t; CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    db.sql("INSERT INTO t VALUES (1, 1)")
    db.sql(
        """CREATE RULE r DETACHED ON t DO BEGIN
        INSERT INTO log SELECT 'table', count(*) FROM t AS OF OLD;
        INSERT INTO log SELECT 'view', count(*) FROM v AS OF OLD;
        INSERT INTO log SELECT 'stored', n FROM m AS OF OLD;
        INSERT INTO log SELECT 'now', count(*) FROM t;
        END"""
    )
    db.sql("CREATE RULE after ON log DO INSERT INTO t SELECT 100 + count(*), 0 FROM log AS OF OLD")
    db.sql("ALTER RULE r DISABLE")
    db.sql("ALTER RULE r ENABLE")
    db._detached.close()
    epoch = committed(db, "INSERT INTO t VALUES (2, 2), (3, 3)")
    db.sql("DELETE FROM t WHERE a = 3; ALTER RULE after DISABLE; ALTER RULE after ENABLE")
    other = vk.connect(db.path, engine=db._store.engine.kind)
    try:
        wait_until(lambda: any(row["epoch"] == epoch and row["outcome"] == "done" for row in other.rule_firings()))
        firsts = other.sql("SELECT * FROM log").rows()
        assert {("table", 1), ("view", 1), ("stored", 1), ("now", 2)} <= set(firsts)
        # the deferred rule of the action's own transaction sees the state before that transaction
        assert (100, 0) in other.sql("SELECT * FROM t").rows()
        other.sql("DROP RULE r")
    finally:
        other.close()


def test_conditions_rows_parameters_and_nervous_rules_are_those_of_rules_in_transactions(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT b, count(*) AS c FROM t GROUP BY b")
    db.sql("CREATE RULE each DETACHED ON t FOR EACH ROW IF (new.b > 5) DO INSERT INTO log VALUES ('each', new.a)")
    db.sql(
        """CREATE RULE above (x INT) DETACHED ON (SELECT * FROM t WHERE b > :x)
        DO INSERT INTO log SELECT concat('above ', :x), a FROM inserted"""
    )
    db.sql("CREATE RULE touched NERVOUS DETACHED ON m DO INSERT INTO log SELECT 'touched', c FROM inserted")
    db.sql("CREATE RULE never DETACHED ON t IF (EXISTS (SELECT * FROM t WHERE b < 0)) DO DELETE FROM t")
    db.sql("ACTIVATE RULE above (1); ACTIVATE RULE above (8)")
    epoch = committed(db, "INSERT INTO t VALUES (1, 9), (2, 5)")
    ended(db)
    assert logged(db) == [("above 1", 1), ("above 1", 2), ("above 8", 1), ("each", 1), ("touched", 1), ("touched", 1)]
    found = {(row["rule"], row["rows"], row["outcome"]) for row in db.rule_firings() if row["epoch"] == epoch}
    assert ("never", 0, "condition not met") in found
    # the activation made in the same transaction as the change has not seen it
    with db.transaction() as tx:
        tx.sql("ACTIVATE RULE above (0)")
        tx.sql("INSERT INTO t VALUES (3, 1)")
    ended(db)
    assert [row for row in logged(db) if row[0] == "above 0"] == []


def test_an_outcome_without_changes_makes_no_epoch(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE RULE r DETACHED ON t IF (1 = 2) DO INSERT INTO log SELECT 'never', a FROM inserted")
    epoch = committed(db, "INSERT INTO t VALUES (1, 1)")
    assert db.wait_for_rules()
    assert db.epoch == epoch
    assert outcomes(db) == [("r", "condition not met")]
    check_ledger(db)


def test_the_firings_of_a_rule_are_run_in_the_order_of_their_epochs(db: vk.Database) -> None:
    seen: list[tuple[int | None, str | None, list[int]]] = []
    db.sql(TABLES)

    @db.rule(on="t", coupling="detached")
    def note(change: vk.Change, tx: object) -> None:
        seen.append((change.epoch, change.key, change.inserted["a"].to_pylist()))  # type: ignore[attr-defined]

    first = db.epoch + 1
    for number in range(5):
        db.sql(f"INSERT INTO t VALUES ({number}, 0)")
    assert db.wait_for_rules()
    (rule,) = db._store.state.rules
    assert seen == [(first + number, f"{rule}-{first + number}", [number]) for number in range(5)]


def test_what_an_action_changes_fires_other_rules_and_itself(db: vk.Database) -> None:
    db.sql(TABLES)
    few = "(SELECT count(*) FROM t) < 4"
    db.sql(f"CREATE RULE grow DETACHED ON t IF ({few}) DO INSERT INTO t SELECT a + 1, 0 FROM inserted")
    db.sql("CREATE RULE note IMMEDIATE ON t DO INSERT INTO log SELECT 'note', a FROM inserted")
    db.sql("INSERT INTO t VALUES (1, 0)")
    ended(db)
    assert logged(db) == [("note", 1), ("note", 2), ("note", 3), ("note", 4)]
    assert [outcome for rule, outcome in outcomes(db) if rule == "grow"] == [
        "condition not met",
        "done",
        "done",
        "done",
    ]


def test_an_action_that_fails_is_tried_again_then_parked_and_can_be_repeated(connect: Connect) -> None:
    db = connect(tuning=QUICK)
    db.sql(TABLES)
    tried: list[tuple[str, float]] = []
    broken = True

    @db.rule(on="t", coupling="detached")
    def fragile(change: vk.Change, tx: vk.Transaction) -> None:
        tried.append((change.key, time.time()))  # type: ignore[attr-defined]
        tx.insert("log", [("fragile", row) for row in change.inserted["a"].to_pylist()])
        if broken:
            raise ValueError("no such\nluck")

    epoch = committed(db, "INSERT INTO t VALUES (1, 1)")
    ended(db)
    assert outcomes(db) == [("fragile", "parked: 3 attempts failed, the last one: ValueError: no such luck")]
    assert len(tried) == 3
    assert len({key for key, _ in tried}) == 1
    assert tried[2][1] - tried[1][1] >= 0.08  # four times the pause after the first
    assert logged(db) == []
    db.sql("INSERT INTO t VALUES (2, 2)")  # the parked one does not hold it
    ended(db)
    assert len(tried) == 6
    broken = False
    assert db.sql(f"RETRY RULE fragile EPOCH {epoch}").count == 1
    ended(db)
    assert logged(db) == [("fragile", 1)]
    assert db.sql("RETRY RULE fragile").count == 1
    ended(db)
    assert logged(db) == [("fragile", 1), ("fragile", 2)]
    assert {outcome for _, outcome in outcomes(db)} == {"done"}
    check_ledger(db)


def test_an_action_of_sql_that_fails_changes_nothing_and_says_why(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(action_attempts=1))
    db.sql(TABLES)
    db.sql("CREATE RULE twice DETACHED ON t DO BEGIN INSERT INTO log VALUES ('x', 1); INSERT INTO t VALUES (1, 5); END")
    db.sql("INSERT INTO t VALUES (1, 1)")
    ended(db)
    ((_, outcome),) = outcomes(db)
    assert outcome.startswith("parked: ")
    assert "PRIMARY KEY" in outcome or "key" in outcome
    assert logged(db) == []


def test_a_firing_whose_function_is_missing_waits_and_says_so(connect: Connect) -> None:
    db = connect()
    db.sql(TABLES)
    seen: list[list[int]] = []
    db.sql("CREATE RULE f DETACHED ON t DO PYTHON helper; INSERT INTO t VALUES (1, 1)")
    assert db.wait_for_rules(1.0)
    assert outcomes(db) == [("f", "waiting: this process has no function helper")]
    assert db._store.state.waiting[0].attempts == 0
    db._actions.register("helper", lambda change, tx: seen.append(change.inserted["a"].to_pylist()))
    ended(db)
    assert seen == [[1]]
    assert outcomes(db) == [("f", "done")]


def test_nothing_runs_while_nothing_waits(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE RULE r DETACHED ON t WHEN DELETED DO INSERT INTO log SELECT 'gone', a FROM deleted")
    db.sql("INSERT INTO t VALUES (1, 1)")
    assert db._detached._looking is None
    db.sql("DELETE FROM t")
    ended(db)
    wait_until(lambda: db._detached._looking is None)
    assert logged(db) == [("gone", 1)]


def test_closing_runs_what_is_due_once_and_leaves_the_rest(connect: Connect, engine: str) -> None:
    db = connect(tuning=vk.Tuning(retry_seconds=3600.0))
    db.sql(TABLES)
    db.sql("CREATE RULE works DETACHED ON t DO INSERT INTO log SELECT 'works', a FROM inserted")
    db.sql("CREATE RULE fails DETACHED ON t DO INSERT INTO t SELECT a, b FROM inserted")
    for number in range(3):
        db.sql(f"INSERT INTO t VALUES ({number}, 0)")
    db.close()
    again = connect()
    assert logged(again) == [("works", 0), ("works", 1), ("works", 2)]
    assert sorted(firing.attempts for firing in again._store.state.waiting) == [0, 0, 1]


def test_a_transaction_of_the_user_is_not_held_by_a_slow_action(db: vk.Database) -> None:
    db.sql(TABLES)
    go = threading.Event()

    @db.rule(on="t", coupling="detached")
    def slow(change: vk.Change, tx: vk.Transaction) -> None:
        assert go.wait(30)
        tx.insert("log", [("slow", 0)])

    db.sql("CREATE RULE quick DETACHED ON t DO INSERT INTO log SELECT 'quick', a FROM inserted")
    db.sql("INSERT INTO t VALUES (1, 1)")
    db.sql("INSERT INTO t VALUES (2, 2)")
    wait_until(lambda: logged(db) == [("quick", 1), ("quick", 2)])
    assert outcomes(db).count(("slow", "waiting")) == 2
    go.set()
    ended(db)
    assert logged(db).count(("slow", 0)) == 2


def test_two_handles_run_each_firing_once(connect: Connect) -> None:
    """Both look for firings; one at a time has the turn of a rule, and only one can end a firing."""
    first, second = connect(), connect()
    first.sql(TABLES)
    first.sql("CREATE RULE r DETACHED ON t DO INSERT INTO log SELECT 'r', a FROM inserted")
    for number in range(8):
        (first, second)[number % 2].sql(f"INSERT INTO t VALUES ({number}, 0)")
    ended(first)
    ended(second)
    assert logged(second) == [("r", number) for number in range(8)]
    check_ledger(first)


@pytest.mark.spark_long
def test_firings_survive_compaction_vacuum_and_a_snapshot(connect: Connect) -> None:
    db = connect(keep="0 seconds")
    db.sql(TABLES)
    db.sql("CREATE VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    db.sql("CREATE RULE r DETACHED ON v WHEN INSERTED OR UPDATED DO PYTHON later")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 1)")
    db.sql("INSERT INTO t VALUES (3, 1)")
    db.sql("ALTER RULE r DISABLE")
    for number in range(15):
        db.sql(f"INSERT INTO t VALUES ({10 + number}, 50)")
    db.sql("DELETE FROM t; ALTER RULE r ENABLE")
    db.compact()
    db.vacuum(grace=0)
    got: list[tuple[list[object], list[object]]] = []

    def later(change: vk.Change, tx: object) -> None:
        rows = [pa.Table.to_pylist(part) for part in (change.old, change.new)]  # type: ignore[attr-defined]
        got.append((change.inserted.to_pylist() + rows[0], rows[1]))

    db._actions.register("later", later)
    ended(db)
    assert got[0] == ([{"b": 1, "n": 2}], [])
    assert got[1] == ([{"b": 1, "n": 2}], [{"b": 1, "n": 3}])
    assert len(got) == 2
    db.compact()
    assert db._store.state.oldest > 10  # nothing holds the old epochs any more
    check_ledger(db)


def test_a_view_that_was_redefined_meanwhile_is_seen_as_it_was(connect: Connect) -> None:
    db = connect()
    db.sql(TABLES)
    db.sql("CREATE VIEW v AS SELECT a, b FROM t WHERE b > 5")
    db.sql("CREATE RULE r DETACHED ON v DO PYTHON later")
    db.sql("INSERT INTO t VALUES (1, 9), (2, 3)")
    db.sql("ALTER VIEW v AS SELECT a, b FROM t WHERE b < 5")
    got: list[list[object]] = []
    db._actions.register("later", lambda change, tx: got.append(change.inserted.to_pylist()))
    ended(db)
    assert got == [[{"a": 1, "b": 9}], [{"a": 2, "b": 3}]]


def mistaken_in(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[list[float], list[str]]:
    """Makes a function raise what none should; when it was called, and what threads reported of it."""
    calls: list[float] = []
    reported: list[str] = []

    def mistaken(*_: object, **__: object) -> None:
        calls.append(time.monotonic())
        raise LookupError("a mistake of our own")

    monkeypatch.setattr(name, mistaken)
    monkeypatch.setattr(threading, "excepthook", lambda found: reported.append(repr(found.exc_value)))
    return calls, reported


@pytest.mark.spark_long
def test_a_mistake_of_our_own_in_an_attempt_is_recorded_and_reported(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewkeeper.rules.detached.AFTER_MISTAKE_SECONDS", 0.2)
    db = connect(tuning=QUICK)
    db.sql(TABLES)
    db.sql("CREATE RULE r DETACHED ON t DO INSERT INTO log SELECT 'r', a FROM inserted")
    calls, reported = mistaken_in(monkeypatch, "viewkeeper.rules.detached_firings.transition_at")
    db.sql("INSERT INTO t VALUES (1, 1)")
    ended(db)
    assert outcomes(db) == [("r", "parked: 3 attempts failed, the last one: LookupError: a mistake of our own")]
    wait_until(lambda: len(reported) == 3)
    assert set(reported) == {"LookupError('a mistake of our own')"}
    assert len(calls) == 3
    assert min(after - before for before, after in itertools.pairwise(calls)) >= 0.2


@pytest.mark.spark_long
def test_a_mistake_of_our_own_beside_an_attempt_is_reported_and_makes_no_hot_loop(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewkeeper.rules.detached.AFTER_MISTAKE_SECONDS", 0.5)
    db = connect(tuning=QUICK)
    db.sql(TABLES)
    db.sql("CREATE RULE r DETACHED ON t DO INSERT INTO log SELECT 'r', a FROM inserted")
    with monkeypatch.context() as broken:
        calls, reported = mistaken_in(broken, "viewkeeper.rules.detached.turn")
        db.sql("INSERT INTO t VALUES (1, 1)")
        wait_until(lambda: len(reported) == 2)
        assert calls[1] - calls[0] >= 0.5
    ended(db)
    assert logged(db) == [("r", 1)]


@pytest.mark.spark_long
def test_a_storage_that_fails_beside_an_attempt_is_asked_again(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = connect()
    db.sql(TABLES)
    db.sql("CREATE RULE r DETACHED ON t DO INSERT INTO log SELECT 'r', a FROM inserted")
    failed: list[str] = []

    def unreachable(*_: object) -> None:
        failed.append("once")
        raise OSError("the disk is away")

    with monkeypatch.context() as broken:
        broken.setattr("viewkeeper.rules.detached.turn", unreachable)
        db.sql("INSERT INTO t VALUES (1, 1)")
        wait_until(lambda: bool(failed))
    wait_until(lambda: logged(db) == [("r", 1)])
    assert db._store.state.waiting == ()


def test_a_closed_or_failed_database_raises_nothing_in_threads(connect: Connect) -> None:
    db = connect()
    db.sql(TABLES)

    @db.rule(on="t", coupling="detached")
    def wrong(change: vk.Change, tx: vk.Transaction) -> None:
        tx.commit()

    db.sql("INSERT INTO t VALUES (1, 1)")
    assert db.wait_for_rules()
    ((_, outcome),) = outcomes(db)
    assert outcome == "failed 1 time: the action of a rule cannot commit"
    with pytest.raises(ViewkeeperError, match="has no parked firing"):
        db.sql("RETRY RULE wrong EPOCH 999")
