"""An independent answer: DuckDB runs the same statements and computes every view from scratch.

Texts are Spark SQL, turned into DuckDB's by sqlglot (which writes out where NULLs sort). Only what means the same in
both is handed to it; for the rest a test gives DuckDB's own text, or its own numbers.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

Row = tuple[Any, ...]
Bag = Counter[Row]

DIGITS = 9
"""Significant digits in which two floating-point answers must agree."""


class Oracle:
    """A DuckDB database in memory."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:")
        self.connection.execute("SET threads = 2; SET TimeZone = 'UTC'")

    def create_table(self, text: str) -> None:
        """CREATE TABLE in Spark's words; keys are left out, so that they are never checked row by row."""
        tree = sqlglot.parse_one(text, read="spark")
        for kind in (exp.PrimaryKey, exp.UniqueColumnConstraint, exp.PrimaryKeyColumnConstraint):
            for part in list(tree.find_all(kind)):
                parent = part.parent
                (parent if isinstance(parent, exp.ColumnConstraint) else part).pop()
        self.connection.execute(tree.sql(dialect="duckdb"))

    def run(self, text: str) -> None:
        """A statement in Spark's words."""
        self.connection.execute(transpiled(text))

    def create_view(self, name: str, text: str) -> None:
        """A view from DuckDB's text."""
        self.connection.execute(f"CREATE VIEW {name} AS {text}")

    def bag(self, relation: str) -> Bag:
        """The rows of a table or view, computed now."""
        return bag(self.connection.execute(f"SELECT * FROM {relation}").fetchall())

    def query(self, text: str) -> Bag:
        """The rows of a query in DuckDB's words."""
        return bag(self.connection.execute(text).fetchall())

    def close(self) -> None:
        self.connection.close()


def transpiled(text: str) -> str:
    """Spark's text in DuckDB's words, which has neither keys before GROUPING SETS nor WITH ROLLUP and WITH CUBE."""
    tree = sqlglot.parse_one(text, read="spark")
    for group in tree.find_all(sqlglot.exp.Group):
        if group.args.get("grouping_sets"):
            group.set("expressions", [])
        for word, kind in (("rollup", sqlglot.exp.Rollup), ("cube", sqlglot.exp.Cube)):
            if group.args.get(word):
                group.set("expressions", [kind(expressions=group.expressions)])
                group.set(word, None)
    return tree.sql(dialect="duckdb")


def plain(value: Any) -> Any:
    """A value that can be compared and hashed, whichever engine it came from."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isinf(value) or value == 0 else float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return tuple(plain(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(plain(part) for part in value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value


def bag(rows: Iterable[Iterable[Any]]) -> Bag:
    """Rows as a bag."""
    return Counter(tuple(plain(value) for value in row) for row in rows)


def weights(change: Mapping[Row, int]) -> dict[Row, int]:
    """A change with plain values; rows of floats that are the same then count together, and cancel."""
    found: dict[Row, list[int]] = {}
    for row, weight in change.items():
        found.setdefault(tuple(plain(value) for value in row), []).append(weight)
    return {row: sum(parts) for row, parts in found.items() if len(parts) == 1 or sum(parts)}


def difference(new: Mapping[Row, int], old: Mapping[Row, int]) -> dict[Row, int]:
    """New minus old: the net change, no zeros."""
    rows = {*new, *old}
    return {row: new.get(row, 0) - old.get(row, 0) for row in rows if new.get(row, 0) != old.get(row, 0)}


def text_of(value: Any) -> str:
    """A value as a golden file writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(int(value)) if math.isfinite(value) and value == int(value) else repr(value)
    if isinstance(value, Decimal):
        return format(value.normalize(), "f") if value else "0"
    if isinstance(value, tuple):
        return "[" + ", ".join(text_of(part) for part in value) + "]"
    if value == "":
        return "(empty)"
    text = str(value)
    return repr(text) if text != text.strip() or "|" in text or "\n" in text else text


def line_of(row: Row, weight: int) -> str:
    """A signed row as a golden file writes it."""
    return " | ".join([f"{weight:+d}", *(text_of(value) for value in row)])


def lines_of(change: Mapping[Row, int]) -> list[str]:
    """A change as a golden file writes it."""
    return sorted(line_of(row, weight) for row, weight in change.items())
