"""An assertion that only warns: the commit's warnings, remarks of a result, and what history says."""

from __future__ import annotations

import pytest

import viewkeeper as vk


@pytest.fixture
def warned(db: vk.Database) -> vk.Database:
    db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    db.sql("CREATE ASSERTION low ON VIOLATION WARN CHECK (NOT EXISTS (SELECT a FROM t WHERE b > 10))")
    return db


def test_a_result_remarks_what_is_violated(warned: vk.Database) -> None:
    result = warned.sql("INSERT INTO t VALUES (1, 5), (2, 20)")
    assert result.commit is not None
    assert result.commit.warnings == ("the assertion low is violated: by (a = 2)",)
    assert result.remarks == ["the assertion low is violated: by (a = 2)"]
    assert warned.sql("INSERT INTO t VALUES (3, 5)").remarks == []
    assert warned.sql("BEGIN; UPDATE t SET b = 30 WHERE a = 3; COMMIT").remarks == [
        "the assertion low is violated: by (a = 3)"
    ]
    assert warned.sql("SELECT a FROM low ORDER BY a").rows() == [(2,), (3,)]


@pytest.mark.spark_long
def test_history_counts_the_new_violating_rows(warned: vk.Database) -> None:
    warned.sql("INSERT INTO t VALUES (1, 5), (2, 20)")
    warned.sql("INSERT INTO t SELECT 10 + id, 11 FROM range(7)")
    warned.sql("UPDATE t SET b = 40 WHERE a = 2")
    rows = [row["changes"] for row in warned.history(3)]
    assert rows == [
        "t: 2 rows changed",
        "t: 7 rows changed; low: 7 rows violate it",
        "t: 2 rows changed; low: 1 row violates it",
    ]
