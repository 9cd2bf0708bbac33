"""Statements that define tables, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.algebra.schema import Column, ForeignKey, Key, Schema, make_schema
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import Name, ViewkeeperError
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.tokens import Cursor


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE [IF NOT EXISTS] name (columns) | AS query."""

    name: Name
    schema: Schema | None
    query: SourceText | None
    if_not_exists: bool


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE [IF EXISTS] name [CASCADE]."""

    name: Name
    if_exists: bool
    cascade: bool = False


def read_create_table(cursor: Cursor) -> CreateTable:
    """Reads CREATE TABLE, after CREATE."""
    cursor.expect("TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("a table name")
    if cursor.accept("AS"):
        return CreateTable(name, None, cursor.rest("a query"), if_not_exists)
    cursor.expect("(")
    columns: list[Column] = []
    keys: list[Key] = []
    references: list[ForeignKey] = []
    while True:
        _column_or_key(cursor, columns, keys, references)
        if cursor.accept(")"):
            break
        cursor.expect(",")
    if cursor.word() == "USING":
        raise cursor.error(
            "tables that live outside the database (USING ... LOCATION) are not supported in this version",
            hint="load the files instead: viewkeeper load TABLE FILE",
        )
    cursor.finish()
    return CreateTable(name, make_schema(columns, keys, references), None, if_not_exists)


def _column_or_key(cursor: Cursor, columns: list[Column], keys: list[Key], references: list[ForeignKey]) -> None:
    if cursor.accept("CONSTRAINT"):
        cursor.name("a constraint name")
    if cursor.word() == "CHECK":
        raise cursor.error("CHECK constraints are not supported in this version", hint="leave it out")
    if cursor.accept("FOREIGN", "KEY"):
        references.append(_reference(cursor, cursor.names()))
        return
    if cursor.word() == "PRIMARY" and cursor.word(1) == "KEY" and cursor.word(2) == "(":
        cursor.index += 2
        keys.append(Key(cursor.names(), primary=True))
        return
    if cursor.word() == "UNIQUE" and cursor.word(1) == "(":
        cursor.index += 1
        keys.append(Key(cursor.names(), primary=False))
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
        elif cursor.word() == "REFERENCES":
            references.append(_reference(cursor, (name,)))
        elif cursor.accept("COMMENT"):
            cursor.index += 1
        else:
            word = cursor.word() or "this"
            raise cursor.error(
                f"{word} is not supported for a column",
                hint="a column may be NOT NULL, PRIMARY KEY, UNIQUE or REFERENCES table (column)",
            )
    columns.append(Column(name, kind, nullable))


def _reference(cursor: Cursor, columns: tuple[Name, ...]) -> ForeignKey:
    cursor.expect("REFERENCES")
    table = cursor.name("a table name")
    referenced = cursor.names() if cursor.word() == "(" else ()
    if cursor.word() in ("ON", "MATCH", "DEFERRABLE", "INITIALLY"):
        raise cursor.error(
            f"{cursor.word()} is not supported for a foreign key",
            hint="leave it out: it is checked when a transaction commits, and what breaks it is refused",
        )
    return ForeignKey(columns, table, referenced)


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


def read_drop_table(cursor: Cursor) -> DropTable:
    """Reads DROP TABLE, after DROP."""
    cursor.expect("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("a table name")
    cascade = cursor.accept("CASCADE") or (cursor.accept("RESTRICT") and False)
    cursor.finish()
    return DropTable(name, if_exists, cascade)
