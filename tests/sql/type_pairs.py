"""Operators over all pairs of types: what Viewkeeper on Sail gives, and what Apache Spark's own SQL gives.

All pairs of a construct are the columns of one query, over one table with a column per type, so that a construct costs
one query on each engine.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import viewkeeper as vk
from viewkeeper.engine.engine import open_engine

COLUMNS = {
    "b1": ("TINYINT", ("1", "-7", "NULL", "11")),
    "b2": ("SMALLINT", ("2", "-3", "30", "NULL")),
    "b4": ("INT", ("3", "-2", "40001", "NULL")),
    "b8": ("BIGINT", ("4", "-9", "NULL", "2147483649")),
    "f4": ("FLOAT", ("0.5", "-2.25", "16777216", "NULL")),
    "f8": ("DOUBLE", ("0.1", "-1.5", "NULL", "1e15")),
    "d2": ("DECIMAL(7,2)", ("2.00", "-0.05", "99999.99", "NULL")),
    "d5": ("DECIMAL(5,5)", ("0.00003", "-0.5", "NULL", "0.99999")),
    "d0": ("DECIMAL(20,0)", ("3", "-7", "NULL", "1234567890123")),
    "dw": ("DECIMAL(30,12)", ("3.000000000007", "-7.1", "NULL", "123456.5")),
    "bo": ("BOOLEAN", ("true", "false", "NULL", "true")),
    "da": ("DATE", ("DATE'2024-02-03'", "DATE'1969-12-31'", "NULL", "DATE'2000-02-29'")),
    "ts": ("TIMESTAMP", ("TIMESTAMP'2024-02-03 00:00:00'", "TIMESTAMP'1969-12-31 23:59:59.5'", "NULL", "NULL")),
    "tn": (
        "TIMESTAMP_NTZ",
        ("TIMESTAMP_NTZ'2024-02-03 00:00:00'", "TIMESTAMP_NTZ'1960-01-01 00:00:01'", "NULL", "NULL"),
    ),
    "bi": ("BINARY", ("X'6162'", "X''", "NULL", "X'61'")),
    "st": ("STRING", ("'ab'", "''", "NULL", "'a'")),
}
"""A column per type, and its values."""

_NUMBERS = ("b1", "b2", "b4", "b8", "f4", "f8", "d2", "d5", "d0", "dw")
_TIMES = ("da", "ts", "tn")
_LITERALS = {"1": "b4", "-2": "b4", "3L": "b8", "2.5": "d2", "1.5D": "f8", "0.25F": "f4"}
_TEXTS = {"'5'": ("b1", "b2", "b4", "b8", "d0"), "'0.5'": ("f4", "f8", "d2"), "'2024-02-03'": _TIMES, "'true'": ("bo",)}


@dataclass(frozen=True)
class Construct:
    """An expression of two values, and the pairs it can be asked for."""

    template: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def texts(self) -> list[str]:
        """The expression for each pair."""
        return [self.template.replace("{a}", a).replace("{b}", b) for a, b in self.pairs]


def _of(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(itertools.product(names, names))


def _with_literals(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [pair for name in names for text in _LITERALS for pair in ((name, text), (text, name))]


_ARITHMETIC = (*_of(_NUMBERS), *_with_literals(_NUMBERS))
_INTEGERS = ("b1", "b2", "b4", "b8")
_TEXT_PAIRS = tuple((name, text) for text, names in _TEXTS.items() for name in names)
_ALIKE = (
    *_ARITHMETIC,
    *_of(_TIMES),
    *((name, name) for name in ("bo", "bi", "st")),
    *_TEXT_PAIRS,
    *((name, "NULL") for name in COLUMNS),
    *(("NULL", name) for name in COLUMNS),
)
_ORDERED = tuple(pair for pair in _ALIKE if pair not in _TEXT_PAIRS)

CONSTRUCTS: dict[str, Construct] = {
    **{f"{{a}} {op} {{b}}": Construct(f"{{a}} {op} {{b}}", _ARITHMETIC) for op in ("+", "-", "*")},
    "{a} / {b}": Construct("{a} / nullif({b}, 0)", _ARITHMETIC),
    "{a} % {b}": Construct("{a} % nullif({b}, 0)", _ARITHMETIC),
    "{a} div {b}": Construct(
        "{a} div nullif({b}, 0)", tuple(p for p in _ARITHMETIC if not {*p} & {"f4", "f8", "1.5D", "0.25F"})
    ),
    "+ '5'": Construct("{a} + {b}", tuple((a, b) for a, b in _TEXT_PAIRS if a in _NUMBERS)),
    "{a} & {b}": Construct("({a} & {b}) | ({b} ^ 1)", tuple(_of(_INTEGERS))),
    "~ {a}": Construct("~{a}", tuple((name, "1") for name in _INTEGERS)),
    "- {a}": Construct("-{a}", tuple((name, "1") for name in _NUMBERS)),
    "CASE": Construct("CASE WHEN b2 > 0 THEN {a} ELSE {b} END", _ALIKE),
    "coalesce": Construct("coalesce({a}, {b})", _ALIKE),
    "nvl": Construct("nvl({a}, {b})", _ALIKE),
    "nvl2": Construct("nvl2(b2, {a}, {b})", _ALIKE),
    "if": Construct("if(b2 > 0, {a}, {b})", _ALIKE),
    "nullif": Construct("nullif({a}, {b})", tuple(p for p in _ALIKE if p[0] != "NULL")),
    "greatest": Construct("greatest({a}, {b})", _ORDERED),
    "least": Construct("least({b}, {a})", _ORDERED),
    "array": Construct("array({a}, {b})", _ALIKE),
    "map": Construct("map('x', {a}, 'y', {b})", _ALIKE),
    "decode": Construct("decode(b2, 2, {a}, 30, {b})", _ALIKE),
    "{a} = {b}": Construct("{a} = {b}", _ALIKE),
    "{a} <=> {b}": Construct("{a} <=> {b}", _ALIKE),
    "{a} < {b}": Construct("{a} < {b}", _ALIKE),
    "IN": Construct("{a} IN ({b}, {a})", tuple(p for p in _ALIKE if p[0] != "NULL")),
    "BETWEEN": Construct("{a} BETWEEN {b} AND {a}", tuple(p for p in _ALIKE if p[0] != "NULL")),
    "CASE x WHEN": Construct("CASE {a} WHEN {b} THEN 1 ELSE 2.5 END", _ALIKE),
}

Answer = list[tuple[str, list[Any]]]


def rows_text() -> str:
    """The rows of the table, as VALUES."""
    rows = []
    for index in range(4):
        cells = [f"CAST({values[index]} AS {kind})" for kind, values in COLUMNS.values()]
        rows.append(f"({index}, {', '.join(cells)})")
    return f"VALUES {', '.join(rows)}"


def fill(db: vk.Database) -> None:
    """The table in a database."""
    db.sql(f"CREATE TABLE v (id INT, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())})")
    db.sql(f"INSERT INTO v {rows_text()}")


def asked(db: vk.Database, texts: list[str]) -> Answer:
    """Types and values of expressions as Viewkeeper gives them."""
    items = ", ".join(f"{text} AS e{i}" for i, text in enumerate(texts))
    return _columns(db.sql(f"SELECT id, {items} FROM v").arrow())


def told_by_spark(texts: list[str]) -> Answer:
    """Types and values of expressions as Apache Spark's own SQL gives them."""
    session = open_engine("spark", None, {}, {}).session
    items = ", ".join(f"{text} AS e{i}" for i, text in enumerate(texts))
    names = ", ".join(("id", *COLUMNS))
    return _columns(session.sql(f"SELECT id, {items} FROM {rows_text()} AS v({names})").toArrow())


def _columns(table: pa.Table) -> Answer:
    table = table.sort_by("id")
    return [
        (_plain(table.schema.field(i).type), [_value(v) for v in table.column(i).to_pylist()])
        for i in range(1, table.num_columns)
    ]


def _plain(kind: pa.DataType) -> str:
    return str(kind).replace(" not null", "")


def _value(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def disagreements(texts: list[str], ours: Answer, theirs: Answer) -> list[str]:
    """What differs, one line each."""
    pairs = zip(texts, ours, theirs, strict=True)
    return [f"{text}: {one} instead of {other}" for text, one, other in pairs if one != other]
