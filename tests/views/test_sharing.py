"""A join that several views share is differentiated once for all of them, and they stay exact."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal

import pytest

import viewkeeper as vk
from tests.marks import long, spark_long

TABLES = """
    CREATE TABLE a (k INT, x INT, y STRING);
    CREATE TABLE b (k INT, z INT, w DECIMAL(10,2));
    CREATE TABLE c (z INT, name STRING);
    CREATE VIEW joined AS SELECT a.k, x, y, b.z, w FROM a JOIN b ON a.k = b.k WHERE w > 1;
"""
VIEWS = {
    "by_x": "SELECT x, count(*) AS n, sum(w) AS s FROM joined GROUP BY x",
    "by_y": "SELECT y, max(z) AS m FROM joined GROUP BY y",
    "plain": "SELECT y, w FROM joined",
    "lefts": "SELECT c.name, j.x FROM c LEFT JOIN joined j ON c.z = j.z",
    "twice": "SELECT p.x AS px, q.y AS qy FROM joined p JOIN joined q ON p.z = q.z AND p.x < q.x",
    "kinds": "SELECT DISTINCT y, z FROM joined",
    "missing": "SELECT name FROM c WHERE NOT EXISTS (SELECT 1 FROM joined j WHERE j.z = c.z AND j.x > 1)",
    "above": "SELECT m, count(*) AS n FROM by_y GROUP BY m",
}


@pytest.fixture
def sharing(connect: Callable[..., vk.Database]) -> vk.Database:
    """A database in which views share the changes of joins however few rows change."""
    return connect(tuning=vk.Tuning(shared_rows=0))


def made(db: vk.Database, names: list[str]) -> None:
    db.sql(TABLES)
    for name in names:
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {VIEWS[name]}")


@pytest.mark.spark_long
def test_the_report_tells_who_shares(sharing: vk.Database) -> None:
    made(sharing, ["by_x", "plain"])
    sharing.sql("INSERT INTO b VALUES (1, 10, 2.5), (2, 20, 0.5), (1, 11, 3)")
    commit = sharing.sql("INSERT INTO a VALUES (1, 5, 'u'), (2, 6, 'v')").commit
    assert sorted(row["w"] for row in commit.changes["plain"].rows.to_pylist()) == [Decimal("2.50"), Decimal("3.00")]
    reasons = {name: commit.report[name].reason for name in ("by_x", "plain")}
    assert all("was derived once for by_x, plain" in reason for reason in reasons.values()), reasons
    read = sorted((report.files_read for report in commit.report.values()), reverse=True)
    assert read[0] > 0
    assert read[1] == 0  # the second view reads nothing
    assert sharing.verify().equal


@pytest.mark.spark_long
def test_few_rows_are_not_worth_it(db: vk.Database) -> None:
    made(db, ["by_x", "plain"])
    commit = db.sql("INSERT INTO a VALUES (1, 5, 'u')").commit
    assert all("derived once" not in report.reason for report in commit.report.values())


@pytest.mark.spark_long
def test_explain_names_the_others(db: vk.Database) -> None:
    made(db, ["by_x", "plain", "lefts"])
    told = db.explain("by_x")
    assert "shared with lefts, plain: (a ⋈ σ[w > 1](b))[k = k]" in told
    assert "derived once for all when more than 20,000 rows change" in told
    body = json.loads(db.explain("plain", format="json"))
    assert body["in common"] == [{"join": "(a ⋈ σ[w > 1](b))[k = k]", "with": ["by_x", "lefts"]}]
    db.sql("CREATE MATERIALIZED VIEW alone AS SELECT x FROM joined WHERE z > 5")  # its own condition comes first
    assert "in common" not in db.explain("alone")


@pytest.mark.spark_long
def test_a_view_that_is_always_computed_anew_shares_nothing(sharing: vk.Database) -> None:
    made(sharing, ["by_x"])
    sharing.sql(f"CREATE MATERIALIZED VIEW plain WITH (refresh = 'full') AS {VIEWS['plain']}")
    assert "in common" not in sharing.explain("by_x")
    commit = sharing.sql("INSERT INTO a VALUES (1, 5, 'u')").commit
    assert commit is not None
    assert all("derived once" not in report.reason for report in commit.report.values())


@pytest.mark.parametrize("seed", [0, *spark_long(1), *long(2)])
def test_views_stay_true(sharing: vk.Database, seed: int) -> None:
    rng = random.Random(seed)
    names = list(VIEWS) if sharing._store.engine.kind == "sail" else ["by_x", "plain", "twice"]
    made(sharing, names)
    steps = 8 if sharing._store.engine.kind == "sail" else 2

    def value(most: int) -> str:
        return "NULL" if rng.random() < 0.15 else str(rng.randrange(most))

    for _ in range(steps):
        with sharing.transaction() as tx:
            for _ in range(rng.randrange(1, 4)):
                rows = range(rng.randrange(1, 6))
                some = [f"({value(3)}, {value(4)}, '{rng.choice('uv')}')" for _ in rows]
                more = [f"({value(3)}, {value(4)}, {rng.randrange(4)})" for _ in rows]
                last = [f"({value(4)}, '{rng.choice('st')}')" for _ in rows]
                statement = rng.choice(
                    [
                        f"INSERT INTO a VALUES {', '.join(some)}",
                        f"INSERT INTO b VALUES {', '.join(more)}",
                        f"INSERT INTO c VALUES {', '.join(last)}",
                        f"DELETE FROM a WHERE x = {rng.randrange(4)}",
                        f"DELETE FROM b WHERE z = {rng.randrange(4)}",
                        f"UPDATE a SET k = {rng.randrange(3)} WHERE y = '{rng.choice('uv')}'",
                        f"UPDATE b SET w = w + 1 WHERE k = {rng.randrange(3)}",
                    ]
                )
                tx.sql(statement)
        assert sharing.verify().equal
