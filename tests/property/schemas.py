"""Random schemas, and literals of their columns."""

from __future__ import annotations

import random
from dataclasses import dataclass

INT, TEXT, DEC, DATE = "INT", "STRING", "DECIMAL(8,2)", "DATE"

WORDS = ("a", "b", "ab", "", "C", "é")
DAYS = ("2024-01-01", "2024-02-29", "1999-12-31")
COMPARISONS = ("=", "<", ">", "<=", ">=", "<>")
SIZE = 900
"""The longest text of a subquery that may be put into another."""


@dataclass(frozen=True)
class Column:
    name: str
    kind: str


@dataclass(frozen=True)
class Relation:
    """Something to select from: a name, or a query in parentheses."""

    text: str
    columns: tuple[Column, ...]
    uses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    keyed: bool

    @property
    def ddl(self) -> str:
        columns = ", ".join(
            f"{c.name} {c.kind}{' PRIMARY KEY' if self.keyed and n == 0 else ''}" for n, c in enumerate(self.columns)
        )
        return f"CREATE TABLE {self.name} ({columns})"

    @property
    def relation(self) -> Relation:
        return Relation(self.name, self.columns, frozenset([self.name]))


@dataclass(frozen=True)
class Query:
    """A SELECT and its columns."""

    text: str
    columns: tuple[Column, ...]
    uses: frozenset[str]
    operators: tuple[str, ...]


def random_literal(rng: random.Random, kind: str, *, null: float = 0.2) -> str:
    """A value of a small domain, so that values meet; often NULL."""
    if rng.random() < null:
        return "NULL"
    match kind:
        case "INT":
            return str(rng.randint(-2, 4))
        case "STRING":
            return f"'{rng.choice(WORDS)}'"
        case "DATE":
            return f"DATE'{rng.choice(DAYS)}'"
        case _:
            return rng.choice(("0.50", "-1.25", "2.00", "10.75"))


def random_schema(rng: random.Random) -> list[Table]:
    """Two to four tables of two to four columns; some have a key."""
    tables = []
    for number in range(rng.randint(2, 4)):
        keyed = rng.random() < 0.3
        more = rng.choices((INT, TEXT, DEC, DATE), (4, 3, 2, 1), k=rng.randint(0, 2))
        kinds = [INT, rng.choice((INT, TEXT)), *more]
        columns = tuple(Column(f"{'abcd'[n]}{number}", kind) for n, kind in enumerate(kinds))
        tables.append(Table(f"t{number}", columns, keyed))
    return tables
