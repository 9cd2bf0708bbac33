"""Statements about active rules and assertions, as frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from viewkeeper.algebra.durations import seconds
from viewkeeper.algebra.types import Type
from viewkeeper.errors import Name, Place, SqlError
from viewkeeper.sql.dialect import SourceText, parse
from viewkeeper.sql.table_statements import parse_column_type
from viewkeeper.sql.tokens import Cursor

EVENTS = ("INSERTED", "DELETED", "UPDATED")
COUPLINGS = ("IMMEDIATE", "DEFERRED", "DETACHED")


@dataclass(frozen=True)
class Webhook:
    """WEBHOOK 'url' [WITH (secret = '...', timeout = '10 seconds', allow_private = true)]."""

    url: str
    secret: str | None = None
    timeout: float = 10.0
    allow_private: bool = False


@dataclass(frozen=True)
class PythonAction:
    """PYTHON name: the name under which a process has registered a function with @db.rule."""

    name: str


@dataclass(frozen=True)
class CreateRule:
    """CREATE [OR REPLACE] RULE name [(parameters)] [options] ON relation [WHEN events] [IF (condition)] DO action.

    `source` is the name of a relation, or a query; `text` is the statement without the secret of a webhook.
    """

    name: Name
    parameters: tuple[tuple[Name, Type], ...]
    nervous: bool
    coupling: str
    priority: int
    source: Name | SourceText
    events: tuple[str, ...]
    condition: SourceText | None
    each_row: bool
    action: SourceText | Webhook | PythonAction
    or_replace: bool
    text: str


@dataclass(frozen=True)
class DropRule:
    """DROP RULE [IF EXISTS] name."""

    name: Name
    if_exists: bool


@dataclass(frozen=True)
class AlterRule:
    """ALTER RULE name ENABLE | DISABLE."""

    name: Name
    enabled: bool


@dataclass(frozen=True)
class Activate:
    """ACTIVATE | DEACTIVATE RULE name (values)."""

    name: Name
    values: SourceText
    active: bool


@dataclass(frozen=True)
class RetryRule:
    """RETRY RULE name [EPOCH n]: parked firings are tried again."""

    name: Name
    epoch: int | None


@dataclass(frozen=True)
class Check:
    """CHECK: deferred rules and assertions are run in the middle of a transaction."""


@dataclass(frozen=True)
class CreateAssertion:
    """CREATE ASSERTION name [ON VIOLATION ABORT | WARN] CHECK (condition).

    `query` is the one that must stay empty, where the condition is NOT EXISTS (query) alone.
    """

    name: Name
    violation: str
    condition: SourceText
    query: SourceText | None


VIOLATED = "SELECT true AS violated WHERE NOT ("
"""What makes a query of the condition of an assertion: it has a row when that is false. A bracket closes it."""


def condition_of(query: str) -> str | None:
    """The condition, in one line, that such a query was made of; None for any other query."""
    if not query.startswith(VIOLATED):
        return None
    found = parse(query, query).find(exp.Where)
    if found is None or not (isinstance(found.this, exp.Not) and isinstance(found.this.this, exp.Paren)):
        return None
    return " ".join(line.strip() for line in query.removeprefix(VIOLATED)[:-1].strip().splitlines())


@dataclass(frozen=True)
class AlterAssertion:
    """ALTER ASSERTION name ON VIOLATION ABORT | WARN."""

    name: Name
    violation: str


@dataclass(frozen=True)
class DropAssertion:
    """DROP ASSERTION [IF EXISTS] name."""

    name: Name
    if_exists: bool


@dataclass(frozen=True)
class ExplainedRule:
    """The name after EXPLAIN RULE."""

    name: Name


# rules ------------------------------------------------------------------------------------------


def read_create_rule(cursor: Cursor, or_replace: bool) -> CreateRule:
    """Reads CREATE RULE, after OR REPLACE."""
    cursor.expect("RULE")
    name = cursor.name("the name of a rule")
    parameters = _parameters(cursor) if cursor.word() == "(" else ()
    said: dict[str, Any] = {}
    while cursor.word() not in ("ON", ""):
        _option(cursor, said)
    cursor.expect("ON")
    source = _source(cursor)
    events = _events(cursor) if cursor.accept("WHEN") else (EVENTS[0].lower(),)
    condition = _condition(cursor) if cursor.accept("IF") else None
    each_row = cursor.accept("FOR", "EACH", "ROW")
    if condition is None and cursor.accept("IF"):
        condition = _condition(cursor)
    if not cursor.accept("DO"):
        raise cursor.error("expected DO and an action here", hint=_before_action(cursor, condition))
    text = cursor.statement.sql
    action: SourceText | Webhook | PythonAction
    if cursor.accept("WEBHOOK"):
        action, text = _webhook(cursor)
    elif cursor.word() == "PYTHON":
        cursor.index += 1
        action = PythonAction(str(cursor.name("the name of the function")))
        cursor.finish()
    else:
        action = _statements(cursor)
    return CreateRule(
        name,
        parameters,
        said.get("semantics") == "NERVOUS",
        said.get("coupling", "DEFERRED").lower(),
        said.get("priority", 0),
        source,
        events,
        condition,
        each_row,
        action,
        or_replace,
        text,
    )


def _before_action(cursor: Cursor, condition: SourceText | None) -> str:
    """The hint where DO is missing."""
    if cursor.word() in ("STRICT", "NERVOUS", "PRIORITY", *COUPLINGS):
        return f"{cursor.word()} stands before ON: CREATE RULE r {cursor.word()} ... ON t DO ..."
    if condition is not None:
        return f"all of the condition stands in brackets: IF (({condition}) ...) DO ..."
    return "DO INSERT INTO t SELECT * FROM inserted"


def _parameters(cursor: Cursor) -> tuple[tuple[Name, Type], ...]:
    cursor.expect("(")
    found: list[tuple[Name, Type]] = []
    while True:
        name = cursor.name("the name of a parameter")
        if name.lower() in (known.lower() for known, _ in found):
            raise SqlError(f"two parameters are named '{name}'", place=name.place, hint="give one another name")
        found.append((name, parse_column_type(cursor)))
        if cursor.accept(")"):
            return tuple(found)
        cursor.expect(",")


def _option(cursor: Cursor, said: dict[str, Any]) -> None:
    """One of STRICT, NERVOUS, a coupling and PRIORITY n; each may be said once, in any order."""
    word = cursor.word()
    kinds = {"STRICT": "semantics", "NERVOUS": "semantics", **dict.fromkeys(COUPLINGS, "coupling")}
    kind = kinds.get(word, "priority" if word == "PRIORITY" else None)
    if kind is None:
        raise cursor.error(
            f"'{cursor.tokens[cursor.index].text}' is not an option of a rule",
            hint="options are STRICT or NERVOUS, IMMEDIATE, DEFERRED or DETACHED, and PRIORITY n; then ON",
        )
    if kind in said:
        raise cursor.error(f"the {kind} of the rule is said twice", hint="leave one of them out")
    cursor.index += 1
    said[kind] = word
    if kind == "priority":
        negative = cursor.accept("-")
        if not cursor.word().isdigit():
            raise cursor.error("PRIORITY needs a number", hint="PRIORITY 10; rules with lower numbers come first")
        said[kind] = int(cursor.word()) * (-1 if negative else 1)
        cursor.index += 1


def _source(cursor: Cursor) -> Name | SourceText:
    if cursor.word() == "(":
        return _in_brackets(cursor)
    if cursor.word() in ("SELECT", "WITH"):
        raise cursor.error("a query that a rule watches stands in brackets", hint="ON (SELECT ...) DO ...")
    return cursor.name("a table, a view, or a query in brackets")


def _in_brackets(cursor: Cursor) -> SourceText:
    """What stands between brackets, without them."""
    cursor.expect("(")
    start, stop = cursor.skip_to(())
    if start == stop:
        raise cursor.error("there is nothing in these brackets", back=1)
    cursor.expect(")")
    return cursor.text_of(start, stop)


def _events(cursor: Cursor) -> tuple[str, ...]:
    found: list[str] = []
    while True:
        word = cursor.word()
        if word not in EVENTS:
            raise cursor.error("expected INSERTED, DELETED or UPDATED here", hint="WHEN INSERTED OR UPDATED")
        if word.lower() in found:
            raise cursor.error(f"{word} is said twice", hint="leave one of them out")
        found.append(word.lower())
        cursor.index += 1
        if not cursor.accept("OR"):
            return tuple(found)


def _condition(cursor: Cursor) -> SourceText:
    if cursor.word() != "(":
        raise cursor.error("expected a condition in brackets here", hint="IF (EXISTS (SELECT * FROM inserted))")
    return _in_brackets(cursor)


def _statements(cursor: Cursor) -> SourceText:
    if not cursor.accept("BEGIN"):
        return cursor.rest("a statement")
    start, stop = cursor.index, len(cursor.tokens) - 1
    if stop < start or cursor.tokens[stop].text.upper() != "END":
        cursor.index = len(cursor.tokens)
        raise cursor.error("expected END here", hint="DO BEGIN statement; statement; END")
    if start == stop:
        raise cursor.error("the rule does nothing", hint="DO BEGIN INSERT INTO ...; END")
    cursor.index = len(cursor.tokens)
    return cursor.text_of(start, stop)


def _webhook(cursor: Cursor) -> tuple[Webhook, str]:
    """The webhook, and the statement without its secret."""
    url = _string(cursor, "the address of the webhook", "DO WEBHOOK 'https://example.com/hook'")
    given: dict[str, Any] = {}
    shown = cursor.statement.sql
    if cursor.accept("WITH"):
        cursor.expect("(")
        while True:
            option = cursor.name("an option of the webhook")
            read = _WEBHOOK_OPTIONS.get(option.lower())
            if read is None:
                hint = f"options of a webhook are {', '.join(_WEBHOOK_OPTIONS)}"
                raise SqlError(f"there is no option '{option}' of a webhook", place=option.place, hint=hint)
            cursor.expect("=")
            place = cursor.place()
            start = cursor.tokens[min(cursor.index, len(cursor.tokens) - 1)]
            given[option.lower()] = read(cursor, place)
            if option.lower() == "secret":
                offset = cursor.statement.start
                shown = f"{shown[: start.start - offset]}'***'{shown[start.end + 1 - offset :]}"
            if cursor.accept(")"):
                break
            cursor.expect(",")
    cursor.finish()
    return Webhook(url, **given), shown


def _string(cursor: Cursor, what: str, hint: str) -> str:
    token = cursor.tokens[cursor.index] if not cursor.at_end else None
    if token is None or cursor.statement.text[token.start] not in "'\"":
        raise cursor.error(f"expected {what} in quotes here", hint=hint)
    cursor.index += 1
    return str(token.text)


def _read_secret(cursor: Cursor, place: Place) -> str:
    return _string(cursor, "a secret", "secret = 'a long random text'")


def _read_timeout(cursor: Cursor, place: Place) -> float:
    try:
        return seconds(_string(cursor, "a duration", "timeout = '10 seconds'"))
    except SqlError as problem:
        problem.place = problem.place or place
        raise


def _read_flag(cursor: Cursor, place: Place) -> bool:
    if cursor.word() not in ("TRUE", "FALSE"):
        raise cursor.error("expected true or false here", hint="allow_private = true")
    cursor.index += 1
    return cursor.word(-1) == "TRUE"


_WEBHOOK_OPTIONS: dict[str, Callable[[Cursor, Place], Any]] = {
    "secret": _read_secret,
    "timeout": _read_timeout,
    "allow_private": _read_flag,
}


def read_drop_rule(cursor: Cursor) -> DropRule:
    """Reads DROP RULE, after DROP."""
    cursor.expect("RULE")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the name of a rule")
    cursor.finish()
    return DropRule(name, if_exists)


def read_alter_rule(cursor: Cursor) -> AlterRule:
    """Reads ALTER RULE, after ALTER."""
    cursor.expect("RULE")
    name = cursor.name("the name of a rule")
    if cursor.word() not in ("ENABLE", "DISABLE"):
        hint = f"ALTER RULE {name} ENABLE or DISABLE; CREATE OR REPLACE RULE changes anything else"
        raise cursor.error("expected ENABLE or DISABLE here", hint=hint)
    enabled = cursor.word() == "ENABLE"
    cursor.index += 1
    cursor.finish()
    return AlterRule(name, enabled)


def read_activate(cursor: Cursor) -> Activate:
    """Reads ACTIVATE RULE and DEACTIVATE RULE."""
    verb = cursor.word()
    cursor.index += 1
    cursor.expect("RULE")
    name = cursor.name("the name of a rule")
    if cursor.word() != "(":
        raise cursor.error("expected the values of the parameters here", hint=f"{verb} RULE {name} (1)")
    values = _in_brackets(cursor)
    cursor.finish()
    return Activate(name, values, verb == "ACTIVATE")


def read_retry(cursor: Cursor) -> RetryRule:
    """Reads RETRY RULE."""
    cursor.expect("RETRY", "RULE")
    name = cursor.name("the name of a rule")
    epoch = None
    if cursor.accept("EPOCH"):
        if not cursor.word().isdigit():
            raise cursor.error("EPOCH needs a number", hint=f"RETRY RULE {name} EPOCH 7")
        epoch = int(cursor.word())
        cursor.index += 1
    cursor.finish()
    return RetryRule(name, epoch)


def read_check(cursor: Cursor) -> Check:
    """Reads CHECK."""
    cursor.expect("CHECK")
    cursor.finish()
    return Check()


# assertions -------------------------------------------------------------------------------------


def read_create_assertion(cursor: Cursor) -> CreateAssertion:
    """Reads CREATE ASSERTION, after CREATE."""
    cursor.expect("ASSERTION")
    name = cursor.name("the name of an assertion")
    violation = _violation(cursor) if cursor.word() == "ON" else "abort"
    if not cursor.accept("CHECK") or cursor.word() != "(":
        raise cursor.error(
            "expected CHECK and a condition in brackets here",
            hint=f"CREATE ASSERTION {name} CHECK (NOT EXISTS (SELECT ...))",
        )
    start = cursor.index
    condition = _in_brackets(cursor)
    stop, cursor.index = cursor.index, start + 1
    query = None
    if cursor.accept("NOT", "EXISTS") and cursor.word() == "(":
        inside = _in_brackets(cursor)
        query = inside if cursor.index == stop - 1 else None
    cursor.index = stop
    cursor.finish()
    return CreateAssertion(name, violation, condition, query)


def _violation(cursor: Cursor) -> str:
    cursor.expect("ON", "VIOLATION")
    word = cursor.word()
    if word not in ("ABORT", "WARN"):
        raise cursor.error("expected ABORT or WARN here", hint="ON VIOLATION WARN reports violations and commits")
    cursor.index += 1
    return word.lower()


def read_alter_assertion(cursor: Cursor) -> AlterAssertion:
    """Reads ALTER ASSERTION, after ALTER."""
    cursor.expect("ASSERTION")
    name = cursor.name("the name of an assertion")
    violation = _violation(cursor)
    cursor.finish()
    return AlterAssertion(name, violation)


def read_drop_assertion(cursor: Cursor) -> DropAssertion:
    """Reads DROP ASSERTION, after DROP."""
    cursor.expect("ASSERTION")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the name of an assertion")
    cursor.finish()
    return DropAssertion(name, if_exists)
