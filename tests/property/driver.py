"""Random transactions against the model: every statement is done twice, and the two must agree.

One seed gives one run. A failure names the seed and the last steps; `Driver(..., seed)` repeats it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import viewkeeper as vk
from tests.inventory import MIXED
from tests.property.model import (
    Bag,
    Model,
    Refused,
    Row,
    bag,
    difference,
)
from tests.property.random_rows import SPECS
from tests.property.row_statements import Statements


class Driver(Statements):
    """Runs random transactions on a database and on the model."""

    def __init__(self, connect: Callable[..., vk.Database], seed: int, *, span: int = 12, **options: Any) -> None:
        super().__init__(seed, span)
        self.connect = connect
        self.options = {"durability": "process", "tuning": MIXED, **options}
        self.seed = seed
        self.db = connect(f"lake{seed}", **self.options)
        self.history: dict[int, Model] = {0: self.model.copy()}
        self.recorded: dict[str, list[tuple[int, dict[Row, int]]]] = {}
        self.log: list[str] = []
        self.steps = 0
        self.refused = 0

    # the run -------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Runs at least so many statements."""
        try:
            self.db.sql("; ".join(["BEGIN", *(spec.ddl for spec in SPECS), "COMMIT"]))
            for spec in SPECS:
                self.model.create(spec)
                self.recorded[spec.name] = []
            self.history[self.db.epoch] = self.model.copy()
            while self.steps < steps:
                self.random.choices(
                    [self.transaction, self.alone, self.by_sql, self.compact, self.vacuum, self.reopen, self.look_back],
                    [50, 15, 8, 4, 3, 2, 10],
                )[0]()
            self.check_contents(list(self.model.specs))
            self.check_feed()
        except Exception as problem:
            told = "\n".join(self.log[-12:])
            raise AssertionError(
                f"seed {self.seed}, step {self.steps}: {problem!r}; the last steps:\n{told}"
            ) from problem

    def note(self, text: str) -> None:
        self.log.append(f"  [{self.steps}] {text}")

    # transactions --------------------------------------------------------------------------------

    def transaction(self) -> None:
        """Several statements by a transaction object, then commit or rollback."""
        before = self.model.copy()
        epoch = self.db.epoch
        self.note("transaction")
        tx = self.db.transaction()
        for _ in range(self.random.randint(1, 5)):
            self.step(tx)
            if self.random.random() < 0.12:
                self.check_inside(tx)
        if self.random.random() < 0.4:
            self.check_preview(tx.preview(), before)
        if self.random.random() < 0.15:
            self.note("rollback")
            tx.rollback()
            self.model = before
            assert self.db.epoch == epoch
            return
        foreseen = {name: change.weights() for name, change in tx.preview().items()}
        commit = tx.commit()
        self.check_commit(commit, before, epoch)
        assert foreseen == {name: change.weights() for name, change in (commit.changes if commit else {}).items()}

    def step(self, tx: Any) -> None:
        """One statement in a transaction; one that fails must change nothing."""
        step = self.any_step()
        self.steps += 1
        self.note(step.text)
        trial = self.model.copy()
        try:
            step.modelled(trial)
        except Refused:
            self.refused += 1
            try:
                step.real(tx)
            except vk.errors.ViewkeeperError:
                return
            raise AssertionError(f"this should have been refused: {step.text}") from None
        step.real(tx)
        self.model = trial

    def alone(self) -> None:
        """One statement that commits by itself."""
        before, epoch = self.model.copy(), self.db.epoch
        step = self.sql_step()
        self.steps += 1
        self.note(f"alone: {step.text}")
        trial = self.model.copy()
        try:
            step.modelled(trial)
        except Refused:
            self.refused += 1
            try:
                step.real(self.db)
            except vk.errors.ViewkeeperError:
                assert self.db.epoch == epoch
                return
            raise AssertionError(f"this should have been refused: {step.text}") from None
        commit = step.real(self.db).commit
        self.model = trial
        self.check_commit(commit, before, epoch)

    def by_sql(self) -> None:
        """BEGIN, statements, and COMMIT or ROLLBACK, in separate calls."""
        before, epoch = self.model.copy(), self.db.epoch
        self.db.sql("BEGIN")
        self.note("BEGIN")
        for _ in range(self.random.randint(1, 3)):
            step = self.sql_step()
            self.steps += 1
            self.note(step.text)
            trial = self.model.copy()
            try:
                step.modelled(trial)
            except Refused:
                self.refused += 1
                try:
                    step.real(self.db)
                except vk.errors.ViewkeeperError:
                    continue
                raise AssertionError(f"this should have been refused: {step.text}") from None
            assert step.real(self.db).commit is None
            self.model = trial
        if self.random.random() < 0.2:
            self.note("ROLLBACK")
            assert self.db.sql("ROLLBACK").commit is None
            self.model = before
            assert self.db.epoch == epoch
            return
        self.note("COMMIT")
        self.check_commit(self.db.sql("COMMIT").commit, before, epoch)

    # checks --------------------------------------------------------------------------------------

    def expected(self, before: Model) -> dict[str, dict[Row, int]]:
        """The net change of every table that is in both models, or new."""
        found = {}
        for name, rows in self.model.rows.items():
            same = name in before.specs and before.specs[name] is self.model.specs[name]
            change = difference(rows, before.rows[name] if same else Counter())
            if change:
                found[name] = change
        return found

    def definitions_changed(self, before: Model) -> bool:
        return {n: id(s) for n, s in before.specs.items()} != {n: id(s) for n, s in self.model.specs.items()}

    def check_preview(self, preview: dict[str, Any], before: Model) -> None:
        assert {name: weights_of(change) for name, change in preview.items()} == self.expected(before)

    def check_commit(self, commit: Any, before: Model, epoch: int) -> None:
        expected = self.expected(before)
        if not expected and not self.definitions_changed(before):
            assert commit is None, f"an epoch without net effect: {commit}"
            assert self.db.epoch == epoch
            return
        assert commit is not None, f"no epoch for {expected}"
        assert commit.epoch == self.db.epoch == epoch + 1
        assert {name: weights_of(change) for name, change in commit.changes.items()} == expected
        for name, change in commit.changes.items():
            inserted, deleted = arrow_bag(change.inserted), arrow_bag(change.deleted)
            assert not set(inserted) & set(deleted), name
            assert difference(inserted, deleted) == expected[name], name
        for name in [name for name in before.specs if self.model.specs.get(name) is not before.specs[name]]:
            self.recorded[name] = []
        for name, change in expected.items():
            self.recorded.setdefault(name, []).append((commit.epoch, change))
        self.history[commit.epoch] = self.model.copy()
        self.check_contents(sorted(expected))

    def check_contents(self, names: list[str]) -> None:
        for name in names:
            assert arrow_bag(self.db.table(name).read().arrow()) == self.model.rows[name], name

    def check_inside(self, tx: Any) -> None:
        name = self.random.choice(list(self.model.specs))
        assert arrow_bag(tx.sql(f"SELECT * FROM {name}").arrow()) == self.model.rows[name], name

    def look_back(self) -> None:
        """Reads an earlier epoch, or the feed since one."""
        if self.random.random() < 0.4:
            self.check_feed()
            return
        epoch = self.random.choice(list(self.history))
        then = self.history[epoch]
        if not then.specs:
            return
        name = self.random.choice(list(then.specs))
        self.note(f"{name} AS OF EPOCH {epoch}")
        try:
            rows = self.db.sql(f"SELECT * FROM {name} AS OF EPOCH {epoch}").arrow()
        except vk.errors.NotFound as problem:
            check_too_old(problem, epoch)
            return
        assert arrow_bag(rows) == then.rows[name], (name, epoch)

    def check_feed(self) -> None:
        name = self.random.choice(list(self.model.specs))
        since = self.random.randint(0, self.db.epoch)
        self.note(f"changes of {name} since {since}")
        try:
            found = [(epoch, weights_of(change)) for epoch, change in self.db.table(name).changes(since)]
        except vk.errors.NotFound as problem:
            check_too_old(problem, since)
            return
        assert found == [(epoch, change) for epoch, change in self.recorded[name] if epoch > since]

    # upkeep --------------------------------------------------------------------------------------

    def compact(self) -> None:
        self.note("compact")
        epoch = self.db.epoch
        self.db.compact(self.random.choice([None, *self.model.specs]))
        assert self.db.epoch == epoch
        self.check_contents([self.random.choice(list(self.model.specs))])

    def vacuum(self) -> None:
        self.note("vacuum")
        self.db.vacuum(grace=0)
        self.check_contents([self.random.choice(list(self.model.specs))])

    def reopen(self) -> None:
        self.note("close and reopen")
        epoch = self.db.epoch
        self.db.close()
        self.db = self.connect(f"lake{self.seed}", **self.options)
        assert self.db.epoch == epoch
        self.check_contents([self.random.choice(list(self.model.specs))])


def weights_of(change: Any) -> dict[Row, int]:
    return change.weights()


def arrow_bag(table: pa.Table) -> Bag:
    columns = [column.to_pylist() for column in table.columns]
    return bag(zip(*columns, strict=True))


def check_too_old(problem: vk.errors.NotFound, epoch: int) -> None:
    """An epoch may be refused only if it is older than the oldest kept one, which the error's hint names."""
    found = re.search(r"the oldest kept epoch is (\d+)", problem.hint or "")
    assert found, str(problem)
    assert epoch < int(found.group(1)), str(problem)
