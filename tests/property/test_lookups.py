"""A look-up on the driver gives the rows that the engine reads: random tables of many files, at random epochs."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from tests.marks import long
from tests.property.driver import Driver
from tests.property.view_cases import Maker
from tests.property.view_driver import Run
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.rows import canonical, consolidate, row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.types import quote
from viewkeeper.catalog.relations import Relation
from viewkeeper.engine.connect_columns import listed
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scans import Scan, Source, pick, signed_frame
from viewkeeper.store.store import Store

VALUES: dict[str, tuple[str, list[Any]]] = {
    "i": ("BIGINT", [None, -(2**63), 2**63 - 1, -1, 0, 1, 5, 7, 9]),
    "t": ("TINYINT", [None, -128, 127, 0, 3]),
    "d": ("DECIMAL(38,10)", [None, Decimal("-1.5"), Decimal("99999999999999999999.5"), Decimal(0), Decimal("1e-10")]),
    "m": ("DECIMAL(12,2)", [None, Decimal("1.50"), Decimal("-1.51"), Decimal(2)]),
    "x": ("DOUBLE", [None, float("nan"), float("inf"), 0.0, -0.0, 2.5, -3.0]),
    "f": ("FLOAT", [None, float("nan"), -0.0, 0.0, 1.5]),
    "s": ("STRING", [None, "", "a", "é", "z" * 60, "z" * 60 + "a", "\U0001f600"]),
    "b": ("BINARY", [None, b"", b"\xff\x00", b"a"]),
    "o": ("BOOLEAN", [None, True, False]),
    "a": ("DATE", [None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)]),
    "p": ("TIMESTAMP", [None, dt.datetime(2024, 1, 1, 2, 3, 4, 567891, dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC)]),
    "n": ("TIMESTAMP_NTZ", [None, dt.datetime(2024, 1, 1, 2, 3, 4, 567891), dt.datetime(9999, 12, 31)]),
}
NAMES = list(VALUES)


class Tables:
    """A table of random rows, and how both ways read it."""

    def __init__(self, db: vk.Database, seed: int) -> None:
        self.db = db
        self.draw = random.Random(seed)
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
        db.sql(f"CREATE TABLE r ({columns}, ARRAY_ ARRAY<INT>)")
        self.held: list[dict[str, Any]] = []

    @property
    def store(self) -> Store:
        return self.db._store

    @property
    def relation(self) -> Relation:
        found = self.store.refresh().find("r")
        assert found is not None
        return found

    def row(self) -> dict[str, Any]:
        return {name: self.draw.choice(values) for name, (_, values) in VALUES.items()}

    def change(self) -> None:
        """A commit: new rows, copies of rows, and deletions."""
        new = [self.row() for _ in range(self.draw.randrange(1, 12))]
        again = self.draw.choices(self.held, k=min(3, len(self.held)))
        gone = self.draw.sample(self.held, min(len(self.held), self.draw.randrange(6)))
        for row in gone:
            self.held.remove(row)
        with self.db.transaction() as tx:
            tx.delete("r", gone)
            tx.insert("r", [*new, *again])
        self.held += [*new, *again]

    def scan(self, relation: Relation, keys: Keys, epoch: int) -> Scan:
        return pick(Source(relation.schema, relation.files_at(epoch), epoch), keys)

    def keys(self, relation: Relation, names: list[str]) -> Keys:
        rows = [
            {name: (self.draw.choice(self.held) if self.draw.random() < 0.7 else self.row())[name] for name in names}
            if self.draw.random() < 0.4
            else self.draw.choice(self.held)
            for _ in range(self.draw.choice([1, 2, 5, 30]))
        ]
        schema = relation.schema.subset(names)
        arrays = [pa.array([row[column.name] for row in rows], column.type.arrow) for column in schema]
        return Keys(canonical(pa.table(arrays, names), schema), schema, self.store.tuning)

    def read(self, scan: Scan, columns: list[str]) -> dict[tuple[Any, ...], int]:
        """The net rows as the engine reads them."""
        engine = self.store.engine
        frame = signed_frame(engine, self.store.storage, scan)
        frame = frame.select(*listed(*[quote(name) for name in columns], WEIGHT))
        return weights(consolidate(conform(engine.fetch(frame), scan.source.schema.subset(columns), signed=True)))

    def compare(self, count: int) -> None:
        relation = self.relation
        for _ in range(count):
            names = self.draw.sample(NAMES, self.draw.choice([1, 1, 2, 3]))
            columns = self.draw.sample(NAMES, self.draw.randrange(1, len(NAMES)))
            oldest = self.store.state.oldest if self.draw.random() < 0.9 else 0
            epoch = self.draw.randint(min(oldest, self.db.epoch), self.db.epoch)
            scan = self.scan(relation, self.keys(relation, names), epoch)
            found = self.store.lookups.net_rows(scan, columns)
            assert found is not None
            assert weights(found.rows) == self.read(scan, columns), (names, columns, epoch)


def weights(rows: pa.Table) -> dict[tuple[Any, ...], int]:
    plain = row_tuples(rows.drop_columns([WEIGHT]))
    assert len(set(plain)) == len(plain)
    return dict(zip(plain, rows[WEIGHT].to_pylist(), strict=True))


@pytest.mark.parametrize("steps", [12, *long(80)])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.spark_long
def test_a_lookup_is_the_engines_read(connect: Callable[..., vk.Database], engine: str, seed: int, steps: int) -> None:
    few = vk.Tuning(
        inlined_rows=0, file_rows=16, page_rows=4, merged_files=1000, driver_merge_rows=40 if seed % 2 else 100_000
    )
    tables = Tables(connect(durability="process", tuning=few), seed)
    for step in range(steps):
        for _ in range(3):
            tables.change()
        if step % 4 == 3:
            tables.db.compact()
        tables.compare(3 if engine == "spark" else 12)


SMALL_FILES = vk.Tuning(inlined_rows=0, whole_rows=0, picked_rows=0, file_rows=6, page_rows=2, cache_bytes=200_000)
"""No relation is so small that it is read in full, and every file has several pages."""


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [301, *long(*range(302, 312))])
def test_random_views_by_lookups(connect: Callable[..., vk.Database], seed: int) -> None:
    db = connect(durability="process", tuning=SMALL_FILES)
    outcome = Run(db, Maker(seed, views=16, transactions=8).case()).run()
    assert not outcome.wrong, f"seed {seed}: {outcome}"
    assert len(db._store.lookups.cache) > 10, "few files were looked into"


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("keep", ["7 days", *long("0 seconds")])
def test_random_transactions_by_lookups(connect: Callable[..., vk.Database], keep: str) -> None:
    Driver(connect, 41, keep=keep, span=30, tuning=SMALL_FILES).run(60)
