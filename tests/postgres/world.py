"""Tables and views in PostgreSQL from Spark's words, and a second opinion: PostgreSQL's own answer to the query."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from typing import Any

import psycopg
import sqlglot
from sqlglot import exp

from tests.oracle import Bag, bag
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type
from viewkeeper.sql import parsed_statements as statements
from viewkeeper.sql.tokens import split
from viewkeeper.triggers.postgres_script import postgres_script
from viewkeeper.triggers.postgres_types import identifier, spelled

NUMBERS = [-1, 0, 1, 1, 2, 2, 3, 5]


class World:
    """A database with tables and kept views, and the query of each view as PostgreSQL runs it by itself."""

    def __init__(self, pg: psycopg.Connection, seed: int = 0, numbers: Sequence[int] = ()) -> None:
        self.pg = pg
        self.tables: dict[str, Schema] = {}
        self.views: dict[str, str] = {}
        self.random = random.Random(seed)
        self.numbers = [*NUMBERS, *dict.fromkeys(number + more for number in numbers for more in (0, 1))]
        pg.autocommit = True
        pg.execute("SELECT setseed(%s)", [seed % 100 / 100])

    def create_tables(self, text: str, keys: str = "") -> None:
        """CREATE TABLE statements in Spark's words; `keys` is said of every key."""
        for statement in split(text):
            parsed = statements.parse(statement)
            if isinstance(parsed, statements.CreateTable) and isinstance(parsed.schema, Schema):
                self.tables[parsed.name.lower()] = parsed.schema
                self.pg.execute(_created(parsed.name, parsed.schema, keys))

    def run(self, text: str) -> None:
        """A statement in Spark's words."""
        self.pg.execute(in_postgres(text))

    def keep(self, text: str, queries: dict[str, str], virtual: Sequence[str] = ()) -> str:
        """Runs the script for a file; `queries` are PostgreSQL's own texts of the views."""
        script = postgres_script(text)
        self.pg.execute(script)
        for name in virtual:
            self.pg.execute(f"CREATE VIEW {identifier(name)} AS {queries[name]}")
        self.views = {name: query for name, query in queries.items() if name not in virtual}
        return script

    def check(self) -> None:
        """Every view is what its query says."""
        for name, query in self.views.items():
            kept, wanted = self.bag(name), bag(self.pg.execute(query).fetchall())
            assert kept == wanted, f"{name}: too many {kept - wanted}, missing {wanted - kept}"
        logs = self.pg.execute("SELECT relname FROM pg_class WHERE relname LIKE '\\_vk\\_log\\_%'").fetchall()
        for (log,) in logs:
            assert self.pg.execute(f"SELECT count(*) FROM {identifier(log)}").fetchone() == (0,), log

    def bag(self, relation: str) -> Bag:
        """The rows of a relation."""
        return bag(self.pg.execute(f"SELECT * FROM {identifier(relation)}").fetchall())

    # random transactions ---------------------------------------------------------------------------

    def fill(self, rows: int) -> None:
        """Some rows in every table."""
        for name in self.tables:
            for _ in range(rows):
                self._insert(name)

    def transaction(self) -> None:
        """One to five statements on any tables; one in ten is rolled back, some have savepoints.

        One that would give a scalar subquery two rows is refused.
        """
        dice = self.random
        try:
            with self.pg.transaction():
                for _ in range(dice.randint(1, 5)):
                    if dice.random() < 0.15:
                        self._in_savepoint()
                    else:
                        self._statement(dice.choice(list(self.tables)))
                if dice.random() < 0.1:
                    raise psycopg.Rollback
        except (psycopg.Rollback, psycopg.errors.CardinalityViolation):
            pass

    def _in_savepoint(self) -> None:
        with self.pg.transaction():
            self._statement(self.random.choice(list(self.tables)))
            if self.random.random() < 0.5:
                raise psycopg.Rollback

    def _statement(self, name: str) -> None:
        dice, schema = self.random, self.tables[name]
        what = dice.choices(["insert", "copy", "delete", "update", "truncate"], [8, 3, 4, 5, 0.3])[0]
        column = dice.choice(schema.columns)
        table, place = identifier(name), f"ctid IN (SELECT ctid FROM {identifier(name)} ORDER BY random() LIMIT 2)"
        if what == "insert":
            self._insert(name)
        elif what == "copy" and not schema.keys:
            self.pg.execute(f"INSERT INTO {table} SELECT * FROM {table} ORDER BY random() LIMIT 2")
        elif what == "delete":
            self.pg.execute(f"DELETE FROM {table} WHERE {place}")
        elif what == "update":
            self._unless_taken(
                f"UPDATE {table} SET {identifier(column.name)} = %s WHERE {place}",
                [self._value(column.type, column.nullable)],
            )
        elif what == "truncate":
            self.pg.execute(f"TRUNCATE {table}")

    def _insert(self, name: str) -> None:
        schema = self.tables[name]
        values = [self._value(column.type, column.nullable) for column in schema]
        self._unless_taken(f"INSERT INTO {identifier(name)} VALUES ({', '.join(['%s'] * len(values))})", values)

    def _unless_taken(self, text: str, values: Sequence[Any]) -> None:
        """A statement that may hit a key, and is taken back then."""
        try:
            with self.pg.transaction():
                self.pg.execute(text, values)
        except psycopg.errors.UniqueViolation:
            pass

    def _value(self, kind: Type, nullable: bool) -> Any:
        dice = self.random
        if nullable and dice.random() < 0.2:
            return None
        match kind.name:
            case "string":
                return dice.choice(["", "a", "a", "b", "B", "é", "nut", "z"])
            case "boolean":
                return dice.random() < 0.5
            case "double" | "float":
                return dice.choice([0.1, 0.2, 0.3, -1.5, 1e3, 2.5, float("nan")])
            case "decimal":
                return dice.choice(["0", "0.5", "1.5", "1.25", "-2", "3.75"])
            case "date":
                return dt.date(2024, dice.randint(1, 3), dice.randint(1, 5))
            case "timestamp" | "timestamp_ntz":
                return dt.datetime(2024, 1, 31, 12, 0, dice.randint(0, 3))
            case "array":
                return [dice.choice(NUMBERS) for _ in range(dice.randint(0, 2))]
            case _:
                return dice.choice(self.numbers)


def in_postgres(text: str) -> str:
    """A query or statement in PostgreSQL's words. NULLs sort as in Spark, strings by their bytes (the locale's are)."""
    statement = sqlglot.parse_one(text, read="spark")
    for number, subquery in enumerate(statement.find_all(exp.Subquery)):
        is_join = bool(subquery.this.args.get("joins"))
        if isinstance(subquery.parent, exp.From | exp.Join) and not subquery.alias and not is_join:  # needed before 16
            subquery.set("alias", exp.TableAlias(this=exp.to_identifier(f"unnamed_{number}")))
    return statement.sql(dialect="postgres").replace("ARRAY[]", "CAST('{}' AS int[])")


def _spelled(kind: Type) -> str:
    return f"{_spelled(kind.element)}[]" if kind.element is not None else spelled(kind)


def _created(name: str, schema: Schema, more: str) -> str:
    columns = [f"{identifier(c.name)} {_spelled(c.type)}{'' if c.nullable else ' NOT NULL'}" for c in schema]
    keys = [
        f"{'PRIMARY KEY' if key.primary else 'UNIQUE'} ({', '.join(identifier(c) for c in key.columns)}) {more}"
        for key in schema.keys
    ]
    return f"CREATE TABLE {identifier(name)} ({', '.join([*columns, *keys])})"
