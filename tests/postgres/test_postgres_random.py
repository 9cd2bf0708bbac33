"""Random views over random tables, maintained by triggers, against DuckDB's answer from the tables' rows."""

from __future__ import annotations

import random

import psycopg
import pytest

from tests.marks import long
from tests.oracle import Oracle, transpiled
from tests.postgres.world import World
from tests.property.queries import Generator
from tests.property.schemas import Relation, random_schema
from viewkeeper.errors import NotMaintainable
from viewkeeper.triggers.postgres_script import postgres_script

VIEWS, TRANSACTIONS = 6, 8


class Case:
    """Some tables and views of one seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        tables = random_schema(rng)
        self.tables = ";\n".join(table.ddl for table in tables)
        relations = [table.relation for table in tables]
        self.views: dict[str, str] = {}
        while len(self.views) < VIEWS:
            query = Generator(rng, relations).query(rng.randint(1, 3))
            text = query.text.replace("upper(", "trim(")  # which is refused
            name = f"v{len(self.views)}"
            try:
                postgres_script(f"{self.text};\nCREATE MATERIALIZED VIEW {name} AS {text}")
            except NotMaintainable:
                continue
            self.views[name] = text
            if rng.random() < 0.4:  # a view to be read by others
                relations.append(Relation(name, query.columns, frozenset([name])))

    @property
    def text(self) -> str:
        return ";\n".join([self.tables, *(f"CREATE MATERIALIZED VIEW {n} AS {q}" for n, q in self.views.items())])


def check(world: World, case: Case) -> None:
    duck = Oracle()
    try:
        for table in case.tables.split(";\n"):
            duck.create_table(table)
        for name in world.tables:
            rows = world.pg.execute(f"SELECT * FROM {name}").fetchall()
            if rows:
                marks = ", ".join("?" for _ in rows[0])
                duck.connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        for name, query in case.views.items():
            duck.create_view(name, transpiled(query))
        for name, query in case.views.items():
            kept, wanted = world.bag(name), duck.bag(name)
            assert kept == wanted, f"{name} too many {kept - wanted}, missing {wanted - kept}: {query}"
    finally:
        duck.close()


@pytest.mark.parametrize("seed", [*range(5), *long(*range(5, 15))])
def test_random_views(pg: psycopg.Connection, seed: int) -> None:
    case = Case(seed)
    world = World(pg, seed)
    world.create_tables(case.tables)
    world.fill(5)
    world.keep(case.text, {})
    check(world, case)
    for _ in range(TRANSACTIONS):
        world.transaction()
        check(world, case)
