"""Statements that define, alter, refresh and verify views, as frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.algebra.durations import seconds
from viewkeeper.errors import Name, Place, SqlError
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.tokens import Cursor

QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
"""The words that a query can begin with."""


@dataclass(frozen=True)
class ViewOptions:
    """WITH (...). Durations in seconds; `auxiliary` is None where the user leaves it to the planner."""

    refresh: str = "auto"
    on: str = "commit"
    lag: float | None = None
    keep: float | None = None
    auxiliary: bool | None = None
    lane: str = "auto"


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] [MATERIALIZED] VIEW [IF NOT EXISTS] name [(columns)] [WITH (options)] AS query."""

    name: Name
    columns: tuple[Name, ...] | None
    query: SourceText
    materialized: bool
    or_replace: bool
    if_not_exists: bool
    options: ViewOptions


@dataclass(frozen=True)
class AlterView:
    """ALTER [MATERIALIZED] VIEW name [WITH (options)] AS query.

    `materialized` is None for ALTER VIEW, which takes either kind; `options` are those that change.
    """

    name: Name
    query: SourceText
    materialized: bool | None = None
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class DropView:
    """DROP [MATERIALIZED] VIEW [IF EXISTS] name [CASCADE]. `materialized` is None for DROP VIEW: either kind."""

    name: Name
    materialized: bool | None
    if_exists: bool
    cascade: bool


@dataclass(frozen=True)
class SuspendView:
    """ALTER [MATERIALIZED] VIEW name SUSPEND."""

    name: Name


@dataclass(frozen=True)
class Refresh:
    """REFRESH [TABLE | MATERIALIZED VIEW | VIEW] name."""

    name: Name


@dataclass(frozen=True)
class Verify:
    """VERIFY [[MATERIALIZED] VIEW name] [WITH (engine = 'spark')]; without a name, all of them."""

    name: Name | None
    engine: str | None = None


# reading ----------------------------------------------------------------------------------------


def read_create_view(cursor: Cursor, or_replace: bool) -> CreateView:
    """Reads CREATE [OR REPLACE] [MATERIALIZED] VIEW, after OR REPLACE."""
    materialized = cursor.accept("MATERIALIZED")
    cursor.expect("VIEW")
    start = cursor.index
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        cursor.index = start
        raise cursor.error("OR REPLACE and IF NOT EXISTS exclude each other", hint="leave one of them out")
    if cursor.word() == "AS" and cursor.word(1) in QUERY_WORDS:
        raise cursor.error("expected a view name here", hint="CREATE VIEW name AS SELECT ...")
    name = cursor.name("a view name")
    columns = _columns(cursor) if cursor.word() == "(" else None
    _comment(cursor)
    options = ViewOptions(**dict(_options(cursor, materialized) if cursor.word() == "WITH" else ()))
    _comment(cursor)
    if cursor.word() in _ELSEWHERE:
        raise cursor.error(f"{cursor.word()} is not supported for a view", hint=_ELSEWHERE[cursor.word()])
    if not cursor.accept("AS"):
        kind = "MATERIALIZED VIEW" if materialized else "VIEW"
        raise cursor.error("expected AS and a query here", hint=f"CREATE {kind} {name} AS SELECT ...")
    return CreateView(name, columns, _query(cursor), materialized, or_replace, if_not_exists, options)


_ELSEWHERE = {
    "TBLPROPERTIES": "leave it out; options stand in WITH (...)",
    "USING": "leave it out: the database stores its views itself",
    "PARTITIONED": "leave it out: files are sorted by key and skipped by their bounds",
    "CLUSTER": "leave it out: files are sorted by key and skipped by their bounds",
    "SCHEDULE": "write WITH (on = 'demand') and run REFRESH when you want it",
    "TRIGGER": "leave it out: views are maintained by every commit",
}


def _columns(cursor: Cursor) -> tuple[Name, ...]:
    """Reads column names, each with an optional COMMENT."""
    cursor.expect("(")
    names: list[Name] = []
    while True:
        name = cursor.name("a column name")
        if name.lower() in (known.lower() for known in names):
            raise cursor.error(f"the view has two columns named '{name}'", hint="give each its own name", back=1)
        names.append(name)
        _comment(cursor)
        if cursor.accept(")"):
            return tuple(names)
        if cursor.word() != ",":
            raise cursor.error(
                "a view's columns are names alone: their types come from its query",
                hint=f"write ({', '.join(names)}, ...) AS SELECT ...",
            )
        cursor.expect(",")


def _comment(cursor: Cursor) -> None:
    if cursor.accept("COMMENT"):
        _string(cursor, "a comment in quotes", "for instance COMMENT 'orders of the day'")


def _string(cursor: Cursor, what: str, hint: str) -> str:
    """Reads a string."""
    if cursor.at_end or cursor.statement.text[cursor.tokens[cursor.index].start] not in "'\"":
        raise cursor.error(f"expected {what} here", hint=hint)
    cursor.index += 1
    return str(cursor.tokens[cursor.index - 1].text)


def _query(cursor: Cursor) -> SourceText:
    """Reads the query to the end of the statement."""
    if not cursor.at_end and cursor.word() not in QUERY_WORDS:
        raise cursor.error("a view is a query", hint="for instance AS SELECT region, sum(amount) FROM orders ...")
    words = [token.text.upper() for token in cursor.tokens[-4:]]
    if words[:3] == ["AS", "OF", "EPOCH"]:
        cursor.index = len(cursor.tokens) - 4
        raise cursor.error(
            "a view is maintained with its tables, so it cannot read them AS OF an epoch", hint="leave it out"
        )
    return cursor.rest("a query")


def read_alter_view(cursor: Cursor) -> AlterView | SuspendView:
    """Reads ALTER [MATERIALIZED] VIEW, after ALTER."""
    materialized = True if cursor.accept("MATERIALIZED") else None
    cursor.expect("VIEW")
    name = cursor.name("a view name")
    if cursor.accept("SUSPEND"):
        cursor.finish()
        return SuspendView(name)
    if cursor.word() == "RESUME":
        raise cursor.error("a suspended view is resumed by a refresh", hint=f"REFRESH MATERIALIZED VIEW {name}")
    options = _options(cursor, True) if cursor.word() == "WITH" else ()
    if cursor.word() != "AS":
        raise cursor.error(
            "only the query of a view can be altered",
            hint=f"ALTER VIEW {name} AS SELECT ..., or ALTER MATERIALIZED VIEW {name} SUSPEND",
        )
    cursor.expect("AS")
    return AlterView(name, _query(cursor), materialized, options)


def read_drop_view(cursor: Cursor) -> DropView:
    """Reads DROP [MATERIALIZED] VIEW, after DROP."""
    materialized = True if cursor.accept("MATERIALIZED") else None
    cursor.expect("VIEW")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("a view name")
    cascade = cursor.accept("CASCADE") or (cursor.accept("RESTRICT") and False)
    cursor.finish()
    return DropView(name, materialized, if_exists, cascade)


def read_refresh(cursor: Cursor) -> Refresh:
    """Reads REFRESH."""
    cursor.expect("REFRESH")
    if cursor.word(1):
        _kind(cursor)
        cursor.accept("TABLE")
    name = cursor.name("the name of a view or table")
    cursor.finish()
    return Refresh(name)


def read_verify(cursor: Cursor) -> Verify:
    """Reads VERIFY."""
    cursor.expect("VERIFY")
    name = None
    if not cursor.at_end and cursor.word() != "WITH":
        _kind(cursor)
        name = cursor.name("a view name")
    engine = _other_engine(cursor) if cursor.word() == "WITH" else None
    cursor.finish()
    return Verify(name, engine)


def _other_engine(cursor: Cursor) -> str:
    """Reads WITH (engine = '...')."""
    cursor.expect("WITH", "(", "ENGINE", "=")
    hint = "write WITH (engine = 'spark'), 'sail' or 'sc://host:port'"
    engine = _string(cursor, "the name of an engine in quotes", hint)
    cursor.expect(")")
    return engine


def _kind(cursor: Cursor) -> bool:
    """Reads [MATERIALIZED] VIEW, if it is there."""
    return cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW")


# options ----------------------------------------------------------------------------------------


def does_not_apply(option: str, place: Place | None) -> SqlError:
    """The error for an option of a view that is not materialized."""
    return SqlError(
        f"a view that is not materialized stores nothing, so '{option}' does not apply to it",
        place=place,
        hint="leave it out, or write CREATE MATERIALIZED VIEW",
    )


def _options(cursor: Cursor, materialized: bool) -> tuple[tuple[str, Any], ...]:
    """Reads WITH (name = value, ...): the options that are given, and what they imply."""
    cursor.expect("WITH", "(")
    options = ViewOptions()
    given: dict[str, int] = {}
    while True:
        start = cursor.index
        name = cursor.name("an option").lower()
        reader = _OPTIONS.get(name)
        if reader is None:
            cursor.index = start
            raise cursor.error(f"a view has no option '{name}'", hint=f"the options are {', '.join(_OPTIONS)}")
        if name in given:
            cursor.index = start
            raise cursor.error(f"the option '{name}' is given twice", hint="leave one of them out")
        if not materialized and name != "auxiliary":
            raise does_not_apply(name, cursor.place(start))
        given[name] = start
        cursor.expect("=")
        options = reader(cursor, options)
        if cursor.accept(")"):
            break
        cursor.expect(",")
    found = {name: getattr(options, name) for name in given}
    if options.lag is not None:
        if found.get("on") == "commit":
            cursor.index = given["lag"]
            raise cursor.error(
                "a view that is refreshed on every commit has no lag", hint="leave out lag, or on = 'commit'"
            )
        found["on"] = "demand"
    if found.get("on") == "commit":
        found["lag"] = None
    return tuple(found.items())


def _choice(cursor: Cursor, name: str, choices: tuple[str, ...]) -> str:
    quoted = [f"'{choice}'" for choice in choices]
    hint = f"write {name} = {', '.join(quoted[:-1])} or {quoted[-1]}"
    value = _string(cursor, f"a value of '{name}' in quotes", hint).lower()
    if value not in choices:
        raise cursor.error(f"'{name}' cannot be '{value}'", hint=hint, back=1)
    return value


def _duration(cursor: Cursor, name: str) -> float:
    hint = f"write for instance {name} = '5 minutes' or {name} = '7 days'"
    value = _string(cursor, "a duration in quotes", hint)
    try:
        duration = seconds(value)
    except SqlError as problem:
        raise cursor.error(problem.message, hint=hint, back=1) from None
    if duration <= 0:
        raise cursor.error(f"'{name}' must be longer than nothing", hint=hint, back=1)
    return duration


def _refresh(cursor: Cursor, options: ViewOptions) -> ViewOptions:
    return replace(options, refresh=_choice(cursor, "refresh", ("auto", "incremental", "full")))


def _on(cursor: Cursor, options: ViewOptions) -> ViewOptions:
    return replace(options, on=_choice(cursor, "on", ("commit", "demand")))


def _lag(cursor: Cursor, options: ViewOptions) -> ViewOptions:
    return replace(options, lag=_duration(cursor, "lag"))


def _keep(cursor: Cursor, options: ViewOptions) -> ViewOptions:
    return replace(options, keep=_duration(cursor, "keep"))


def _auxiliary(cursor: Cursor, options: ViewOptions) -> ViewOptions:
    value = "" if cursor.at_end else str(cursor.tokens[cursor.index].text).lower()
    if value not in ("true", "false"):
        raise cursor.error("'auxiliary' is true or false", hint="write auxiliary = true or auxiliary = false")
    cursor.index += 1
    return replace(options, auxiliary=value == "true")


def _lane(cursor: Cursor, options: ViewOptions) -> ViewOptions:
    return replace(options, lane=_choice(cursor, "lane", ("auto", "engine")))


_OPTIONS: dict[str, Callable[[Cursor, ViewOptions], ViewOptions]] = {
    "refresh": _refresh,
    "on": _on,
    "lag": _lag,
    "keep": _keep,
    "auxiliary": _auxiliary,
    "lane": _lane,
}
