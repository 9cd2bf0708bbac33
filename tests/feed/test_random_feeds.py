"""Copies of random virtual views, kept by frames of every quality, equal what DuckDB computes from scratch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.oracle import Bag, Oracle, transpiled, weights
from tests.property.view_cases import Definition, Maker
from viewkeeper.algebra.types import quote
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.subscription import Subscription

Part = Callable[[tuple[Any, ...]], bool]


class RandomCopy:
    """A copy of a view or a part of it; a nervous one is a set, in which an insert may be repeated."""

    def __init__(self, name: str, what: str, subscription: Subscription, part: Part, *, nervous: bool = False) -> None:
        self.name = name
        self.what = what
        self.subscription = subscription
        self.part = part
        self.nervous = nervous
        self.rows: Bag = Counter()
        self.last = -1

    def follow(self, epoch: int) -> None:
        while self.subscription.epoch < epoch:
            frame = self.subscription.next(20.0)
            if frame is not None:
                self._apply(frame)
            elif self.subscription.every == "demand":
                break

    def _apply(self, frame: Frame) -> None:
        assert frame.epoch > self.last
        self.last = frame.epoch
        for row, weight in weights(frame.change.weights()).items():
            self.rows[row] = (weight > 0) if self.nervous else self.rows[row] + weight
        self.rows = +self.rows

    def check(self, oracle: Oracle, where: str) -> None:
        wanted = {row: count for row, count in oracle.bag(self.name).items() if self.part(row)}
        assert self.rows == wanted, f"{where}: {self.what} of {self.name}"


def copies_of(db: vk.Database, view: Definition, oracle: Oracle, rng: random.Random) -> list[RandomCopy]:
    """Subscriptions of every quality to a view."""
    name = view.name

    def every(row: tuple[Any, ...]) -> bool:
        return True

    found = [
        RandomCopy(name, "exact", db.subscribe(name), every),
        RandomCopy(name, "on demand", db.subscribe(name, every="demand"), every),
    ]
    schema = list(found[0].subscription.schema)
    try:
        found.append(RandomCopy(name, "nervous", db.subscribe(name, precision="nervous"), every, nervous=True))
    except vk.errors.SqlError as problem:
        if "without duplicates" not in problem.message:
            raise
    rows = list(oracle.bag(name))
    bound = [place for place, column in enumerate(schema) if column.type.is_integer or column.type.name == "string"]
    if bound:
        place = rng.choice(bound)
        values = [row[place] for row in rows if row[place] is not None] or [7 if schema[place].type.is_integer else "b"]
        value = rng.choice(values)
        shown = f"'{value}'" if isinstance(value, str) else value
        where = f"{quote(schema[place].name)} = {shown}"
        found.append(RandomCopy(name, where, db.subscribe(name, where=where), lambda row: row[place] == value))
    other = rng.randrange(len(schema))
    where = f"{quote(schema[other].name)} IS NOT NULL"
    found.append(RandomCopy(name, where, db.subscribe(name, where=where), lambda row: row[other] is not None))
    return found


def check(db: vk.Database, seed: int, views: int, transactions: int) -> int:
    """Runs the case of a seed; returns how many copies were compared."""
    case = Maker(seed, views=views, transactions=transactions).case()
    rng = random.Random(seed)
    oracle = Oracle()
    db.sql("; ".join(table.ddl for table in case.tables))
    for table in case.tables:
        oracle.create_table(table.ddl)

    def commit(statements: Any) -> None:
        with db.transaction() as tx:
            for statement in statements:
                tx.sql(statement.text)
        for statement in statements:
            oracle.run(statement.text)

    commit(case.first)
    copies: list[RandomCopy] = []
    missing: set[str] = set()
    for view in case.views:
        if view.query.uses & missing:
            missing.add(view.name)
            continue
        try:
            db.sql(f"CREATE VIEW {view.name} AS {view.query.text}")
        except vk.errors.NotMaintainable:
            missing.add(view.name)
            continue
        oracle.create_view(view.name, transpiled(view.query.text))
        copies += copies_of(db, view, oracle, rng)
    compared = 0
    for number, statements in enumerate(case.transactions):
        commit(statements)
        for copy in copies if number % 3 == 2 or number == len(case.transactions) - 1 else rng.sample(copies, 3):
            copy.follow(db.epoch)
            copy.check(oracle, f"seed {seed}, transaction {number}")
            compared += 1
    oracle.close()
    return compared


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(*range(2, 30))])
def test_random_feeds_on_sail(connect: Callable[..., vk.Database], seed: int) -> None:
    assert check(connect(f"feeds{seed}", durability="process"), seed, 5, 4) > 20


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("seed", [101, *long(*range(102, 106))])
def test_random_feeds_on_spark(connect: Callable[..., vk.Database], seed: int) -> None:
    assert check(connect(f"feeds{seed}", durability="process"), seed, 3, 3) > 8
