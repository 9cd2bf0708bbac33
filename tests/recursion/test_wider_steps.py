"""A step of WITH RECURSIVE may have wider integers than the start."""

from __future__ import annotations

import viewkeeper as vk


def test_a_step_with_wider_integers_widens_the_recursion(db: vk.Database) -> None:
    db.sql("CREATE TABLE starts (id INT PRIMARY KEY); INSERT INTO starts VALUES (1), (3)")
    db.sql(
        "CREATE MATERIALIZED VIEW steps AS WITH RECURSIVE r(n, d) AS (SELECT id, 0 FROM starts UNION "
        "SELECT n + 1, d + CAST(1 AS BIGINT) FROM r WHERE n < 4) SELECT n, d FROM r"
    )
    assert [str(column.type) for column in db.store.refresh().find("steps").schema] == ["INT", "BIGINT"]
    assert sorted(db.view("steps").read()) == [(1, 0), (2, 1), (3, 0), (3, 2), (4, 1), (4, 3)]
    commit = db.sql("DELETE FROM starts WHERE id = 3").commit
    assert commit is not None
    assert commit.changes["steps"].weights() == {(3, 0): -1, (4, 1): -1}
    assert db.verify("steps").equal
