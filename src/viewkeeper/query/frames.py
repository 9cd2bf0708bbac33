"""Queries as frames: through the algebra, or from the user's text with each table replaced by a frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from viewkeeper.algebra.schema import is_reserved
from viewkeeper.algebra.types import quote
from viewkeeper.catalog.relations import Derived, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import NotFound, Place, SqlError, TypeMismatch, ViewkeeperError
from viewkeeper.query.select import TablesAt, TablesIn, selected_frame
from viewkeeper.query.virtual_views import stale, virtual_frame, virtual_frame_in
from viewkeeper.sql.dialect import OLD_STATE, render
from viewkeeper.sql.fallible_queries import may_raise
from viewkeeper.sql.parameters import without_value
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.select_statements import has_subquery, says_the_same
from viewkeeper.sql.table_references import Reference, find_references
from viewkeeper.sql.tokens import escape_quotes
from viewkeeper.store.scans import Scan, Source, pick, plain_frame
from viewkeeper.store.store import Store
from viewkeeper.transaction.open_transaction import OpenTransaction, Read

TARGET = "_vk_target"
"""The name of the target table in the query of an UPDATE, DELETE or MERGE, where it has its weights."""

Resolve = Callable[[str, Place], Scan | Frame]
"""Resolves a name in a query: a scan of a stored relation, or the rows of a virtual view."""


def query_frame(store: Store, query: QueryText, resolve: Resolve, given: Mapping[str, Frame] | None = None) -> Frame:
    """The frame of a query. `resolve` finds tables and views; `given` are other frames by name."""
    frames: dict[str, Frame] = {}
    scans: dict[str, Scan] = {}
    tree = query.tree.copy() if query.made else query.tree
    references = find_references(tree)
    for number, reference in enumerate(references):
        name = f"_vk_{number}"
        if given is not None and reference.name.lower() in given:
            frames[name] = given[reference.name.lower()]
            continue
        found = resolve(reference.name, query.place(reference.start, reference.end))
        if isinstance(found, Scan):
            scans[name] = found
        else:
            frames[name] = found
    guarded = any(scan.has_deletions for scan in scans.values()) and may_raise(
        tree, (scan.source.schema for scan in scans.values())
    )
    for name, scan in scans.items():
        frames[name] = plain_frame(store.engine, store.storage, scan, guarded=guarded)
    text = _rendered(tree, references) if query.made else _spliced(query.text, references)
    try:
        return store.engine.sql(escape_quotes(text), **frames)
    except ViewkeeperError as problem:
        raise at_place(problem, query) from problem


def _spliced(text: str, references: list[Reference]) -> str:
    """The text of a query, each table replaced by the name of its frame."""
    if not references:
        return text
    parts: list[str] = []
    position = 0
    for number, reference in enumerate(references):
        parts.append(_braces(text[position : reference.start]))
        implied = reference.table.meta.get("implied", reference.name)
        alias = "" if reference.table.alias and "implied" not in reference.table.meta else f" AS {quote(implied)}"
        parts.append(f"{{_vk_{number}}}{alias}")
        position = reference.end
    return "".join([*parts, _braces(text[position:])])


def _rendered(tree: exp.Expr, references: list[Reference]) -> str:
    """The rendered tree of a query without a text of its own, each table replaced by the name of its frame."""
    for number, reference in enumerate(references):
        if not reference.table.alias:
            reference.table.set("alias", exp.TableAlias(this=exp.to_identifier(reference.name, quoted=True)))
        reference.table.set("this", exp.var(f"\0_vk_{number}\0"))
    pieces = render(tree).split("\0")  # no text contains this character: in strings it is escaped
    if len(pieces) == 1:
        return pieces[0]
    return "".join(f"{{{piece}}}" if index % 2 else _braces(piece) for index, piece in enumerate(pieces))


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


_UNKNOWN = (
    re.compile(r"UNRESOLVED_COLUMN\S*\] A column, variable, or function parameter with name (.+?) cannot be resolved"),
    re.compile(r"attribute ObjectName\(\[(.+?)\]\) is missing"),
    re.compile(r"cannot resolve attribute: ObjectName\(\[(.+?)\]\)"),
)


def at_place(problem: ViewkeeperError, query: QueryText | None) -> ViewkeeperError:
    """An engine's error about a query, with its position in the user's text."""
    for pattern in _UNKNOWN:
        found = pattern.search(problem.message)
        if found:
            parts = [one or other for one, other in re.findall(r'`([^`]+)`|Identifier\("(.+?)"\)', found.group(1))]
            column = parts[-1]
            if column.upper() == "ALL":  # Sail reads ALL in GROUP BY ALL and ORDER BY ALL as a column
                return SqlError("the engine cannot run this: GROUP BY ALL or ORDER BY ALL", hint="name the columns")
            near = re.search(r"Did you mean one of the following\? \[(.+?)\]", problem.message)
            names = [part.replace("`", "") for part in near.group(1).split(", ")] if near else []
            known = [part for part in names if not is_reserved(part.rpartition(".")[2])]
            hint = f"did you mean {known[0]}?" if known else "check the spelling; DESCRIBE table lists its columns"
            if query is not None and query.tree.find(exp.From) is None:
                hint = "name a table in FROM that has it"
            place = query.place_of_column(parts) if query is not None else None
            return NotFound(f"there is no column '{column}'", place=place, hint=hint)
    if isinstance(problem, SqlError) or "invalid argument" in problem.message:
        line = re.sub(r"^invalid argument: ", "", problem.message)
        return SqlError(f"the engine cannot run this: {line}", place=problem.place, detail=problem.detail)
    if isinstance(problem, TypeMismatch):
        problem.message = re.sub(r"^\[CAST_INVALID_INPUT\] (?=a value)", "", problem.message)
    return problem


def _refuse_parameters(query: QueryText) -> None:
    """Raises if a query has a parameter that no value is given for."""
    found = query.tree.find(exp.Placeholder)
    if found is not None:
        raise without_value(found, query.place(found.meta["start"], found.meta["end"] + 1))


def select_frame(tx: OpenTransaction, query: QueryText, given: dict[str, Frame] | None = None) -> Frame:
    """The frame of a query inside the transaction.

    The query of a changing statement, over `given` frames, goes through the algebra only if it has subqueries or
    operators that engines evaluate differently.
    """

    _refuse_parameters(query)
    names = {**tx.given, **(given or {})}

    def written() -> Frame:
        return query_frame(tx.store, query, lambda name, place: read_in(tx, name, place), names)

    simple = given is not None and not has_subquery(query.tree)
    if simple and says_the_same(query.tree, coerces=EngineTyper(tx.store.engine).coerces):
        return written()
    return selected_frame(tx.store, query, TablesIn(tx, names), written)


def select_frame_at(store: Store, state: State, epoch: int, query: QueryText) -> Frame:
    """The frame of a query over the tables and views at an epoch."""
    _refuse_parameters(query)
    tables = TablesAt(store, state, epoch)

    def written() -> Frame:
        return query_frame(store, query, lambda name, place: read_at(tables, name, place))

    return selected_frame(store, query, tables, written)


def read_in(tx: OpenTransaction, name: str, place: Place | None) -> Scan | Frame:
    """A relation as a transaction sees it: what to read of a stored one, the rows of a virtual view."""
    if name.endswith(OLD_STATE):
        tables = TablesAt(tx.store, tx.state, tx.old_epoch)
        tx.reads.append(Read(tables.relation(name.removesuffix(OLD_STATE), place).id))
        return read_at(tables, name.removesuffix(OLD_STATE), place)
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


def columns_of(tx: OpenTransaction, frame: Frame, query: QueryText) -> list[tuple[str, str]]:
    """Names and types of a query's frame; an error in the query may only show here."""
    try:
        return tx.store.engine.columns(frame)
    except ViewkeeperError as problem:
        raise at_place(problem, query) from problem
