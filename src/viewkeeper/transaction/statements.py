"""Changes given as SQL: INSERT, UPDATE, DELETE, MERGE, TRUNCATE become one query each, whose rows are the change.

The target stands in the query as its net rows with `_weight`, so duplicates keep their number.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from viewkeeper.algebra.cast import cast_table
from viewkeeper.algebra.rows import canonical, consolidate, row_tuples, signed, take
from viewkeeper.algebra.schema import WEIGHT, Column, Schema, make_schema
from viewkeeper.algebra.types import parse_type, quote
from viewkeeper.analysis.ranges import Ranges, ranges_of
from viewkeeper.engine.engine import Frame
from viewkeeper.errors import ConstraintViolation, NotFound, Place, SqlError, TypeMismatch, ViewkeeperError
from viewkeeper.sql import statements as sql
from viewkeeper.sql.references import parse_query, place_of_name
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scan import consolidated, net_frame, plain_frame
from viewkeeper.store.state import Relation
from viewkeeper.transaction.intake import materialise, signed_expression, store_frame
from viewkeeper.transaction.queries import at_place, query_frame
from viewkeeper.transaction.rowwise import apply_rows, change_by_frame
from viewkeeper.transaction.transaction import Transaction, conform

TARGET = "_vk_target"
SOURCE = "_vk_source"


def run(tx: Transaction, statement: sql.Parsed, whole: str) -> int | None:
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
            return _merge(tx, statement, whole)
        case _:
            raise SqlError(f"{type(statement).__name__} is not a changing statement")


def table_frame(tx: Transaction, name: str, place: Place | None) -> Frame:
    """A table as a query inside the transaction sees it."""
    relation = tx.relation(name, place)
    return plain_frame(tx.store.engine, tx.store.storage, tx.scan(relation))


def select_frame(tx: Transaction, query: str, whole: str, given: dict[str, Frame] | None = None) -> Frame:
    """The frame of a query inside the transaction."""
    return query_frame(tx.store.engine, query, whole, lambda name, place: table_frame(tx, name, place), given)


def _relation(tx: Transaction, name: str, whole: str) -> Relation:
    return tx.relation(name, place_of_name(name, whole))


def _column(relation: Relation, name: str, whole: str) -> Column:
    try:
        return relation.schema.column(name, relation.name)
    except NotFound as problem:
        problem.place = place_of_name(name, whole)
        raise


# definitions ------------------------------------------------------------------------------------


def _create(tx: Transaction, statement: sql.CreateTable, whole: str) -> int | None:
    if statement.if_not_exists and tx.find(statement.name) is not None:
        return None
    if statement.schema is not None:
        tx.create(statement.name, statement.schema)
        return None
    assert statement.query is not None
    frame = select_frame(tx, statement.query, whole)
    columns = [Column(name, parse_type(kind)) for name, kind in tx.store.engine.columns(frame)]
    relation = tx.create(statement.name, make_schema(columns, []))
    return _insert_frame(tx, relation, frame, whole)


def _drop(tx: Transaction, statement: sql.DropTable, whole: str) -> None:
    if statement.if_exists and tx.find(statement.name) is None:
        return
    tx.drop(_relation(tx, statement.name, whole))


# insert -----------------------------------------------------------------------------------------


def _insert(tx: Transaction, statement: sql.Insert, whole: str) -> int:
    relation = _relation(tx, statement.table, whole)
    frame = select_frame(tx, statement.query, whole)
    given = tx.store.engine.columns(frame)
    names = [_column(relation, name, whole).name for name in statement.columns or relation.schema.names]
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
        frame = frame.selectExpr(
            *[
                f"_vk_c{names.index(c.name)}" if c.name in names else f"CAST(NULL AS {c.type.ddl}) AS _vk_n{i}"
                for i, c in enumerate(relation.schema)
            ]
        )
    return _insert_frame(tx, relation, frame, whole)


def _insert_frame(tx: Transaction, relation: Relation, frame: Frame, whole: str) -> int:
    engine = tx.store.engine
    frame = frame.toDF(*[f"_vk_c{i}" for i in range(len(relation.schema))])
    try:
        small = engine.collect_small(frame)
        if small is not None:
            table = canonical(cast_table(small, relation.schema, relation.name, tx.zone), relation.schema)
            apply_rows(tx, relation, signed(table, 1))
            return int(table.num_rows)
        stored = store_frame(engine, frame, relation)
        return change_by_frame(tx, relation, signed_expression(stored, 1), 1 << 40)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


# update and delete ------------------------------------------------------------------------------


def _target(tx: Transaction, relation: Relation, ranges: Ranges | None = None, keys: Keys | None = None) -> Frame:
    """The target's net rows with their weights."""
    return net_frame(tx.store.engine, tx.store.storage, tx.scan(relation, keys, ranges))


def _where_ranges(relation: Relation, alias: str, where: str | None, whole: str) -> Ranges | None:
    if where is None:
        return None
    tree = parse_query(f"SELECT 1 FROM {TARGET} WHERE {where}", None)
    condition = tree.find(exp.Where)
    return ranges_of(condition.this, relation.schema, alias) if condition is not None else None


def _delete(tx: Transaction, table: str, alias: str, where: str | None, whole: str) -> int:
    relation = _relation(tx, table, whole)
    target = _target(tx, relation, _where_ranges(relation, alias, where, whole))
    columns = ", ".join(f"{quote(alias)}.{quote(name)}" for name in relation.schema.names)
    query = f"SELECT {columns}, -{quote(alias)}.{WEIGHT} AS {WEIGHT} FROM {TARGET} AS {quote(alias)}"
    query += f" WHERE {where}" if where is not None else ""
    frame = select_frame(tx, query, whole, {TARGET: target})
    try:
        return change_by_frame(tx, relation, frame, None)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


def _update(tx: Transaction, statement: sql.Update, whole: str) -> int:
    relation = _relation(tx, statement.table, whole)
    assigned = [(_column(relation, name, whole), text) for name, text in statement.assignments]
    target = _target(tx, relation, _where_ranges(relation, statement.alias, statement.where, whole))
    alias = quote(statement.alias)
    old = [f"{alias}.{quote(name)} AS _vk_o{i}" for i, name in enumerate(relation.schema.names)]
    new = [f"({text}) AS _vk_n{i}" for i, (_, text) in enumerate(assigned)]
    query = f"SELECT {', '.join([*old, *new])}, {alias}.{WEIGHT} AS _vk_w FROM {TARGET} AS {alias}"
    query += f" WHERE {statement.where}" if statement.where is not None else ""
    frame = select_frame(tx, query, whole, {TARGET: target})
    position = {column.name: i for i, (column, _) in enumerate(assigned)}
    names = [f"_vk_n{position[n]}" if n in position else f"_vk_o{i}" for i, n in enumerate(relation.schema.names)]
    return _replace(tx, relation, frame, names, whole)


def _replace(tx: Transaction, relation: Relation, frame: Frame, names: list[str], whole: str) -> int:
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
        wide = Schema(tuple(Column(name, parse_type(kinds[name])) for name in kinds))
        stable, _ = materialise(tx.store, frame, wide, "")
        minus = stable.selectExpr(
            *[f"{o} AS {quote(n)}" for o, n in zip(old, schema.names, strict=True)], f"-_vk_w AS {WEIGHT}"
        )
        weighted = store_frame(engine, stable.selectExpr(*names, "_vk_w"), _with_weight(relation))
        plus = weighted.selectExpr(*[quote(n) for n in schema.names], f"_vk_w AS {WEIGHT}")
        return change_by_frame(tx, relation, consolidated(engine.union([minus, plus]), schema), 1 << 40)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


def _with_weight(relation: Relation) -> Relation:
    columns = (*relation.schema.columns, Column("_vk_w", parse_type("bigint")))
    return Relation(relation.id, relation.name, Schema(columns), relation.created)


# merge ------------------------------------------------------------------------------------------


def _merge(tx: Transaction, statement: sql.Merge, whole: str) -> int:
    relation = _relation(tx, statement.table, whole)
    alias, source_alias = quote(statement.alias), quote(statement.source_alias)
    raw = select_frame(tx, f"SELECT * FROM {statement.source} AS {source_alias}", whole)
    kinds = tx.store.engine.columns(raw)
    schema = Schema(tuple(Column(name, parse_type(kind)) for name, kind in kinds))
    rows = tx.store.engine.collect_small(raw)
    keys: Keys | None = None
    if rows is not None:
        table = conform(rows, schema)
        source = tx.store.engine.arrow(table, schema)
        keys = _merge_keys(relation, statement, schema, table)
    else:
        source, _ = materialise(tx.store, raw, schema, "")
    by_source = any(clause.matched == "not matched by source" for clause in statement.clauses)
    target = _target(tx, relation, keys=None if by_source else keys)
    given = {TARGET: target, SOURCE: source}
    on = statement.on
    changes: list[pa.Table] = []
    count = 0
    matched = [c for c in statement.clauses if c.matched == "matched"]
    if matched:
        joined = f"{TARGET} AS {alias} JOIN {SOURCE} AS {source_alias} ON {on}"
        part, touched = _merge_changes(tx, relation, matched, joined, alias, schema, source_alias, given, whole)
        changes.append(part)
        count += touched
    inserts = [c for c in statement.clauses if c.matched == "not matched"]
    if inserts:
        part = _merge_inserts(tx, relation, inserts, alias, source_alias, on, schema, given, whole)
        changes.append(part)
        count += part.num_rows
    if by_source:
        lone = [c for c in statement.clauses if c.matched == "not matched by source"]
        left = f"{TARGET} AS {alias} LEFT ANTI JOIN {SOURCE} AS {source_alias} ON {on}"
        part, touched = _merge_changes(tx, relation, lone, left, alias, None, source_alias, given, whole)
        changes.append(part)
        count += touched
    apply_rows(tx, relation, pa.concat_tables(changes))
    return count


def _merge_keys(relation: Relation, statement: sql.Merge, schema: Schema, rows: pa.Table) -> Keys | None:
    """Keys of the target taken from the source, if the condition equates columns of the two."""
    tree = parse_query(f"SELECT 1 FROM x WHERE {statement.on}", None)
    where = tree.find(exp.Where)
    pairs: dict[str, str] = {}
    todo = [where.this] if where is not None else []
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Paren):
            todo.append(node.this)
        elif isinstance(node, exp.And):
            todo += [node.left, node.right]
        elif isinstance(node, exp.EQ):
            sides = [side for side in (node.left, node.right) if isinstance(side, exp.Column)]
            own = [s for s in sides if s.table.lower() == statement.alias.lower()]
            other = [s for s in sides if s.table.lower() == statement.source_alias.lower()]
            if len(own) == 1 and len(other) == 1 and relation.schema.find(own[0].name) and schema.find(other[0].name):
                pairs[relation.schema.column(own[0].name).name] = schema.column(other[0].name).name
    names = [
        n
        for n in pairs
        if relation.schema.column(n).type == schema.column(pairs[n]).type
        or (relation.schema.column(n).type.is_integer and schema.column(pairs[n]).type.is_integer)
    ]
    if not names:
        return None
    wanted = relation.schema.subset(names)
    try:
        table = cast_table(rows.select([pairs[n] for n in names]).rename_columns(names), wanted, relation.name, "UTC")
    except TypeMismatch:
        return None
    distinct = consolidate(signed(canonical(table, wanted), 1)).drop_columns([WEIGHT])
    return Keys(distinct, wanted)


def _merge_changes(
    tx: Transaction,
    relation: Relation,
    clauses: list[sql.MergeClause],
    joined: str,
    alias: str,
    source: Schema | None,
    source_alias: str,
    given: dict[str, Frame],
    whole: str,
) -> tuple[pa.Table, int]:
    """The updates and deletes of MERGE: per target row the first clause that applies."""
    names = relation.schema.names
    tests = [f"({c.condition})" if c.condition else "TRUE" for c in clauses]
    action = "CASE " + " ".join(f"WHEN {t} THEN {i + 1}" for i, t in enumerate(tests)) + " ELSE 0 END"
    assigned = [_merge_values(relation, clause, source, source_alias, whole) for clause in clauses]
    columns = [f"{alias}.{quote(name)} AS _vk_o{i}" for i, name in enumerate(names)]
    for i, name in enumerate(names):
        kind = relation.schema.column(name).type.ddl
        cases = [
            f"WHEN {test} THEN {values.get(name, f'{alias}.{quote(name)}')}"
            for test, values in zip(tests, assigned, strict=True)
        ]
        columns.append(f"CASE {' '.join(cases)} ELSE CAST(NULL AS {kind}) END AS _vk_n{i}")
    query = f"SELECT {', '.join(columns)}, {alias}.{WEIGHT} AS _vk_w, {action} AS _vk_a FROM {joined}"
    frame = select_frame(tx, query, whole, given).filter("_vk_a > 0")
    try:
        table = tx.store.engine.collect(frame)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem
    old = conform(table.select([f"_vk_o{i}" for i in range(len(names))]), relation.schema)
    actions = table["_vk_a"].to_pylist()
    deletes_only = {i + 1 for i, clause in enumerate(clauses) if clause.action == "delete"}
    rows = row_tuples(old)
    first: dict[tuple[object, ...], int] = {}
    chosen: list[int] = []
    for index, (row, number) in enumerate(zip(rows, actions, strict=True)):
        if row not in first:
            first[row] = index
            chosen.append(index)
        elif not (len(clauses) == 1 and clauses[0].condition is None and number in deletes_only):
            raise ConstraintViolation(
                f"MERGE matches the row ({', '.join(map(repr, row))}) of {relation.name} with several source rows",
                hint="make the source unique, for instance with GROUP BY or SELECT DISTINCT",
            )
    weights = table["_vk_w"].to_pylist()
    minus = take(old, chosen).append_column(
        pa.field(WEIGHT, pa.int64()), pa.array([-weights[i] for i in chosen], pa.int64())
    )
    updated = [i for i in chosen if actions[i] not in deletes_only]
    new = take(table.select([f"_vk_n{i}" for i in range(len(names))]), updated).rename_columns(names)
    cast = canonical(cast_table(new, relation.schema, relation.name, tx.zone), relation.schema)
    plus = cast.append_column(pa.field(WEIGHT, pa.int64()), pa.array([weights[i] for i in updated], pa.int64()))
    return pa.concat_tables([minus, plus]), len(chosen)


def _merge_values(
    relation: Relation, clause: sql.MergeClause, source: Schema | None, source_alias: str, whole: str
) -> dict[str, str]:
    """Per column the expression a clause gives it."""
    if clause.action in ("update all", "insert all"):
        if source is None:
            raise SqlError("UPDATE SET * has no source row here", hint="name the columns")
        missing = [name for name in relation.schema.names if source.find(name) is None]
        if missing:
            raise NotFound(f"the source has no column '{missing[0]}' for *", hint="name the columns instead of *")
        return {name: f"{source_alias}.{quote(source.column(name).name)}" for name in relation.schema.names}
    return {_column(relation, name, whole).name: f"({text})" for name, text in clause.assignments}


def _merge_inserts(
    tx: Transaction,
    relation: Relation,
    clauses: list[sql.MergeClause],
    alias: str,
    source_alias: str,
    on: str,
    schema: Schema,
    given: dict[str, Frame],
    whole: str,
) -> pa.Table:
    """The inserts of MERGE: source rows that match nothing, by the first clause that applies."""
    tests = [f"({c.condition})" if c.condition else "TRUE" for c in clauses]
    assigned = [_merge_values(relation, clause, schema, source_alias, whole) for clause in clauses]
    columns = []
    for i, column in enumerate(relation.schema):
        null = f"CAST(NULL AS {column.type.ddl})"
        cases = [
            f"WHEN {test} THEN {values.get(column.name, null)}" for test, values in zip(tests, assigned, strict=True)
        ]
        columns.append(f"CASE {' '.join(cases)} ELSE {null} END AS _vk_n{i}")
    some = " OR ".join(tests)
    query = (
        f"SELECT {', '.join(columns)} FROM {SOURCE} AS {source_alias} "
        f"LEFT ANTI JOIN {TARGET} AS {alias} ON {on} WHERE {some}"
    )
    frame = select_frame(tx, query, whole, given)
    try:
        table = tx.store.engine.collect(frame).rename_columns(relation.schema.names)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem
    cast = canonical(cast_table(table, relation.schema, relation.name, tx.zone), relation.schema)
    return signed(cast, 1)
