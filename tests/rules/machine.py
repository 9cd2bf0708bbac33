"""A state machine that drives a database and the model of rules side by side."""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import viewkeeper as vk
from tests.rules.actions import Refused, text_of
from tests.rules.model import Model, ModelTransaction, Outcome, Rule, contents
from tests.rules.replay import Replay
from tests.rules.steps import (
    CHECK,
    DEFINITIONS,
    DETACHED,
    IDS,
    IN_TRANSACTION,
    PREVIEW,
    ROWS,
    Step,
    activating,
    asserting,
    creating,
    rules,
)
from tests.rules.world import ASSERTIONS, DATALOG, MATERIALIZED, SOURCES, TABLES, VIEWS, Row
from tests.rules.world import ROWS as FIRST
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.rules.detached import DetachedRules

STORED = [*TABLES, *MATERIALIZED]
SHOWN = [*STORED, *(name for name in SOURCES if name not in STORED)]
"""The relations that are compared."""

ONCE = 1
"""How often the action of a detached rule is tried before its firing is parked."""


def make_template(path: Path, engine: str) -> None:
    """A database with the tables and views of the machine, to be copied for each example."""
    with vk.connect(path, engine=engine, durability="process") as db:
        db.sql(";\n".join(["BEGIN", *TABLES.values(), *VIEWS.values(), "COMMIT"]))
        db.datalog(DATALOG)
        with db.transaction() as tx:
            for name, rows in FIRST.items():
                tx.insert(name, rows)


def net(after: Model, before: Model, names: list[str]) -> dict[str, dict[Row, int]]:
    """The net change of relations between two states of the model."""
    found = {}
    for name in names:
        new, old = contents(after.rows, name), contents(before.rows, name)
        change = {row: new[row] - old[row] for row in {*new, *old} if new[row] != old[row]}
        if change:
            found[name] = change
    return found


class RuleMachine(RuleBasedStateMachine):
    """Runs transactions on a database and on the model, and compares what they give."""

    template: Path
    engine: str
    tuning: Tuning | None = None

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="rules-"))
        shutil.copytree(self.template, self.directory / "lake")
        self.model = Model()
        self.db = self.connect()
        self.log: list[str] = []
        self.last: dict[str, Any] = {}  # the entry of the last commit

    def connect(self) -> vk.Database:
        """A session that runs no detached rules, so that they run when the machine says so."""
        db = self.session()
        db._detached.close()
        return db

    def session(self) -> vk.Database:
        """A session with the Python functions of rules, before it looks for firings of detached ones."""
        tuning = replace(self.tuning or Tuning(), action_attempts=ONCE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DetachedRules, "wake", lambda rules: None)
            db = vk.connect(self.directory / "lake", engine=self.engine, durability="process", tuning=tuning)
            for made in self.model.rules.values():
                if made.python:
                    self.register(db, made)
        return db

    def teardown(self) -> None:
        try:
            self.detached()
            self.compare_contents()
            assert self.db.verify().equal
        finally:
            self.db.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    # steps ----------------------------------------------------------------------------------------

    @initialize(
        made=st.tuples(*[rules()] * 4, *[rules(("detached",))] * 2),
        values=st.lists(IDS, min_size=2, max_size=2, unique=True),
        violations=st.tuples(*[st.sampled_from(["", "warn", "abort"])] * len(ASSERTIONS)),
    )
    def begin(self, made: tuple[Rule, ...], values: list[int], violations: tuple[str, ...]) -> None:
        """Six rules, of which two or more are detached, their activations, and some assertions."""
        named = [replace(rule, name=f"r{index}") for index, rule in enumerate(made, 1)]
        active = [activating(rule.name, value, True) for rule in named if rule.takes_parameter for value in values]
        asserted = [asserting(name, how, "CREATE") for name, how in zip(ASSERTIONS, violations, strict=True) if how]
        self.transaction([*map(creating, named), *active, *asserted], True)

    @rule(
        steps=st.lists(IN_TRANSACTION, min_size=2, max_size=5),
        commits=st.sampled_from([True] * 6 + [False]),
        meanwhile=st.one_of(st.none(), st.none(), ROWS, st.just(Step(DETACHED))),
    )
    def transaction(self, steps: list[Step], commits: bool, meanwhile: Step | None = None) -> None:
        """Several statements, then commit or rollback. One that fails changes nothing, and the transaction goes on."""
        self.log.append("BEGIN")
        tx, model = self.db.transaction(), ModelTransaction(self.model)
        try:
            done = []
            for step in steps:
                done += [step] if self.step(tx, model, step) else []
                if meanwhile is None:  # else every rule that fires meanwhile would be a conflict
                    self.same(bag(tx.sql("SELECT * FROM audit").rows()), model.now.rows["audit"], "audit")
            if meanwhile is not None and commits:
                self.after_another(tx, done, meanwhile)
                return
            self.log.append("COMMIT" if commits else "ROLLBACK")
            if commits:
                self.finish(tx.commit, model)
        finally:
            tx.rollback()

    def after_another(self, tx: Any, steps: list[Step], meanwhile: Step) -> None:
        """Commits after another session has: a conflict, or what the transaction does on the newer state.

        `steps` are those that were not refused; the others have changed nothing, whatever they would do now.
        """
        if meanwhile.text == DETACHED:
            self.detached()
        else:
            mine, self.db = self.db, self.connect()
            try:
                self.alone(meanwhile)
            finally:
                self.db.close()
                self.db = mine
        self.log.append("COMMIT after that")
        model = ModelTransaction(self.model)
        for step in steps:
            if step.text != PREVIEW:
                self.refusal(model.check if step.text == CHECK else functools.partial(model.statement, step.modelled))
        with contextlib.suppress(vk.errors.Conflict):
            self.finish(tx.commit, model)

    @rule(step=st.one_of(ROWS, DEFINITIONS))
    def alone(self, step: Step) -> None:
        """A statement that commits by itself."""
        self.log.append(step.text)
        model = ModelTransaction(self.model)
        refused = self.refusal(lambda: model.statement(step.modelled))
        if refused is None:
            self.finish(lambda: self.db.sql(step.text).commit, model)
        else:
            self.must_fail(lambda: self.db.sql(step.text), refused)

    @precondition(lambda self: bool(self.model.waiting))
    @rule(sessions=st.integers(1, 2))
    def detached(self, sessions: int = 1) -> None:
        """Other sessions run firings of detached rules; those that they add to may be left."""
        state = self.db._store.refresh()
        names = {made.id: made.name for made in state.rules.values()}
        opened = [self.session() for _ in range(sessions)]
        for session in opened:
            session._detached.wake()
        for session in opened:
            session.close()
        newest = self.db._store.refresh()
        entries = list(itertools.islice(self.db._store.ledger.entries(newest.number), newest.number - state.number))
        replay = Replay(self.model, names, self.same)
        for entry in reversed(entries):
            self.log.append(f"DETACHED {entry.get('epoch', '')} {entry.get('waiting', '')}")
            written = [newest.relations[key] for key in entry.get("files", ())]
            changed = {relation.name for relation in written if not relation.is_hidden}
            replay.entry(entry, changed, lambda after, before: net(after, before, STORED))
        self.model = replay.model
        self.compare_contents()
        found = sorted((names[each.rule], each.epoch, bool(each.parked)) for each in newest.waiting)
        self.same(found, sorted((each.rule, each.epoch, each.parked) for each in self.model.waiting), "still waiting")

    @rule(what=st.one_of(rules(), st.sampled_from(["reopen", "compact", "vacuum"])))
    def other(self, what: Rule | str) -> None:
        """A rule whose action is a Python function, or what rules do not see."""
        if isinstance(what, str):
            self.housekeeping(what)
        elif not what.takes_parameter:
            self.in_python(replace(what, python=True, each_row=False))

    def in_python(self, made: Rule) -> None:
        self.log.append(str(made))
        self.register(self.db, made)
        there = self.model.rules.get(made.name)
        if there is not None and replace(there, number=0, enabled=True) == made:
            return
        model = ModelTransaction(self.model)
        model.statement(creating(made, True).modelled)
        self.model = model.now

    def register(self, db: vk.Database, made: Rule) -> None:
        source = made.source if made.watched.query is None else f"({made.watched.query})"

        def action(change: Any, tx: Any) -> None:
            kinds = {"+": change.inserted, "-": change.deleted, "<": change.old, ">": change.new}
            for kind, found in kinds.items():
                rows = [[text_of(cell) for cell in row.values()] for row in found.to_pylist()]
                tx.insert("audit", [(made.name, kind, None, *row, *[None] * (3 - len(row))) for row in rows])
            if made.effect:
                tx.sql(made.effect)

        db.rule(
            source,
            " or ".join(made.events),
            name=made.name,
            nervous=made.nervous,
            coupling=made.coupling,
            priority=made.priority,
            condition=made.condition,
        )(action)

    def housekeeping(self, what: str) -> None:
        self.log.append(what)
        if what != "reopen":
            getattr(self.db, what)()
            return
        self.db.close()
        self.db = self.connect()

    def step(self, tx: Any, model: ModelTransaction, step: Step) -> bool:
        """A step of a transaction; whether it was not refused."""
        if step.text == PREVIEW:
            self.log.append(PREVIEW)
            self.preview(tx, model)
            return True
        modelled = model.check if step.text == CHECK else lambda: model.statement(step.modelled)
        self.log.append(step.text)
        refused = self.refusal(modelled)
        if refused is None:
            tx.sql(step.text)
        else:
            self.must_fail(lambda: tx.sql(step.text), refused)
        return refused is None

    def finish(self, commit: Any, model: ModelTransaction) -> None:
        """The commit, and what it tells of changes, firings and warnings."""
        outcome: list[Outcome] = []
        refused = self.refusal(lambda: outcome.append(model.commit()))
        if refused is not None:
            self.must_fail(commit, refused)
            return
        done = commit()
        expected = net(model.now, self.model, STORED)
        if done is None:
            self.same((expected, outcome[0].waiting), ({}, []), "no commit")
        else:
            found = {name: change.weights() for name, change in done.changes.items()}
            self.same(found, expected, "changes")
            entry = self.last = self.entry(done.epoch)
            names = {rule.id: rule.name for rule in self.rules_at(done.epoch - 1)}
            self.same([(each["name"], each["rows"]) for each in entry.get("fired", ())], outcome[0].fired, "fired")
            added = [each for each in entry.get("waiting", ()) if each.get("epoch") == done.epoch]
            waiting = [(names[each["rule"]], each["rows"]) for each in added]
            self.same(sorted(waiting), sorted(outcome[0].waiting), "waiting")
            self.same(sorted(name_of(text) for text in done.warnings), outcome[0].warnings, "warnings")
            model.now.at_epoch(done.epoch)
        self.model = model.now

    def preview(self, tx: Any, model: ModelTransaction) -> None:
        """What a preview foretells."""
        tried = model.copy()
        outcome: list[Outcome] = []
        refused = self.refusal(lambda: outcome.append(tried.preview()))
        if refused is not None:
            self.must_fail(tx.preview, refused)
            return
        found = tx.preview()
        changes = {name: change.weights() for name, change in found.items() if name in SHOWN}
        self.same(changes, net(tried.now, self.model, SHOWN), "preview")
        self.same(found.rules, [name for name, _ in [*outcome[0].fired, *outcome[0].waiting]], "rules of preview")
        self.same(sorted(name_of(text) for text in found.assertions), outcome[0].violated, "assertions of preview")

    # comparing ------------------------------------------------------------------------------------

    def refusal(self, modelled: Any) -> str | None:
        try:
            modelled()
        except Refused as problem:
            return problem.kind
        return None

    def must_fail(self, real: Any, kind: str) -> None:
        with pytest.raises((getattr(vk.errors, kind), vk.errors.Conflict)) as problem:
            real()
        if problem.type is vk.errors.Conflict:
            raise problem.value

    def same(self, found: object, expected: object, what: str = "") -> None:
        """Raises with the steps so far if the two differ."""
        if found != expected:
            told = "\n".join(self.log)
            raise AssertionError(f"{what}: found {found}, expected {expected} after\n{told}")

    def compare_contents(self) -> None:
        for name in SHOWN:
            self.same(bag(self.db.sql(f"SELECT * FROM {name}").rows()), contents(self.model.rows, name), name)
        for name in self.model.assertions:
            self.db.sql(f"SELECT * FROM {name}")

    def entry(self, epoch: int) -> dict[str, Any]:
        """The ledger's entry of an epoch."""
        store = self.db._store
        return next(e for e in store.ledger.entries(store.refresh().number) if e.get("epoch") == epoch)

    def rules_at(self, epoch: int) -> list[Any]:
        state = self.db._store.refresh()
        found = {}
        for entry in reversed(list(self.db._store.ledger.entries(state.number))):
            if entry.get("epoch", 0) <= epoch:
                found.update({key: body for key, body in entry.get("rules", {}).items() if body is not None})
        return [vk.catalog.active_rules.ActiveRule.from_json(body) for body in found.values()]


def bag(rows: list[Row]) -> Any:
    return Counter(tuple(row) for row in rows)


def name_of(text: str) -> str:
    """The assertion that a warning is about."""
    return text.removeprefix("the assertion ").split(" is violated")[0]
