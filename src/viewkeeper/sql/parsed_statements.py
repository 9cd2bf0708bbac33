"""Statements as frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from viewkeeper.algebra.types import spelled
from viewkeeper.errors import Name
from viewkeeper.sql.change_statements import (
    Delete,
    Insert,
    Merge,
    MergeClause,
    Truncate,
    Update,
    read_delete,
    read_insert,
    read_merge,
    read_truncate,
    read_update,
)
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.feed_statements import Subscribe, read_subscribe
from viewkeeper.sql.function_statements import DropFunction, read_drop_function
from viewkeeper.sql.rule_statements import (
    Activate,
    AlterAssertion,
    AlterRule,
    Check,
    CreateAssertion,
    CreateRule,
    DropAssertion,
    DropRule,
    ExplainedRule,
    PythonAction,
    RetryRule,
    Webhook,
    read_activate,
    read_alter_assertion,
    read_alter_rule,
    read_check,
    read_create_assertion,
    read_create_rule,
    read_drop_assertion,
    read_drop_rule,
    read_retry,
)
from viewkeeper.sql.set_statements import Set, read_set
from viewkeeper.sql.table_statements import CreateTable, DropTable, read_create_table, read_drop_table
from viewkeeper.sql.tokens import Cursor, Statement
from viewkeeper.sql.view_statements import (
    QUERY_WORDS,
    AlterView,
    CreateView,
    DropView,
    Refresh,
    SuspendView,
    Verify,
    ViewOptions,
    read_alter_view,
    read_create_view,
    read_drop_view,
    read_refresh,
    read_verify,
)

__all__ = [
    "Activate",
    "AlterAssertion",
    "AlterRule",
    "AlterView",
    "Analyze",
    "Check",
    "Control",
    "CreateAssertion",
    "CreateRule",
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "DropAssertion",
    "DropFunction",
    "DropRule",
    "DropTable",
    "DropView",
    "Explain",
    "ExplainedRule",
    "Insert",
    "Merge",
    "MergeClause",
    "Parsed",
    "PythonAction",
    "Refresh",
    "RetryRule",
    "Select",
    "Set",
    "Show",
    "Subscribe",
    "SuspendView",
    "Truncate",
    "Update",
    "Verify",
    "ViewOptions",
    "Webhook",
    "parse",
]


@dataclass(frozen=True)
class Control:
    """BEGIN, COMMIT, ROLLBACK."""

    word: str


@dataclass(frozen=True)
class Show:
    """SHOW TABLES | VIEWS | FUNCTIONS | COMMITS | RULES | RULE FIRINGS | ASSERTIONS."""

    what: str


@dataclass(frozen=True)
class Describe:
    """DESCRIBE name."""

    name: Name


@dataclass(frozen=True)
class Select:
    """A query, with the epoch to read at."""

    query: SourceText
    epoch: int | None


Explained: TypeAlias = Select | Subscribe | Insert | Update | Delete | Merge | AlterView | CreateView


@dataclass(frozen=True)
class Explain:
    """EXPLAIN VIEW name | RULE name | statement. A plain name is that of a view or an assertion."""

    what: Name | ExplainedRule | Explained


@dataclass(frozen=True)
class Analyze:
    """ANALYZE VIEW query."""

    query: SourceText


Parsed: TypeAlias = (
    CreateTable
    | DropTable
    | CreateView
    | AlterView
    | SuspendView
    | DropView
    | DropFunction
    | CreateRule
    | DropRule
    | AlterRule
    | Activate
    | RetryRule
    | Check
    | CreateAssertion
    | AlterAssertion
    | DropAssertion
    | Refresh
    | Explain
    | Analyze
    | Verify
    | Insert
    | Update
    | Delete
    | Merge
    | Truncate
    | Control
    | Set
    | Show
    | Describe
    | Select
    | Subscribe
)


def parse(statement: Statement) -> Parsed:
    """A statement as a value."""
    cursor = Cursor(statement)
    reader = _READERS.get(cursor.word())
    if reader is None:
        raise cursor.error(
            f"'{statement.tokens[0].text}' does not begin a statement",
            hint="statements begin with SELECT, INSERT, UPDATE, DELETE, MERGE, CREATE TABLE, DROP TABLE, BEGIN ...",
        )
    return reader(cursor)


def _control(cursor: Cursor) -> Control:
    word = cursor.word()
    cursor.index += 1
    if word == "START":
        cursor.expect("TRANSACTION")
        word = "BEGIN"
    else:
        for noise in ("TRANSACTION", "WORK"):
            cursor.accept(noise)
    cursor.finish()
    return Control(word)


def _show(cursor: Cursor) -> Show:
    cursor.expect("SHOW")
    what = cursor.word()
    if cursor.accept("RULE", "FIRINGS"):
        cursor.finish()
        return Show("RULE FIRINGS")
    if what not in ("TABLES", "VIEWS", "FUNCTIONS", "COMMITS", "RULES", "ASSERTIONS"):
        hint = "use SHOW TABLES, VIEWS, FUNCTIONS, COMMITS, RULES, RULE FIRINGS or ASSERTIONS"
        raise cursor.error("SHOW does not know this", hint=hint)
    cursor.index += 1
    cursor.finish()
    return Show(what)


def _analyze(cursor: Cursor) -> Analyze:
    cursor.expect("ANALYZE", "VIEW")
    if cursor.word() not in QUERY_WORDS:
        raise cursor.error("ANALYZE VIEW needs a query", hint="write ANALYZE VIEW SELECT ...")
    return Analyze(cursor.text_of(cursor.index, len(cursor.tokens)))


def _describe(cursor: Cursor) -> Describe:
    cursor.index += 1
    if cursor.word(1):
        cursor.accept("MATERIALIZED")
        _ = cursor.accept("TABLE") or cursor.accept("VIEW")
    name = cursor.name("the name of a table or view")
    cursor.finish()
    return Describe(name)


def _select(cursor: Cursor) -> Select:
    tokens = cursor.tokens[cursor.index :]
    epoch: int | None = None
    stop = len(cursor.tokens)
    words = [token.text.upper() for token in tokens[-4:]]
    if len(tokens) > 4 and words[:3] == ["AS", "OF", "EPOCH"]:
        if not words[3].isdigit():
            raise cursor.error("AS OF EPOCH needs a number", hint="for instance AS OF EPOCH 7")
        epoch = int(words[3])
        stop -= 4
    return Select(cursor.text_of(cursor.index, stop), epoch)


def _explain(cursor: Cursor) -> Explain:
    cursor.expect("EXPLAIN")
    if cursor.accept("RULE"):
        rule = cursor.name("the name of a rule")
        cursor.finish()
        return Explain(ExplainedRule(rule))
    if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW") or cursor.accept("ASSERTION"):
        name = cursor.name("a view name")
        cursor.finish()
        return Explain(name)
    reader = _EXPLAINED.get(cursor.word())
    if reader is None:
        raise cursor.error(
            "EXPLAIN does not know this",
            hint="use EXPLAIN VIEW name, or EXPLAIN before SELECT, INSERT, UPDATE, DELETE, MERGE or ALTER VIEW",
        )
    start = cursor.index
    statement = reader(cursor)
    if isinstance(statement, SuspendView):
        cursor.index = start
        raise cursor.error("EXPLAIN of SUSPEND has nothing to say", hint=f"EXPLAIN VIEW {spelled(statement.name)}")
    if not isinstance(statement, Explained):
        words = f"{cursor.tokens[start].text} {cursor.tokens[start + 1].text}".upper()
        cursor.index = start
        raise cursor.error(f"EXPLAIN {words} has nothing to say", hint="run it")
    return Explain(statement)


def _create(cursor: Cursor) -> CreateTable | CreateView | CreateRule | CreateAssertion:
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    word = cursor.word()
    if word in ("VIEW", "MATERIALIZED"):
        return read_create_view(cursor, or_replace)
    if word in ("TEMPORARY", "TEMP", "GLOBAL"):
        raise cursor.error(
            f"CREATE {word} is not supported: every view and table belongs to the database",
            hint="use CREATE VIEW name AS SELECT ..., and DROP VIEW name in the end",
        )
    if word == "FUNCTION":
        raise cursor.error(
            "CREATE FUNCTION is not supported: functions are declared in Python",
            hint='db.function("f", "package.module:f", returns="INT")',
        )
    if word == "EXTERNAL":
        raise cursor.error(
            f"CREATE {word} is not supported in this version",
            hint="CREATE TABLE, CREATE VIEW and CREATE MATERIALIZED VIEW are",
        )
    if word == "RULE":
        return read_create_rule(cursor, or_replace)
    if or_replace and word == "ASSERTION":
        raise cursor.error(
            "an assertion cannot be replaced", hint="DROP ASSERTION IF EXISTS name; CREATE ASSERTION ..."
        )
    if word == "ASSERTION":
        return read_create_assertion(cursor)
    if or_replace:
        raise cursor.error(
            "only views and rules can be replaced", hint="DROP TABLE IF EXISTS name; CREATE TABLE name ..."
        )
    if word != "TABLE":
        raise cursor.error("expected TABLE, VIEW, MATERIALIZED VIEW, RULE or ASSERTION here")
    return read_create_table(cursor)


def _drop(cursor: Cursor) -> DropTable | DropView | DropFunction | DropRule | DropAssertion:
    cursor.expect("DROP")
    word = cursor.word()
    if word in ("VIEW", "MATERIALIZED"):
        return read_drop_view(cursor)
    if word == "FUNCTION":
        return read_drop_function(cursor)
    if word == "RULE":
        return read_drop_rule(cursor)
    if word == "ASSERTION":
        return read_drop_assertion(cursor)
    if not word:
        raise cursor.error("expected TABLE, VIEW, MATERIALIZED VIEW, RULE or ASSERTION here")
    if word != "TABLE":
        raise cursor.error(
            f"DROP {word} is not supported in this version", hint="DROP TABLE name and DROP VIEW name are"
        )
    return read_drop_table(cursor)


def _alter(cursor: Cursor) -> AlterView | SuspendView | AlterRule | AlterAssertion:
    cursor.expect("ALTER")
    if cursor.word() == "RULE":
        return read_alter_rule(cursor)
    if cursor.word() == "ASSERTION":
        return read_alter_assertion(cursor)
    if cursor.word() not in ("VIEW", "MATERIALIZED"):
        raise cursor.error(
            f"ALTER {cursor.word()} is not supported in this version".replace("  ", " "),
            hint="ALTER MATERIALIZED VIEW name AS SELECT ... is",
        )
    return read_alter_view(cursor)


_EXPLAINED: dict[str, Callable[[Cursor], Parsed]] = {
    "INSERT": read_insert,
    "UPDATE": read_update,
    "DELETE": read_delete,
    "MERGE": read_merge,
    "SELECT": _select,
    "WITH": _select,
    "VALUES": _select,
    "FROM": _select,
    "(": _select,
    "TABLE": _select,
    "SUBSCRIBE": read_subscribe,
    "CREATE": _create,
    "ALTER": _alter,
}

_READERS: dict[str, Callable[[Cursor], Parsed]] = {
    **_EXPLAINED,
    "TRUNCATE": read_truncate,
    "DROP": _drop,
    "REFRESH": read_refresh,
    "EXPLAIN": _explain,
    "VERIFY": read_verify,
    "BEGIN": _control,
    "START": _control,
    "COMMIT": _control,
    "ROLLBACK": _control,
    "ANALYZE": _analyze,
    "SET": read_set,
    "SHOW": _show,
    "ACTIVATE": read_activate,
    "DEACTIVATE": read_activate,
    "RETRY": read_retry,
    "CHECK": read_check,
    "DESCRIBE": _describe,
    "DESC": _describe,
}
