"""Random Datalog programs stay what a naive evaluator derives, through random changes of facts and rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.recursion.naive import evaluate
from tests.recursion.programs import Program, rule_text, to_text
from tests.recursion.random_facts import after, random_transaction
from tests.recursion.random_programs import changed, random_program, random_rule_change
from viewkeeper.algebra.datalog_rules import Predicate
from viewkeeper.maintain import recursions as recursive
from viewkeeper.recursion.row_sets import Rows
from viewkeeper.recursion.steps import Joins, Step

FOUND = (105, 165, 179, 213)
"""Programs that once came out wrong: an aggregate in a recursion that names variables around it, the first rule of a
relation that had none, rows joined on the driver as if a negated literal were not, and relations that were one
recursion of which one negates another now."""

TRANSACTIONS = 4
RULE_CHANGES = 2


class Run:
    """A program in a database, and what it should come to."""

    def __init__(self, db: vk.Database, program: Program, rng: random.Random) -> None:
        self.db = db
        self.program = program
        self.rng = rng
        self.pairs = 0
        self.log: list[str] = [to_text(program)]
        db.datalog(to_text(program))
        with db.transaction() as tx:
            for name, rows in program.facts.items():
                tx.insert(name, sorted(rows, key=str))
        wanted = evaluate(program.rules, program.facts)
        self.shown = {name: wanted.get(name, set()) for name in self.names}
        self.check("the first facts")

    @property
    def names(self) -> list[str]:
        return [relation.name for relation in self.program.derived]

    def check(self, what: str) -> None:
        """Compares every derived relation with the naive evaluator's."""
        self.log.append(what)
        wanted = evaluate(self.program.rules, self.program.facts)
        for name in self.names:
            rows = self.db.sql(f"SELECT * FROM {name}").rows()
            found = set(rows)
            assert len(rows) == len(found), self.told(f"{name} has a row twice")
            missing, more = wanted.get(name, set()) - found, found - wanted.get(name, set())
            assert (missing, more) == (set(), set()), self.told(f"{name}: missing {missing}, too many {more}")
            self.pairs += 1

    def transaction(self) -> None:
        """A random change of facts."""
        change = random_transaction(self.rng, self.program.facts)
        with self.db.transaction() as tx:
            for name, (came, gone) in change.items():
                if gone:
                    tx.delete(name, sorted(gone, key=str))
                if came:
                    tx.insert(name, sorted(came, key=str))
        self.program = replace(self.program, facts=after(self.program.facts, change))
        self.compare_changes(tx.commit_info)
        self.check(f"transaction {change}")

    def rule_change(self) -> None:
        """A random rule added or removed."""
        sign, rule = change = random_rule_change(self.rng, self.program)
        self.log.append(f"{sign} {rule_text(rule)}")
        commit = self.db.datalog(f"{sign} {rule_text(rule)}").commit
        self.program = changed(self.program, change)
        self.compare_changes(commit)
        self.check("after the rule change")

    def compare_changes(self, commit: vk.Commit | None) -> None:
        """What a commit says has changed, and the feed of a virtual relation, is exactly the difference."""
        wanted = evaluate(self.program.rules, self.program.facts)
        for relation in self.program.derived:
            new = wanted.get(relation.name, set())
            old, self.shown[relation.name] = self.shown[relation.name], new
            change = commit.changes.get(relation.name) if commit is not None else None
            if not relation.stored and commit is not None:  # the feed of a virtual relation is derived on demand
                feed = dict(self.db.view(relation.name).changes(since=commit.epoch - 1))
                change = feed.get(commit.epoch)
            weights = change.weights() if change is not None else {}
            expected = dict.fromkeys(new - old, 1) | dict.fromkeys(old - new, -1)
            assert weights == expected, self.told(f"the change of {relation.name}: {weights} instead of {expected}")

    def told(self, what: str) -> str:
        """A failure with all that led to it."""
        return "\n".join([what, *self.log])


def run(connect: Callable[..., vk.Database], seed: int, transactions: int, rule_changes: int, **tuning: int) -> int:
    rng = random.Random(seed)
    case = Run(connect(f"program{seed}", durability="process", tuning=vk.Tuning(**tuning)), random_program(rng), rng)
    steps = ["transaction"] * transactions + ["rule_change"] * rule_changes
    rng.shuffle(steps)
    for step in steps:
        getattr(case, step)()
    return case.pairs


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(0, 2, 3, 4), *FOUND])
def test_random_programs_on_sail(connect: Callable[..., vk.Database], seed: int) -> None:
    assert run(connect, seed, TRANSACTIONS, RULE_CHANGES) > 0


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("seed", [3, *long(7)])
def test_random_programs_on_spark(connect: Callable[..., vk.Database], seed: int) -> None:
    assert run(connect, seed, 2, 1) > 0


@pytest.mark.long
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", range(5, 400))
def test_many_random_programs(connect: Callable[..., vk.Database], seed: int) -> None:
    assert run(connect, seed, 2 * TRANSACTIONS, 2 * RULE_CHANGES) > 0


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, 4, *long(16)])
def test_by_deleting_too_much(connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(recursive, "strategy_for", lambda *_: recursive.Strategy("dred", "for the test"))
    assert run(connect, seed, TRANSACTIONS, RULE_CHANGES) > 0


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [12, *long(5)])
def test_with_rows_in_files(connect: Callable[..., vk.Database], seed: int) -> None:
    """As if every set of rows were too large for the driver."""
    assert run(connect, seed, TRANSACTIONS, RULE_CHANGES, small_rows=3, set_parts=2) > 0


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [86, *long(*range(87, 92))])
def test_by_queries_alone(connect: Callable[..., vk.Database], seed: int) -> None:
    """As if all rows were too many to be joined on the driver."""
    assert run(connect, seed, TRANSACTIONS, RULE_CHANGES, driver_rows=0) > 0


@pytest.mark.driver_lane
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [179, *long(*range(80, 86))])
def test_the_driver_joins_as_the_engine_does(
    connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    both = 0

    def derive(joins: Joins, head: Predicate, listed: Sequence[Step]) -> Rows:
        nonlocal both
        found = joins._on_driver(head, listed)
        with monkeypatch.context() as patch:
            patch.setattr(joins, "_on_driver", lambda *_: None)
            rows = original(joins, head, listed)
        if found is not None:
            assert found == set(rows.tuples), [step.rule.text for step in listed]
            both += 1
        return rows

    original = Joins.derive
    monkeypatch.setattr(Joins, "derive", derive)
    run(connect, seed, TRANSACTIONS, RULE_CHANGES)
    assert both, "no step was for the driver"
