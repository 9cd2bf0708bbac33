"""Conditions on the driver: exact where they are known, all rows where they are not."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.analysis.possible_rows import may_be_true
from viewkeeper.sql.dialect import parse_expression
from viewkeeper.sql.row_trees import row_tree

KINDS = {"a": "int", "b": "bigint", "s": "string", "d": "date", "x": "double"}
ROWS = [
    (1, 10, "one", dt.date(2026, 1, 1), 1.0),
    (2, None, None, None, None),
    (2147483647, -5, "", dt.date(1969, 12, 31), -0.5),
    (None, 9223372036854775807, "two", dt.date(2026, 1, 2), 2.0),
]
SCHEMA = Schema(tuple(Column(name, parse_type(kind)) for name, kind in KINDS.items()))
TABLE = pa.table(
    [pa.array(values, c.type.arrow) for values, c in zip(zip(*ROWS, strict=True), SCHEMA, strict=True)],
    names=list(KINDS),
)

CASES: dict[str, list[int] | None] = {
    "a > 1": [1, 2],
    "1 < a": [1, 2],
    "NOT a > 1": [0],
    "a <= b": [0],
    "a IS NULL": [3],
    "NOT s IS NULL AND a IS NULL": [3],
    "s IN ('one', '')": [0, 2],
    "NOT s IN ('one', '')": [3],
    "s = '' OR b = 10": [0, 2],
    "d < DATE '2026-01-02'": [0, 2],
    "d < TIMESTAMP '2026-01-02 00:00:00'": None,
    "b - 1 = 9": [0],
    "CAST(b AS decimal(20,0)) > 5": [0, 3],
    "nullif(b, NULL) = -5": [2],
    "-b = 5": [2],
    "-b - 2 = 3": None,  # of all rows one overflows
    "a + 1 > 0": None,
    "b * 2 > 0": None,
    "x > 1.0": None,
    "length(s) > 2": None,
    "length(s) > 2 AND a = 1": [0],
    "length(s) > 2 OR a = 1": None,
    "NOT (length(s) > 2 OR a = 1)": [1, 2],
    "a IN (1, NULL)": None,
    "s = 1": None,
    "a = 99999999999": [],
}  # fmt: skip


@pytest.mark.parametrize("condition", CASES)
def test_rows_for_which_a_condition_may_be_true(condition: str) -> None:
    mask = may_be_true(row_tree(parse_expression(condition), SCHEMA), TABLE)
    found = None if mask is None else [index for index, held in enumerate(mask.to_pylist()) if held]
    assert found == CASES[condition]
