"""Random cases: a schema, some rows, many views, then transactions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from tests.property.queries import Generator
from tests.property.schemas import Query, Relation, Table, random_literal, random_schema

EMPTY = 0.2
"""How often all tables are empty while the views are made."""


@dataclass(frozen=True)
class Statement:
    """A statement; an INSERT keeps its rows apart, so that they can be left out one by one."""

    head: str
    rows: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.head + ", ".join(self.rows)


@dataclass(frozen=True)
class Definition:
    """A view of a case."""

    name: str
    query: Query
    virtual: bool = False


Transaction = tuple[Statement, ...]

STATEMENTS = {
    "insert": 6.0,
    "copy": 2.0,
    "delete": 5.0,
    "update": 5.0,
    "key": 3.0,
    "swap": 2.0,
    "move": 3.0,
    "nothing": 1.0,
    "all": 0.5,
}
"""The kinds of statements in a transaction, and how often each comes."""


@dataclass(frozen=True)
class Case:
    """Everything that a run needs."""

    tables: tuple[Table, ...]
    first: Transaction
    views: tuple[Definition, ...]
    transactions: tuple[Transaction, ...]

    def needed_by(self, names: Iterable[str]) -> tuple[Definition, ...]:
        """Some views, and those below them."""
        wanted = set(names)
        for view in reversed(self.views):
            if view.name in wanted:
                wanted |= view.query.uses
        return tuple(view for view in self.views if view.name in wanted)


class Maker:
    """Makes cases."""

    def __init__(self, seed: int, *, views: int, transactions: int, depth: int = 4) -> None:
        self.rng = random.Random(seed)
        self.tables = random_schema(self.rng)
        self.next = {table.name: 10 for table in self.tables}
        self.count = views
        self.transactions = transactions
        self.depth = depth

    def case(self) -> Case:
        filled = 0.0 if self.rng.random() < EMPTY else 0.9
        first = tuple(
            self._insert(table, self.rng.randint(3, 9)) for table in self.tables if self.rng.random() < filled
        )
        views = self._views()
        return Case(tuple(self.tables), first, views, tuple(self._transaction() for _ in range(self.transactions)))

    def _views(self) -> tuple[Definition, ...]:
        """Views over the tables, and a few over other views; every sixth is virtual."""
        relations = [table.relation for table in self.tables]
        views: list[Definition] = []
        for number in range(self.count):
            above = views and self.rng.random() < 0.2
            lower = [Relation(v.name, v.query.columns, frozenset([v.name])) for v in views] if above else []
            query = Generator(self.rng, [*relations, *lower, *lower]).query(self.rng.randint(1, self.depth))
            views.append(Definition(f"v{number}", query, self.rng.random() < 1 / 6))
        return tuple(views)

    # transactions ----------------------------------------------------------------------------------

    def _row(self, table: Table) -> str:
        values = [random_literal(self.rng, column.kind) for column in table.columns]
        if table.keyed:
            values[0] = str(self.next[table.name])
            self.next[table.name] += 1
        return f"({', '.join(values)})"

    def _insert(self, table: Table, count: int) -> Statement:
        rows = [self._row(table) for _ in range(count)]
        if not table.keyed and self.rng.random() < 0.4:
            rows += self.rng.choices(rows, k=2)
        return Statement(f"INSERT INTO {table.name} VALUES ", tuple(rows))

    def _where(self, table: Table) -> str:
        column = self.rng.choice(table.columns)
        if self.rng.random() < 0.2:
            return f"{column.name} IS NULL"
        return f"{column.name} {self.rng.choice(('=', '=', '<', '>'))} {random_literal(self.rng, column.kind, null=0)}"

    def _statement(self) -> tuple[Statement, ...]:
        rng = self.rng
        table = rng.choice(self.tables)
        column = rng.choice(table.columns[1:])
        kind = rng.choices(tuple(STATEMENTS), tuple(STATEMENTS.values()))[0]
        if kind == "move":
            return self._move(table, rng.choice(self.tables))
        if kind == "insert" or (kind == "copy" and table.keyed):
            return (self._insert(table, rng.randint(1, 4)),)
        if kind == "copy":
            return (Statement(f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE {self._where(table)}"),)
        if kind == "delete":
            return (Statement(f"DELETE FROM {table.name} WHERE {self._where(table)}"),)
        if kind == "update":
            value = random_literal(rng, column.kind)
            return (Statement(f"UPDATE {table.name} SET {column.name} = {value} WHERE {self._where(table)}"),)
        first = table.columns[0].name
        if kind == "key":
            step = self.next[table.name] if table.keyed else 1
            self.next[table.name] += step
            return (Statement(f"UPDATE {table.name} SET {first} = {first} + {step} WHERE {self._where(table)}"),)
        if kind == "swap":
            same = [c for c in table.columns[1:] if c.kind == column.kind and c != column] or [column]
            other = rng.choice(same).name
            return (
                Statement(f"UPDATE {table.name} SET {column.name} = {other}, {other} = {column.name}")
                if other != column.name
                else Statement(f"UPDATE {table.name} SET {other} = {other}"),
            )
        if kind == "nothing":
            row = self._row(table).split(", ", 1)[1]
            return (
                Statement(f"INSERT INTO {table.name} VALUES ", (f"(999, {row}",)),
                Statement(f"DELETE FROM {table.name} WHERE {first} = 999"),
            )
        return (Statement(f"DELETE FROM {table.name}"),)

    def _move(self, source: Table, target: Table) -> tuple[Statement, ...]:
        """Rows leave one table while rows with the same first value enter another."""
        value = random_literal(self.rng, source.columns[0].kind, null=0)
        if target.keyed:
            return (Statement(f"DELETE FROM {source.name} WHERE {source.columns[0].name} = {value}"),)
        rest = self._row(target).split(", ", 1)[1]
        return (
            Statement(f"DELETE FROM {source.name} WHERE {source.columns[0].name} = {value}"),
            Statement(f"INSERT INTO {target.name} VALUES ", (f"({value}, {rest}",)),
        )

    def _transaction(self) -> Transaction:
        return tuple(s for _ in range(self.rng.choice((1, 1, 2, 3, 5))) for s in self._statement())
