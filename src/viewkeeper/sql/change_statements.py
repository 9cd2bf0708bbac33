"""Statements that change tables: INSERT, UPDATE, DELETE, MERGE and TRUNCATE, as frozen values.

Names have their source spans, and expressions are syntax trees whose positions are those in the whole text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from viewkeeper.errors import Name, SqlError
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.tokens import Cursor

Assignments: TypeAlias = tuple[tuple[Name, exp.Expr], ...]
"""Columns with the expressions for their values."""


@dataclass(frozen=True)
class Insert:
    """INSERT INTO table [(columns)] query."""

    table: Name
    columns: tuple[Name, ...] | None
    query: SourceText


@dataclass(frozen=True)
class Update:
    """UPDATE table [alias] SET column = expression, ... [WHERE condition]."""

    table: Name
    alias: Name
    assignments: Assignments
    where: exp.Expr | None


@dataclass(frozen=True)
class Delete:
    """DELETE FROM table [alias] [WHERE condition]."""

    table: Name
    alias: Name
    where: exp.Expr | None


@dataclass(frozen=True)
class MergeClause:
    """WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action."""

    matched: str
    condition: exp.Expr | None
    action: str
    assignments: Assignments = ()


@dataclass(frozen=True)
class Merge:
    """MERGE INTO table [alias] USING source [alias] ON condition WHEN ..."""

    table: Name
    alias: Name
    source: Name | exp.Expr
    source_alias: Name
    on: exp.Expr
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE TABLE name."""

    table: Name


def read_insert(cursor: Cursor) -> Insert:
    """Reads INSERT INTO."""
    cursor.expect("INSERT")
    if cursor.word() == "OVERWRITE":
        raise cursor.error(
            "INSERT OVERWRITE is not supported", hint="BEGIN; TRUNCATE TABLE t; INSERT INTO t ...; COMMIT"
        )
    cursor.expect("INTO")
    cursor.accept("TABLE")
    table = cursor.name("a table name")
    columns: tuple[Name, ...] | None = None
    if cursor.word() == "(" and cursor.word(1) not in ("SELECT", "WITH", "VALUES", "("):
        columns = cursor.names()
    return Insert(table, columns, cursor.rest("VALUES or a query"))


def _alias(cursor: Cursor, stops: tuple[str, ...], default: Name) -> Name:
    if cursor.accept("AS"):
        return cursor.name("an alias")
    if not cursor.at_end and cursor.word() not in stops:
        return cursor.name("an alias")
    return default


def _assignments(cursor: Cursor, stops: tuple[str, ...], aliases: tuple[str, ...]) -> Assignments:
    out: list[tuple[Name, exp.Expr]] = []
    seen: set[str] = set()
    while True:
        if cursor.word(1) == "." and cursor.tokens[cursor.index].text.lower() in {a.lower() for a in aliases}:
            cursor.index += 2
        name = cursor.name("a column name")
        if name.lower() in seen:
            raise SqlError("a column is set twice", place=name.place, hint="give each column one value")
        seen.add(name.lower())
        cursor.expect("=")
        out.append((name, cursor.expression((",", *stops), "an expression")))
        if not cursor.accept(","):
            return tuple(out)


def read_update(cursor: Cursor) -> Update:
    """Reads UPDATE."""
    cursor.expect("UPDATE")
    table = cursor.name("a table name")
    alias = _alias(cursor, ("SET",), table)
    cursor.expect("SET")
    assignments = _assignments(cursor, ("WHERE", "FROM"), (alias, table))
    if cursor.word() == "FROM":
        raise cursor.error(
            "UPDATE ... FROM is not Spark SQL", hint="use MERGE INTO ... USING ... WHEN MATCHED THEN UPDATE"
        )
    where = cursor.last_expression("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Update(table, alias, assignments, where)


def read_delete(cursor: Cursor) -> Delete:
    """Reads DELETE FROM."""
    cursor.expect("DELETE", "FROM")
    table = cursor.name("a table name")
    alias = _alias(cursor, ("WHERE", "USING"), table)
    if cursor.word() == "USING":
        raise cursor.error(
            "DELETE ... USING is not Spark SQL", hint="use DELETE ... WHERE ... IN (SELECT ...), or MERGE"
        )
    where = cursor.last_expression("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Delete(table, alias, where)


def read_truncate(cursor: Cursor) -> Truncate:
    """Reads TRUNCATE."""
    cursor.expect("TRUNCATE")
    cursor.accept("TABLE")
    table = cursor.name("a table name")
    cursor.finish()
    return Truncate(table)


def read_merge(cursor: Cursor) -> Merge:
    """Reads MERGE INTO."""
    cursor.expect("MERGE", "INTO")
    table = cursor.name("a table name")
    alias = _alias(cursor, ("USING",), table)
    cursor.expect("USING")
    source: Name | exp.Expr
    if cursor.word() == "(":
        first = cursor.tokens[cursor.index]
        source = cursor.source()
        name = Name.at("source", cursor.statement.alone, first.start, first.end + 1)
    else:
        source = name = cursor.name("a table or a query in brackets")
    source_alias = _alias(cursor, ("ON",), name)
    cursor.expect("ON")
    on = cursor.expression(("WHEN",), "a condition")
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
    condition = cursor.expression(("THEN",), "a condition") if cursor.accept("AND") else None
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
            names = cursor.names()
            cursor.expect("VALUES", "(")
            values = [cursor.expression((",",), "an expression")]
            while cursor.accept(","):
                values.append(cursor.expression((",",), "an expression"))
            cursor.expect(")")
            if len(names) != len(values):
                raise cursor.error(f"INSERT names {len(names)} columns and gives {len(values)} values", back=1)
            clause = MergeClause(matched, condition, "insert", tuple(zip(names, values, strict=True)))
    if (matched == "not matched") != clause.action.startswith("insert"):
        raise cursor.error(f"WHEN {matched.upper()} cannot {clause.action.split()[0].upper()}", back=1)
    return clause
