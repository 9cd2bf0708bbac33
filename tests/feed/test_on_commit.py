"""Listeners hear of every commit that is made with a database object."""

from __future__ import annotations

import pytest

import viewkeeper as vk


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_commits_are_told_with_their_times(db: vk.Database) -> None:
    told: list[tuple[int, float]] = []
    end = db.on_commit(lambda commit, seconds: told.append((commit.epoch, seconds)))
    db.sql("CREATE TABLE t (k BIGINT)")
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (1)")
        tx.sql("DELETE FROM t")
    db.sql("INSERT INTO t VALUES (2)")
    assert [epoch for epoch, _ in told] == [1, 2]
    assert all(seconds > 0 for _, seconds in told)
    end()
    db.sql("DELETE FROM t")
    assert len(told) == 2
