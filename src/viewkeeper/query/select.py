"""SELECT through the algebra of views: a query is a view without a name, read once.

A plain query (`sql/select_statements.py`), and one that the algebra refuses, go to the engine as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type, quote
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import Relation, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.lowered import Binding, Keyed, Lowered, Reader
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.operator_parts import sort_column
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import (
    EngineError,
    NotFound,
    NotMaintainable,
    Place,
    SessionLost,
    SqlError,
    TypeMismatch,
)
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.query.virtual_views import seen_query, virtual_query
from viewkeeper.recursion.pushed_constants import with_constants
from viewkeeper.sql.dialect import OLD_STATE
from viewkeeper.sql.query import Query, Stored, Virtual
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.select_statements import PLAIN, Selected, is_plain, says_the_same, select
from viewkeeper.store.store import Store
from viewkeeper.transaction.open_transaction import OpenTransaction


class Tables(Protocol):
    """Resolves the names in a query to relations, and reads their rows."""

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name."""

    def seen(self, query: Query) -> Query:
        """The query over stored relations that are up to date."""

    def reader(self) -> Reader:
        """A reader of the stored relations."""


@dataclass(frozen=True)
class TablesIn:
    """The relations as a transaction sees them, and named frames of a changing statement."""

    tx: OpenTransaction
    given: Mapping[str, Frame]

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name; what is given hides a relation of the same name."""
        if name.lower() in self.given:
            columns = self.tx.store.engine.columns(self.given[name.lower()])
            schema = Schema(tuple(Column(column, parse_type(kind)) for column, kind in columns))
            return Stored(name.lower(), name, schema)
        if name.endswith(OLD_STATE):
            return self._before(name.removesuffix(OLD_STATE), place)
        relation = self.tx.relation(name, place)
        if isinstance(relation, VirtualView):
            return Virtual(relation.name, virtual_query(relation))
        return Stored(relation.id, relation.name, relation.schema)

    def _before(self, name: str, place: Place) -> Stored | Virtual:
        """A relation as it was before the transaction."""
        found = TablesAt(self.tx.store, self.tx.state, self.tx.old_epoch).find(name, place)
        if isinstance(found, Virtual):
            return Virtual(found.name, replace(found.query, node=_marked_old(found.query.node)))
        return replace(found, id=f"{found.id}{OLD_STATE}")

    def seen(self, query: Query) -> Query:
        """The query with out-of-date materialized views replaced by their queries."""
        return seen_query(self.tx, query)

    def reader(self) -> Reader:
        """A reader of what the transaction sees."""
        return _Given(StateReader.of(self.tx, self.tx.old_epoch), self.given)


def _marked_old(node: n.Node) -> n.Node:
    """An expression over the relations as they were before the transaction."""

    def turn(part: n.Node) -> n.Node:
        return replace(part, relation=f"{part.relation}{OLD_STATE}") if isinstance(part, n.Scan) else part

    return n.transform(node, turn)


@dataclass(frozen=True)
class _Given:
    """Reads stored relations, and given frames."""

    stored: StateReader
    given: Mapping[str, Frame]

    @property
    def lane(self) -> str:
        """That of the reader of stored relations."""
        return self.stored.lane

    @property
    def queries(self) -> int:
        """The number of queries it has run so far."""
        return self.stored.queries

    def apart(self) -> _Given:
        """The same reader with a count of its own."""
        return replace(self, stored=self.stored.apart())

    def scan(self, scan: n.Scan, binding: Binding | None) -> Lowered:
        """The rows of a relation, also as it was before the transaction, or of a given frame."""
        if scan.relation.endswith(OLD_STATE):
            return self.stored.scan(replace(scan, relation=scan.relation.removesuffix(OLD_STATE), state=n.OLD), binding)
        if scan.relation not in self.given:
            return self.stored.scan(scan, binding)
        pairs = zip(scan.stored_names, scan.outputs, strict=True)
        items = [(quote(name), attribute.label) for name, attribute in pairs]
        return Lowered(self.given[scan.relation].select(*listed(*items)), scan.outputs)

    def keyed(self, scan: n.Scan) -> Keyed | None:
        """The rows of a stored relation by key, if they are kept on the driver."""
        if scan.relation in self.given or scan.relation.endswith(OLD_STATE):
            return None
        return self.stored.keyed(scan)

    def step(self) -> None:
        """Notes a step of a recursion on the driver."""
        self.stored.step()

    def size(self, scan: n.Scan) -> int:
        """How many signed rows are stored; none of what is given."""
        if scan.relation in self.given:
            return 0
        return self.stored.size(replace(scan, relation=scan.relation.removesuffix(OLD_STATE)))

    def keep(self, lowered: Lowered, *, large: bool = False) -> Lowered:
        """The same rows computed once."""
        return self.stored.keep(lowered, large=large)

    def fixpoint(self, node: n.Fixpoint, binding: Binding | None) -> Lowered:
        """The rows that a recursion shows."""
        return self.stored.fixpoint(node, binding)

    def rederived(self, node: n.Rederived) -> Lowered:
        """The change of a recursion that is not stored."""
        return self.stored.rederived(node)

    def local(
        self,
        table: pa.Table,
        outputs: tuple[Attribute, ...],
        *,
        weighted: bool = False,
        derived: bool = False,
        wide: tuple[pa.Table, ...] = (),
    ) -> Lowered:
        """Rows on the driver as a frame."""
        return self.stored.local(table, outputs, weighted=weighted, derived=derived, wide=wide)


@dataclass(frozen=True)
class TablesAt:
    """The relations at an epoch, under the definitions they had then."""

    store: Store
    state: State
    epoch: int

    def relation(self, name: str, place: Place | None) -> Relation:
        """The relation of a name."""
        found = self.state.find(name, self.epoch)
        if found is None:
            if self.epoch != self.state.epoch and self.state.find(name) is not None:
                raise NotFound(f"there was no table named '{name}' at epoch {self.epoch}", place=place)
            raise no_such_table(name, self.state.names(), place)
        return found

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name."""
        relation = self.relation(name, place)
        if isinstance(relation, VirtualView):
            definition = relation.definition_at(self.epoch)
            return Virtual(relation.name, Query(definition.as_written, definition.names))
        return Stored(relation.id, relation.name, relation.schema)

    def seen(self, query: Query) -> Query:
        """The query itself: what is stored at an epoch does not change."""
        return query

    def reader(self) -> Reader:
        """A reader of the state at the epoch."""
        return StateReader(self.store, self.state.relations.__getitem__, self.epoch, self.epoch)


def translated(store: Store, query: QueryText, tables: Tables) -> Selected | str:
    """A query as algebra, or the reason why it goes to the engine as it is written."""
    typer = EngineTyper(store.engine)
    if is_plain(query) and says_the_same(query.tree, coerces=typer.coerces):
        return PLAIN
    try:
        return select(query, tables, typer)
    except NotMaintainable as refusal:
        return refusal.message


def selected_frame(store: Store, query: QueryText, tables: Tables, written: Callable[[], Frame]) -> Frame:
    """The frame of a query, through the algebra or, from `written`, of its text as it is."""
    found = translated(store, query, tables)
    if isinstance(found, str):
        return written()
    seen = tables.seen(found.query)
    seen = replace(seen, node=with_constants(seen.node))
    frame = _rows(Lowering(store.engine, tables.reader()), n.at(seen.node, n.NEW))
    return frame.toDF(*(_engine_names(store, seen, written) if found.guessed else seen.names))


def _engine_names(store: Store, query: Query, written: Callable[[], Frame]) -> tuple[str, ...]:
    """The names that the engine gives to the columns of the text.

    Ours if it cannot run the text, or finds another number of columns.
    """
    try:
        names = tuple(name for name, _ in store.engine.columns(written()))
    except SessionLost:
        raise
    except (EngineError, NotFound, SqlError, TypeMismatch):
        return query.names
    return names if len(names) == len(query.names) else query.names


def _is_ordered(node: n.Node) -> bool:
    """Whether rows are in the order of an ORDER BY, which projections and filters above it preserve."""
    while isinstance(node, (n.Project, n.Filter)):
        node = node.input
    return isinstance(node, n.Top) and not node.partition


def _rows(lowering: Lowering, node: n.Node) -> Frame:
    """The rows of a query, with the outermost ORDER BY and LIMIT left to the engine: the order of equal rows is open.

    (In a view, LIMIT breaks ties by the whole row, so that it always selects the same rows.)
    """
    if not _is_ordered(node):
        lowered = lowering.lower(node)
        return lowered.frame.select(*listed(*lowered.columns))
    if isinstance(node, n.Project):
        items = [(lowering.computed(attribute, value), attribute.label) for attribute, value in node.columns]
        return _rows(lowering, node.input).select(*listed(*items))
    if isinstance(node, n.Filter):
        return _rows(lowering, node.input).filter(parsed(lowering.condition(node)))
    assert isinstance(node, n.Top)
    frame = _rows(lowering, node.input)
    if node.order:
        frame = frame.orderBy(*[sort_column(key) for key in node.order])
    if node.offset:
        frame = frame.offset(node.offset)
    return frame if node.limit is None else frame.limit(node.limit)
