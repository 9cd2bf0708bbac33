"""Runs golden files with active rules and assertions.

A file is run as written with its views kept incrementally, kept by full refresh, and virtual: the firings must be the
same, with the same rows of their transition tables, and so must the changes of tables. The views must hold what DuckDB
computes from the tables. Firings depend on how statements are divided into transactions, so a file is run merged only
if it says what is expected then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlglot

import viewkeeper as vk
from tests.golden.runner import RULES, Runner
from tests.oracle import Oracle, difference, lines_of, plain, text_of, weights
from tests.vkt import Batch, Fired, Script, View, read_script, write_script
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.rules import processing
from viewkeeper.rules.transitions import TABLES, RuleChange, Transition

KEPT = ("incremental", "full", "virtual")
"""How the views of a file can be kept."""


class RuleRunner(Runner):
    """One run of a script with rules in a database of its own."""

    def __init__(self, db: vk.Database, script: Script, kept: str) -> None:
        super().__init__(db, script, ("",))
        self.kept = kept

    def create(self) -> None:
        """Tables, views, rules and assertions."""
        super().create()
        for _, text in self.script.rules:
            self.db.sql(text)

    def _create_view(self, view: View, form: str) -> None:
        if view.virtual or self.kept == "virtual":
            self.db.sql(f"CREATE VIEW {view.name} AS {view.query}")
        else:
            text = f"CREATE MATERIALIZED VIEW {view.name} WITH (refresh = '{self.kept}') AS {view.query}"
            self.db.sql(text)

    def found(self, batch: Batch) -> Batch:
        """A batch with what happens in it: firings, error, warnings, and the changes of tables and stored views."""
        error, commit = "", None
        with recorded_firings() as fired:
            try:
                with self.db.transaction() as tx:
                    for text in batch.statements:
                        tx.sql(text)
                commit = tx.commit_info
            except vk.errors.ViewkeeperError as problem:
                error = "\n".join(filter(None, (problem.message, problem.detail)))
        changes = {} if commit is None else {name: change.weights() for name, change in commit.changes.items()}
        names = [*self.script.tables, *(view.name for view in self.script.kept)]
        return replace(
            batch,
            fired=fired,
            refused=error,
            warned=[] if commit is None else list(commit.warnings),
            changes={name: lines_of(weights(changes[name])) for name in names if name in changes},
        )

    def run_all(self, batches: list[Batch]) -> list[Batch]:
        """Runs batches one after the other; gives them with what happened."""
        self.create()
        self.check_contents("at creation")
        happened: list[Batch] = []
        for number, batch in enumerate(batches, 1):
            found = self.found(batch)
            before = dict(self.held)
            follow(self.oracle, self.script, found)
            self.check_contents(f"batch {number}")
            for view in self.script.kept:
                wanted = lines_of(difference(self.held[view.name], before[view.name]))
                told = found.changes.get(view.name, [])
                assert self.kept == "virtual" or told == wanted, f"batch {number}: {view.name} reports {told}"
                found.changes |= {view.name: wanted} if wanted else {}
            happened.append(found)
        self.check_verified()
        return happened

    def check_verified(self) -> None:
        if self.kept != "virtual" and self.script.kept:
            super().check_verified()


def follow(oracle: Oracle, script: Script, batch: Batch) -> None:
    """Changes DuckDB's tables by what a batch changes."""
    for table in script.tables:
        described = oracle.connection.execute(f"DESCRIBE {table}").fetchall()
        columns = [(name, kind) for name, kind, *_ in described]
        same = " AND ".join(f"{name} IS NOT DISTINCT FROM CAST(? AS {kind})" for name, kind in columns)
        given = ", ".join(f"CAST(? AS {kind})" for _, kind in columns)
        for line in batch.changes.get(table, ()):
            weight, *texts = line.split(" | ")
            values = [None if text == "NULL" else "" if text == "(empty)" else text for text in texts]
            for _ in range(abs(int(weight))):
                if int(weight) > 0:
                    oracle.connection.execute(f"INSERT INTO {table} SELECT {given}", values)
                else:
                    one = f"SELECT rowid FROM {table} WHERE {same} LIMIT 1"
                    done = oracle.connection.execute(f"DELETE FROM {table} WHERE rowid IN ({one})", values).fetchone()
                    assert done == (1,), f"{table} has no row {texts}"


@contextmanager
def recorded_firings() -> Iterator[list[Fired]]:
    """The firings of all rules in this process whose condition held, in their order."""
    found: list[Fired] = []
    original = processing.act

    def act(tx: Any, actions: Any, rule: Any, values: dict[str, str], change: RuleChange, *, dry: bool = False) -> int:
        rows = original(tx, actions, rule, values, change, dry=dry)
        if rows:
            given = [
                sqlglot.parse_one(text).find(sqlglot.exp.Literal) for name, text in values.items() if name[0] == ":"
            ]
            found.append(
                Fired(" ".join([rule.name, *(str(each and each.this) for each in given)]), _rows(change.transition))
            )
        return rows

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(processing, "act", act)
        yield found


def _rows(transition: Transition) -> list[str]:
    lines = [
        " | ".join([table, *(text_of(plain(value)) for value in row)])
        for table in TABLES
        for row in row_tuples(getattr(transition, table))
    ]
    return sorted(lines)


def run_with_rules(connect: Callable[..., vk.Database], script: Script, kept: str) -> Script:
    """Runs a script as written; gives it with what happened."""
    return replace(script, batches=_run(connect(kept, durability="process"), script, kept, script.batches))


def run_merged_with_rules(connect: Callable[..., vk.Database], script: Script) -> Script:
    """Runs all batches as one transaction, if the script says what is expected then."""
    if script.merged is None:
        return script
    (merged,) = _run(connect("merged", durability="process"), script, "incremental", [script.merged])
    return replace(script, merged=merged)


def _run(db: vk.Database, script: Script, kept: str, batches: list[Batch]) -> list[Batch]:
    runner = RuleRunner(db, script, kept)
    try:
        return runner.run_all(batches)
    finally:
        runner.close()


def completed_by_tables(script: Script) -> Script:
    """The script with the changes of views that DuckDB sees when its tables change as the file says."""
    batches = _recomputed(script, script.batches)
    merged = script.merged and _recomputed(script, [script.merged])[0]
    return replace(script, batches=batches, merged=merged)


def _recomputed(script: Script, batches: list[Batch]) -> list[Batch]:
    oracle = Oracle()
    for text in script.setup:
        oracle.create_table(text) if text.lstrip().upper().startswith("CREATE TABLE") else oracle.run(text)
    known = [view for view in script.kept if view.oracle is not None]
    for view in script.views:
        if view.oracle is not None:
            oracle.create_view(view.name, view.oracle)
    found: list[Batch] = []
    before = {view.name: oracle.bag(view.name) for view in known}
    for batch in batches:
        follow(oracle, script, batch)
        after = {view.name: oracle.bag(view.name) for view in known}
        changes = {name: lines_of(difference(after[name], before[name])) for name in after}
        found.append(replace(batch, changes=batch.changes | changes))
        before = after
    oracle.close()
    return found


def text_of_script(script: Script) -> str:
    """The text of a script, whose changes may stand in any order."""

    def ordered(batch: Batch) -> Batch:
        return replace(batch, changes=dict(sorted(batch.changes.items())))

    batches = [ordered(batch) for batch in script.batches]
    return write_script(replace(script, batches=batches, merged=script.merged and ordered(script.merged)))


def rule_files() -> list[Path]:
    """All golden files with rules or assertions."""
    return sorted((Path(__file__).parent / RULES).glob("*.vkt"))


def complete_rules(connect: Callable[..., vk.Database], path: Path) -> None:
    """Writes a file anew with what happens in it, for its author to read."""
    script = run_with_rules(connect, read_script(path), "incremental")
    path.write_text(write_script(run_merged_with_rules(connect, script)))
