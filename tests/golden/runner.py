"""Runs golden files: what the author wrote, and what every file gets without being asked.

As written, each view stands up to three times in one database: kept incrementally, kept by full refresh, and virtual.
After each batch the net change must be the expected one, every form must hold what DuckDB computes from scratch, and
the change must be strongly minimal: exactly new minus old, so that nothing is deleted that was not there and nothing is
both deleted and inserted. Then the batches come merged into one transaction, split into single statements, and in
other orders; and in the end everything must verify.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import viewkeeper as vk
from tests.oracle import Bag, Oracle, bag, difference, lines_of, weights
from tests.vkt import Batch, Script, View, read_script, write_script

FORMS = ("", "_full", "_virtual")
"""A view's names, by form: kept incrementally, kept by full refresh, virtual."""

RULES = "rules"
"""The directory of files with active rules and assertions, which tests/golden/rule_runner.py runs."""


class Runner:
    """One run of a script in a database of its own."""

    def __init__(self, db: vk.Database, script: Script, forms: tuple[str, ...] = FORMS) -> None:
        self.db = db
        self.script = script
        self.forms = forms
        self.oracle = Oracle()
        self.held: dict[str, Bag] = {}

    def close(self) -> None:
        self.oracle.close()

    # making ----------------------------------------------------------------------------------------

    def create(self) -> None:
        """Tables, their first rows, and all forms of the views."""
        for text in self.script.setup:
            self.db.sql(text)
            self._ask_oracle(text)
        for view in self.script.views:
            for form in self.forms:
                self._create_view(view, form)
            if view.oracle is not None:
                self.oracle.create_view(view.name, view.oracle)

    def _ask_oracle(self, text: str) -> None:
        if re.match(r"\s*CREATE\s+TABLE", text, re.IGNORECASE):
            self.oracle.create_table(text)
        else:
            self.oracle.run(text)

    def _create_view(self, view: View, form: str) -> None:
        name, query = view.name + form, self._renamed(view.query, form)
        if view.virtual or form == "_virtual":
            self.db.sql(f"CREATE VIEW {name} AS {query}")
            return
        refresh = "full" if form == "_full" else "incremental"
        text = "CREATE MATERIALIZED VIEW {} WITH (refresh = '{}') AS {}"
        if view.unbound and refresh == "incremental":
            refused = False
            try:
                self.db.sql(text.format(name, refresh, query))
            except vk.errors.NotMaintainable:
                refused = True
            assert refused, f"{view.name} reads everything for a change, and was not refused"
            refresh = "auto"
        self.db.sql(text.format(name, refresh, query))

    def _renamed(self, query: str, form: str) -> str:
        for view in self.script.views:
            query = re.sub(rf"\b{view.name}\b", view.name + form, query)
        return query

    # checking --------------------------------------------------------------------------------------

    def expected(self) -> dict[str, Bag]:
        """What DuckDB says the views hold now."""
        return {view.name: self.oracle.bag(view.name) for view in self.script.views if view.oracle is not None}

    def read(self, name: str) -> Bag:
        return bag(self.db.view(name).read().rows())

    def check_contents(self, where: str) -> None:
        """Reads every form of every view: it holds what DuckDB computes, or at least the same as the others."""
        truth = self.expected()
        for view in self.script.views:
            held = {view.name + form: self.read(view.name + form) for form in self.forms}
            self.held |= held
            wanted = truth.get(view.name, held[view.name + self.forms[0]])
            for name, rows in held.items():
                wrong = difference(rows, wanted)
                assert not wrong, f"{where}: {name} has too many (+) or too few (-):\n" + "\n".join(lines_of(wrong))

    def run(self, statements: list[str]) -> Any:
        """One transaction, here and in DuckDB. Gives the commit."""
        with self.db.transaction() as tx:
            for text in statements:
                tx.sql(text)
        for text in statements:
            self.oracle.run(text)
        return tx.commit_info

    def run_batch(self, statements: list[str], where: str) -> dict[str, list[str]]:
        """One transaction. Gives the changes of the views, after checking that they are new minus old."""
        commit = self.run(statements)
        changes = {} if commit is None else commit.changes
        old = dict(self.held)
        self.check_contents(where)
        found: dict[str, list[str]] = {}
        for view in self.script.kept:
            for name in (view.name + form for form in self.forms if form != "_virtual"):
                told = weights(changes[name].weights()) if name in changes else {}
                assert 0 not in told.values(), f"{where}: {name} reports rows without a change"
                assert told or name not in changes, f"{where}: {name} is reported, with an empty change"
                found[view.name] = lines_of(told)
                wanted = lines_of(difference(self.held[name], old[name]))
                assert found[view.name] == wanted, f"{where}: {name} reports {found[view.name]}, changed by {wanted}"
        return found

    def check_verified(self) -> None:
        certificate = self.db.verify()
        assert certificate.views, "nothing was verified"
        assert certificate.equal, certificate

    # runs ------------------------------------------------------------------------------------------

    def as_written(self) -> None:
        self.create()
        self.check_contents("at creation")
        for number, batch in enumerate(self.script.batches, 1):
            found = self.run_batch(batch.statements, f"batch {number}")
            for name, told in found.items():
                wanted = batch.changes.get(name, [])
                assert told == wanted, f"batch {number}: {name} changed by {told}, expected is {wanted}"
        self.check_verified()

    def in_other_portions(self, portions: list[list[str]], where: str) -> dict[str, Bag]:
        """The same statements, divided into transactions in another way."""
        self.create()
        self.check_contents("at creation")
        for statements in portions:
            self.run_batch(statements, where)
        self.check_verified()
        return self.held


def merged(script: Script) -> list[list[str]]:
    return [[text for batch in script.batches for text in batch.statements]]


def split(script: Script) -> list[list[str]]:
    return [[text] for batch in script.batches for text in batch.statements]


def permuted(script: Script, seed: int) -> list[list[str]]:
    order = [batch.statements for batch in script.batches]
    if seed == 0:
        return order[::-1]
    random.Random(seed).shuffle(order)
    return order


def all_ways(script: Script) -> dict[str, list[list[str]]]:
    """The portions a script can come in, by name."""
    ways = {"merged": merged(script), "split": split(script)}
    if script.permutable and len(script.batches) > 1:
        ways |= {"reversed": permuted(script, 0), "shuffled": permuted(script, 1)}
    return ways


def merged_alone(script: Script) -> dict[str, list[list[str]]]:
    """All batches as one transaction, where changes cancel each other."""
    return {"merged": merged(script)}


def run_as_written(connect: Callable[..., vk.Database], script: Script, forms: tuple[str, ...] = FORMS) -> None:
    _with_runner(connect("written", durability="process"), script, forms, Runner.as_written)


def run_in_other_ways(
    connect: Callable[..., vk.Database], script: Script, ways: Callable[[Script], dict[str, list[list[str]]]]
) -> None:
    """The contents are checked after every transaction, and in the end all ways came to the same."""
    ends: dict[str, Any] = {}
    for name, portions in ways(script).items():
        db = connect(name, durability="process")
        ends[name] = _with_runner(db, script, ("",), lambda runner, p=portions, n=name: runner.in_other_portions(p, n))
    assert all(end == ends["merged"] for end in ends.values()), "the order of the batches changed the end"


def run_merged(connect: Callable[..., vk.Database], script: Script) -> None:
    """All batches as one transaction, on the views that are kept incrementally."""
    db = connect("merged", durability="process")
    _with_runner(db, script, ("",), lambda runner: runner.in_other_portions(merged(script), "merged"))


def _with_runner(db: vk.Database, script: Script, forms: tuple[str, ...], action: Callable[[Runner], Any]) -> Any:
    runner = Runner(db, script, forms)
    try:
        return action(runner)
    finally:
        runner.close()


def complete(path: Path) -> None:
    """Writes the file anew with the changes that DuckDB sees; those of views it cannot compute stay."""
    script = read_script(path)
    path.write_text(write_script(completed(script)))


def completed(script: Script) -> Script:
    """The script with the changes that DuckDB sees."""
    oracle = Oracle()
    for text in script.setup:
        if text.lstrip().upper().startswith("CREATE TABLE"):
            oracle.create_table(text)
        else:
            oracle.run(text)
    for view in script.views:
        if view.oracle is not None:
            oracle.create_view(view.name, view.oracle)
    known = [view for view in script.kept if view.oracle is not None]
    batches: list[Batch] = []
    before = {view.name: oracle.bag(view.name) for view in known}
    for batch in script.batches:
        for text in batch.statements:
            oracle.run(text)
        after = {view.name: oracle.bag(view.name) for view in known}
        changes = {name: lines_of(difference(after[name], before[name])) for name in after}
        batches.append(replace(batch, changes=batch.changes | changes))
        before = after
    oracle.close()
    return replace(script, batches=batches)


def golden_files() -> Iterator[Path]:
    """All golden files without rules, those found by the property tests included."""
    yield from (path for path in sorted(Path(__file__).parent.rglob("*.vkt")) if path.parent.name != RULES)
