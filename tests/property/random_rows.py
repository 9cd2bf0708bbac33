"""Random tables of the transactions, and random rows of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.property.model import (
    NAN,
    Model,
    Refused,
    Spec,
    plain,
)

KEYED = Spec("k", (("id", "BIGINT"), ("s", "STRING"), ("x", "DOUBLE")), primary=(0,))
PAIRED = Spec("p", (("s", "STRING"), ("n", "INT"), ("x", "DOUBLE")), primary=(0, 1))
UNIQUE = Spec("u", (("n", "INT"), ("s", "STRING"), ("x", "DOUBLE")), unique=((0,), (1, 2)))
LOOSE = Spec("b", (("n", "INT"), ("s", "STRING"), ("x", "DOUBLE")))
NESTED = Spec("a", (("n", "INT"), ("l", "ARRAY<DOUBLE>")))
SPECS = (KEYED, PAIRED, UNIQUE, LOOSE, NESTED)
SPARE = Spec("spare", (("n", "INT"), ("s", "STRING"), ("x", "DOUBLE")), unique=((0,),))

WORDS = ("", "a", "b", "ab", "ä", "x y", "it's", "{x}", "a;b", "\U0001f600", "a" * 60)
NUMBERS = (0.0, -0.0, 1.0, 1.5, -2.25, 1e300, math.nan, math.inf, -math.inf)


@dataclass
class Step:
    """One statement: what to do to the database, and what that means in the model."""

    text: str
    real: Callable[[Any], Any]
    modelled: Callable[[Model], None]


class RandomRows:
    """Picks tables, values and rows."""

    def __init__(self, seed: int, span: int) -> None:
        self.random = random.Random(seed)
        self.span = span
        self.model = Model()

    def spec(self, *, keyed: bool = False, flat: bool = False) -> Spec:
        there = list(self.model.specs.values())
        if keyed:
            there = [spec for spec in there if spec.primary]
        if flat:
            there = [spec for spec in there if spec.name != "a"]
        return self.random.choice(there)

    def value(self, kind: str) -> Any:
        draw = self.random
        if kind in ("BIGINT", "INT"):
            return None if draw.random() < 0.08 else draw.randint(-2, self.span)
        if kind == "STRING":
            return None if draw.random() < 0.1 else draw.choice(WORDS)
        if kind == "DOUBLE":
            return None if draw.random() < 0.1 else draw.choice(NUMBERS)
        if draw.random() < 0.1:
            return None
        return [self.value("DOUBLE") for _ in range(draw.randint(0, 3))]

    def row(self, spec: Spec) -> tuple[Any, ...]:
        """A random row; NULLs in a primary key are rarer, so that most inserts succeed."""
        row = [self.value(kind) for _, kind in spec.columns]
        for index in spec.primary:
            while row[index] is None and self.random.random() < 0.9:
                row[index] = self.value(spec.columns[index][1])
        return tuple(row)

    def rows(self, spec: Spec, most: int = 5) -> list[tuple[Any, ...]]:
        rows = [self.row(spec) for _ in range(self.random.randint(0 if most > 1 else 1, most))]
        if rows and self.random.random() < 0.2:
            rows.append(self.random.choice(rows))
        return rows

    def fresh(self, spec: Spec, most: int = 5) -> list[tuple[Any, ...]]:
        """Rows that mostly do not break a key of the table as it is."""
        kept: list[tuple[Any, ...]] = []
        trial = self.model.rows[spec.name].copy()
        for row in self.rows(spec, most):
            trial[plain(row)] += 1
            try:
                spec.check(trial)
            except Refused:
                if self.random.random() < 0.9:
                    trial[plain(row)] -= 1
                    trial = +trial
                    continue
            kept.append(row)
        return kept


def python_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of the model as a user would write it."""

    def back(value: Any) -> Any:
        if value == NAN:
            return math.nan
        return [back(part) for part in value] if isinstance(value, tuple) else value

    return tuple(back(value) for value in row)


def arrow_table(spec: Spec, rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = {
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "STRING": pa.string(),
        "DOUBLE": pa.float64(),
        "ARRAY<DOUBLE>": pa.list_(pa.float64()),
    }
    return pa.table(
        {name: pa.array([row[i] for row in rows], kinds[kind]) for i, (name, kind) in enumerate(spec.columns)}
    )
