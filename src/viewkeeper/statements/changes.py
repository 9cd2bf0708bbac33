"""Changes given as SQL: INSERT, UPDATE, DELETE, MERGE, TRUNCATE become one query each, whose rows are the change.

The target stands in the query as its net rows with `_weight`, so duplicates keep their number.
"""

from __future__ import annotations

import pyarrow as pa

from viewkeeper.algebra.cast import cast_table, conform
from viewkeeper.algebra.rows import canonical, signed
from viewkeeper.algebra.schema import WEIGHT, Column, Schema, make_schema
from viewkeeper.algebra.types import parse_type, quote
from viewkeeper.analysis.ranges import ranges_of
from viewkeeper.catalog.name_errors import already_exists, wrong_kind
from viewkeeper.catalog.relations import Relation, Table
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import Frame
from viewkeeper.errors import SqlError, TypeMismatch, ViewkeeperError
from viewkeeper.query.frames import TARGET, at_place, column_of, columns_of, select_frame
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.table_references import parse_expression, place_of_name
from viewkeeper.statements import define_views as views
from viewkeeper.statements.define_functions import drop_function
from viewkeeper.statements.merge import merge
from viewkeeper.store.scans import net_frame
from viewkeeper.store.scratch import materialize
from viewkeeper.transaction import suspension
from viewkeeper.transaction.foreign_keys import check_not_referenced, resolved
from viewkeeper.transaction.ingest import signed_expression, store_frame
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.row_changes import apply_rows, change_by_frame


def run(tx: OpenTransaction, statement: sql.Parsed, whole: str) -> int | None:
    """Carries out a changing statement; the number of rows it touched."""
    match statement:
        case sql.CreateTable():
            return _create(tx, statement, whole)
        case sql.DropTable():
            _drop(tx, statement, whole)
            return None
        case sql.Insert():
            return _insert(tx, statement, whole)
        case sql.Update():
            return _update(tx, statement, whole)
        case sql.Delete():
            return _delete(tx, statement.table, statement.alias, statement.where, whole)
        case sql.Truncate():
            return _delete(tx, statement.table, statement.table, None, whole)
        case sql.Merge():
            return merge(tx, statement, whole)
        case sql.DropFunction():
            place = place_of_name(statement.name, whole)
            drop_function(tx, statement.name, if_exists=statement.if_exists, place=place)
            return None
        case sql.CreateView() | sql.AlterView() | sql.SuspendView() | sql.DropView() | sql.Refresh():
            _run_view(tx, statement, whole)
            return None
        case _:
            raise SqlError(f"{type(statement).__name__} is not a changing statement")


def _run_view(
    tx: OpenTransaction,
    statement: sql.CreateView | sql.AlterView | sql.SuspendView | sql.DropView | sql.Refresh,
    whole: str,
) -> None:
    match statement:
        case sql.CreateView():
            views.create_view(tx, statement, whole)
        case sql.AlterView():
            views.alter_view(tx, statement, whole)
        case sql.SuspendView():
            suspension.suspend(tx, statement, whole)
        case sql.DropView():
            views.drop_view(tx, statement, whole)
        case sql.Refresh():
            suspension.refresh(tx, statement, whole)


def _table(tx: OpenTransaction, name: str, whole: str) -> Relation:
    return tx.table(name, place_of_name(name, whole))


# definitions ------------------------------------------------------------------------------------


def _create(tx: OpenTransaction, statement: sql.CreateTable, whole: str) -> int | None:
    there = tx.find(statement.name)
    if statement.if_not_exists and isinstance(there, Table):
        return None
    if there is not None:
        raise already_exists(there, statement.name, Table)
    if statement.schema is not None:
        tx.create(statement.name, resolved(tx, statement.name, statement.schema, whole))
        return None
    assert statement.query is not None
    frame = select_frame(tx, statement.query, whole)
    columns = [Column(name, parse_type(kind)) for name, kind in columns_of(tx, frame, whole)]
    relation = tx.create(statement.name, make_schema(columns, []))
    try:
        return _insert_frame(tx, relation, frame, whole)
    except BaseException:
        tx.drop(relation)
        raise


def _drop(tx: OpenTransaction, statement: sql.DropTable, whole: str) -> None:
    if statement.if_exists and tx.find(statement.name) is None:
        return
    place = place_of_name(statement.name, whole)
    relation = tx.relation(statement.name, place)
    if not isinstance(relation, Table):
        raise wrong_kind(relation, "DROP", place)
    check_not_referenced(tx, relation, whole)
    if tx.dependents(relation.id):
        views.drop_table_with_dependents(tx, statement, whole)
    else:
        tx.drop(relation)


# insert -----------------------------------------------------------------------------------------


def _insert(tx: OpenTransaction, statement: sql.Insert, whole: str) -> int:
    relation = _table(tx, statement.table, whole)
    frame = select_frame(tx, statement.query, whole)
    given = columns_of(tx, frame, whole)
    names = [column_of(relation, name, whole).name for name in statement.columns or relation.schema.names]
    if len(set(names)) < len(names):
        raise SqlError("a column is named twice", place=place_of_name(statement.table, whole))
    if len(given) != len(names):
        raise TypeMismatch(
            f"INSERT gives {len(given)} values per row, {relation.name} takes {len(names)}",
            place=place_of_name(statement.table, whole),
            hint=f"the columns are {', '.join(names)}",
        )
    if names != relation.schema.names:
        frame = frame.toDF(*[f"_vk_c{i}" for i in range(len(names))])
        frame = frame.select(
            *listed(
                *[
                    f"_vk_c{names.index(c.name)}" if c.name in names else f"CAST(NULL AS {c.type.ddl}) AS _vk_n{i}"
                    for i, c in enumerate(relation.schema)
                ]
            )
        )
    return _insert_frame(tx, relation, frame, whole)


def _insert_frame(tx: OpenTransaction, relation: Relation, frame: Frame, whole: str) -> int:
    engine = tx.store.engine
    frame = frame.toDF(*[f"_vk_c{i}" for i in range(len(relation.schema))])
    try:
        small = engine.collect_small(frame)
        if small is not None:
            table = canonical(cast_table(small, relation.schema, relation.name, tx.zone), relation.schema)
            apply_rows(tx, relation, signed(table, 1))
            return int(table.num_rows)
        stored = store_frame(engine, frame, relation, tx.zone)
        return change_by_frame(tx, relation, signed_expression(stored, 1), 1 << 40)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


# update and delete ------------------------------------------------------------------------------


def _target(tx: OpenTransaction, relation: Relation, alias: str, where: str | None, whole: str) -> Frame:
    """The target's net rows with their weights, of the files that its WHERE may hold in."""
    condition = parse_expression(where, whole) if where is not None else None
    ranges = ranges_of(condition, relation.schema, alias) if condition is not None else None
    scan = tx.scan(relation, ranges=ranges, with_deletions=ranges is not None)
    return net_frame(tx.store.engine, tx.store.storage, scan)


def _delete(tx: OpenTransaction, table: str, alias: str, where: str | None, whole: str) -> int:
    relation = _table(tx, table, whole)
    target = _target(tx, relation, alias, where, whole)
    columns = ", ".join(f"{quote(alias)}.{quote(name)}" for name in relation.schema.names)
    query = f"SELECT {columns}, -{quote(alias)}.{WEIGHT} AS {WEIGHT} FROM {TARGET} AS {quote(alias)}"
    query += f" WHERE {where}" if where is not None else ""
    frame = select_frame(tx, query, whole, {TARGET: target})
    try:
        return change_by_frame(tx, relation, frame, None)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


def _update(tx: OpenTransaction, statement: sql.Update, whole: str) -> int:
    relation = _table(tx, statement.table, whole)
    assigned = [(column_of(relation, name, whole), text) for name, text in statement.assignments]
    for _, text in assigned:
        parse_expression(text, whole)
    target = _target(tx, relation, statement.alias, statement.where, whole)
    alias = quote(statement.alias)
    old = [f"{alias}.{quote(name)} AS _vk_o{i}" for i, name in enumerate(relation.schema.names)]
    new = [f"({text}) AS _vk_n{i}" for i, (_, text) in enumerate(assigned)]
    query = f"SELECT {', '.join([*old, *new])}, {alias}.{WEIGHT} AS _vk_w FROM {TARGET} AS {alias}"
    query += f" WHERE {statement.where}" if statement.where is not None else ""
    frame = select_frame(tx, query, whole, {TARGET: target})
    position = {column.name: i for i, (column, _) in enumerate(assigned)}
    names = [f"_vk_n{position[n]}" if n in position else f"_vk_o{i}" for i, n in enumerate(relation.schema.names)]
    return _replace(tx, relation, frame, names, whole)


def _replace(tx: OpenTransaction, relation: Relation, frame: Frame, names: list[str], whole: str) -> int:
    """The change of an update: a frame with the old columns, the columns `names` as new ones, and the weight."""
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
        for name, column in zip(names, schema, strict=True):
            if kinds[name] == "void":
                frame = frame.withColumn(name, frame[name].cast(column.type.ddl))
                kinds[name] = column.type.ddl
        wide = Schema(tuple(Column(name, parse_type(kinds[name])) for name in kinds))
        stable, count = materialize(tx.store, frame, wide, "")
        minus = stable.select(
            *listed(*[f"{o} AS {quote(n)}" for o, n in zip(old, schema.names, strict=True)], f"-_vk_w AS {WEIGHT}")
        )
        weighted = store_frame(engine, stable.select(*listed(*names, "_vk_w")), _with_weight(relation), tx.zone)
        plus = weighted.select(*listed(*[quote(n) for n in schema.names], f"_vk_w AS {WEIGHT}"))
        change_by_frame(tx, relation, consolidated(engine.union([minus, plus]), schema), 1 << 40)
        return count
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


def _with_weight(relation: Relation) -> Relation:
    columns = (*relation.schema.columns, Column("_vk_w", parse_type("bigint")))
    return Table(relation.id, relation.name, Schema(columns), relation.created)
