"""Window functions of floats have one answer: the order in which an engine reads rows does not show in their digits."""

from __future__ import annotations

import random

import viewkeeper as vk

NUMBERS = [1e16, -1e16, 0.1, 0.2, 0.3, 1.0, 7e-9, 3e15, -3e15, 1 / 3]


SLIDING = """, sum(x) OVER (PARTITION BY k ORDER BY o RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS near,
    var_pop(x) OVER (PARTITION BY k ORDER BY o) AS variance"""
"""What Sail computes in another way, so that it is refused there."""


def test_sums_of_doubles_find_their_old_rows(db: vk.Database, engine: str) -> None:
    rng = random.Random(7)
    db.sql("CREATE TABLE d (k INT, o INT, x DOUBLE)")
    db.sql(f"""CREATE MATERIALIZED VIEW v AS SELECT k, o, x, sum(x) OVER (PARTITION BY k) AS total,
        avg(x) OVER (PARTITION BY k ORDER BY o) AS running, stddev(x) OVER (PARTITION BY k) AS spread
        {SLIDING if engine == "spark" else ""} FROM d""")
    for step in range(3 if engine == "sail" else 2):
        with db.transaction() as tx:
            tx.insert("d", [(rng.randint(1, 2), rng.randint(1, 3), x) for x in rng.sample(NUMBERS, len(NUMBERS))])
            if step:
                tx.sql("DELETE FROM d WHERE x = 0.1D")
    assert db.verify().equal
