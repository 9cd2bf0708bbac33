"""Texts of conditions and actions with values in the place of parameters (`:p`) and of columns of a row (`new.c`)."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from sqlglot.tokenizer_core import Token

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type
from viewkeeper.errors import NotFound, Place, SqlError
from viewkeeper.rules.transitions import Transition
from viewkeeper.sql.tokens import tokenize

ROW_NAMES = ("new", "old")
"""How the action of a rule FOR EACH ROW names its row, and the row that it replaces."""


def bound(text: str, values: Mapping[str, str]) -> str:
    """A text with SQL in the place of `:name` and `new.column`; `values` has it by lower-case name."""
    parts: list[str] = []
    position = 0
    for start, end, name in _named(text):
        if name in values:
            parts += [text[position:start], values[name]]
            position = end
    return "".join([*parts, text[position:]])


def parameters_in(text: str) -> set[str]:
    """The parameters that a text names, in lower case."""
    return {name[1:] for _, _, name in _named(text) if name.startswith(":")}


def check_names(text: str, whole: str, start: int, known: Mapping[str, str]) -> None:
    """Raises for a parameter, or a column of the row, that is not there; `text` begins at `start` of `whole`."""
    columns = {name.partition(".")[2] for name in known if not name.startswith(":")}
    for first, end, name in _named(text):
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


def _named(text: str) -> list[tuple[int, int, str]]:
    """Where a text has `:name`, `new.column` and `old.column`: start, end, and the name in lower case."""
    tokens = tokenize(text)
    found: list[tuple[int, int, str]] = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1 : index + 3]
        before = tokens[index - 1] if index else None
        if token.text == ":" and following and following[0].start == token.end + 1:
            if before is None or before.end + 1 < token.start or not _ends_value(before):
                found.append((token.start, following[0].end + 1, f":{str(following[0].text).lower()}"))
        elif _begins_row(token.text, before) and len(following) == 2 and following[0].text == ".":
            name = f"{str(token.text).lower()}.{str(following[1].text).lower()}"
            found.append((token.start, following[1].end + 1, name))
    return found


def _ends_value(token: Token) -> bool:
    """Whether a colon right after a token begins a path into a variant: after a name or a bracket."""
    return token.text in (")", "]") or token.text[-1:].isalnum() or token.text.endswith("_")


def _begins_row(text: str, before: Token | None) -> bool:
    return text.lower() in ROW_NAMES and (before is None or before.text != ".")


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
