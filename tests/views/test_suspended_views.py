"""A view that cannot be maintained never blocks its tables: it is named, suspended, and resumed."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import viewkeeper as vk
from viewkeeper.maintain import propagation

STALE = "v is stale: it is suspended since epoch {}; REFRESH MATERIALIZED VIEW v brings it up to date"


def said(problem: pytest.ExceptionInfo[vk.errors.ViewkeeperError]) -> tuple[str, str]:
    return problem.value.message, problem.value.hint or ""


def test_a_view_that_fails_steps_aside_and_comes_back(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, 10 / b AS q FROM t")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM v")
    db.sql("CREATE VIEW u AS SELECT a FROM v")
    db.sql("INSERT INTO t VALUES (1, 2)")
    with pytest.raises(vk.errors.ViewkeeperError) as problem:
        db.sql("INSERT INTO t VALUES (2, 0)")
    assert said(problem) == (
        "v cannot be maintained, so nothing was committed",
        "ALTER MATERIALIZED VIEW v SUSPEND; lets the tables change without it",
    )
    assert "ivision by zero" in (problem.value.detail or "")
    assert problem.value.view == "v"
    assert db.sql("SELECT a FROM t").rows() == [(1,)]

    suspended = db.sql("ALTER MATERIALIZED VIEW v SUSPEND").commit
    assert suspended is not None
    since = suspended.epoch
    remark = STALE.format(since)
    assert db.sql("INSERT INTO t VALUES (2, 0)").commit is not None
    read = db.view("v").read()
    assert (read.rows(), read.remarks) == ([(1, 5.0)], [remark])
    assert db.sql("SELECT * FROM w").remarks == [f"w reads v: {remark}"]
    assert db.sql("SELECT * FROM u JOIN t ON t.a = u.a").remarks == [f"u reads v: {remark}"]
    assert db.sql(f"SELECT * FROM v AS OF EPOCH {since - 1}").remarks == []
    assert db.sql("SELECT * FROM t").remarks == []
    assert remark in db.sql("DESCRIBE v").remarks
    assert remark in db.explain("v").splitlines()
    assert remark in db.sql("SHOW VIEWS").remarks
    assert {row["name"]: row["stale_since"] for row in db.ls()} == {"t": None, "u": None, "v": since, "w": None}
    assert db.history(2)[1]["changes"] == "suspended v"
    certificate = db.verify()
    assert certificate.equal
    assert certificate.remarks == [remark, f"w reads v: {remark}"]
    with pytest.warns(UserWarning, match="v is stale"):
        assert len(list(db.view("v").changes())) == 1

    with pytest.raises(vk.errors.ViewkeeperError) as again:
        db.sql("REFRESH MATERIALIZED VIEW v")
    assert said(again) == ("v cannot be refreshed, so nothing was committed", "it stays suspended")
    assert db.sql("SELECT * FROM v").remarks == [remark]

    db.sql("UPDATE t SET b = 5 WHERE b = 0")
    commit = db.sql("REFRESH MATERIALIZED VIEW v").commit
    assert commit is not None
    assert {name: change.weights() for name, change in commit.changes.items()} == {
        "v": {(2, 2.0): 1},
        "w": {(1,): -1, (2,): 1},
    }
    assert db.sql("SELECT * FROM v").remarks == []
    db.sql("INSERT INTO t VALUES (3, 1)")
    assert sorted(db.sql("SELECT * FROM v").rows()) == [(1, 5.0), (2, 2.0), (3, 10.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feed = [change.weights() for _, change in db.view("v").changes()]
    assert feed == [{(1, 5.0): 1}, {(2, 2.0): 1}, {(3, 10.0): 1}]
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_auxiliary_relations_are_suspended_with_the_last_view_that_needs_them(
    connect: Callable[..., vk.Database],
) -> None:
    db = connect(durability="process")
    db.sql("CREATE TABLE t (g INT, x INT)")
    query = "SELECT g, avg(10 / x) AS m FROM t GROUP BY g HAVING count(*) > 0"
    for name in ("a", "b"):
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(vk.errors.ViewkeeperError) as problem:
        db.sql("INSERT INTO t VALUES (1, 0)")
    hint = "ALTER MATERIALIZED VIEW a SUSPEND; ALTER MATERIALIZED VIEW b SUSPEND; lets the tables change without it"
    assert said(problem) == ("a, b cannot be maintained, so nothing was committed", hint)
    db.sql("ALTER MATERIALIZED VIEW a SUSPEND")
    db.sql("INSERT INTO t VALUES (1, 2)")
    assert db.sql("SELECT * FROM b").rows() == [(1, 7.5)]
    db.sql("ALTER MATERIALIZED VIEW b SUSPEND")
    db.sql("INSERT INTO t VALUES (1, 0), (2, 5)")
    db.sql("DELETE FROM t WHERE x = 0")
    db.sql("REFRESH MATERIALIZED VIEW a")
    db.sql("INSERT INTO t VALUES (2, 1)")
    assert sorted(db.sql("SELECT * FROM a").rows()) == [(1, 7.5), (2, 6.0)]
    assert db.sql("SELECT * FROM b").rows() == [(1, 7.5)]
    db.sql("REFRESH MATERIALIZED VIEW b")
    db.sql("INSERT INTO t VALUES (2, 2)")
    assert sorted(db.sql("SELECT * FROM a").rows()) == sorted(db.sql("SELECT * FROM b").rows())
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_suspended_views_can_be_replaced_and_dropped(connect: Callable[..., vk.Database]) -> None:
    db = connect(durability="process")
    db.sql("CREATE TABLE t (g INT, x INT)")
    db.datalog(".decl big(g: int)\n.output big\nbig(g) :- t(g, x), x > 1.")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW late WITH (lag = '0.001 seconds') AS SELECT g, count(*) AS n FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW gone AS SELECT g FROM t")
    for name in ("v", "big", "late", "gone"):
        db.sql(f"ALTER MATERIALIZED VIEW {name} SUSPEND")
    db.sql("ALTER VIEW v SUSPEND")  # again: nothing happens
    db.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    assert [db.sql(f"SELECT * FROM {name}").rows() for name in ("v", "big", "late", "gone")] == [[], [], [], []]
    db.sql("DROP MATERIALIZED VIEW gone")
    commit = db.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s FROM t WHERE g > 1 GROUP BY g"
    ).commit
    assert commit is not None
    assert commit.changes["v"].weights() == {(2, 2): 1}
    db.datalog("+ big(g) :- t(g, x), x = 1.")
    db.sql("REFRESH late")
    db.sql("INSERT INTO t VALUES (2, 3)")
    assert db.sql("SELECT * FROM v").rows() == [(2, 5)]
    assert sorted(db.sql("SELECT * FROM big").rows()) == [(1,), (2,)]
    assert sorted(db.sql("SELECT * FROM late").rows()) == [(1, 1), (2, 2)]
    assert db.verify().equal
    assert all(row["stale_since"] is None for row in db.ls(hidden=True))


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_suspension_inside_transactions(connect: Callable[..., vk.Database]) -> None:
    db = connect(durability="process")
    db.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a, 10 / a AS q FROM t")
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (0); ALTER MATERIALIZED VIEW v SUSPEND")
        assert tx.sql("SELECT * FROM v").rows() == []
    assert db.verify().equal
    db.sql("DELETE FROM t")
    with db.transaction() as tx:
        tx.sql("REFRESH v; INSERT INTO t VALUES (5); ALTER VIEW v SUSPEND; REFRESH v")
    assert db.sql("SELECT * FROM v").rows() == [(5, 2.0)]
    other = vk.connect(db.path, engine="sail")
    with other, other.transaction() as first:
        first.insert("t", [(1,)])
        db.sql("ALTER VIEW v SUSPEND")
        with pytest.raises(vk.errors.Conflict, match="the view 'v'"):
            first.commit()
    for text, message in {
        "ALTER VIEW t SUSPEND": "t is a table",
        "ALTER MATERIALIZED VIEW v RESUME": "a suspended view is resumed by a refresh",
        "EXPLAIN ALTER VIEW v SUSPEND": "EXPLAIN of SUSPEND has nothing to say",
        "CREATE VIEW u AS SELECT a FROM t; ALTER VIEW u SUSPEND": "u stores nothing, so there is nothing to suspend",
        "BEGIN; CREATE MATERIALIZED VIEW w AS SELECT a FROM t; ALTER VIEW w SUSPEND": "w is defined in",
    }.items():
        with pytest.raises(vk.errors.SqlError) as problem:
            db.sql(text)
        assert problem.value.message.startswith(message)
        assert problem.value.place is not None
        assert problem.value.hint
    db.sql("ROLLBACK")


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_errors_that_must_not_happen_name_the_view(
    connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = connect(durability="process")
    db.sql("CREATE TABLE t (a INT)")
    db.function("plus1", lambda a: a + 1, "int")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 0")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT plus1(a) AS b FROM v")
    with vk.connect(db.path, engine="sail") as other:  # where the function was never declared
        with pytest.raises(vk.errors.NotFound, match="does not have the function plus1, which w uses") as missing:
            other.sql("INSERT INTO t VALUES (1)")
        assert "ALTER MATERIALIZED VIEW w SUSPEND;" in (missing.value.hint or "")
    maintain = propagation.maintain

    def broken(tx: object, relation: object, *rest: object) -> object:
        if getattr(relation, "name", "") == "v":
            raise KeyError("c")
        return maintain(tx, relation, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(propagation, "maintain", broken)
    with pytest.raises(vk.errors.InternalError) as problem:
        db.sql("INSERT INTO t VALUES (1)")
    assert said(problem) == (
        "v cannot be maintained, so nothing was committed",
        "ALTER MATERIALIZED VIEW v SUSPEND; lets the tables change without it",
    )
    assert problem.value.detail == "KeyError: 'c'"
    db.sql("ALTER MATERIALIZED VIEW v SUSPEND")
    db.sql("INSERT INTO t VALUES (1)")
