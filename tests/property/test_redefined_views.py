"""Random views that are given another query, in transactions that change their tables as well, against DuckDB.

A view gets a branch more or less, a filter around it, or another number in a condition somewhere inside. Whether its
refresh is incremental or full, it must hold what DuckDB computes, and report exactly new minus old.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.oracle import transpiled
from tests.property.schemas import Query
from tests.property.view_cases import Maker, Transaction
from tests.property.view_driver import Run

NUMBER = re.compile(r"(?<=[<>=] )-?\d+\b(?! THEN)")
"""A number that something is compared with, unless that guards a division."""


@dataclass
class Branches:
    """What a view is made of by now: queries with the columns of the first, each with a filter or none."""

    query: Query
    parts: list[tuple[str, str]] = field(default_factory=list)

    def text(self) -> str:
        columns = ", ".join(f"q.{column.name}" for column in self.query.columns)
        selects = [f"SELECT {columns} FROM ({part}) AS q{where}" for part, where in self.parts]
        return " UNION ALL ".join(selects) if len(selects) > 1 or self.parts[0][1] else self.parts[0][0]

    def change(self, rng: random.Random) -> None:
        """One random step."""
        place = rng.randrange(len(self.parts))
        part, where = self.parts[place]
        column = rng.choice(self.query.columns).name
        match rng.choice(("number", "number", "filter", "more", "less")):
            case "number" if found := list(NUMBER.finditer(part)):
                one = rng.choice(found)
                part = part[: one.start()] + str(rng.randint(-1, 3)) + part[one.end() :]
                self.parts[place] = (part, where)
            case "more" if len(self.parts) < 3:
                self.parts.append((self.query.text, f" WHERE q.{column} IS NOT NULL"))
            case "less" if len(self.parts) > 1:
                del self.parts[place]
            case _:
                self.parts[place] = (part, "" if where and rng.random() < 0.3 else f" WHERE q.{column} IS NULL")


class Changing(Run):
    """A case whose views are redefined on the way."""

    def change(self, seed: int) -> Counter[str]:
        """Runs it; how often which strategy was taken."""
        rng = random.Random(seed)
        taken: Counter[str] = Counter()
        self._create()
        assert not self.outcome.wrong, self.outcome
        stored = [view for view in self.case.views if not view.virtual and view.name in self.held]
        made = {view.name: Branches(view.query, [(view.query.text, "")]) for view in stored}
        try:
            for number, statements in enumerate(self.case.transactions):
                name = rng.choice(stored).name
                made[name].change(rng)
                taken[self._redefined(f"transaction {number}", name, made[name].text(), statements)] += 1
                assert not self.outcome.wrong, f"{made[name].text()}\n{statements}\n{self.outcome}"
        finally:
            self.oracle.close()
        return taken

    def _redefined(self, where: str, name: str, text: str, statements: Transaction) -> str:
        with self.db.transaction() as tx:
            for statement in statements:
                tx.sql(statement.text)
            tx.sql(f"ALTER MATERIALIZED VIEW {name} AS {text}")
        for statement in statements:
            self.oracle.run(statement.text)
        self.oracle.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {transpiled(text)}")
        assert tx.commit_info is not None
        self._compare(where, tx.commit_info.changes)
        report = tx.commit_info.report.get(name)
        return report.strategy if report is not None else "none"


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [4001, *long(4000, *range(4002, 4010))])
def test_redefined_views_are_exact(connect: Callable[..., vk.Database], seed: int) -> None:
    case = Maker(seed, views=6, transactions=10, depth=3).case()
    taken = Changing(connect(f"changing{seed}", durability="process"), case).change(seed)
    assert taken["incremental"] + taken["none"] >= taken["full"], taken


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_redefined_views_are_exact_on_spark(connect: Callable[..., vk.Database]) -> None:
    case = Maker(4100, views=3, transactions=5, depth=2).case()
    assert Changing(connect("changing", durability="process"), case).change(4100).total() == 5


@pytest.mark.long
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", range(4200, 4300))
def test_many_redefined_views_are_exact(connect: Callable[..., vk.Database], seed: int) -> None:
    case = Maker(seed, views=10, transactions=20).case()
    assert Changing(connect(f"changing{seed}", durability="process"), case).change(seed).total() == 20
