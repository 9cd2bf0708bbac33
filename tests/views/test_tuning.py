"""Thresholds decide how work is done, never what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest

import viewkeeper as vk
from viewkeeper.algebra.tuning import LEAST

VIEWS = """
    CREATE TABLE a (k INT PRIMARY KEY, x INT, y STRING);
    CREATE TABLE b (k INT, z INT, PRIMARY KEY (k, z));
    CREATE TABLE edge (s INT, t INT);
    CREATE MATERIALIZED VIEW joined AS SELECT a.k, x, z FROM a JOIN b ON a.k = b.k;
    CREATE MATERIALIZED VIEW totals AS SELECT x, count(*) AS n, max(z) AS m FROM a JOIN b ON a.k = b.k GROUP BY x;
    CREATE MATERIALIZED VIEW best AS SELECT k, z FROM b ORDER BY z DESC LIMIT 2;
    CREATE MATERIALIZED VIEW lonely AS SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k);
    CREATE MATERIALIZED VIEW reach AS WITH RECURSIVE r(s, t) AS (
        SELECT s, t FROM edge UNION SELECT r.s, edge.t FROM r JOIN edge ON r.t = edge.s) SELECT * FROM r
"""
STEPS = (
    "INSERT INTO a SELECT CAST(id AS INT), CAST(id % 3 AS INT), 'x' FROM range(12)",
    "INSERT INTO b SELECT CAST(id % 8 AS INT), CAST(id AS INT) FROM range(20)",
    "INSERT INTO edge SELECT CAST(id AS INT), CAST((id + 1) % 6 AS INT) FROM range(6)",
    "UPDATE a SET x = x + 1 WHERE k < 5",
    "DELETE FROM b WHERE z > 12",
    "DELETE FROM edge WHERE s = 3",
    "MERGE INTO a USING (SELECT 40 AS k UNION ALL SELECT 2) s ON a.k = s.k "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, x, y) VALUES (s.k, 0, 'y')",
)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_views_stay_true_with_the_least_thresholds(connect: Callable[..., vk.Database]) -> None:
    least = vk.Tuning(**{field.name: LEAST.get(field.name, 0) for field in fields(vk.Tuning)})
    db = connect(durability="process", tuning=least)
    usual = connect("usual", durability="process")
    for each in (db, usual):
        each.sql(VIEWS)
    for step in STEPS:
        for each in (db, usual):
            each.sql(step)
        certificate = db.verify()
        assert certificate.equal, f"{step}: {certificate}"
    db.compact()
    assert db.verify().equal
    for view in ("joined", "totals", "best", "lonely", "reach"):
        query = f"SELECT * FROM {view} ORDER BY ALL"
        assert db.sql(query).rows() == usual.sql(query).rows() != []


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_handle_has_its_own(connect: Callable[..., vk.Database]) -> None:
    few, usual = connect(tuning=vk.Tuning(file_rows=10, inlined_rows=0)), connect()
    few.sql("CREATE TABLE t (n INT); CREATE TABLE u (n INT)")
    with few.transaction() as tx:
        tx.insert("t", [(number,) for number in range(35)])
    with usual.transaction() as tx:
        tx.insert("u", [(number,) for number in range(35)])
    files = {name: len(usual._store.refresh().find(name).files) for name in ("t", "u")}
    assert files == {"t": 4, "u": 1}
