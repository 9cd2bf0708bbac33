"""An expression that is sent as a tree is the one that the engine's own parser makes of its text."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.algebra.expressions import Expression
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.engine.connect_columns import listed, parsed, typed
from viewkeeper.sql.dialect import parse_expression
from viewkeeper.sql.row_trees import row_tree

ROWS = pa.table(
    {
        "c1": pa.array([1, None, -7, 2147483640], pa.int32()),
        "c2": pa.array([decimal.Decimal("12.34"), decimal.Decimal("-0.05"), None, decimal.Decimal("0.00")]),
        "c3": pa.array(["a", "BUILDING", None, ""]),
        "c4": pa.array([0, 8000, None, -3], pa.date32()),
        "c5": pa.array([0.5, None, float("inf"), -2.25], pa.float64()),
        "c6": pa.array([True, False, None, True]),
        "_w": pa.array([2, 1, 3, 1], pa.int64()),
    }
)
TYPES = ("int", "decimal(4,2)", "string", "date", "double", "boolean", "bigint")

SENT_AS_TREES = [
    "c1 + 1",
    "c1 - c2 * 2",
    "c2 * (1 - 0.05)",
    "c2 / 3",
    "c1 % 3",
    "-c2",
    "-5",
    "0.05",
    "100.00",
    ".5",
    "0.00",
    "-1.50",
    "2147483648",
    "3000000000 + c1",
    "'it is'",
    "TRUE",
    "CAST(NULL AS BIGINT)",
    "CAST(c1 AS DECIMAL(38,2))",
    "CAST(c2 AS STRING)",
    "CAST(c1 AS DOUBLE)",
    "DATE'1998-09-02'",
    "c4 <= DATE'1998-09-02'",
    "c3 = 'BUILDING' AND c1 > 0",
    "c1 > 0 OR c6",
    "NOT c6",
    "c1 IS NULL",
    "c3 IS NOT NULL",
    "c1 <=> NULL",
    "c1 <> 1",
    "c1 IN (1, 2, NULL)",
    "c1 NOT IN (1, 2)",
    "c2 BETWEEN 0 AND 12.34",
    "CASE WHEN c1 > 0 THEN c2 WHEN c6 THEN 1 ELSE -c2 END",
    "CASE WHEN c1 > 0 THEN c2 END",
    "coalesce(c1, 0)",
    "if(c6, c1, c2)",
    "upper(c3)",
    "concat(c3, 'x', c3)",
    "size(array_repeat(c1, 2))",
    "named_struct('a', c1, 'b', c3)",
    "struct(c1, c3)",
    "round(c5, 1)",
    "abs(c1)",
    "year(c4)",
    "extract(YEAR FROM c4)",
    "length(c3)",
    "greatest(c1, 0)",
    "nanvl(c5, CAST('Infinity' AS DOUBLE))",
    "c3 LIKE '%U%'",
    "1L",
    "CASE c1 WHEN 1 THEN 'one' END",
    "c3 || 'x'",
    "c4 + INTERVAL 1 DAY",
]

SENT_AS_TEXT = [
    "row_number() OVER (ORDER BY c1)",
    "transform(array(c1), x -> x + 1)",
    "1e3",
    "TIMESTAMP'2024-01-01 00:00:00'",
    "array(c1)[0]",
    "c1 div 2",
    "'a\\tb'",
    "CAST(c3 AS VARCHAR(3))",
]


SCHEMA = Schema(tuple(Column(n, parse_type(t)) for n, t in zip(ROWS.column_names, TYPES, strict=True)))


def tree(text: str) -> Expression:
    return row_tree(parse_expression(text), SCHEMA)


def frame_of(db: vk.Database) -> object:
    return db._store.engine.arrow(ROWS, SCHEMA)


def seen(frame: object) -> tuple[list[tuple[str, str]], list[tuple[object, ...]]]:
    types = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]  # type: ignore[attr-defined]
    return types, [tuple(row) for row in frame.collect()]  # type: ignore[attr-defined]


def test_the_same_as_the_text(db: vk.Database) -> None:
    frame = frame_of(db)
    for start in range(0, len(SENT_AS_TREES), 12):
        part = SENT_AS_TREES[start : start + 12]
        texts = [f"{text} AS x{i}" for i, text in enumerate(part)]
        taken = listed(*[(tree(text), f"x{i}") for i, text in enumerate(part)])
        for text, column in zip(part, taken, strict=True):
            assert type(column._expr).__name__ == "ColumnAlias", text
        assert seen(frame.select(*taken)) == seen(frame.selectExpr(*texts))  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", SENT_AS_TEXT)
def test_what_has_a_syntax_of_its_own_is_sent_as_text(text: str) -> None:
    assert type(parsed(tree(text))._expr).__name__ == "SQLExpression"


def test_conditions_and_aggregates(db: vk.Database) -> None:
    frame = frame_of(db)
    for text in ("c1 > 0 AND c3 IS NOT NULL", "c1 IN (1, -7)", "NOT (c6 AND c1 = 1)"):
        assert seen(frame.filter(parsed(tree(text)))) == seen(frame.filter(text))  # type: ignore[attr-defined]
    texts = ("sum(c2)", "count(c1)", "count(1)", "min(c4)", "max(c3)", "avg(c2)")
    ours = frame.agg(*[parsed(tree(text)).alias(f"x{i}") for i, text in enumerate(texts)])  # type: ignore[attr-defined]
    theirs = frame.selectExpr(*[f"{text} AS x{i}" for i, text in enumerate(texts)])  # type: ignore[attr-defined]
    assert seen(ours) == seen(theirs)
    copies = "explode(array_repeat(c1, CAST(_w AS INT)))"
    ours = frame.select(*listed("c3", (tree(copies), "y")))  # type: ignore[attr-defined]
    assert seen(ours) == seen(frame.selectExpr("c3", f"{copies} AS y"))  # type: ignore[attr-defined]
    assert seen(frame.select(*listed("*", ("c1", "z")))) == seen(frame.selectExpr("*", "c1 AS z"))  # type: ignore[attr-defined]


def test_typed_literals(db: vk.Database) -> None:
    frame = frame_of(db)
    value = typed(decimal.Decimal("1.50"), parse_type("decimal(12,4)"))
    found = seen(frame.limit(1).select(value.alias("x")))  # type: ignore[attr-defined]
    assert found == ([("x", "decimal(12,4)")], [(decimal.Decimal("1.5000"),)])


def test_an_empty_batch_among_others_raises_nothing(db: vk.Database) -> None:
    schema = Schema((Column("c1", parse_type("bigint")),))
    rows = pa.table({"c1": pa.chunked_array([pa.array([], pa.int64()), pa.array([4, 0], pa.int64())])})
    frame = db._store.engine.arrow(rows, schema)
    assert seen(frame.select(*listed((tree("CASE WHEN c1 > 0 THEN 1 / c1 END"), "x"))))[1] == [(0.25,), (None,)]
