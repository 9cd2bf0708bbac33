"""A value is stored by the same rules however it is ingested: few rows or many, INSERT, UPDATE or MERGE."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk
from tests.marks import spark_long

FITS = {
    ("TIMESTAMP_NTZ", "TIMESTAMP'2024-07-01 10:00:00'"): "2024-07-01 10:00:00",
    ("TIMESTAMP", "TIMESTAMP_NTZ'2024-07-01 10:00:00'"): "2024-07-01 10:00:00",
    ("DATE", "'2024-01-02'"): "2024-01-02",
    ("TIMESTAMP", "DATE'2024-01-02'"): "2024-01-02 00:00:00",
    ("DECIMAL(5,1)", "CAST(2.25 AS DECIMAL(5,2))"): "2.3",
    ("DECIMAL(20,0)", "7"): "7",
    ("BIGINT", "CAST(7 AS SMALLINT)"): "7",
    ("INT", "CAST(7 AS DOUBLE)"): "7",
}
REFUSED = [
    ("INT", "2.5"),
    ("INT", "3000000000"),
    ("INT", "'7'"),
    ("STRING", "7"),
    ("DOUBLE", "9007199254740993"),
    ("FLOAT", "16777217"),
    ("DATE", "'2024-1-2'"),
    ("DATE", "'2024-01-02 10:00:00'"),
    ("DATE", "'soon'"),
    ("DECIMAL(3,1)", "1000"),
]
WAYS = {
    "insert": "INSERT INTO t SELECT id + 10, {value} FROM range(0, 2)",
    "update": "UPDATE t SET v = {value}",
    "merge": "MERGE INTO t USING (SELECT id + 10 AS k FROM range(0, 2)) s ON t.k = s.k "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, {value})",
}


@pytest.fixture(params=["few", *spark_long("many")])
def size(request: pytest.FixtureRequest) -> vk.Tuning:
    """Whether two rows count as few, for the driver, or as many, for the engine."""
    return vk.Tuning(small_rows=1) if request.param == "many" else vk.Tuning()


def attempts(db: vk.Database, kind: str, value: str) -> list[tuple[str, str | None]]:
    """What each way of storing a value gives: its text, or None where it is refused."""
    found: list[tuple[str, str | None]] = []
    for way, text in WAYS.items():
        db.sql(f"CREATE TABLE t (k BIGINT PRIMARY KEY, v {kind}); INSERT INTO t (k) VALUES (1), (2)")
        try:
            db.sql(text.format(value=value))
            ((stored,),) = db.sql("SELECT DISTINCT CAST(v AS STRING) FROM t WHERE v IS NOT NULL").rows()
            found.append((way, stored))
        except vk.errors.TypeMismatch as problem:
            named = "column 'v' of t, which is" in problem.message.replace("column v ", "column 'v' ")
            found.append((way, None if named else problem.message))
        db.sql("DROP TABLE t")
    return found


def test_one_set_of_rules(connect: Callable[..., vk.Database], engine: str, size: vk.Tuning) -> None:
    db = connect(time_zone="Europe/Berlin", tuning=size)
    for (kind, value), wanted in FITS.items():
        assert attempts(db, kind, value) == [(way, wanted) for way in WAYS], (kind, value)
    for kind, value in REFUSED if engine == "sail" else REFUSED[::9]:
        assert attempts(db, kind, value) == [(way, None) for way in WAYS], (kind, value)
