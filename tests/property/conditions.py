"""Random sources, values and conditions of queries."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

from tests.property.schemas import (
    COMPARISONS,
    INT,
    SIZE,
    Column,
    Relation,
    random_literal,
)


class Conditions(ABC):
    """What every kind of query is made of, over the relations it is given."""

    def __init__(self, rng: random.Random, relations: list[Relation]) -> None:
        self.rng = rng
        self.relations = relations
        self.aliases = 0
        self.used: set[str] = set()
        self.operators: list[str] = []

    @abstractmethod
    def _select(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A query of at most so many operators on top of each other."""

    # sources ---------------------------------------------------------------------------------------

    def _alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def _base(self) -> Relation:
        relation = self.rng.choice(self.relations)
        self.used |= relation.uses
        return relation

    def _source(self, depth: int) -> Relation:
        """A relation, or a subquery if there is depth left."""
        if depth > 0 and self.rng.random() < 0.75:
            text, columns = self._select(depth - 1)
            if len(text) <= SIZE:
                return Relation(f"({text})", columns)
        return self._base()

    def _from(self, depth: int) -> tuple[str, list[Column]]:
        """A FROM item with an alias, and its columns by their full names."""
        relation, alias = self._source(depth), self._alias()
        return f"{relation.text} AS {alias}", [Column(f"{alias}.{c.name}", c.kind) for c in relation.columns]

    # scalar expressions ----------------------------------------------------------------------------

    def _of_kind(self, columns: list[Column], kind: str) -> list[Column]:
        return [column for column in columns if column.kind == kind]

    def _value(self, columns: list[Column], kind: str) -> str:
        """An expression of a kind."""
        fitting = self._of_kind(columns, kind)
        rng = self.rng
        if not fitting:
            return f"CAST({random_literal(rng, kind)} AS {kind})"
        name = rng.choice(fitting).name
        if rng.random() < 0.6:
            return name
        other = rng.choice(fitting).name
        match kind:
            case "INT":
                return rng.choice((f"{name} + {other}", f"{name} - 1", f"-{name}", f"coalesce({name}, 0)"))
            case "STRING":
                return rng.choice((f"upper({name})", f"coalesce({name}, {other})", f"nullif({name}, 'a')"))
            case "DATE":
                return f"coalesce({name}, {other})"
            case _:
                return rng.choice((f"coalesce({name}, {other})", f"nullif({name}, 0.5)"))

    def _comparable(self, columns: list[Column]) -> Column:
        return self.rng.choice(columns)

    def _atom(self, columns: list[Column]) -> str:
        """A simple condition."""
        rng = self.rng
        column = self._comparable(columns)
        same = [c for c in self._of_kind(columns, column.kind) if c != column]
        choice = rng.random()
        if choice < 0.2:
            return f"{column.name} IS {rng.choice(('', 'NOT '))}NULL"
        if choice < 0.5 and same:
            return f"{column.name} {rng.choice(COMPARISONS)} {rng.choice(same).name}"
        if choice < 0.6 and same:
            return f"{column.name} <=> {rng.choice(same).name}"
        if choice < 0.7:
            values = ", ".join(random_literal(rng, column.kind, null=0.1) for _ in range(2))
            return f"{column.name} {rng.choice(('IN', 'NOT IN'))} ({values})"
        if choice < 0.75 and column.kind == INT:
            return f"CASE WHEN {column.name} <> 0 THEN 12 / {column.name} > 2 ELSE false END"
        return f"{column.name} {rng.choice(COMPARISONS)} {random_literal(rng, column.kind, null=0)}"

    def _condition(self, columns: list[Column]) -> str:
        rng = self.rng
        first = self._atom(columns)
        choice = rng.random()
        if choice < 0.6:
            return first
        if choice < 0.8:
            return f"{first} AND {self._atom(columns)}"
        if choice < 0.95:
            return f"({first} OR {self._atom(columns)})"
        return f"NOT ({first})"

    # subqueries in conditions ----------------------------------------------------------------------

    def _subquery_condition(self, outer: list[Column], depth: int) -> str:
        """EXISTS, IN, NOT IN, ANY, ALL or a scalar comparison; often correlated."""
        rng = self.rng
        source, inner = self._from(depth)
        where = self._inner_where(outer, inner, depth)
        kind = rng.choice(("exists", "exists", "in", "in", "not in", "any", "all", "scalar", "pair"))
        self.operators.append(kind)
        if kind == "exists":
            return f"{rng.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM {source}{where})"
        if kind == "scalar":
            return self._scalar_condition(outer, inner, source, where)
        pairs = [(o, i) for o in outer for i in inner if o.kind == i.kind]
        if not pairs:
            return f"EXISTS (SELECT 1 FROM {source}{where})"
        o, i = rng.choice(pairs)
        if kind == "pair":
            o2, i2 = rng.choice(pairs)
            where = f" WHERE {self._atom(inner)}" if rng.random() < 0.4 else ""  # DuckDB has no correlated form
            return f"({o.name}, {o2.name}) IN (SELECT {i.name}, {i2.name} FROM {source}{where})"
        if kind in ("any", "all"):
            return f"{o.name} {rng.choice(COMPARISONS)} {kind.upper()} (SELECT {i.name} FROM {source}{where})"
        return f"{o.name} {kind.upper()} (SELECT {i.name} FROM {source}{where})"

    def _inner_where(self, outer: list[Column], inner: list[Column], depth: int) -> str:
        rng = self.rng
        parts = []
        pairs = [(o, i) for o in outer for i in inner if o.kind == i.kind]
        if pairs and rng.random() < 0.65:
            o, i = rng.choice(pairs)
            parts.append(f"{i.name} {rng.choices(COMPARISONS, (6, 1, 1, 1, 1, 1))[0]} {o.name}")
        if rng.random() < 0.4:
            parts.append(self._atom(inner))
        if depth > 1 and rng.random() < 0.25:
            parts.append(self._subquery_condition([*inner, *outer], depth - 2))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _scalar_condition(self, outer: list[Column], inner: list[Column], source: str, where: str) -> str:
        numbers = self._of_kind(outer, INT)
        if not numbers or self.rng.random() < 0.3:
            return f"(SELECT count(*) FROM {source}{where}) {self.rng.choice(COMPARISONS)} {self.rng.randint(0, 3)}"
        inside = self._of_kind(inner, INT)
        call = f"{self.rng.choice(('max', 'min', 'sum'))}({self.rng.choice(inside).name})" if inside else "count(*)"
        name = self.rng.choice(numbers).name
        return f"{name} {self.rng.choice(COMPARISONS)} (SELECT {call} FROM {source}{where})"
