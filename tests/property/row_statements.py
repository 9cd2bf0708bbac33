"""Random statements that are calls with rows or keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.property.model import (
    Model,
    Spec,
)
from tests.property.random_rows import SPARE, Step, arrow_table, python_row
from tests.property.sql_statements import SqlStatements


class Statements(SqlStatements):
    """Makes a statement of any kind."""

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
