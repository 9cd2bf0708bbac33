"""Texts of conditions and actions with values in the place of parameters (`:p`) and of columns of a row (`new.c`)."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type
from viewkeeper.errors import NotFound, Place, SqlError
from viewkeeper.rules.transitions import Transition
from viewkeeper.sql.bound_names import bound as bound
from viewkeeper.sql.bound_names import names_in
from viewkeeper.sql.bound_names import unbound as unbound


def parameters_in(text: str) -> set[str]:
    """The parameters that a text names, in lower case."""
    return {name[1:] for _, _, name in names_in(text) if name.startswith(":")}


def check_names(text: str, whole: str, start: int, known: Mapping[str, str]) -> None:
    """Raises for a parameter, or a column of the row, that is not there; `text` begins at `start` of `whole`."""
    columns = {name.partition(".")[2] for name in known if not name.startswith(":")}
    for first, end, name in names_in(text):
        if name in known:
            continue
        place = Place.at(whole, start + first, end - first)
        if name.startswith(":"):
            there = ", ".join(sorted(each for each in known if each.startswith(":")))
            hint = f"its parameters are {there}" if there else f"declare it: CREATE RULE name ({name[1:]} TYPE) ..."
            raise NotFound(f"the rule has no parameter '{name}'", place=place, hint=hint)
        if columns:
            hint = f"its columns are {', '.join(sorted(columns))}"
            raise NotFound(f"the row has no column '{name.partition('.')[2]}'", place=place, hint=hint)


def parameter_values(parameters: Mapping[str, Type], values: tuple[Any, ...]) -> dict[str, str]:
    """SQL for `:name` of each parameter."""
    pairs = zip(parameters.items(), values, strict=True)
    return {f":{name.lower()}": literal(value, kind) for (name, kind), value in pairs}


def row_values(transition: Transition) -> dict[str, str]:
    """SQL for the columns of the one row of a transition: `new.c` after, `old.c` before; NULL where there is none."""
    after = transition.inserted if transition.inserted.num_rows else transition.new
    before = transition.deleted if transition.deleted.num_rows else transition.old
    return {**_columns("new", transition.schema, after), **_columns("old", transition.schema, before)}


def _columns(name: str, schema: Schema, rows: pa.Table) -> dict[str, str]:
    values = [column[0].as_py() if rows.num_rows else None for column in rows.columns]
    pairs = zip(schema, values, strict=True)
    return {f"{name}.{column.name.lower()}": literal(value, column.type) for column, value in pairs}


def literal(value: Any, kind: Type) -> str:
    """A value as SQL of its type."""
    return f"CAST({_plain(value, kind)} AS {kind.ddl.upper()})"


def _plain(value: Any, kind: Type) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, decimal.Decimal)):
        return f"'{value}'"
    if isinstance(value, (float, dt.date, dt.datetime)):
        return f"'{_spelled(value)}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    raise SqlError(
        f"a value of type {kind} cannot be named by FOR EACH ROW",
        hint="select it from the transition tables: INSERT INTO t SELECT ... FROM inserted",
    )


def _spelled(value: float | dt.date) -> str:
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
