"""The changed rows of tables that have led to rows of a query, for the error of an assertion.

A row of a table has led to a row of the query if the query's positive partial differential by that row alone has it:
all other changes count as made before. Where the query negates or counts rows, deleted rows can lead to one too.
Several rows at a time are tried first, and halved as long as they lead to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Name, comparison, integer
from viewkeeper.algebra.rows import consolidate, expand, negated, part_with_sign, take
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.delta.positive import INSERTED, positive_differential
from viewkeeper.engine.connect_columns import parsed
from viewkeeper.engine.lowered import Binding, Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.expanding import expanded
from viewkeeper.maintain.situation import Pending
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.store.scans import Source
from viewkeeper.transaction.open_transaction import OpenTransaction

MOST_QUERIES = 24
"""How many queries are run to find the rows that led to a violation."""

MOST_ROWS = 1_000
"""With more changed rows, a table is named without its rows."""


@dataclass(frozen=True)
class Cause:
    """A table whose change has led to something, with some of the signed rows that did; None if they are too many."""

    relation: Relation
    rows: pa.Table | None


def causes_of(tx: OpenTransaction, query: n.Node, rows: pa.Table, most: int) -> list[Cause]:
    """The tables whose changes have led to some rows of a query, with at most so many of their rows each.

    `rows` has the columns of the query, under their labels.
    """
    node = down_to_tables(tx, query)
    search = _Search(tx, node, rows)
    found: list[Cause] = []
    for key in sorted({scan.relation for scan in n.scans(node)} & tx.changed, key=lambda key: tx.by_id(key).name):
        pending = tx.pending[key]
        if pending.staged or pending.rows.num_rows > MOST_ROWS:
            if search.leads(pending):
                found.append(Cause(pending.relation, None))
            continue
        chosen = search.among(pending.relation, pending.rows, list(range(pending.rows.num_rows)), most)
        if chosen:
            found.append(Cause(pending.relation, take(pending.rows, chosen)))
    return found


def down_to_tables(tx: OpenTransaction, query: n.Node) -> n.Node:
    """A query with the views that every commit maintains replaced by their queries."""

    def view(key: str) -> Derived | None:
        below = tx.by_id(key)
        return below if isinstance(below, Derived) and not below.definition.is_demand else None

    return expanded(query, view)


class _Search:
    def __init__(self, tx: OpenTransaction, node: n.Node, rows: pa.Table) -> None:
        self._tx = tx
        self._node = node
        self._rows = rows
        self._left = MOST_QUERIES

    def among(self, relation: Relation, rows: pa.Table, chosen: Sequence[int], most: int) -> list[int]:
        """At most so many of some changed rows of a relation, by position, that have led to the rows."""
        if not self._left or not self.leads(Pending(relation, take(rows, list(chosen)))):
            return []
        if len(chosen) == 1:
            return list(chosen)
        found: list[int] = []
        half = len(chosen) // 2
        for part in (chosen[:half], chosen[half:]):
            if len(found) < most:
                found += self.among(relation, rows, part, most - len(found))
        return found or list(chosen)[:most]  # they have led to it together, or the search was too long

    def leads(self, since: Pending) -> bool:
        """Whether some change of a relation, made after all others, has led to one of the rows."""
        self._left -= 1
        key = since.relation.id
        touched = positive_differential(self._node, {key})
        if touched is None:
            return False
        reader = _Last(self._tx, since)
        lowering = Lowering(self._tx.store.engine, reader)
        outputs = self._node.outputs
        wanted = lowering.given(reader.local(self._rows, outputs))
        on = tuple((a, a) for a in outputs if not a.type.has_map())
        lowered = lowering.lower(n.Restrict(touched, wanted, on))
        return not lowered.empty and bool(self._tx.store.engine.fetch(lowered.frame.limit(1)).num_rows)


class _Last(StateReader):
    """Reads relations as a transaction sees them; only one change, the last one, is not part of the old state."""

    def __init__(self, tx: OpenTransaction, since: Pending) -> None:
        epoch = tx.state.epoch
        super().__init__(tx.store, tx.by_id, epoch, epoch, {since.relation.id: since})
        self._now: Mapping[str, Pending] = tx.pending
        self._since = since

    def _source(self, relation: Relation, state: str) -> Source:
        now = self._now.get(relation.id)
        rows, staged = (now.rows, tuple(now.staged)) if now is not None else (None, ())
        if state == n.OLD and relation.id == self._since.relation.id:
            rows = None if rows is None else consolidate(pa.concat_tables([rows, negated(self._since.rows)]))
            staged = () if self._since.staged else staged
        return Source(relation.schema, relation.files_at(self.epoch), self.epoch, staged, rows)

    def scan(self, scan: n.Scan, binding: Binding | None) -> Lowered:
        """The rows of a relation in a state, or those that the last change inserts."""
        if not scan.relation.startswith(INSERTED):
            return super().scan(scan, binding)
        if self._since.staged:
            return self._inserted_on_engine(scan)
        rows = expand(part_with_sign(self._since.rows, 1)).select(list(scan.stored_names))
        return self.local(rows.rename_columns([a.label for a in scan.outputs]), scan.outputs)

    def _inserted_on_engine(self, scan: n.Scan) -> Lowered:
        change = super().scan(_plain(scan), None)
        frame = change.frame.filter(parsed(comparison(">", Name(WEIGHT), integer(0)))).drop(WEIGHT)
        return Lowered(frame, scan.outputs, False, (), True, change.empty)

    def size(self, scan: n.Scan) -> int:
        """How many signed rows are stored of a relation."""
        return 0 if scan.relation.startswith(INSERTED) else super().size(scan)


def _plain(scan: n.Scan) -> n.Scan:
    """The change of the relation whose inserted rows a scan reads."""
    key = scan.relation.removeprefix(INSERTED)
    return n.Scan(key, scan.name, scan.attributes, n.CHANGE, tuple(scan.stored_names))
