# ruff: noqa: E501
"""Tables of values that engines are known to disagree about: limits, NULL, NaN, infinities, -0.0, odd strings, ends of time."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type

ROWS = 72
GROUPS = 9


def _integers(bits: int) -> list[Any]:
    top = 2 ** (bits - 1) - 1
    return [0, 1, -1, 2, 3, 5, 7, 10, 31, 100, -100, top, -top - 1, top - 1, None]


_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 10.0, 123.456, 1e10, -1e10, 1e-10, 65.0]
_FLOATS += [float("nan"), float("inf"), float("-inf"), None]

_TIMES = [
    "0001-01-01 00:00:00", "1582-10-04 23:59:59.999999", "1582-10-15 00:00:00", "1900-01-01 12:34:56.5",
    "1969-12-31 23:59:58.5", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "1970-01-01 00:00:00.000001",
    "2000-02-29 06:07:08", "2023-12-31 23:59:59.999", "2024-01-07 00:00:00", "2024-01-08 12:00:00",
    "2024-02-29 10:11:12.123456", "2024-12-30 01:00:00.5", "2038-01-19 03:14:08", "9999-12-31 23:59:59.999999",
]  # fmt: skip

_STRINGS = [
    "", " ", "a", "A", "abc", "hello world", "hELLO wORLD", "jean-luc", "O'Neil", "Ärger ß ÎLE", "日本語", "😀x", "x,y;z",
    "  trim me  ", "0", "1", "-1", "+2", " 3 ", "1.5", "-1.5e3", "1e3", ".5", "5.", "NaN", "Infinity", "-inf",
    "true", "F", "yes", "2024-02-29", "2024-2-9", "2023-02-29", "2024-02-29 10:11:12.123456", "2024-02-29T10:11:12Z",
    "2024-02", "10:11:12", "2147483648", "99999999999999999999", '{"a":1,"b":[1, 2.50,{"c":"x"}]}', "[1, 2.50, null]",
    "{}", "<a><b>1</b><b>2</b></a>", "http://user@x.org:80/p/q?k=v&k2=%20#f", "a%b_c", "\\", "tab\tnew\nline", "QWJj",
    "4142", "ff", "aXbXc", "abcabc", "key=1,other=2", "1,2,3", "é", "UTC", None,
]  # fmt: skip

_ARRAYS: list[Any] = [
    [],
    [None],
    [1],
    [1, 2, 3],
    [3, 1, 2],
    [1, None, 1],
    [2, 2, 3],
    [2**31 - 1, -(2**31)],
    [4, 5],
    None,
]

POOLS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "TINYINT": _integers(8),
    "SMALLINT": _integers(16),
    "INT": [*_integers(32), 1000, 2024, 86400],
    "BIGINT": [*_integers(64), 2**53 + 1, -(2**53) - 1, 86400, 2**31, 1_700_000_000],
    "FLOAT": [*_FLOATS, 3.4028234663852886e38, 1.401298464324817e-45, 16777217.0],
    "DOUBLE": [*_FLOATS, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 1.005, 2.0**53, 1e7, 1e-3, 1e-4,
               9999999.0, 123456789.125, 1e18, 9.3e18, -9.3e18, 0.30000000000000004, 1e22, 4.35, 700.0],
    "DECIMAL(9,2)": ["0.00", "1.00", "-1.00", "0.01", "1.50", "2.50", "-2.50", "2.25", "10.00", "1234567.89",
                     "9999999.99", "-9999999.99", None],
    "DECIMAL(18,0)": ["0", "1", "-1", "2", "5", "10", "123456789012345678", "999999999999999999",
                      "-999999999999999999", None],
    "DECIMAL(38,18)": ["0", "1", "-1", "0.5", "1.5", "2.5", "0.000000000000000001", "12345678901234567890.123456789012345678",
                       "99999999999999999999.999999999999999999", "-99999999999999999999.999999999999999999", None],
    "DECIMAL(38,0)": ["0", "1", "-1", "2", "7", "10", "12345678901234567890123456789012345678", "9" * 38, "-" + "9" * 38, None],
    "DECIMAL(3,3)": ["0", "0.001", "-0.001", "0.5", "0.125", "0.999", "-0.999", None],
    "STRING": _STRINGS,
    "BINARY": [b"", b"\x00", b"abc", b"ABC", b"\xff\xfe", "é".encode(), b"hello world", b"1", None],
    "DATE": [dt.date.fromisoformat(time[:10]) for time in _TIMES] + [dt.date(2024, 1, 31), dt.date(2023, 2, 28), None],
    "TIMESTAMP": [*map(dt.datetime.fromisoformat, _TIMES), None],
    "TIMESTAMP_NTZ": [*map(dt.datetime.fromisoformat, _TIMES), None],
    "ARRAY<INT>": _ARRAYS,
    "ARRAY<DOUBLE>": [[], [None], [1.0], [1.5, -0.0, 0.0], [float("nan"), 1.0, float("inf")], [float("-inf"), None, 2.5],
                      [float("nan"), float("nan")], [3.0, 1.0, 2.0], None],
    "ARRAY<STRING>": [[], [None], ["a"], ["b", "a", "c"], ["a", None, "a"], ["", " "], ["é", "z", "A"], ["1", "2"], None],
    "ARRAY<ARRAY<INT>>": [[], [None], [[1]], [[1, 2], [3]], [[], [1, None]], [[1, 2], None], None],
    "MAP<STRING,INT>": [[], [("a", 1)], [("a", 1), ("b", None)], [("b", 2), ("a", 1)], [("", 0)], [("é", -1)], None],
    "STRUCT<a:INT,b:STRING>": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": -1, "b": ""}, {"a": 1, "b": "y"},
                               {"a": 2**31 - 1, "b": "é"}, None],
}  # fmt: skip
"""The values of each type."""


def column_of(kind: str, which: str) -> str:
    """The name of a column of the table: `which` is a or b, two columns of each type."""
    return f"{which}_{''.join(c if c.isalnum() else '_' for c in kind.lower()).strip('_')}"


def _value(kind: str, value: Any) -> Any:
    return Decimal(value) if kind.startswith("DECIMAL") and value is not None else value


def _drawn(kind: str, which: str) -> list[Any]:
    """Every value of a pool, then values at random; the b column is in another order."""
    pool = [_value(kind, value) for value in POOLS[kind]]
    draw = random.Random(f"{kind} {which}")
    rows = (pool + draw.choices(pool, k=ROWS))[:ROWS]
    if which == "b":
        draw.shuffle(rows)
    return rows


def schema() -> Schema:
    """The columns of the table."""
    columns = [Column("id", parse_type("INT"), nullable=False), Column("g", parse_type("INT"))]
    columns += [Column(column_of(kind, which), parse_type(kind)) for kind in POOLS for which in "ab"]
    return Schema(tuple(columns))


def table() -> pa.Table:
    """The table: id, g (the number of a group, NULL for one of them), and two columns of each type."""
    groups = [None if row % GROUPS == 0 else row % GROUPS for row in range(ROWS)]
    data: list[list[Any]] = [list(range(ROWS)), groups]
    data += [_drawn(kind, which) for kind in POOLS for which in "ab"]
    kinds = schema().arrow
    arrays = [pa.array(values, type=field.type) for values, field in zip(data, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, schema=kinds)
