"""Rows that are kept on the driver are those of the relation: in every state, through flush and compaction."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from tests.marks import long
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Numbers
from viewkeeper.algebra.rows import consolidate, row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.relations import Relation
from viewkeeper.driver.row_index import RowIndex, key_of
from viewkeeper.maintain.situation import Pending
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scans import Source, pick

Row = tuple[Any, ...]
Bag = Mapping[Row, int]

VALUES: list[list[Any]] = [[None, -(2**63), 0, 1, 2, 3], [None, "", "a", "é", "1"], [None, True, False]]
NAMES = ["a", "b", "c"]


def some_row(draw: random.Random) -> Row:
    return tuple(draw.choice(values) for values in VALUES)


def some_change(draw: random.Random, held: Bag, most: int) -> Counter[Row]:
    """A net change of a bag: some copies of its rows go, and others are added."""
    change: Counter[Row] = Counter()
    for _ in range(draw.randrange(1, most)):
        gone = draw.random() < 0.5 and any(held.values())
        row = draw.choice([row for row, count in held.items() if count]) if gone else some_row(draw)
        if not gone:
            change[row] += 1
        elif held[row] + change[row] > 0:
            change[row] -= 1
    return change


def by_key(bag: Bag, places: tuple[int, ...], columns: tuple[int, ...]) -> dict[Any, set[Row]]:
    found: dict[Any, set[Row]] = {}
    for row, count in bag.items():
        if count > 0:
            seen = tuple(row[place] for place in places)
            found.setdefault(key_of(columns)(seen), set()).add(seen)
    return found


class Table:
    """A table, and what it held at every epoch."""

    def __init__(self, db: vk.Database, seed: int) -> None:
        self.db, self.draw = db, random.Random(seed)
        db.sql("CREATE TABLE r (a BIGINT, b STRING, c BOOLEAN)")
        self.at: dict[int, Counter[Row]] = {db._store.state.epoch: Counter()}
        self.found = 0

    @property
    def relation(self) -> Relation:
        return next(each for each in self.db._store.state.alive() if each.name == "r")

    def change(self) -> None:
        held = self.at[max(self.at)]
        change = some_change(self.draw, held, 30)
        with self.db.transaction() as tx:
            tx.insert("r", [row for row, count in change.items() for _ in range(count)])
            tx.delete("r", [row for row, count in change.items() for _ in range(-count)])
        self.at[self.db._store.state.epoch] = Counter({row: held[row] + change[row] for row in held | change})

    def compact(self) -> None:
        self.db.compact("r")

    def look(self) -> None:
        """Compares look-ups of an open transaction, in both states, with the model."""
        self.db._store.housekeeping.wait()  # else what is kept may move on meanwhile
        relation, now = self.relation, max(self.at)
        since = self.draw.choice([now, now, now, self.draw.choice(list(self.at))])
        if since < relation.oldest:
            return
        change = some_change(self.draw, self.at[now], 10)
        table = pa.table(
            [pa.array([row[i] for row in change], column.type.arrow) for i, column in enumerate(relation.schema)]
            + [pa.array(list(change.values()), pa.int64())],
            names=[*relation.schema.names, WEIGHT],
        )
        pending = {relation.id: Pending(relation, consolidate(table))}
        reader = StateReader(self.db._store, lambda _: relation, self.db._store.state.epoch, since, pending)
        after = {row: self.at[now][row] + change[row] for row in self.at[now] | change}
        self.compare(reader, n.OLD, self.at[since])
        self.compare(reader, n.NEW, after)
        self.compare_rows(relation, since, self.at[since])
        self.compare_change(reader, since == self.db._store.state.epoch, self.at[now], after)

    def scan(self, state: str) -> tuple[n.Scan, tuple[int, ...]]:
        places = tuple(self.draw.sample(range(3), self.draw.randint(1, 3)))
        if self.draw.random() < 0.3:
            places = (0, 1, 2)
        numbers, kinds = Numbers(1), [column.type for column in self.relation.schema]
        names = tuple(NAMES[place] for place in places)
        attributes = tuple(numbers.attribute(NAMES[place], kinds[place]) for place in places)
        return n.Scan(self.relation.id, "r", attributes, state, names), places

    def compare(self, reader: StateReader, state: str, bag: Bag) -> None:
        scan, places = self.scan(state)
        keyed = reader.keyed(scan)
        if keyed is None:
            return
        columns = tuple(self.draw.sample(range(len(places)), self.draw.randint(1, len(places))))
        if self.draw.random() < 0.3:
            columns = tuple(range(len(places)))
        wanted = by_key(bag, places, columns)
        other = tuple(some_row(self.draw)[place] for place in places)
        keys = {*self.draw.sample(sorted(wanted, key=repr), min(5, len(wanted))), key_of(columns)(other)}
        found = keyed.find(columns, keys)
        assert found is not None
        assert {key: set(rows) for key, rows in found.items() if rows} == {k: wanted[k] for k in keys if k in wanted}
        assert all(len(rows) == len(set(rows)) for rows in found.values()), "a row is found once"
        self.found += 1

    def compare_rows(self, relation: Relation, epoch: int, bag: Bag) -> None:
        """The net rows by key, with some columns, as all readers of a few keys get them."""
        columns = tuple(self.draw.sample(range(3), self.draw.randint(1, 3)))
        schema = relation.schema.subset([NAMES[column] for column in columns])
        there = [row for row, count in bag.items() if count > 0]
        keys = {tuple(row[column] for column in columns) for row in [some_row(self.draw), *there[:3]]}
        arrays = [pa.array([key[i] for key in keys], column.type.arrow) for i, column in enumerate(schema)]
        picked = pick(
            Source(relation.schema, relation.files_at(epoch), epoch),
            Keys(pa.table(arrays, schema.names), schema, self.db._store.tuning),
        )
        wanted = self.draw.sample(NAMES, self.draw.randint(1, 3))
        found = self.db._store.rows_by_key(picked, wanted)
        assert found is not None
        total: Counter[Row] = Counter()
        for row in there:
            if tuple(row[column] for column in columns) in keys:
                total[tuple(row[NAMES.index(name)] for name in wanted)] += bag[row]
        rows = row_tuples(found.rows.drop_columns([WEIGHT]))
        assert dict(zip(rows, found.rows[WEIGHT].to_pylist(), strict=True)) == total
        assert len(set(rows)) == len(rows)

    def compare_change(self, reader: StateReader, is_known: bool, before: Bag, after: Bag) -> None:
        scan, places = self.scan(n.NEW)
        keyed = reader.keyed(scan)
        if keyed is None:
            return
        change = keyed.set_change()
        assert (change is not None) == is_known
        if change is not None:
            columns = tuple(range(len(places)))
            one, other = (set().union(*by_key(bag, places, columns).values()) for bag in (before, after))
            assert (set(change[0]), set(change[1])) == (other - one, one - other)


def run(connect: Callable[..., vk.Database], seed: int, steps: int) -> None:
    tuning = vk.Tuning(flushed_batches=4, merged_files=2, negligible_rows=0)
    table = Table(connect(f"kept{seed}", durability="process", tuning=tuning), seed)
    for _ in range(steps):
        table.draw.choices([table.change, table.look, table.compact], [4, 6, 1])[0]()
    assert table.found > steps // 4


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, 2, *long(*range(3, 30))])
def test_random_tables(connect: Callable[..., vk.Database], seed: int) -> None:
    run(connect, seed, 60)


def test_the_net_of_signed_rows_by_key() -> None:
    """Rows and indexes are those of the sum, also when weights pass through 0 on the way."""
    for seed in range(200):
        draw = random.Random(seed)
        index, total = RowIndex(3), Counter[Row]()
        for _ in range(draw.randrange(1, 8)):
            rows = [(some_row(draw), draw.choice([-2, -1, 1, 1, 2])) for _ in range(draw.randrange(0, 150))]
            index.add(rows)
            for row, weight in rows:
                total[row] += weight
            there = {row: weight for row, weight in total.items() if weight}
            assert index.weights == there
            columns = tuple(draw.sample(range(3), draw.randint(1, 3)))
            wanted = by_key(dict.fromkeys(there, 1), (0, 1, 2), columns)
            keys = [key_of(columns)(some_row(draw)) for _ in range(20)]
            found = index.find(columns, keys)
            assert {key: set(rows) for key, rows in found.items()} == {k: wanted[k] for k in keys if k in wanted}
