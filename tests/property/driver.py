"""Random transactions against the model: every statement is done twice, and the two must agree.

One seed gives one run. A failure names the seed and the last steps; `Driver(..., seed)` repeats it.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from model import NAN, Bag, Model, Refused, Row, Spec, bag, both, compare, contrary, difference, either, literal, plain

import viewkeeper as vk

KEYED = Spec("k", (("id", "BIGINT"), ("s", "STRING"), ("x", "DOUBLE")), primary=(0,))
PAIRED = Spec("p", (("s", "STRING"), ("n", "INT"), ("x", "DOUBLE")), primary=(0, 1))
UNIQUE = Spec("u", (("n", "INT"), ("s", "STRING"), ("x", "DOUBLE")), unique=((0,), (1, 2)))
LOOSE = Spec("b", (("n", "INT"), ("s", "STRING"), ("x", "DOUBLE")))
NESTED = Spec("a", (("n", "INT"), ("l", "ARRAY<DOUBLE>")))
SPECS = (KEYED, PAIRED, UNIQUE, LOOSE, NESTED)
SPARE = Spec("spare", (("n", "INT"), ("s", "STRING"), ("x", "DOUBLE")), unique=((0,),))

WORDS = ("", "a", "b", "ab", "ä", "x y", "it's", "{x}", "a;b", "\U0001f600", "a" * 60)
NUMBERS = (0.0, -0.0, 1.0, 1.5, -2.25, 1e300, math.nan, math.inf, -math.inf)


@dataclass
class Step:
    """One statement: what to do to the database, and what that means in the model."""

    text: str
    real: Callable[[Any], Any]
    modelled: Callable[[Model], None]


class Driver:
    """Runs random transactions on a database and on the model."""

    def __init__(self, connect: Callable[..., vk.Database], seed: int, *, span: int = 12, **options: Any) -> None:
        self.connect = connect
        self.options = {"durability": "process", **options}
        self.seed = seed
        self.random = random.Random(seed)
        self.span = span
        self.db = connect(f"lake{seed}", **self.options)
        self.model = Model()
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

    # statements ----------------------------------------------------------------------------------

    def any_step(self) -> Step:
        makers: list[Callable[[], Step]] = [
            self.insert_rows,
            self.delete_rows,
            self.upsert_rows,
            self.delete_keys,
            self.sql_step,
            self.definition,
        ]
        return self.random.choices(makers, [30, 18, 12, 8, 38, 2])[0]()

    def sql_step(self) -> Step:
        makers: list[Callable[[], Step]] = [
            self.sql_insert,
            self.sql_insert_select,
            self.sql_update,
            self.sql_delete,
            self.sql_merge,
            self.sql_truncate,
            self.sql_failing,
        ]
        return self.random.choices(makers, [20, 8, 25, 15, 15, 2, 6])[0]()

    def spec(self, *, keyed: bool = False, flat: bool = False) -> Spec:
        there = list(self.model.specs.values())
        if keyed:
            there = [spec for spec in there if spec.primary]
        if flat:
            there = [spec for spec in there if spec.name != "a"]
        return self.random.choice(there)

    def value(self, kind: str) -> Any:
        draw = self.random
        if kind in ("BIGINT", "INT"):
            return None if draw.random() < 0.08 else draw.randint(-2, self.span)
        if kind == "STRING":
            return None if draw.random() < 0.1 else draw.choice(WORDS)
        if kind == "DOUBLE":
            return None if draw.random() < 0.1 else draw.choice(NUMBERS)
        if draw.random() < 0.1:
            return None
        return [self.value("DOUBLE") for _ in range(draw.randint(0, 3))]

    def row(self, spec: Spec) -> tuple[Any, ...]:
        """A random row; NULLs in a primary key are rarer, so that most inserts succeed."""
        row = [self.value(kind) for _, kind in spec.columns]
        for index in spec.primary:
            while row[index] is None and self.random.random() < 0.9:
                row[index] = self.value(spec.columns[index][1])
        return tuple(row)

    def rows(self, spec: Spec, most: int = 5) -> list[tuple[Any, ...]]:
        rows = [self.row(spec) for _ in range(self.random.randint(0 if most > 1 else 1, most))]
        if rows and self.random.random() < 0.2:
            rows.append(self.random.choice(rows))
        return rows

    def fresh(self, spec: Spec, most: int = 5) -> list[tuple[Any, ...]]:
        """Rows that mostly do not break a key of the table as it is."""
        kept: list[tuple[Any, ...]] = []
        trial = self.model.rows[spec.name].copy()
        for row in self.rows(spec, most):
            trial[plain(row)] += 1
            try:
                spec.check(trial)
            except Refused:
                if self.random.random() < 0.9:
                    trial[plain(row)] -= 1
                    trial = +trial
                    continue
            kept.append(row)
        return kept

    def insert_rows(self) -> Step:
        spec = self.spec()
        rows = self.fresh(spec)
        form = self.random.choice(("tuples", "dicts", "arrow"))
        given: Any = rows
        if form == "dicts":
            given = [
                {name.upper(): value for name, value in zip(spec.names, row, strict=True) if value is not None}
                for row in rows
            ]
        elif form == "arrow":
            given = arrow_table(spec, rows)
        return Step(
            f"insert {form} {spec.name} {rows}",
            lambda tx: tx.insert(spec.name, given),
            lambda model: model.insert(spec.name, rows),
        )

    def delete_rows(self) -> Step:
        spec = self.spec()
        held = list(self.model.rows[spec.name].elements())
        rows: list[Any] = self.random.sample(held, min(len(held), self.random.randint(0, 4)))
        if self.random.random() < 0.25:
            rows.append(self.row(spec))
        ignore = self.random.random() < 0.5
        given = [python_row(row) for row in rows]
        missing = "ignore" if ignore else "error"
        return Step(
            f"delete {spec.name} {rows} missing={missing}",
            lambda tx: tx.delete(spec.name, given, missing=missing),
            lambda model: model.delete(spec.name, given, ignore=ignore),
        )

    def upsert_rows(self) -> Step:
        spec = self.spec(keyed=True)
        rows = self.rows(spec)
        return Step(
            f"upsert {spec.name} {rows}",
            lambda tx: tx.upsert(spec.name, rows),
            lambda model: model.upsert(spec.name, rows),
        )

    def delete_keys(self) -> Step:
        spec = self.spec(keyed=True)
        held = [tuple(row[i] for i in spec.primary) for row in self.model.rows[spec.name]]
        keys = self.random.sample(held, min(len(held), self.random.randint(0, 3)))
        if self.random.random() < 0.25:
            keys.append(tuple(self.row(spec)[i] for i in spec.primary))
        ignore = self.random.random() < 0.5
        return Step(
            f"delete_by_key {spec.name} {keys}",
            lambda tx: tx.delete_by_key(spec.name, keys, missing="ignore" if ignore else "error"),
            lambda model: model.delete_by_key(spec.name, keys, ignore=ignore),
        )

    def definition(self) -> Step:
        """CREATE or DROP of a spare table, or dropping a table and making it anew."""
        if "spare" not in self.model.specs:
            spec = Spec(SPARE.name, SPARE.columns, unique=SPARE.unique)
            return Step(spec.ddl, lambda tx: tx.sql(spec.ddl), lambda model: model.create(spec))
        if self.random.random() < 0.5:
            return Step("DROP TABLE spare", lambda tx: tx.sql("DROP TABLE spare"), lambda model: model.drop("spare"))
        spec = Spec(SPARE.name, SPARE.columns, unique=SPARE.unique)

        def anew(model: Model) -> None:
            model.drop("spare")
            model.create(spec)

        text = f"DROP TABLE spare; {spec.ddl}"
        return Step(text, lambda tx: tx.sql(text), anew)

    # SQL -----------------------------------------------------------------------------------------

    def sql(self, text: str, modelled: Callable[[Model], None]) -> Step:
        return Step(text, lambda target: target.sql(text), modelled)

    def values(self, spec: Spec, rows: list[tuple[Any, ...]]) -> str:
        return ", ".join(
            "(" + ", ".join(literal(plain(v), kind) for v, (_, kind) in zip(row, spec.columns, strict=True)) + ")"
            for row in rows
        )

    def sql_insert(self) -> Step:
        spec = self.spec()
        rows = self.fresh(spec, 4) or self.rows(spec, 1)
        if self.random.random() < 0.3:
            order = self.random.sample(range(len(spec.columns)), len(spec.columns))
            turned = Spec("", tuple(spec.columns[i] for i in order))
            values = self.values(turned, [tuple(row[i] for i in order) for row in rows])
            text = f"INSERT INTO {spec.name} ({', '.join(turned.names)}) VALUES {values}"
        else:
            text = f"INSERT INTO {spec.name} VALUES {self.values(spec, rows)}"
        return self.sql(text, lambda model: model.insert(spec.name, rows))

    def sql_insert_select(self) -> Step:
        """INSERT ... SELECT from another table of the same columns, or from itself."""
        family = [spec for spec in self.model.specs.values() if spec.columns == LOOSE.columns]
        target, source = self.random.choice(family), self.random.choice(family)
        where, test = self.condition(source)

        def modelled(model: Model) -> None:
            rows = model.rows[source.name]
            model.insert(target.name, Counter({r: n for r, n in rows.items() if test(r) is True}).elements())

        return self.sql(f"INSERT INTO {target.name} SELECT n, s, x FROM {source.name} WHERE {where}", modelled)

    def condition(self, spec: Spec, alias: str = "") -> tuple[str, Callable[[Row], bool | None]]:
        """A condition as SQL and as Python."""
        draw = self.random
        if draw.random() < 0.25:
            left, test_left = self.simple_condition(spec, alias)
            right, test_right = self.simple_condition(spec, alias)
            if draw.random() < 0.5:
                return f"{left} AND {right}", lambda row: both(test_left(row), test_right(row))
            return f"({left} OR {right})", lambda row: either(test_left(row), test_right(row))
        return self.simple_condition(spec, alias)

    def simple_condition(self, spec: Spec, alias: str) -> tuple[str, Callable[[Row], bool | None]]:
        draw = self.random
        index = draw.randrange(len(spec.columns) if spec.name != "a" else 1)
        name, kind = spec.columns[index]
        name = f"{alias}.{name}" if alias else name
        form = draw.choice(("compare", "compare", "in", "null", "between", "not", "flipped", "safe"))
        if form == "null":
            return f"{name} IS NULL", lambda row: row[index] is None
        first, second = (plain(self.value(kind)) for _ in range(2))
        if form in ("in", "between"):
            first, second = (value if value is not None else self.default(kind) for value in (first, second))
        one, two = literal(first, kind), literal(second, kind)
        if form == "in":
            return f"{name} IN ({one}, {two})", lambda row: either(
                compare(row[index], "=", first), compare(row[index], "=", second)
            )
        if form == "between":
            return f"{name} BETWEEN {one} AND {two}", lambda row: both(
                compare(row[index], ">=", first), compare(row[index], "<=", second)
            )
        if form == "safe":
            return f"{name} <=> {one}", lambda row: row[index] == first
        sign = draw.choice(("=", "<>", "<", "<=", ">", ">="))
        if form == "not":
            return f"NOT ({name} {sign} {one})", lambda row: contrary(compare(row[index], sign, first))
        if form == "flipped":
            return f"{one} {sign} {name}", lambda row: compare(first, sign, row[index])
        return f"{name} {sign} {one}", lambda row: compare(row[index], sign, first)

    @staticmethod
    def default(kind: str) -> Any:
        return {"BIGINT": 1, "INT": 1, "STRING": "a", "DOUBLE": 1.0}[kind]

    def assignment(self, spec: Spec, index: int) -> tuple[str, Callable[[Row], Any]]:
        """A new value for a column, as SQL and as Python."""
        name, kind = spec.columns[index]
        form = self.random.choice(("same", "constant", "constant", "computed", "computed", "case"))
        if form == "same":
            return name, lambda row: row[index]
        if form == "computed" and kind in ("BIGINT", "INT"):
            step = self.random.choice((1, 1, -1, 3))
            return f"{name} + {step}", lambda row: None if row[index] is None else row[index] + step
        if form == "computed" and kind == "STRING":
            return (
                f"substr(concat({name}, 'a'), 1, 3)",
                lambda row: None if row[index] is None else (row[index] + "a")[:3],
            )
        if form == "computed" and kind == "DOUBLE":
            return f"-{name}", lambda row: row[index] if row[index] in (None, NAN) else -row[index] + 0.0
        if form == "case" and kind in ("BIGINT", "INT"):
            return (
                f"CASE WHEN {name} > 3 THEN NULL ELSE {name} END",
                lambda row: None if row[index] is not None and row[index] > 3 else row[index],
            )
        value = plain(self.value(kind))
        return literal(value, kind), lambda row: value

    def sql_update(self) -> Step:
        spec = self.spec()
        chosen = self.random.sample(range(len(spec.columns)), self.random.randint(1, 2))
        parts = {index: self.assignment(spec, index) for index in chosen}
        alias = self.random.choice(("", "t"))
        where, test = self.condition(spec, alias) if self.random.random() < 0.8 else ("", lambda row: True)

        def change(row: Row) -> Row:
            return tuple(parts[i][1](row) if i in parts else value for i, value in enumerate(row))

        sets = ", ".join(f"{spec.names[i]} = {text}" for i, (text, _) in parts.items())
        text = f"UPDATE {spec.name} {alias} SET {sets}" + (f" WHERE {where}" if where else "")
        return self.sql(text, lambda model: model.update(spec.name, test, change))

    def sql_delete(self) -> Step:
        spec = self.spec()
        where, test = self.condition(spec)
        return self.sql(f"DELETE FROM {spec.name} WHERE {where}", lambda model: model.remove(spec.name, test))

    def sql_truncate(self) -> Step:
        spec = self.spec()
        return self.sql(f"TRUNCATE TABLE {spec.name}", lambda model: model.put(spec.name, Counter()))

    def sql_merge(self) -> Step:
        """MERGE of a few literal rows by the first column, with one to three clauses."""
        spec = self.spec(flat=True)
        rows = self.rows(spec, 4) or [self.row(spec)]
        number = literal(self.random.randint(-1, 5), "INT")
        guard = self.random.random() < 0.4
        kinds = self.random.sample(("matched", "insert", "lone"), self.random.randint(1, 3))
        action = self.random.choice(("update", "update all", "delete"))
        lone = self.random.choice(("update", "delete"))
        by = next(i for i, (name, _) in enumerate(spec.columns) if name in ("id", "n"))
        key, value = spec.names[by], spec.names[-1]
        text = f"MERGE INTO {spec.name} AS t USING (SELECT * FROM VALUES {self.values(spec, rows)} "
        text += f"AS v({', '.join(spec.names)})) AS s ON t.{key} = s.{key}"
        if "matched" in kinds:
            text += " WHEN MATCHED" + (f" AND s.{key} > {number}" if guard else "") + " THEN "
            text += {"update": f"UPDATE SET {value} = s.{value}", "update all": "UPDATE SET *", "delete": "DELETE"}[
                action
            ]
        if "insert" in kinds:
            text += " WHEN NOT MATCHED" + (f" AND s.{key} > {number}" if guard else "") + " THEN "
            text += self.random.choice(
                (
                    "INSERT *",
                    f"INSERT ({', '.join(spec.names)}) VALUES ({', '.join('s.' + name for name in spec.names)})",
                )
            )
        if "lone" in kinds:
            text += f" WHEN NOT MATCHED BY SOURCE AND t.{key} > {number} THEN "
            text += "DELETE" if lone == "delete" else f"UPDATE SET {value} = NULL"
        source = [tuple(plain(v) for v in row) for row in rows]

        def passes(row: Row) -> bool:
            return not guard or compare(row[by], ">", int(number)) is True

        def modelled(model: Model) -> None:
            held = model.rows[spec.name]
            after: Bag = Counter()
            for row, count in held.items():
                matches = [s for s in source if compare(row[by], "=", s[by]) is True]
                if matches:
                    applying = [s for s in matches if passes(s)] if "matched" in kinds else []
                    if not applying:
                        after[row] += count
                    elif action == "delete":
                        if len(applying) > 1 and guard:
                            raise Refused
                    elif len(applying) > 1:
                        raise Refused
                    elif action == "update":
                        after[(*row[:-1], applying[0][-1])] += count
                    else:
                        after[applying[0]] += count
                elif "lone" in kinds and compare(row[by], ">", int(number)) is True:
                    if lone == "update":
                        after[(*row[:-1], None)] += count
                else:
                    after[row] += count
            if "insert" in kinds:
                known = {row[by] for row in held if row[by] is not None}
                for s in source:
                    if (s[by] is None or s[by] not in known) and passes(s):
                        after[s] += 1
            model.put(spec.name, after)

        return self.sql(text, modelled)

    def sql_failing(self) -> Step:
        """A statement that fails: badly written, or only when it runs."""
        spec = self.spec(flat=True)
        name = spec.names[-1]

        def refuse(model: Model) -> None:
            raise Refused

        text = self.random.choice(
            (
                f"INSERT INTO {spec.name} SELECT 1",
                f"INSERT INTO {spec.name} (nothing) VALUES (1)",
                f"INSERT INTO {spec.name} VALUES (1, 2, 3, 4, 5)",
                f"INSERT INTO {spec.name} ({name}) VALUES (CAST('x' AS DOUBLE))",
                f"UPDATE {spec.name} SET nothing = 1",
                f"UPDATE {spec.name} SET {name} = nothing",
                f"DELETE FROM {spec.name} WHERE nothing = 1",
                "DELETE FROM nowhere",
                f"DELETE FORM {spec.name}",
                f"INSERT INTO {spec.name} ({name}) VALUES (true)",
                f"CREATE TABLE {spec.name} (a INT)",
                "CREATE TABLE never AS SELECT CAST('x' AS INT) AS a",
            )
        )
        return self.sql(text, refuse)


# values -----------------------------------------------------------------------------------------


def weights_of(change: Any) -> dict[Row, int]:
    return change.weights()


def arrow_bag(table: pa.Table) -> Bag:
    columns = [column.to_pylist() for column in table.columns]
    return bag(zip(*columns, strict=True))


def python_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of the model as a user would write it."""

    def back(value: Any) -> Any:
        if value == NAN:
            return math.nan
        return [back(part) for part in value] if isinstance(value, tuple) else value

    return tuple(back(value) for value in row)


def arrow_table(spec: Spec, rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = {
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "STRING": pa.string(),
        "DOUBLE": pa.float64(),
        "ARRAY<DOUBLE>": pa.list_(pa.float64()),
    }
    return pa.table(
        {name: pa.array([row[i] for row in rows], kinds[kind]) for i, (name, kind) in enumerate(spec.columns)}
    )


def check_too_old(problem: vk.errors.NotFound, epoch: int) -> None:
    """An epoch may be refused only if it is older than the oldest kept one, which the error's hint names."""
    found = re.search(r"the oldest kept epoch is (\d+)", problem.hint or "")
    assert found, str(problem)
    assert epoch < int(found.group(1)), str(problem)
