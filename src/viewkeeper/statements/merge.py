"""MERGE: becomes one query with a row per touched row: its old values, its new values, its weight and the action.

It is a union of branches (matched, not matched, not matched by source), so that the engine is asked once. Per row the
first WHEN clause that applies counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from viewkeeper.algebra.cast import cast_table, conform
from viewkeeper.algebra.expressions import Case, Expression, Negative, comparison, integer, same
from viewkeeper.algebra.expressions import Name as ColumnName
from viewkeeper.algebra.rows import canonical, consolidate, row_tuples, signed, take
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import parse_type, same_family
from viewkeeper.catalog.relations import Relation
from viewkeeper.engine.bags import consolidated, grouped
from viewkeeper.engine.canonical_frames import canonical_frame
from viewkeeper.engine.connect_columns import Item, listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.errors import ConstraintViolation, Name, NotFound, SqlError, TypeMismatch, ViewkeeperError
from viewkeeper.query.frames import TARGET, at_place, columns_of, select_frame
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.conditions import anded
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.syntax import case, cast, column, named, table
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scans import net_frame
from viewkeeper.store.scratch import materialize
from viewkeeper.transaction.ingest import cast_frame
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.row_changes import apply_rows, change_by_frame

SOURCE = "_vk_source"
DELETE, UPDATE, INSERT = 1, 2, 3


def merge(tx: OpenTransaction, statement: sql.Merge) -> int:
    """MERGE; returns the number of rows inserted, updated and deleted."""
    relation = tx.table(statement.table, statement.table.place)
    source, schema, keys = _source(tx, relation, statement)
    kinds = {clause.matched for clause in statement.clauses}
    by_source = "not matched by source" in kinds
    scan = tx.scan(relation, None if by_source else keys, with_deletions=True)
    given = {TARGET: net_frame(tx.store.engine, tx.store.storage, scan), SOURCE: source}
    matched = [clause for clause in statement.clauses if clause.matched == "matched"]
    repeats = len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
    ordered = [kind for kind in ("matched", "not matched", "not matched by source") if kind in kinds]
    branches = [_query(relation, statement, kind, schema) for kind in ordered]
    try:
        events = tx.store.engine.union([_branch(tx, relation, branch, given) for branch in branches])
        small = tx.store.engine.collect_small(events)
        if small is not None:
            return _apply_small(tx, relation, small, repeats)
        return _apply_large(tx, relation, events, repeats)
    except ViewkeeperError as problem:
        problem.message = re.sub(
            r"_vk_v\d+_(\d+)", lambda found: relation.schema.names[int(found.group(1))], problem.message
        )
        raise at_place(problem, branches[0].query) from problem


def _source(tx: OpenTransaction, relation: Relation, statement: sql.Merge) -> tuple[Frame, Schema, Keys | None]:
    """The source, computed once, and the keys of the target that occur in it."""
    engine = tx.store.engine
    query = QueryText.of_pieces(_all_of(statement.source, statement.source_alias), statement.table.text)
    raw = select_frame(tx, query)
    schema = Schema(tuple(Column(name, parse_type(kind)) for name, kind in columns_of(tx, raw, query)))
    rows = engine.collect_small(raw)
    if rows is None:
        return materialize(tx.store, raw, schema, "")[0], schema, None
    there = conform(rows, schema)
    return engine.arrow(there, schema), schema, _keys(tx, relation, statement, schema, there)


def _all_of(source: Name | exp.Expr, alias: str) -> exp.Select:
    """SELECT * FROM source AS alias."""
    if isinstance(source, Name):
        this: exp.Expr = table(source, alias, source)
    else:
        this = source.copy()
        this.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=this))


def _keys(tx: OpenTransaction, relation: Relation, statement: sql.Merge, schema: Schema, rows: pa.Table) -> Keys | None:
    """The keys of the target that occur in the source, if the condition equates columns of the two."""
    pairs: dict[str, str] = {}
    for node in anded(statement.on):
        if isinstance(node, exp.EQ):
            sides = [side for side in (node.left, node.right) if isinstance(side, exp.Column)]
            sides = [side for side in sides if not side.args.get("db")]  # not a field of a struct
            own = [side for side in sides if side.table.lower() == statement.alias.lower()]
            other = [side for side in sides if side.table.lower() == statement.source_alias.lower()]
            if len(own) == 1 and len(other) == 1:
                target, given = relation.schema.find(own[0].name), schema.find(other[0].name)
                if target and given and same_family(target.type, given.type):
                    pairs[target.name] = given.name
    if not pairs:
        return None
    wanted = relation.schema.subset(pairs)
    try:
        values = cast_table(rows.select(list(pairs.values())), wanted, relation.name, "UTC")
    except TypeMismatch:
        return None  # a source value that no target value can equal; the join finds no match for it
    return Keys(consolidate(signed(canonical(values, wanted), 1)).drop_columns([WEIGHT]), wanted, tx.store.tuning)


@dataclass(frozen=True)
class _Branch:
    """The query for one kind of rows, its clauses, and the columns that each clause assigns."""

    query: QueryText
    clauses: list[sql.MergeClause]
    assigned: list[set[str]]


def _query(relation: Relation, statement: sql.Merge, kind: str, source: Schema) -> _Branch:
    """The query for one kind of rows: columns _vk_o* (old), _vk_v* (new by clause), _vk_w (weight), _vk_c (clause)."""
    clauses = [clause for clause in statement.clauses if clause.matched == kind]
    tests = [clause.condition or exp.true() for clause in clauses]
    visible = None if kind == "not matched by source" else source
    values = [_values(relation, clause, visible, statement.source_alias) for clause in clauses]
    inserting = kind == "not matched"
    columns: list[exp.Expr] = []
    for i, own in enumerate(relation.schema):
        old = cast(exp.Null(), own.type) if inserting else column(statement.alias, own.name)
        columns.append(named(old, f"_vk_o{i}"))
    for number, assigned in enumerate(values):
        before = [(test.copy(), exp.Null()) for test in tests[:number]]
        for i, own in enumerate(relation.schema):
            if own.name in assigned:
                value = case([*before, (tests[number].copy(), assigned[own.name].copy())])
                columns.append(named(value.copy(), f"_vk_v{number}_{i}"))
    one = cast(exp.Literal.number(1), parse_type("bigint"))
    which = [(test.copy(), exp.Literal.number(number)) for number, test in enumerate(tests)]
    columns.append(named(one if inserting else column(statement.alias, WEIGHT), "_vk_w"))
    columns.append(named(case(which, exp.Neg(this=exp.Literal.number(1))), "_vk_c"))
    at = statement.source if isinstance(statement.source, Name) else statement.source_alias
    left = table(TARGET, statement.alias, statement.table)
    right = table(SOURCE, statement.source_alias, at)
    if inserting:
        left, right = right, left
    how = {} if kind == "matched" else {"side": "LEFT", "kind": "ANTI"}
    join = exp.Join(this=right, on=statement.on.copy(), **how)
    tree = exp.Select(expressions=columns, from_=exp.From(this=left), joins=[join])
    return _Branch(QueryText.of_pieces(tree, statement.table.text), clauses, [set(assigned) for assigned in values])


def _branch(tx: OpenTransaction, relation: Relation, branch: _Branch, given: dict[str, Frame]) -> Frame:
    """The rows of one kind: columns _vk_o* (old), _vk_n* (new), _vk_w (weight), _vk_a (action)."""
    frame = select_frame(tx, branch.query, given).filter(parsed(comparison(">=", ColumnName("_vk_c"), integer(0))))
    wide = []
    for name, _ in columns_of(tx, frame, branch.query):
        position = name.rsplit("_", 1)[-1] if name.startswith("_vk_v") else name.removeprefix("_vk_o")
        kind = relation.schema.columns[int(position)].type if position.isdigit() else parse_type("bigint")
        wide.append(Column(name, kind))
    frame = cast_frame(tx.store.engine, frame, Schema(tuple(wide)), relation.name, tx.zone)
    news: list[Item] = []
    clause_of = [same(ColumnName("_vk_c"), integer(number)) for number in range(len(branch.clauses))]
    for i, own in enumerate(relation.schema):
        cases: list[tuple[Expression, Expression]] = [
            (clause_of[number], ColumnName(f"_vk_v{number}_{i}"))
            for number, assigned in enumerate(branch.assigned)
            if own.name in assigned
        ]
        old: Expression = ColumnName(f"_vk_o{i}")
        news.append((Case(tuple(cases), old) if cases else old, f"_vk_n{i}"))
    actions = tuple((clause_of[i], integer(_action(clause))) for i, clause in enumerate(branch.clauses))
    olds = [f"_vk_o{i}" for i in range(len(relation.schema))]
    return frame.select(*listed(*olds, *news, "_vk_w", (Case(actions), "_vk_a")))


def _action(clause: sql.MergeClause) -> int:
    return {"delete": DELETE, "update": UPDATE, "insert": INSERT}[clause.action.split()[0]]


def _values(
    relation: Relation, clause: sql.MergeClause, source: Schema | None, source_alias: str
) -> dict[str, exp.Expr]:
    """The expression that a clause assigns to each column."""
    if not clause.action.endswith("all"):
        return {relation.schema.column(name, relation.name).name: value for name, value in clause.assignments}
    if source is None:
        raise SqlError("UPDATE SET * has no source row here", hint="name the columns")
    missing = [name for name in relation.schema.names if source.find(name) is None]
    if missing:
        raise NotFound(f"the source has no column '{missing[0]}' for *", hint="name the columns instead of *")
    return {name: column(source_alias, source.column(name).name) for name in relation.schema.names}


def _several(relation: Relation, row: tuple[object, ...]) -> ConstraintViolation:
    return ConstraintViolation(
        f"MERGE matches the row ({', '.join(map(repr, row))}) of {relation.name} with several source rows",
        hint="make the source unique, for instance with GROUP BY or SELECT DISTINCT",
    )


def _apply_small(tx: OpenTransaction, relation: Relation, events: pa.Table, repeats: bool) -> int:
    schema = relation.schema
    old = conform(events.select([f"_vk_o{i}" for i in range(len(schema))]), schema)
    new = canonical(conform(events.select([f"_vk_n{i}" for i in range(len(schema))]), schema), schema)
    actions, weights = events["_vk_a"].to_pylist(), events["_vk_w"].to_pylist()
    seen: set[tuple[object, ...]] = set()
    deleted: list[int] = []
    inserted: list[int] = []
    for index, (row, action) in enumerate(zip(row_tuples(old), actions, strict=True)):
        if action != INSERT:
            if row in seen:
                if repeats:
                    continue
                raise _several(relation, row)
            seen.add(row)
            deleted.append(index)
        if action != DELETE:
            inserted.append(index)
    minus = _weighted(take(old, deleted), [-weights[i] for i in deleted])
    plus = _weighted(take(new, inserted), [weights[i] for i in inserted])
    apply_rows(tx, relation, pa.concat_tables([minus, plus]))
    return len({*deleted, *inserted})


def _weighted(rows: pa.Table, weights: list[int]) -> pa.Table:
    return rows.append_column(pa.field(WEIGHT, pa.int64()), pa.array(weights, pa.int64()))


def _apply_large(tx: OpenTransaction, relation: Relation, events: Frame, repeats: bool) -> int:
    engine, schema = tx.store.engine, relation.schema
    columns = [Column(name, parse_type(kind)) for name, kind in engine.columns(events)]
    stable, count = materialize(tx.store, events, Schema(tuple(columns)), "")
    olds = [f"_vk_o{i}" for i in range(len(schema))]
    deleted = stable.filter(parsed(comparison("<>", ColumnName("_vk_a"), integer(INSERT)))).select(*olds, "_vk_w")
    before = Schema(tuple(Column(old, column.type) for old, column in zip(olds, schema, strict=True)))
    if repeats:
        deleted = grouped(deleted, before, (), {"_vk_w": "max"}).toDF(*olds, "_vk_w")  # DISTINCT does not take maps
    else:
        twice = grouped(deleted, before, (), {"_vk_w": "count"}).filter(
            parsed(comparison(">", ColumnName("_vk_total"), integer(1)))
        )
        found = engine.collect(twice.select(*olds).limit(1))
        if found.num_rows:
            raise _several(relation, row_tuples(found)[0])
    minus = deleted.select(*listed(*zip(olds, schema.names, strict=True), (Negative(ColumnName("_vk_w")), WEIGHT)))
    inserted = stable.filter(parsed(comparison("<>", ColumnName("_vk_a"), integer(DELETE))))
    plus = canonical_frame(
        engine,
        inserted.select(*listed(*[(f"_vk_n{i}", n) for i, n in enumerate(schema.names)], ("_vk_w", WEIGHT))),
        schema,
        WEIGHT,
    )
    changed = change_by_frame(tx, relation, consolidated(engine.union([minus, plus]), schema), 1 << 40)
    return changed if repeats else count
