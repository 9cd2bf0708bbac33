"""The examples in Apache Spark's own documentation of its functions, and what engines make of them."""

from __future__ import annotations

import functools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from sqlglot import exp

from viewkeeper.engine.engine import open_engine
from viewkeeper.sql.dialect import parse
from viewkeeper.sql.functions import WITHOUT_BRACKETS, why_not_deterministic

THREADS = 4


@functools.cache
def session(kind: str) -> Any:
    return open_engine(kind, None, {}, {}).session


@functools.cache
def descriptions() -> dict[str, str]:
    """What Apache Spark says of each of its functions."""
    spark = session("spark")

    def describe(name: str) -> str:
        quoted = name if name in ("!=", "<>", "||") else f"`{name}`"
        return "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED {quoted}").collect())

    names = [row[0] for row in spark.sql("SHOW FUNCTIONS").collect()]
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(names, pool.map(describe, names), strict=True))


@functools.cache
def examples() -> dict[str, str]:
    """Every example with the function it is for."""
    found: dict[str, str] = {}
    for name, text in descriptions().items():
        for example in re.findall(r"^\s*> (\w.*?);\s*$", text, re.DOTALL | re.MULTILINE):
            if not example.upper().startswith("SET "):
                found.setdefault(" ".join(line.strip() for line in example.splitlines()), name)
    return found


@dataclass(frozen=True)
class Answer:
    """What an engine says to a query: types and rows, or the kind of error."""

    types: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    error: str = ""
    message: str = ""

    def same(self, other: Answer, *, values: bool) -> bool:
        return (self.types, self.error) == (other.types, other.error) and (not values or self.rows == other.rows)


@functools.cache
def ask(kind: str, query: str) -> Answer:
    try:
        frame = session(kind).sql(query)
        types = tuple(field.dataType.simpleString() for field in frame.schema)
        if any("interval" in name for name in types):  # Arrow has no intervals of months
            columns = [f"c{number}" for number in range(len(types))]
            frame = frame.toDF(*columns).selectExpr(*[f"CAST({column} AS STRING)" for column in columns])
        return Answer(types, tuple(sorted(repr(tuple(row)) for row in frame.collect())))
    except PySparkException as problem:
        lines = str(problem).strip().splitlines()
        return Answer(error=problem.getCondition() or type(problem).__name__, message=lines[0] if lines else "")


def ask_all(kind: str, queries: list[str]) -> list[Answer]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda query: ask(kind, query), queries))


def is_deterministic(query: str) -> bool:
    tree = parse(query)
    calls = [why_not_deterministic(call.name, len(call.expressions)) for call in tree.find_all(exp.Anonymous)]
    return not any(calls) and not any(column.name.lower() in WITHOUT_BRACKETS for column in tree.find_all(exp.Column))
