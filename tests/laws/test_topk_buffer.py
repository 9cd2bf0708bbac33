"""Top-k from a stored buffer: rows are inserted and deleted before, at and behind its boundary, until it runs short."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import viewkeeper as vk

STEPS = {"sail": 25, "spark": 3}


@pytest.mark.spark_long  # on Apache Spark, tests/laws/test_laws.py has both kinds of a buffer
def test_a_buffer_runs_short_and_is_read_again(connect: Callable[..., vk.Database], engine: str) -> None:
    db = connect(tuning=vk.Tuning(topk_slack=1))
    db.sql("CREATE TABLE t (g INT, x INT, s STRING)")
    db.sql("CREATE MATERIALIZED VIEW first AS SELECT * FROM t ORDER BY x DESC, s LIMIT 2")
    db.sql("CREATE MATERIALIZED VIEW later AS SELECT x, s FROM t ORDER BY x LIMIT 2 OFFSET 1")
    db.sql(
        "CREATE MATERIALIZED VIEW each AS SELECT k.g, r.x FROM (SELECT DISTINCT g FROM t) k, "
        "LATERAL (SELECT x FROM t WHERE t.g = k.g ORDER BY x LIMIT 1) r"
    )
    rng = random.Random(5)
    notes: list[str] = []
    for _ in range(STEPS[engine]):
        with db.transaction() as tx:
            rows = db.table("t").read().rows()
            best = sorted(rows, key=lambda row: -(row[1] if row[1] is not None else -1))[:3]
            gone = rng.sample(rows, min(len(rows), 2)) if rng.random() < 0.5 else best[: rng.randint(0, 3)]
            if gone:
                tx.delete("t", gone)
            new = [
                (rng.randint(1, 3), rng.choice([None, *range(9)]), rng.choice("ab")) for _ in range(rng.randint(0, 4))
            ]
            if new:
                tx.insert("t", new)
        if tx.commit_info is not None:
            notes += [report.reason for name, report in tx.commit_info.report.items() if name != "t"]
        certificate = db.verify()
        assert certificate.equal, str(certificate)
    if engine == "sail":
        assert any("ran short" in note for note in notes)
        assert any("ran short" not in note for note in notes)
