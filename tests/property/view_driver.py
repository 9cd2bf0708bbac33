"""Random views under random transactions, against DuckDB computing them from scratch.

One seed gives one database: a schema, some rows, many views, then transactions. After every commit each view must hold
what DuckDB computes, and the reported change must be exactly new minus old. What goes wrong is shrunk and written as a
golden file, so that it can be kept.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from queries import Generator, Query, Relation, Table, random_literal, random_schema

import viewkeeper as vk
from oracle import Bag, Oracle, bag, difference, lines_of, transpiled, weights
from viewkeeper.advice.advice import Analysis
from viewkeeper.analysis.dependencies import facts_of
from viewkeeper.analysis.polarity import Kinds, polarities
from viewkeeper.analysis.safe_references import Nesting
from viewkeeper.maintain.declared_keys import declared_keys
from vkt import Batch, Script, View, write_script

FOUND = Path(__file__).parent.parent / "golden" / "found"
EMPTY = 0.2
"""How often all tables are empty while the views are made."""

SHRINKING = 60.0
"""Seconds to spend on making a failing case smaller."""


@dataclass(frozen=True)
class Statement:
    """A statement; an INSERT keeps its rows apart, so that they can be left out one by one."""

    head: str
    rows: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.head + ", ".join(self.rows)


@dataclass(frozen=True)
class Definition:
    """A view of a case."""

    name: str
    query: Query
    virtual: bool = False


Transaction = tuple[Statement, ...]

STATEMENTS = {
    "insert": 6.0,
    "copy": 2.0,
    "delete": 5.0,
    "update": 5.0,
    "key": 3.0,
    "swap": 2.0,
    "move": 3.0,
    "nothing": 1.0,
    "all": 0.5,
}
"""The kinds of statements in a transaction, and how often each comes."""


@dataclass(frozen=True)
class Case:
    """Everything that a run needs."""

    tables: tuple[Table, ...]
    first: Transaction
    views: tuple[Definition, ...]
    transactions: tuple[Transaction, ...]

    def needed_by(self, names: Iterable[str]) -> tuple[Definition, ...]:
        """Some views, and those below them."""
        wanted = set(names)
        for view in reversed(self.views):
            if view.name in wanted:
                wanted |= view.query.uses
        return tuple(view for view in self.views if view.name in wanted)


class Maker:
    """Makes cases."""

    def __init__(self, seed: int, *, views: int, transactions: int, depth: int = 4) -> None:
        self.rng = random.Random(seed)
        self.tables = random_schema(self.rng)
        self.next = {table.name: 10 for table in self.tables}
        self.count = views
        self.transactions = transactions
        self.depth = depth

    def case(self) -> Case:
        filled = 0.0 if self.rng.random() < EMPTY else 0.9
        first = tuple(
            self._insert(table, self.rng.randint(3, 9)) for table in self.tables if self.rng.random() < filled
        )
        views = self._views()
        return Case(tuple(self.tables), first, views, tuple(self._transaction() for _ in range(self.transactions)))

    def _views(self) -> tuple[Definition, ...]:
        """Views over the tables, and a few over other views; every sixth is virtual."""
        relations = [table.relation for table in self.tables]
        views: list[Definition] = []
        for number in range(self.count):
            above = views and self.rng.random() < 0.2
            lower = [Relation(v.name, v.query.columns, frozenset([v.name])) for v in views] if above else []
            query = Generator(self.rng, [*relations, *lower, *lower]).query(self.rng.randint(1, self.depth))
            views.append(Definition(f"v{number}", query, self.rng.random() < 1 / 6))
        return tuple(views)

    # transactions ----------------------------------------------------------------------------------

    def _row(self, table: Table) -> str:
        values = [random_literal(self.rng, column.kind) for column in table.columns]
        if table.keyed:
            values[0] = str(self.next[table.name])
            self.next[table.name] += 1
        return f"({', '.join(values)})"

    def _insert(self, table: Table, count: int) -> Statement:
        rows = [self._row(table) for _ in range(count)]
        if not table.keyed and self.rng.random() < 0.4:
            rows += self.rng.choices(rows, k=2)
        return Statement(f"INSERT INTO {table.name} VALUES ", tuple(rows))

    def _where(self, table: Table) -> str:
        column = self.rng.choice(table.columns)
        if self.rng.random() < 0.2:
            return f"{column.name} IS NULL"
        return f"{column.name} {self.rng.choice(('=', '=', '<', '>'))} {random_literal(self.rng, column.kind, null=0)}"

    def _statement(self) -> tuple[Statement, ...]:
        rng = self.rng
        table = rng.choice(self.tables)
        column = rng.choice(table.columns[1:])
        kind = rng.choices(tuple(STATEMENTS), tuple(STATEMENTS.values()))[0]
        if kind == "move":
            return self._move(table, rng.choice(self.tables))
        if kind == "insert" or (kind == "copy" and table.keyed):
            return (self._insert(table, rng.randint(1, 4)),)
        if kind == "copy":
            return (Statement(f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE {self._where(table)}"),)
        if kind == "delete":
            return (Statement(f"DELETE FROM {table.name} WHERE {self._where(table)}"),)
        if kind == "update":
            value = random_literal(rng, column.kind)
            return (Statement(f"UPDATE {table.name} SET {column.name} = {value} WHERE {self._where(table)}"),)
        first = table.columns[0].name
        if kind == "key":
            step = self.next[table.name] if table.keyed else 1
            self.next[table.name] += step
            return (Statement(f"UPDATE {table.name} SET {first} = {first} + {step} WHERE {self._where(table)}"),)
        if kind == "swap":
            same = [c for c in table.columns[1:] if c.kind == column.kind and c != column] or [column]
            other = rng.choice(same).name
            return (
                Statement(f"UPDATE {table.name} SET {column.name} = {other}, {other} = {column.name}")
                if other != column.name
                else Statement(f"UPDATE {table.name} SET {other} = {other}"),
            )
        if kind == "nothing":
            row = self._row(table).split(", ", 1)[1]
            return (
                Statement(f"INSERT INTO {table.name} VALUES ", (f"(999, {row}",)),
                Statement(f"DELETE FROM {table.name} WHERE {first} = 999"),
            )
        return (Statement(f"DELETE FROM {table.name}"),)

    def _move(self, source: Table, target: Table) -> tuple[Statement, ...]:
        """Rows leave one table while rows with the same first value enter another."""
        value = random_literal(self.rng, source.columns[0].kind, null=0)
        if target.keyed:
            return (Statement(f"DELETE FROM {source.name} WHERE {source.columns[0].name} = {value}"),)
        rest = self._row(target).split(", ", 1)[1]
        return (
            Statement(f"DELETE FROM {source.name} WHERE {source.columns[0].name} = {value}"),
            Statement(f"INSERT INTO {target.name} VALUES ", (f"({value}, {rest}",)),
        )

    def _transaction(self) -> Transaction:
        return tuple(s for _ in range(self.rng.choice((1, 1, 2, 3, 5))) for s in self._statement())


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


# reproduction ------------------------------------------------------------------------------------


class Shrinker:
    """Makes a failing case smaller by leaving things out, as long as it still fails."""

    def __init__(self, open_database: Callable[[], vk.Database], seconds: float = SHRINKING) -> None:
        self.open_database = open_database
        self.until = time.monotonic() + seconds
        self.tried = 0

    def fails(self, case: Case, name: str) -> bool:
        if time.monotonic() > self.until:
            return False
        self.tried += 1
        db = self.open_database()
        try:
            wrong = Run(db, case).run().wrong
        except Exception:
            return False
        finally:
            db.close()
        return bool(wrong) if name == EVERYTHING else name in wrong

    def shrink(self, case: Case, name: str) -> Case:
        case = self._one_view(case, name)
        case = self._fewer_transactions(case, name)
        case = self._fewer_statements(case, name)
        return self._fewer_rows(case, name)

    def _one_view(self, case: Case, name: str) -> Case:
        for candidate in [name] if name != EVERYTHING else [view.name for view in case.views]:
            smaller = replace(case, views=case.needed_by([candidate]))
            if self.fails(smaller, name):
                return smaller
        return case

    def _fewer_transactions(self, case: Case, name: str) -> Case:
        kept = list(case.transactions)
        size = len(kept)
        while size >= 1:
            start = len(kept) - size
            while start >= 0:
                shorter = [*kept[:start], *kept[start + size :]]
                if self.fails(replace(case, transactions=tuple(shorter)), name):
                    kept = shorter
                start -= size
            size //= 2
        return replace(case, transactions=tuple(kept))

    def _fewer_statements(self, case: Case, name: str) -> Case:
        for number in reversed(range(len(case.transactions))):
            for place in reversed(range(len(case.transactions[number]))):
                statements = list(case.transactions[number])
                del statements[place]
                transactions = [*case.transactions]
                transactions[number] = tuple(statements)
                smaller = replace(case, transactions=tuple(t for t in transactions if t))
                if self.fails(smaller, name):
                    case = smaller
        return case

    def _fewer_rows(self, case: Case, name: str) -> Case:
        groups = [case.first, *case.transactions]
        for number, group in enumerate(groups):
            for place, statement in enumerate(group):
                for row in reversed(range(len(statement.rows))):
                    current = groups[number][place]
                    if len(current.rows) < 2 and number > 0:
                        break
                    fewer = replace(current, rows=(*current.rows[:row], *current.rows[row + 1 :]))
                    changed = [*groups]
                    changed[number] = tuple(fewer if n == place else s for n, s in enumerate(groups[number]))
                    first = tuple(s for s in changed[0] if s.rows)
                    if self.fails(replace(case, first=first, transactions=tuple(changed[1:])), name):
                        groups = changed
        return replace(case, first=tuple(s for s in groups[0] if s.rows), transactions=tuple(groups[1:]))


def reproduction(case: Case, name: str, what: str, seed: int) -> str:
    """The case as a golden file."""
    used = {part for view in case.views for part in view.query.uses}
    tables = [table for table in case.tables if table.name in used or name == EVERYTHING]
    known = {table.name for table in tables}
    oracle = Oracle()
    setup = [table.ddl for table in tables]
    setup += [s.text for s in case.first if s.head.split()[2] in known]
    for text in setup:
        oracle.create_table(text) if text.startswith("CREATE TABLE") else oracle.run(text)
    script = Script(f"# Found by the property test, seed {seed}:\n# " + what.replace("\n", "\n# "), setup=setup)
    for view in case.views:
        script.views.append(View(view.name, view.query.text, None, view.virtual))
        oracle.create_view(view.name, transpiled(view.query.text))
    kept = [view.name for view in case.views if not view.virtual]
    before = {view: oracle.bag(view) for view in kept}
    for transaction in case.transactions:
        texts = [s.text for s in transaction if _target(s) in known]
        for text in texts:
            oracle.run(text)
        after = {view: oracle.bag(view) for view in kept}
        script.batches.append(Batch(texts, {v: lines_of(difference(after[v], before[v])) for v in kept}))
        before = after
    oracle.close()
    return write_script(script)


def _target(statement: Statement) -> str:
    words = statement.head.split()
    return words[1] if words[0] == "UPDATE" else words[2]


def keep_reproduction(case: Case, name: str, what: str, seed: int, open_database: Callable[[], vk.Database]) -> Path:
    """Shrinks a failing case and writes it into the golden files."""
    smaller = Shrinker(open_database).shrink(case, name)
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"seed_{seed}_{name.replace(' ', '_')}.vkt"
    path.write_text(reproduction(smaller, name, what, seed))
    return path
