"""SUBSCRIBE, as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.errors import Name
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.tokens import Cursor

PRECISIONS = ("exact", "nervous")

_USAGE = "SUBSCRIBE TO v WITH (SNAPSHOT = false, EVERY = '5 seconds') AS OF EPOCH 7 UP TO EPOCH 9"


@dataclass(frozen=True)
class Subscribe:
    """SUBSCRIBE [TO] name | (query) [WHERE condition] [WITH (options)] [AS OF EPOCH n] [UP TO EPOCH n].

    `every` is a duration as it is written, or 'demand'.
    """

    what: Name | SourceText
    where: SourceText | None = None
    snapshot: bool = True
    every: str | None = None
    precision: str = "exact"
    begin: int | None = None
    until: int | None = None


def read_subscribe(cursor: Cursor) -> Subscribe:
    """Reads SUBSCRIBE."""
    cursor.expect("SUBSCRIBE")
    cursor.accept("TO")
    what: Name | SourceText
    if cursor.word() == "(":
        cursor.index += 1
        start, stop = cursor.skip_to(())
        what = cursor.text_of(start, stop)
        cursor.expect(")")
    else:
        what = cursor.name("the name of a table or view, or a query in brackets")
    where: SourceText | None = None
    if cursor.accept("WHERE"):
        where = cursor.text_of(*cursor.skip_to(("WITH", "AS", "UP")))
    given = _options(cursor) if cursor.word() == "WITH" else {}
    begin = _epoch(cursor) if cursor.accept("AS", "OF") else None
    until = _epoch(cursor) if cursor.accept("UP", "TO") else None
    cursor.finish()
    return Subscribe(
        what,
        where,
        given.get("snapshot", "true") == "true",
        given.get("every"),
        given.get("precision", "exact"),
        begin,
        until,
    )


def _epoch(cursor: Cursor) -> int:
    cursor.expect("EPOCH")
    if not cursor.word().isdigit():
        raise cursor.error("EPOCH needs a number", hint=f"for instance {_USAGE}")
    cursor.index += 1
    return int(cursor.word(-1))


def _options(cursor: Cursor) -> dict[str, str]:
    """Reads WITH (name = value, ...)."""
    cursor.expect("WITH", "(")
    found: dict[str, str] = {}
    choices = {"snapshot": ("true", "false"), "every": (), "precision": PRECISIONS}
    while True:
        name = cursor.name("an option").lower()
        if name not in choices:
            raise cursor.error(
                f"a subscription has no option '{name}'", hint="the options are SNAPSHOT, EVERY and PRECISION", back=1
            )
        if name in found:
            raise cursor.error(f"the option '{name}' is given twice", hint="leave one of them out", back=1)
        cursor.expect("=")
        if cursor.at_end:
            raise cursor.error(f"expected a value of '{name}' at the end", hint=f"for instance {_USAGE}")
        value = str(cursor.tokens[cursor.index].text).lower()
        if choices[name] and value not in choices[name]:
            raise cursor.error(f"'{name}' cannot be '{value}'", hint=f"write {name} = {' or '.join(choices[name])}")
        cursor.index += 1
        found[name] = value
        if cursor.accept(")"):
            return found
        cursor.expect(",")
