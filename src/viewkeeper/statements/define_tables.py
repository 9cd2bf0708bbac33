"""CREATE TABLE and DROP TABLE."""

from __future__ import annotations

from viewkeeper.algebra.schema import Column, make_schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.catalog.name_errors import already_exists, refuse_reserved, wrong_kind
from viewkeeper.catalog.relations import Table
from viewkeeper.query.frames import columns_of, select_frame
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.query_text import QueryText
from viewkeeper.statements.changes import insert_frame
from viewkeeper.statements.define_views import drop_table_with_dependents
from viewkeeper.transaction.foreign_keys import check_not_referenced, resolved
from viewkeeper.transaction.open_transaction import OpenTransaction


def create_table(tx: OpenTransaction, statement: sql.CreateTable) -> int | None:
    """CREATE TABLE; returns the number of rows that its query inserts, if it has one."""
    refuse_reserved(statement.name)
    there = tx.find(statement.name)
    if statement.if_not_exists and isinstance(there, Table):
        return None
    if there is not None:
        raise already_exists(there, statement.name, Table)
    name = str(statement.name)
    if statement.schema is not None:
        tx.create(name, resolved(tx, name, statement.schema))
        return None
    assert statement.query is not None
    query = QueryText.of(statement.query)
    frame = select_frame(tx, query)
    columns = [Column(column, parse_type(kind)) for column, kind in columns_of(tx, frame, query)]
    relation = tx.create(name, make_schema(columns, []))
    try:
        return insert_frame(tx, relation, frame, query)
    except BaseException:
        tx.drop(relation)
        raise


def drop_table(tx: OpenTransaction, statement: sql.DropTable) -> None:
    """DROP TABLE."""
    if statement.if_exists and tx.find(statement.name) is None:
        return
    place = statement.name.place
    relation = tx.relation(statement.name, place)
    if not isinstance(relation, Table):
        raise wrong_kind(relation, "DROP", place)
    check_not_referenced(tx, relation, place)
    drop_table_with_dependents(tx, statement)
