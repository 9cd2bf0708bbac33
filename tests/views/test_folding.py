"""Stored group-bys over every type: minima, maxima and sums follow random changes, and every kind of key is a group."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk

FLOATS = (0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, None)
TEXTS = ("a", "é", "zz", "", "\U0001f600")
TABLE = """
CREATE TABLE t (id BIGINT PRIMARY KEY, g FLOAT, b BOOLEAN, f FLOAT, d DOUBLE, s STRING, n BINARY, dt DATE,
                ts TIMESTAMP, tn TIMESTAMP_NTZ, de DECIMAL(10,3), a ARRAY<INT>)
"""
EXTREMA = ", ".join(
    f"min({c}) AS lo_{c}, max({c}) AS hi_{c}" for c in ("b", "f", "d", "s", "n", "dt", "ts", "tn", "de")
)
VIEWS = {
    "per_group": f"SELECT g, {EXTREMA}, count(*) AS rows, sum(id) AS ids, sum(de) AS total FROM t GROUP BY g",
    "of_all": f"SELECT {EXTREMA}, sum(id) AS ids, count(s) AS texts FROM t",
    "by_array": "SELECT a, b, count(*) AS rows, max(f) AS hi FROM t GROUP BY a, b",
    "different": "SELECT DISTINCT a, -f AS turned FROM t",
}
ROUNDS = {"sail": 10, "spark": 2}


def row(key: int, rng: random.Random) -> tuple[Any, ...]:
    def perhaps(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    moment = dt.datetime(1950 + rng.randrange(100), 1, 1)
    return (
        key,
        rng.choice((0.0, -0.0, math.nan, None, 1.0)),
        perhaps(rng.random() < 0.5),
        rng.choice(FLOATS),
        rng.choice(FLOATS),
        perhaps(rng.choice(TEXTS)),
        perhaps(bytes([rng.randrange(256)])),
        perhaps(dt.date(1900 + rng.randrange(200), 1, 1)),
        perhaps(moment.replace(tzinfo=dt.UTC)),
        perhaps(moment),
        perhaps(decimal.Decimal(rng.randrange(-(10**6), 10**6)).scaleb(-3)),
        perhaps([rng.randrange(2), None][: rng.randrange(3)]),
    )


def test_every_type(db: vk.Database, engine: str) -> None:
    rng = random.Random(4)
    db.sql(TABLE)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")
    keys: list[int] = []
    following = 0
    for _ in range(ROUNDS[engine]):
        gone = rng.sample(keys, min(len(keys), rng.randrange(6)))
        new = [row(following + i, rng) for i in range(rng.randrange(1, 7))]
        following += len(new)
        keys = [key for key in keys if key not in gone] + [values[0] for values in new]
        with db.transaction() as tx:
            if gone:
                tx.delete_by_key("t", gone)
            tx.insert("t", new)
        certificate = db.verify()
        assert certificate.equal, certificate
    assert db.sql("SELECT count(*), sum(rows) FROM t, per_group GROUP BY t.id LIMIT 1").rows()[0][1] == len(keys)


def test_every_type_with_runners_up(connect: Callable[..., vk.Database], engine: str) -> None:
    test_every_type(connect(tuning=vk.Tuning(large_group=2, runners_up=1)), engine)


def test_many_copies_count_as_often_as_they_are_there(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (g INT, x DECIMAL(20,2))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s, count(x) AS n, max(x) AS m FROM t GROUP BY g")
    value = decimal.Decimal("123456789012345678.91")
    with db.transaction() as tx:
        tx.insert("t", [(1, value)] * 300 + [(1, None)] * 7 + [(2, value)])
    assert sorted(db.sql("SELECT * FROM v").rows()) == [(1, 300 * value, 300, value), (2, value, 1, value)]
    commit = db.sql("DELETE FROM t WHERE g = 1").commit
    assert commit is not None
    assert commit.changes["v"].weights() == {(1, 300 * value, 300, value): -1}


def test_a_sum_that_does_not_fit_is_refused(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, x DECIMAL(38,0))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
    db.sql("INSERT INTO t VALUES (1, CAST('90000000000000000000000000000000000000' AS DECIMAL(38,0)))")
    with pytest.raises(vk.errors.TypeMismatch) as problem:
        db.sql("INSERT INTO t VALUES (2, CAST('90000000000000000000000000000000000000' AS DECIMAL(38,0)))")
    assert str(problem.value) == (
        "v cannot be maintained, so nothing was committed\n"
        "detail: a sum does not fit in DECIMAL(38,0)\n"
        "hint: ALTER MATERIALIZED VIEW v SUSPEND; lets the tables change without it"
    )
    assert db.sql("SELECT count(*) FROM t").rows() == [(1,)]
    db.sql("INSERT INTO t VALUES (3, -1)")
    assert db.sql("SELECT s FROM v").rows() == [(89999999999999999999999999999999999999,)]
