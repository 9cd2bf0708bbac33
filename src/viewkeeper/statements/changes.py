"""INSERT, UPDATE, DELETE and TRUNCATE: each becomes one query, whose rows are the change.

The query reads the target as net rows with `_weight`, so that duplicates are counted.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from viewkeeper.algebra.cast import cast_table, conform
from viewkeeper.algebra.expressions import Name, Negative, null_of
from viewkeeper.algebra.rows import canonical, signed
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import parse_type, quote
from viewkeeper.analysis.ranges import ranges_of
from viewkeeper.catalog.relations import Relation
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import Frame
from viewkeeper.errors import SqlError, TypeMismatch, ViewkeeperError, place_of
from viewkeeper.query.frames import TARGET, at_place, columns_of, select_frame
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.row_trees import row_tree
from viewkeeper.sql.syntax import column, named, table
from viewkeeper.store.scans import net_frame
from viewkeeper.store.scratch import materialize
from viewkeeper.transaction.ingest import signed_expression, store_frame
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.row_changes import apply_rows, change_by_frame

# insert -----------------------------------------------------------------------------------------


def insert(tx: OpenTransaction, statement: sql.Insert) -> int:
    """INSERT INTO; returns the number of rows inserted."""
    relation = tx.table(statement.table, statement.table.place)
    query = QueryText.of(statement.query)
    frame = select_frame(tx, query)
    given = columns_of(tx, frame, query)
    names: list[str] = []
    for name in statement.columns or relation.schema.names:
        own = relation.schema.column(name, relation.name).name
        if own in names:
            raise SqlError("a column is named twice", place=place_of(name), hint="leave one of them out")
        names.append(own)
    if len(given) != len(names):
        raise TypeMismatch(
            f"INSERT gives {len(given)} values per row, {relation.name} takes {len(names)}",
            place=statement.table.place,
            hint=f"the columns are {', '.join(names)}",
        )
    if names != relation.schema.names:
        frame = frame.toDF(*[f"_vk_c{i}" for i in range(len(names))])
        frame = frame.select(
            *listed(
                *[
                    f"_vk_c{names.index(c.name)}" if c.name in names else (null_of(c.type), f"_vk_n{i}")
                    for i, c in enumerate(relation.schema)
                ]
            )
        )
    return insert_frame(tx, relation, frame, query)


def insert_frame(tx: OpenTransaction, relation: Relation, frame: Frame, query: QueryText) -> int:
    """Inserts the rows of a query; returns how many."""
    engine = tx.store.engine
    frame = frame.toDF(*[f"_vk_c{i}" for i in range(len(relation.schema))])
    try:
        small = engine.collect_small(frame)
        if small is not None:
            rows = canonical(cast_table(small, relation.schema, relation.name, tx.zone), relation.schema)
            apply_rows(tx, relation, signed(rows, 1))
            return int(rows.num_rows)
        stored = store_frame(engine, frame, relation, tx.zone)
        return change_by_frame(tx, relation, signed_expression(stored, 1), 1 << 40)
    except ViewkeeperError as problem:
        raise at_place(problem, query) from problem


# update and delete ------------------------------------------------------------------------------


def _target(tx: OpenTransaction, relation: Relation, statement: sql.Update | sql.Delete) -> Frame:
    """The target's net rows with their weights, from the files that may have rows for its WHERE."""
    where = statement.where
    ranges = ranges_of(row_tree(where, relation.schema, statement.alias)) if where is not None else None
    scan = tx.scan(relation, ranges=ranges, with_deletions=ranges is not None)
    return net_frame(tx.store.engine, tx.store.storage, scan)


def _of_target(columns: list[exp.Expr], statement: sql.Update | sql.Delete) -> QueryText:
    """SELECT columns FROM the target WHERE the statement's condition holds."""
    source = exp.From(this=table(TARGET, statement.alias, statement.table))
    where = exp.Where(this=statement.where.copy()) if statement.where is not None else None
    return QueryText.of_pieces(exp.Select(expressions=columns, from_=source, where=where), statement.table.text)


def truncate(tx: OpenTransaction, statement: sql.Truncate) -> int:
    """TRUNCATE TABLE; returns the number of rows deleted."""
    return delete(tx, sql.Delete(statement.table, statement.table, None))


def delete(tx: OpenTransaction, statement: sql.Delete) -> int:
    """DELETE FROM; returns the number of rows deleted."""
    relation = tx.table(statement.table, statement.table.place)
    target = _target(tx, relation, statement)
    columns: list[exp.Expr] = [column(statement.alias, name) for name in relation.schema.names]
    weight = named(exp.Neg(this=column(statement.alias, WEIGHT)), WEIGHT)
    query = _of_target([*columns, weight], statement)
    frame = select_frame(tx, query, {TARGET: target})
    try:
        return change_by_frame(tx, relation, frame, None)
    except ViewkeeperError as problem:
        raise at_place(problem, query) from problem


def update(tx: OpenTransaction, statement: sql.Update) -> int:
    """UPDATE; returns the number of rows updated."""
    relation = tx.table(statement.table, statement.table.place)
    schema, alias = relation.schema, statement.alias
    position = {schema.column(name, relation.name).name: i for i, (name, _) in enumerate(statement.assignments)}
    target = _target(tx, relation, statement)
    old = [named(column(alias, name), f"_vk_o{i}") for i, name in enumerate(schema.names)]
    new = [named(exp.Paren(this=value.copy()), f"_vk_n{i}") for i, (_, value) in enumerate(statement.assignments)]
    query = _of_target([*old, *new, named(column(alias, WEIGHT), "_vk_w")], statement)
    frame = select_frame(tx, query, {TARGET: target})
    names = [f"_vk_n{position[n]}" if n in position else f"_vk_o{i}" for i, n in enumerate(schema.names)]
    return _replace(tx, relation, frame, names, query)


def _replace(tx: OpenTransaction, relation: Relation, frame: Frame, names: list[str], query: QueryText) -> int:
    """Applies an update, given as a frame with the old columns, the new ones (`names`) and the weight."""
    engine, schema = tx.store.engine, relation.schema
    old = [f"_vk_o{i}" for i in range(len(schema))]
    try:
        small = engine.collect_small(frame)
        if small is not None:
            before = conform(small.select(old), schema)
            after = canonical(
                cast_table(small.select(names).rename_columns(schema.names), schema, relation.name, tx.zone), schema
            )
            weights = small["_vk_w"].cast(pa.int64())
            minus = before.append_column(
                pa.field(WEIGHT, pa.int64()), pa.array([-w for w in weights.to_pylist()], pa.int64())
            )
            plus = after.append_column(pa.field(WEIGHT, pa.int64()), weights)
            apply_rows(tx, relation, pa.concat_tables([minus, plus]))
            return int(small.num_rows)
        kinds = dict(engine.columns(frame))
        for name, own in zip(names, schema, strict=True):
            if kinds[name] == "void":
                frame = frame.withColumn(name, frame[name].cast(own.type.ddl))
                kinds[name] = own.type.ddl
        wide = Schema(tuple(Column(name, parse_type(kinds[name])) for name in kinds))
        stable, count = materialize(tx.store, frame, wide, "")
        minus = stable.select(*listed(*zip(old, schema.names, strict=True), (Negative(Name("_vk_w")), WEIGHT)))
        weighted = store_frame(engine, stable.select(*listed(*names, "_vk_w")), _with_weight(relation), tx.zone)
        plus = weighted.select(*listed(*[quote(n) for n in schema.names], ("_vk_w", WEIGHT)))
        change_by_frame(tx, relation, consolidated(engine.union([minus, plus]), schema), 1 << 40)
        return count
    except ViewkeeperError as problem:
        raise at_place(problem, query) from problem


def _with_weight(relation: Relation) -> Relation:
    columns = (*relation.schema.columns, Column("_vk_w", parse_type("bigint")))
    return Relation(relation.id, relation.name, Schema(columns), relation.created)
