"""SET: the limits of statements on an open database, as frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viewkeeper.algebra.durations import seconds
from viewkeeper.errors import SqlError
from viewkeeper.sql.tokens import Cursor


@dataclass(frozen=True)
class Set:
    """SET name = value. `value` is None for DEFAULT; a time limit is in seconds, 0 for no limit."""

    name: str
    value: float | int | None


def read_set(cursor: Cursor) -> Set:
    """Reads SET."""
    cursor.expect("SET")
    start = cursor.index
    name = cursor.name("the name of a setting").lower()
    if name not in _SETTINGS:
        cursor.index = start
        raise cursor.error(f"there is no setting '{name}'", hint=f"the settings are {', '.join(_SETTINGS)}")
    if not cursor.accept("TO"):
        cursor.expect("=")
    value = None if cursor.accept("DEFAULT") else _SETTINGS[name](cursor, name)
    cursor.finish()
    return Set(name, value)


def _duration(cursor: Cursor, name: str) -> float:
    hint = f"write for instance SET {name} = '30 s', '500 ms' or '5 minutes', or 0 for no limit"
    text = "" if cursor.at_end else str(cursor.tokens[cursor.index].text)
    if text == "0":
        cursor.index += 1
        return 0.0
    if cursor.at_end or cursor.statement.text[cursor.tokens[cursor.index].start] not in "'\"":
        raise cursor.error("expected a duration with its unit in quotes here", hint=hint)
    try:
        value = seconds(text)
    except SqlError as problem:
        raise cursor.error(problem.message, hint=hint) from None
    cursor.index += 1
    return value


def _number(cursor: Cursor, name: str) -> int:
    text = "" if cursor.at_end else str(cursor.tokens[cursor.index].text)
    if not text.isdigit() or int(text) == 0:
        raise cursor.error(f"'{name}' is a number from 1 on", hint=f"write for instance SET {name} = 100000")
    cursor.index += 1
    return int(text)


_SETTINGS: dict[str, Callable[[Cursor, str], float | int]] = {
    "statement_timeout": _duration,
    "max_rounds": _number,
    "max_rows": _number,
}
