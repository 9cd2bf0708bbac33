"""Memory follows the wave front: what only passed views have read is dropped before the next level begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.maintain.common_changes import CommonChanges
from viewkeeper.maintain.watched_queries import Shared

LEVELS = 5


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[tuple[set[str], int]]:
    """After each level: the relations of which rows are held, and how many changes of shared joins are."""
    found: list[tuple[set[str], int]] = []
    release = Shared.release

    def watched(self: Shared, views: Any, queries: Any) -> None:
        release(self, views, queries)
        names = {name[0] for name in (*self.fetched._tables, *self.fetched.changes)}
        found.append((names, len(self.common._once)))

    monkeypatch.setattr(Shared, "release", watched)
    return found


def tower(db: vk.Database) -> None:
    """Views over views, each of them joined with a table of its own and read by the one above alone."""
    with db.transaction() as tx:
        for level in range(LEVELS + 1):
            tx.sql(f"CREATE TABLE t{level} (a INT PRIMARY KEY, b INT)")
            tx.sql(f"INSERT INTO t{level} SELECT CAST(id AS INT), 1 FROM range(10)")
        tx.sql("CREATE MATERIALIZED VIEW v0 AS SELECT a, b FROM t0")
        for level in range(1, LEVELS + 1):
            tx.sql(
                f"CREATE MATERIALIZED VIEW v{level} WITH (refresh = 'incremental') AS "
                f"SELECT v.a, v.b + t.b AS b FROM v{level - 1} v JOIN t{level} t ON v.a = t.a"
            )


@pytest.mark.spark_long
def test_rows_are_dropped_behind_the_front(db: vk.Database, held: list[tuple[set[str], int]]) -> None:
    tower(db)
    held.clear()
    commit = db.sql("UPDATE t0 SET b = 5 WHERE a = 3").commit
    assert commit is not None
    assert commit.changes["v5"].weights() == {(3, 10): 1, (3, 6): -1}
    names = {relation.id: relation.name for relation in db._store.state.alive()}
    assert len(held) == LEVELS + 1
    for level, (relations, _) in enumerate(held):
        passed = {f"t{below}" for below in range(level + 1)} | {f"v{below}" for below in range(level)}
        assert not {names[key] for key in relations} & passed, f"held after level {level}"
    assert held[-1] == (set(), 0)


@pytest.mark.spark_long
def test_changes_of_shared_joins_are_dropped_behind_the_front(
    connect: Callable[..., vk.Database], held: list[tuple[set[str], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[str] = []
    scan = CommonChanges.scan

    def counted(self: CommonChanges, *given: Any) -> Any:
        derived.append(given[1].relation)
        return scan(self, *given)

    monkeypatch.setattr(CommonChanges, "scan", counted)
    db = connect(tuning=vk.Tuning(shared_rows=0))
    with db.transaction() as tx:
        for table in ("t0", "t1"):
            tx.sql(f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT)")
            tx.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), 1 FROM range(10)")
        for name, shown in (("low", "t0.b"), ("high", "t1.b")):
            tx.sql(
                f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS "
                f"SELECT t0.a, {shown} FROM t0 JOIN t1 ON t0.a = t1.a"
            )
            tx.sql(f"CREATE MATERIALIZED VIEW over_{name} AS SELECT a FROM {name}")
    held.clear()
    db.sql("UPDATE t0 SET b = 5 WHERE a > 3")
    assert len(derived) == 2, "both views read the change of the shared join"
    assert [count for _, count in held] == [0, 0]
