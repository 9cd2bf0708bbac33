"""Random statements in SQL, with what they mean in the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.property.model import (
    NAN,
    Bag,
    Model,
    Refused,
    Row,
    Spec,
    both,
    compare,
    contrary,
    either,
    literal,
    plain,
)
from tests.property.random_rows import LOOSE, RandomRows, Step


class SqlStatements(RandomRows):
    """Makes a statement, and what it does to the model."""

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
