"""The statements that are ours, as frozen values; every other statement is a query."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from viewkeeper.algebra.schema import Column, Key, Schema, make_schema
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import ViewkeeperError
from viewkeeper.sql.references import place_of_name
from viewkeeper.sql.tokens import Cursor, Statement


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE [IF NOT EXISTS] name (columns) | AS query."""

    name: str
    schema: Schema | None
    query: str | None
    if_not_exists: bool


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE [IF EXISTS] name [CASCADE]."""

    name: str
    if_exists: bool


@dataclass(frozen=True)
class Insert:
    """INSERT INTO table [(columns)] query."""

    table: str
    columns: tuple[str, ...] | None
    query: str


@dataclass(frozen=True)
class Update:
    """UPDATE table [alias] SET column = expression, ... [WHERE condition]."""

    table: str
    alias: str
    assignments: tuple[tuple[str, str], ...]
    where: str | None


@dataclass(frozen=True)
class Delete:
    """DELETE FROM table [alias] [WHERE condition]."""

    table: str
    alias: str
    where: str | None


@dataclass(frozen=True)
class MergeClause:
    """WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action."""

    matched: str
    condition: str | None
    action: str
    assignments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Merge:
    """MERGE INTO table [alias] USING source [alias] ON condition WHEN ..."""

    table: str
    alias: str
    source: str
    source_alias: str
    on: str
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE TABLE name."""

    table: str


@dataclass(frozen=True)
class Control:
    """BEGIN, COMMIT, ROLLBACK."""

    word: str


@dataclass(frozen=True)
class Show:
    """SHOW TABLES | COMMITS."""

    what: str


@dataclass(frozen=True)
class Describe:
    """DESCRIBE name."""

    name: str


@dataclass(frozen=True)
class Select:
    """A query, with the epoch to read at."""

    query: str
    epoch: int | None


Parsed = CreateTable | DropTable | Insert | Update | Delete | Merge | Truncate | Control | Show | Describe | Select


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
    if what not in ("TABLES", "COMMITS"):
        raise cursor.error("SHOW does not know this", hint="use SHOW TABLES or SHOW COMMITS")
    cursor.index += 1
    cursor.finish()
    return Show(what)


def _describe(cursor: Cursor) -> Describe:
    cursor.index += 1
    cursor.accept("TABLE")
    name = cursor.name("a table name")
    cursor.finish()
    return Describe(name)


def _select(cursor: Cursor) -> Select:
    tokens = cursor.tokens
    epoch: int | None = None
    stop = len(tokens)
    words = [token.text.upper() for token in tokens[-4:]]
    if len(tokens) > 4 and words[:3] == ["AS", "OF", "EPOCH"]:
        if not words[3].isdigit():
            raise cursor.error("AS OF EPOCH needs a number", hint="for instance AS OF EPOCH 7")
        epoch = int(words[3])
        stop -= 4
    return Select(cursor.text_of(0, stop), epoch)


def _create(cursor: Cursor) -> CreateTable:
    cursor.expect("CREATE")
    if cursor.word() in ("OR", "MATERIALIZED", "VIEW", "RULE", "ASSERTION", "TEMPORARY", "EXTERNAL"):
        raise cursor.error(
            f"CREATE {cursor.word()} is not supported in this version", hint="CREATE TABLE name (column TYPE, ...) is"
        )
    cursor.expect("TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("a table name")
    if cursor.accept("AS"):
        return CreateTable(name, None, cursor.rest("a query"), if_not_exists)
    cursor.expect("(")
    columns: list[Column] = []
    keys: list[Key] = []
    while True:
        _column_or_key(cursor, columns, keys)
        if cursor.accept(")"):
            break
        cursor.expect(",")
    if cursor.word() == "USING":
        raise cursor.error(
            "tables that live outside the database (USING ... LOCATION) are not supported in this version",
            hint="load the files instead: viewkeeper load TABLE FILE",
        )
    cursor.finish()
    try:
        return CreateTable(name, make_schema(columns, keys), None, if_not_exists)
    except ViewkeeperError as problem:
        named = re.search(r"column(?: name|s named)? '(.+?)'|'(.+?)' is a reserved", problem.message)
        name = (named.group(1) or named.group(2)) if named else ""
        problem.place = problem.place or place_of_name(name, cursor.statement.alone) or cursor.place(0)
        raise


def _column_or_key(cursor: Cursor, columns: list[Column], keys: list[Key]) -> None:
    if cursor.accept("CONSTRAINT"):
        cursor.name("a constraint name")
    if cursor.word() in ("FOREIGN", "CHECK"):
        raise cursor.error(f"{cursor.word()} constraints are not supported in this version", hint="leave it out")
    if cursor.word() == "PRIMARY" and cursor.word(1) == "KEY" and cursor.word(2) == "(":
        cursor.index += 2
        keys.append(Key(_names(cursor), primary=True))
        return
    if cursor.word() == "UNIQUE" and cursor.word(1) == "(":
        cursor.index += 1
        keys.append(Key(_names(cursor), primary=False))
        return
    name = cursor.name("a column name")
    kind = parse_column_type(cursor)
    nullable = True
    while cursor.word() not in (",", ")"):
        if cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("NULL"):
            pass
        elif cursor.accept("PRIMARY", "KEY"):
            keys.append(Key((name,), primary=True))
        elif cursor.accept("UNIQUE"):
            keys.append(Key((name,), primary=False))
        elif cursor.accept("COMMENT"):
            cursor.index += 1
        else:
            word = cursor.word() or "this"
            raise cursor.error(
                f"{word} is not supported for a column",
                hint="a column may be NOT NULL, PRIMARY KEY or UNIQUE",
            )
    columns.append(Column(name, kind, nullable))


_TYPE_ENDS = ("NOT", "NULL", "PRIMARY", "UNIQUE", "COMMENT", "DEFAULT", "CHECK", "REFERENCES", "GENERATED")


def parse_column_type(cursor: Cursor) -> Type:
    """Reads a type at the cursor."""
    start = cursor.index
    angles = rounds = 0
    while not cursor.at_end:
        word = cursor.word()
        if angles == 0 and rounds == 0 and (word in _TYPE_ENDS or word in (",", ")")):
            break
        angles += word.count("<") - word.count(">")
        rounds += (word == "(") - (word == ")")
        cursor.index += 1
    text = cursor.text_of(start, cursor.index)
    if not text:
        raise cursor.error("expected a type here", hint="for instance BIGINT, STRING or DECIMAL(12,2)")
    try:
        return parse_type(text)
    except ViewkeeperError as problem:
        problem.place = cursor.place(start)
        raise


def _names(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    names = [cursor.name("a column name")]
    while cursor.accept(","):
        names.append(cursor.name("a column name"))
    cursor.expect(")")
    return tuple(names)


def _drop(cursor: Cursor) -> DropTable:
    cursor.expect("DROP")
    if cursor.word() != "TABLE":
        raise cursor.error(f"DROP {cursor.word()} is not supported in this version", hint="DROP TABLE name is")
    cursor.expect("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("a table name")
    cursor.accept("CASCADE")
    cursor.finish()
    return DropTable(name, if_exists)


def _insert(cursor: Cursor) -> Insert:
    cursor.expect("INSERT")
    if cursor.word() == "OVERWRITE":
        raise cursor.error(
            "INSERT OVERWRITE is not supported", hint="BEGIN; TRUNCATE TABLE t; INSERT INTO t ...; COMMIT"
        )
    cursor.expect("INTO")
    cursor.accept("TABLE")
    table = cursor.name("a table name")
    columns: tuple[str, ...] | None = None
    if cursor.word() == "(" and cursor.word(1) not in ("SELECT", "WITH", "VALUES", "("):
        columns = _names(cursor)
    return Insert(table, columns, cursor.rest("VALUES or a query"))


def _alias(cursor: Cursor, stops: tuple[str, ...], default: str) -> str:
    if cursor.accept("AS"):
        return cursor.name("an alias")
    if not cursor.at_end and cursor.word() not in stops:
        return cursor.name("an alias")
    return default


def _assignments(cursor: Cursor, stops: tuple[str, ...], aliases: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    out: list[tuple[str, str]] = []
    while True:
        if cursor.word(1) == "." and cursor.tokens[cursor.index].text.lower() in {a.lower() for a in aliases}:
            cursor.index += 2
        name = cursor.name("a column name")
        cursor.expect("=")
        out.append((name, cursor.text_to((",", *stops), "an expression")))
        if not cursor.accept(","):
            break
    names = [name.lower() for name, _ in out]
    if len(set(names)) < len(names):
        raise cursor.error("a column is set twice", hint="give each column one value")
    return tuple(out)


def _update(cursor: Cursor) -> Update:
    cursor.expect("UPDATE")
    table = cursor.name("a table name")
    alias = _alias(cursor, ("SET",), table)
    cursor.expect("SET")
    assignments = _assignments(cursor, ("WHERE", "FROM"), (alias, table))
    if cursor.word() == "FROM":
        raise cursor.error(
            "UPDATE ... FROM is not Spark SQL", hint="use MERGE INTO ... USING ... WHEN MATCHED THEN UPDATE"
        )
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Update(table, alias, assignments, where)


def _delete(cursor: Cursor) -> Delete:
    cursor.expect("DELETE", "FROM")
    table = cursor.name("a table name")
    alias = _alias(cursor, ("WHERE", "USING"), table)
    if cursor.word() == "USING":
        raise cursor.error(
            "DELETE ... USING is not Spark SQL", hint="use DELETE ... WHERE ... IN (SELECT ...), or MERGE"
        )
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Delete(table, alias, where)


def _truncate(cursor: Cursor) -> Truncate:
    cursor.expect("TRUNCATE")
    cursor.accept("TABLE")
    table = cursor.name("a table name")
    cursor.finish()
    return Truncate(table)


def _merge(cursor: Cursor) -> Merge:
    cursor.expect("MERGE", "INTO")
    table = cursor.name("a table name")
    alias = _alias(cursor, ("USING",), table)
    cursor.expect("USING")
    if cursor.word() == "(":
        start = cursor.index
        cursor.index += 1
        cursor.skip_to(())
        cursor.expect(")")
        source, default = cursor.text_of(start, cursor.index), "source"
    else:
        source = default = cursor.name("a table or a query in brackets")
        source = f"`{source}`"
    source_alias = _alias(cursor, ("ON",), default)
    cursor.expect("ON")
    on = cursor.text_to(("WHEN",), "a condition")
    clauses: list[MergeClause] = []
    while cursor.accept("WHEN"):
        clauses.append(_merge_clause(cursor, (alias, table)))
    cursor.finish()
    if not clauses:
        raise cursor.error("MERGE needs at least one WHEN clause")
    return Merge(table, alias, source, source_alias, on, tuple(clauses))


def _merge_clause(cursor: Cursor, aliases: tuple[str, ...]) -> MergeClause:
    matched = "not matched" if cursor.accept("NOT") else "matched"
    cursor.expect("MATCHED")
    if cursor.accept("BY", "SOURCE"):
        matched = "not matched by source"
    else:
        cursor.accept("BY", "TARGET")
    condition = cursor.text_to(("THEN",), "a condition") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if cursor.accept("DELETE"):
        clause = MergeClause(matched, condition, "delete")
    elif cursor.accept("UPDATE"):
        cursor.expect("SET")
        if cursor.accept("*"):
            clause = MergeClause(matched, condition, "update all")
        else:
            clause = MergeClause(matched, condition, "update", _assignments(cursor, ("WHEN",), aliases))
    else:
        cursor.expect("INSERT")
        if cursor.accept("*"):
            clause = MergeClause(matched, condition, "insert all")
        else:
            names = _names(cursor)
            cursor.expect("VALUES", "(")
            values = [cursor.text_to((",",), "an expression")]
            while cursor.accept(","):
                values.append(cursor.text_to((",",), "an expression"))
            cursor.expect(")")
            if len(names) != len(values):
                raise cursor.error(f"INSERT names {len(names)} columns and gives {len(values)} values", back=1)
            clause = MergeClause(matched, condition, "insert", tuple(zip(names, values, strict=True)))
    if (matched == "not matched") != clause.action.startswith("insert"):
        raise cursor.error(f"WHEN {matched.upper()} cannot {clause.action.split()[0].upper()}", back=1)
    return clause


_READERS: dict[str, Callable[[Cursor], Parsed]] = {
    "CREATE": _create,
    "DROP": _drop,
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "TRUNCATE": _truncate,
    "BEGIN": _control,
    "START": _control,
    "COMMIT": _control,
    "ROLLBACK": _control,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "SELECT": _select,
    "WITH": _select,
    "VALUES": _select,
    "FROM": _select,
    "(": _select,
    "TABLE": _select,
}
