"""Random views under random transactions, against DuckDB computing them from scratch.

One seed gives one database: a schema, some rows, many views, then transactions. After every commit each view must hold
what DuckDB computes, and the reported change must be exactly new minus old. What goes wrong is shrunk and written as a
golden file, so that it can be kept.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import viewkeeper as vk
from tests.oracle import Bag, Oracle, bag, difference, lines_of, transpiled, weights
from tests.property.view_cases import Case, Definition, Transaction
from viewkeeper.advice.advice import Analysis
from viewkeeper.analysis.dependencies import facts_of
from viewkeeper.analysis.polarity import Kinds, polarities
from viewkeeper.analysis.safe_references import Nesting
from viewkeeper.maintain.declared_keys import declared_keys


@dataclass
class Outcome:
    """What a run found."""

    pairs: int = 0
    commits: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    full: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {what}" for name, what in self.wrong.items())


EVERYTHING = "the transaction"
"""Stands for a view in an outcome, when it is the commit that failed."""


class Run:
    """A case in a database."""

    def __init__(self, db: vk.Database, case: Case) -> None:
        self.db = db
        self.case = case
        self.oracle = Oracle()
        self.outcome = Outcome()
        self.held: dict[str, Bag] = {}
        self._analyses: dict[tuple[str, str], Analysis] = {}

    def run(self) -> Outcome:
        try:
            self._create()
            for number, statements in enumerate(self.case.transactions):
                if not self._transaction(f"transaction {number}", statements):
                    break
        finally:
            self.oracle.close()
        return self.outcome

    def _create(self) -> None:
        self.db.sql("; ".join(["BEGIN", *(table.ddl for table in self.case.tables), "COMMIT"]))
        for table in self.case.tables:
            self.oracle.create_table(table.ddl)
        self._both(self.case.first)
        for view in self.case.views:
            missing = view.query.uses & {*self.outcome.refused, *self.outcome.wrong}
            if missing:
                self.outcome.refused[view.name] = f"it stands on {missing}"
                continue
            self.oracle.create_view(view.name, transpiled(view.query.text))
            try:
                self._create_view(view)
            except Exception as problem:
                self.outcome.wrong[view.name] = f"cannot be created: {_told(problem)}"
                continue
            if view.name not in self.outcome.refused:
                self.held[view.name] = self.oracle.bag(view.name)
                self._check_contents(view.name, "at creation")

    def _create_view(self, view: Definition) -> None:
        if view.virtual:
            self.db.sql(f"CREATE VIEW {view.name} AS {view.query.text}")
            return
        text = f"CREATE MATERIALIZED VIEW {view.name} WITH (refresh = '{{}}') AS {view.query.text}"
        try:
            self.db.sql(text.format("incremental"))
        except vk.errors.NotMaintainable as reason:
            self.outcome.full[view.name] = str(reason)
            try:
                self.db.sql(text.format("auto"))
            except vk.errors.NotMaintainable as refusal:
                self.outcome.refused[view.name] = str(refusal)

    def _both(self, statements: Transaction) -> vk.transaction.change.Commit | None:
        with self.db.transaction() as tx:
            for statement in statements:
                tx.sql(statement.text)
        for statement in statements:
            self.oracle.run(statement.text)
        return tx.commit_info

    def _transaction(self, where: str, statements: Transaction) -> bool:
        try:
            commit = self._both(statements)
        except Exception as problem:
            self.outcome.wrong[EVERYTHING] = f"{where} failed: {_told(problem)}"
            return False
        self.outcome.commits += 1
        self._compare(where, {} if commit is None else commit.changes)
        return True

    def _compare(self, where: str, changes: Mapping[str, Any]) -> None:
        """What every view holds and what it reported, beside what DuckDB computes."""
        for view in self.case.views:
            if view.name not in self.held:
                continue
            new = self.oracle.bag(view.name)
            if not view.virtual:
                told = weights(changes[view.name].weights()) if view.name in changes else {}
                self._check_change(view.name, where, told, difference(new, self.held[view.name]))
                self._check_kinds(view.name, where, changes)
                self._check_safety(view.name, where, changes, self.held[view.name], new)
            self.held[view.name] = new
            self._check_claims(view.name, where)
            self._check_contents(view.name, where)
            self.outcome.pairs += 1
            if view.name in self.outcome.wrong:
                del self.held[view.name]

    def _check_change(self, name: str, where: str, told: dict[tuple[object, ...], int], wanted: object) -> None:
        if 0 in told.values():
            self.outcome.wrong[name] = f"{where}: rows of weight 0 are reported"
        if told != wanted:
            self.outcome.wrong[name] = f"{where}: told {_some(told)}, wanted {_some(wanted)}"

    def _check_kinds(self, name: str, where: str, changes: Mapping[str, Any]) -> None:
        """Changes of some kinds can only lead to the kinds that polarity foresees."""
        state = self.db._store.refresh()
        view = state.find(name)
        assert view is not None
        assert view.definition is not None
        if any(until == state.epoch for until, _ in view.former):
            return  # redefined by this very commit
        foreseen = Kinds.NONE
        for key, polarity in polarities(view.definition.as_written).items():
            foreseen |= polarity.gives(_kinds(changes, state.relations[key].name))
        if _kinds(changes, name) not in foreseen:
            self.outcome.wrong[name] = f"{where}: {_kinds(changes, name)} from what can only lead to {foreseen}"

    def _analysis(self, name: str) -> Analysis:
        """What is said of a view beforehand, under the query it has."""
        view = self.db.view(name)
        if (name, view.sql) not in self._analyses:
            self._analyses[name, view.sql] = view.analysis
        return self._analyses[name, view.sql]

    def _check_claims(self, name: str, where: str) -> None:
        """No two rows agree on what is said to be a key, and where there is one, no row is there twice."""
        analysis = self._analysis(name)
        rows = self.held[name]
        if not analysis.duplicates and any(count > 1 for count in rows.values()):
            self.outcome.wrong[name] = f"{where}: rows are there twice, though {analysis.keys} are keys"
        for key in analysis.keys:
            places = [analysis.columns.index(column) for column in key]
            seen = {tuple(row[place] for place in places) for row in rows}
            if len(seen) < len(rows):
                self.outcome.wrong[name] = f"{where}: rows agree on the key {key}"
        for place, bound in self._bound(name):
            values: dict[object, object] = {}
            for row in rows:
                if values.setdefault(row[place], [row[i] for i in bound]) != [row[i] for i in bound]:
                    columns = [analysis.columns[i] for i in (place, *bound)]
                    self.outcome.wrong[name] = f"{where}: {columns[0]} is said to determine {columns[1:]}"

    def _bound(self, name: str) -> list[tuple[int, list[int]]]:
        """The columns of a view that each single one is said to determine, by place."""
        state = self.db._store.refresh()
        view = state.find(name)
        assert view is not None
        assert view.definition is not None
        node = view.definition.as_written
        facts = facts_of(node, declared_keys(state.relations.get))
        columns = list(enumerate(node.outputs))
        found = [(place, [i for i, a in columns if a in facts.bound_by([one])]) for place, one in columns]
        return [(place, bound) for place, bound in found if len(bound) > 1]

    def _check_safety(self, name: str, where: str, changes: Mapping[str, Any], old: Bag, new: Bag) -> None:
        """Through a safe reference, what a change of one table brings was not there, and what it takes is gone."""
        tables = [table.name for table in self.case.tables if table.name in changes]
        joined = any(word in self.db.view(name).sql for word in ("UNION", "EXCEPT", "INTERSECT"))
        if len(tables) != 1 or name not in changes or joined:  # safe within a branch says nothing of the others
            return
        verdicts = [v for v in self._analysis(name).findings.verdicts if v.reference.name == tables[0]]
        others = [v for v in self._analysis(name).findings.verdicts if v.reference.name in self.held]
        top = all(v.nesting is Nesting.TOP and v.is_safe for v in verdicts)
        if not verdicts or others or not top or _kinds(changes, tables[0]) not in (Kinds.ADDITIONS, Kinds.REMOVALS):
            return
        if Kinds.ADDITIONS in _kinds(changes, tables[0]):
            again = [row for row, weight in weights(changes[name].weights()).items() if weight > 0 and old[row]]
        else:
            again = [row for row, weight in weights(changes[name].weights()).items() if weight < 0 and new[row]]
        if again and len(verdicts) == 1:
            self.outcome.wrong[name] = f"{where}: {tables[0]} is said to be safe, but {again} were there or stay"

    def _check_contents(self, name: str, where: str) -> None:
        try:
            rows = bag(self.db.view(name).read().rows())
        except Exception as problem:
            self.outcome.wrong.setdefault(name, f"{where}: cannot be read: {_told(problem)}")
            return
        wrong = difference(rows, self.held[name])
        if wrong:
            self.outcome.wrong.setdefault(name, f"{where}: too many (+) or too few (-): {_some(wrong)}")


def _kinds(changes: Mapping[str, Any], name: str) -> Kinds:
    found = Kinds.NONE
    for weight in changes[name].weights().values() if name in changes else ():
        found |= Kinds.ADDITIONS if weight > 0 else Kinds.REMOVALS
    return found


def _told(problem: Exception) -> str:
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__}: {str(problem)[:600]} ({Path(last.filename).name}:{last.lineno})"


def _some(change: object) -> str:
    return str(lines_of(change)[:8] if isinstance(change, dict) else change)
