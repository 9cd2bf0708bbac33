"""Operators on Sail have the types and values that Apache Spark's own SQL gives them, over all pairs of types."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import viewkeeper as vk
from tests.sql import type_pairs as tp
from viewkeeper.errors import EngineError, NotMaintainable, SqlError, TypeMismatch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")
SAMPLE = 5
"""Pairs of each construct in the normal run, all in one query."""


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_some_pairs_of_types_for_each_operator(db: vk.Database) -> None:
    tp.fill(db)
    draw = random.Random(11)
    texts = [t for c in tp.CONSTRUCTS.values() for t in draw.sample(c.texts, min(SAMPLE, len(c.texts)))]
    assert tp.disagreements(texts, tp.asked(db, texts), tp.told_by_spark(texts)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", tp.CONSTRUCTS)
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_all_pairs_of_types(db: vk.Database, name: str) -> None:
    tp.fill(db)
    texts = tp.CONSTRUCTS[name].texts
    assert tp.disagreements(texts, tp.asked(db, texts), tp.told_by_spark(texts)) == []


UNITED = {
    "b1, b4": "int",
    "b4, d2": "decimal(12,2)",
    "f4, b4": "double",
    "d0, dw": "decimal(32,12)",
    "da, ts": "timestamp",
}


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_set_operations_and_values_have_the_common_type(db: vk.Database) -> None:
    tp.fill(db)
    views = []
    for index, (pair, kind) in enumerate(UNITED.items()):
        a, b = pair.split(", ")
        db.sql(f"CREATE VIEW u{index} AS SELECT {a} AS x FROM v UNION SELECT {b} FROM v")
        views.append((f"u{index}", kind))
    for name, kind in views:
        assert db.sql(f"DESCRIBE {name}").rows()[0][1].lower() == kind, name
    db.sql("CREATE VIEW w AS VALUES (1, 1.5, 1F), (2.25, 2, 3)")
    kinds = [row[1].lower() for row in db.sql("DESCRIBE w").rows()]
    assert kinds == ["decimal(12,2)", "decimal(11,1)", "double"]


OVERFLOWS = (
    "i * 2000000000",
    "i + 1",
    "-j - 2",
    "abs(j)",
    "-j",
    "b + 1L",
    "b * 2",
    "b - -1",
    "c div -1",
    "t + t",
    "s * s",
    "CAST(b AS INT)",
    "CAST(i AS TINYINT)",
    "CAST(1e10D AS INT)",
    "CAST(d AS DECIMAL(3,0))",
    "d + d",
    "d * d",
    "i / 0",
    "b % 0",
    "d / 0",
    "transform(array(i), x -> x * 2)[0]",
    "sum(b) OVER (ORDER BY k)",
    "CASE WHEN i > 0 THEN i * 2 END",
)
"""What is too large for its type, each at the limit of a type."""

LIMITS = (
    "CREATE TABLE m (k INT, t TINYINT, s SMALLINT, i INT, j INT, b BIGINT, c BIGINT, d DECIMAL(38,0))",
    "INSERT INTO m SELECT k, CAST(127 AS TINYINT), CAST(32767 AS SMALLINT), 2147483647, CAST(-2147483648L AS INT), "
    "9223372036854775807L, CAST('-9223372036854775808' AS BIGINT), "
    "CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0)) FROM VALUES (1), (2) AS q(k)",
)


def _is_refused(db: vk.Database, text: str) -> bool:
    try:
        db.sql(f"SELECT {text} AS x FROM m").arrow()
    except (TypeMismatch, EngineError) as problem:
        return "_OVERFLOW]" in problem.message or "_BY_ZERO]" in problem.message or "OUT_OF_RANGE" in problem.message
    return False


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_overflows_its_type_raises(db: vk.Database) -> None:
    for text in LIMITS:
        db.sql(text)
    assert [text for text in OVERFLOWS if not _is_refused(db, text)] == []
    with pytest.raises(TypeMismatch, match=r"\[ARITHMETIC_OVERFLOW\] 4294967294 does not fit INT"):
        db.sql("UPDATE m SET i = i * 2")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT k, sum(b) AS s, i - 1 AS p FROM m GROUP BY k, i")
    with pytest.raises(TypeMismatch, match="ARITHMETIC_OVERFLOW"):
        db.sql("INSERT INTO m SELECT * FROM m WHERE k = 1")
    assert db.verify().equal


def test_the_same_overflows_raise_on_both_engines(db: vk.Database) -> None:
    for text in LIMITS:
        db.sql(text)
    assert [text for text in OVERFLOWS[::6] if not _is_refused(db, text)] == []


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_times_and_averages_over_windows_are_those_of_spark(db: vk.Database) -> None:
    db.sql("CREATE TABLE w (k INT, d DECIMAL(7,2), a DATE)")
    db.sql("INSERT INTO w VALUES (1, 1, DATE'2024-01-31'), (2, 2, NULL), (3, 2, DATE'2023-01-01')")
    found = db.sql("SELECT avg(d) OVER () AS m, sum(k) OVER (ORDER BY k) AS s FROM w").arrow()
    assert [str(value) for value in found["m"].to_pylist()] == ["1.666667"] * 3
    assert sorted(found["s"].to_pylist()) == [1, 3, 6]
    assert str(db.sql("SELECT a + INTERVAL 1 HOUR AS t FROM w").arrow().schema.field("t").type).startswith("timestamp")
    assert db.sql("SELECT k FROM w WHERE a - DATE'2023-01-01' > INTERVAL 30 DAYS").rows() == [(1,)]
    with pytest.raises(NotMaintainable, match="the type INTERVAL is not supported"):
        db.sql("CREATE VIEW days AS SELECT a - DATE'2023-01-01' AS x FROM w")


def test_row_values_in_statements(db: vk.Database) -> None:
    """A NULL leaves a comparison of rows open, unless another part differs."""
    db.sql("CREATE TABLE r (i INT, j INT, n INT)")
    db.sql("INSERT INTO r VALUES (1, 2, 0), (1, NULL, 0), (3, NULL, 0), (5, 6, 0)")
    db.sql("UPDATE r SET n = CASE WHEN (i, j) = (1, 2) THEN 1 ELSE 2 END WHERE (i, j) IN ((1, 2), (5, 6))")
    assert sorted(db.sql("SELECT i, n FROM r WHERE (i, j) = (5, 6) OR (i, j) = (1, 2)").rows()) == [(1, 1), (5, 2)]
    db.sql("DELETE FROM r WHERE (i, j) NOT IN ((1, 2))")
    assert sorted(db.sql("SELECT i FROM r").rows()) == [(1,), (1,)]
    with pytest.raises(SqlError, match="a row of 2 values is compared with one of 3"):
        db.sql("SELECT i FROM r WHERE (i, j) = (1, 2, 3)").rows()


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_has_no_common_type_is_refused_on_sail(db: vk.Database) -> None:
    db.sql("CREATE TABLE r (i INT, d DATE, w DECIMAL(38,18))")
    for query, message in (
        ("SELECT CASE WHEN i > 0 THEN i ELSE d END AS x FROM r", "INT and DATE have no common type"),
        ("SELECT i FROM r WHERE i = d", "INT and DATE have no common type"),
        ("SELECT greatest(i, 'a') AS x FROM r", "INT and STRING cannot be compared by greatest"),
        ("SELECT w * w AS x FROM r", r"DECIMAL\(38,18\) \* DECIMAL\(38,18\) needs more digits than Sail computes with"),
    ):
        with pytest.raises(SqlError, match=message):
            db.sql(f"CREATE VIEW x AS {query}")


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_long_chains_of_operators(connect: Callable[..., vk.Database]) -> None:
    db = connect()
    db.sql("CREATE TABLE r (i INT)")
    db.sql("INSERT INTO r VALUES (1), (NULL)")
    ors = " OR ".join(f"i = {number}" for number in range(200))
    assert db.sql(f"SELECT i FROM r WHERE {ors}").rows() == [(1,)]
