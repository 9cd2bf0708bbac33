"""Queries over tables: through the algebra, or the user's text with each table replaced by the frame it stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from viewkeeper.algebra.schema import WEIGHT, Column
from viewkeeper.algebra.types import quote
from viewkeeper.analysis.fallible_queries import may_raise
from viewkeeper.catalog.relations import Derived, Relation, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import NotFound, Place, SqlError, TypeMismatch, ViewkeeperError
from viewkeeper.query.select import TablesAt, TablesIn, selected_frame
from viewkeeper.query.virtual_views import stale, virtual_frame, virtual_frame_in
from viewkeeper.sql.select_statements import has_subquery, says_the_same
from viewkeeper.sql.table_references import find_references, parse_query, place_in, place_of_name
from viewkeeper.sql.tokens import escape_quotes
from viewkeeper.store.scans import Scan, Source, pick, plain_frame
from viewkeeper.store.store import Store
from viewkeeper.transaction.open_transaction import OpenTransaction

TARGET = "_vk_target"
"""The name of a changing statement's table in its query, where it stands with its weights."""

Resolve = Callable[[str, Place], Scan | Frame]
"""What a name in a query stands for: what to read of a stored relation, or the rows of a virtual view."""


def query_frame(
    store: Store, query: str, whole: str, resolve: Resolve, given: Mapping[str, Frame] | None = None
) -> Frame:
    """The frame of a query. `resolve` says what to read of a table or view; `given` names frames that are neither."""
    tree = parse_query(query, whole)
    frames: dict[str, Frame] = {}
    scans: dict[str, Scan] = {}
    parts: list[str] = []
    position = 0
    for number, reference in enumerate(find_references(tree)):
        name = f"_vk_{number}"
        if given is not None and reference.name in given:
            frames[name] = given[reference.name]
        else:
            place = place_of_name(reference.name, whole)
            if place is None or query in whole:
                place = place_in(query, reference.start, reference.end - reference.start, whole)
            found = resolve(reference.name, place)
            if isinstance(found, Scan):
                scans[name] = found
            else:
                frames[name] = found
        parts.append(_braces(query[position : reference.start]))
        alias = "" if reference.has_alias else f" AS {quote(reference.name)}"
        parts.append("{" + name + "}" + alias)
        position = reference.end
    parts.append(_braces(query[position:]))
    guarded = any(scan.has_deletions for scan in scans.values()) and may_raise(
        tree, (scan.source.schema for scan in scans.values())
    )
    for name, scan in scans.items():
        frames[name] = plain_frame(store.engine, store.storage, scan, guarded=guarded)
    text = "".join(parts) if frames else query
    try:
        return store.engine.sql(escape_quotes(text), **frames)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


_UNKNOWN = (
    re.compile(r"UNRESOLVED_COLUMN\S*\] A column, variable, or function parameter with name (.+?) cannot be resolved"),
    re.compile(r"attribute ObjectName\(\[(.+?)\]\) is missing"),
    re.compile(r"cannot resolve attribute: ObjectName\(\[(.+?)\]\)"),
)


def at_place(problem: ViewkeeperError, whole: str) -> ViewkeeperError:
    """An engine's complaint about the user's text, with its place there."""
    for pattern in _UNKNOWN:
        found = pattern.search(problem.message)
        if found:
            name = re.findall(r'`([^`]+)`|Identifier\("(.+?)"\)', found.group(1))[-1]
            column = name[0] or name[1]
            if column.upper() == "ALL":  # Sail takes GROUP BY ALL and ORDER BY ALL for a column
                return SqlError("the engine cannot run this: GROUP BY ALL or ORDER BY ALL", hint="name the columns")
            near = re.search(r"Did you mean one of the following\? \[(.+?)\]", problem.message)
            names = [part.replace("`", "") for part in near.group(1).split(", ")] if near else []
            known = [part for part in names if not part.endswith(WEIGHT)]
            hint = f"did you mean {known[0]}?" if known else "check the spelling; DESCRIBE table lists its columns"
            return NotFound(f"there is no column '{column}'", place=place_of_name(column, whole), hint=hint)
    if isinstance(problem, SqlError) or "invalid argument" in problem.message:
        line = re.sub(r"^invalid argument: ", "", problem.message)
        return SqlError(f"the engine cannot run this: {line}", place=problem.place, detail=problem.detail)
    if isinstance(problem, TypeMismatch):
        problem.message = re.sub(r"^\[CAST_INVALID_INPUT\] (?=a value)", "", problem.message)
    return problem


def select_frame(tx: OpenTransaction, query: str, whole: str, given: dict[str, Frame] | None = None) -> Frame:
    """The frame of a query inside the transaction. One of a changing statement, over the frames it is given, goes
    through the algebra for its subqueries, and for operators that engines take in different ways."""

    def written() -> Frame:
        return query_frame(tx.store, query, whole, lambda name, place: read_in(tx, name, place), given)

    if given is not None:
        tree = parse_query(query, whole)
        if not has_subquery(tree) and says_the_same(tree, coerces=EngineTyper(tx.store.engine).coerces):
            return written()
    return selected_frame(tx.store, query, whole, TablesIn(tx, given or {}), written)


def select_frame_at(store: Store, state: State, epoch: int, query: str, whole: str) -> Frame:
    """The frame of a query over the tables and views at an epoch."""
    tables = TablesAt(store, state, epoch)

    def written() -> Frame:
        return query_frame(store, query, whole, lambda name, place: read_at(tables, name, place))

    return selected_frame(store, query, whole, tables, written)


def read_in(tx: OpenTransaction, name: str, place: Place | None) -> Scan | Frame:
    """A relation as a transaction sees it: what to read of a stored one, the rows of a virtual view."""
    relation = tx.relation(name, place)
    if isinstance(relation, VirtualView) or (isinstance(relation, Derived) and relation.id in stale(tx)):
        return virtual_frame_in(tx, relation)
    return tx.scan(relation)


def read_at(tables: TablesAt, name: str, place: Place | None) -> Scan | Frame:
    """A relation at an epoch, under the definition it had then."""
    relation = tables.relation(name, place)
    if isinstance(relation, VirtualView):
        return virtual_frame(tables.store, tables.state, relation, tables.epoch)
    return pick(Source(relation.schema, relation.files_at(tables.epoch), tables.epoch))


def columns_of(tx: OpenTransaction, frame: Frame, whole: str) -> list[tuple[str, str]]:
    """Names and types of a query's frame; what is wrong with the query may only show here."""
    try:
        return tx.store.engine.columns(frame)
    except ViewkeeperError as problem:
        raise at_place(problem, whole) from problem


def column_of(relation: Relation, name: str, whole: str) -> Column:
    """A column that the user's text names."""
    try:
        return relation.schema.column(name, relation.name)
    except NotFound as problem:
        problem.place = place_of_name(name, whole)
        raise
