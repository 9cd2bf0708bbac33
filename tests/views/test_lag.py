"""A view with a lag is refreshed by the first commit after the lag."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from viewkeeper.maintain import propagation


def test_lag(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("CREATE TABLE t (a INT)")
    db.sql("CREATE MATERIALIZED VIEW v WITH (lag = '5 minutes') AS SELECT count(*) AS n, sum(a) AS s FROM t")
    db.sql("INSERT INTO t VALUES (1), (2)")
    assert db.sql("SELECT * FROM v").rows() == [(0, None)]
    assert db.verify("v").equal
    later = propagation.now() + 301
    monkeypatch.setattr(propagation, "now", lambda: later)
    commit = db.sql("INSERT INTO t VALUES (4)").commit
    assert commit is not None
    assert commit.changes["v"].weights() == {(0, None): -1, (3, 7): 1}
    assert db.sql("SELECT * FROM v").rows() == [(3, 7)]
    assert db.verify("v").equal
