"""Reads relations for a maintenance plan: the old state, the new state and the change, by key where a plan has keys.

Old is the epoch as of which the view is up to date: the one before the commit or, for a view refreshed on demand, an
earlier one. New is what the transaction sees. The change is the difference.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.expressions import Attribute, Name, disjunction, is_null
from viewkeeper.algebra.rows import consolidate, expand, row_tuples
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Column, Schema
from viewkeeper.algebra.types import Type, quote
from viewkeeper.catalog.relations import Relation
from viewkeeper.driver.row_index import RowIndex
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.lowered import Binding, Lowered
from viewkeeper.engine.operator_parts import copies
from viewkeeper.maintain.keyed_rows import KeyedRows
from viewkeeper.maintain.once import OnceEach
from viewkeeper.maintain.recursions import Recursions, signed
from viewkeeper.maintain.situation import Pending, Situation
from viewkeeper.store.batches import stored_frame
from viewkeeper.store.bounds import Keys
from viewkeeper.store.lookups import Found
from viewkeeper.store.scans import Scan, Source, pick, signed_frame, within_epochs
from viewkeeper.store.scratch import adopt_scratch
from viewkeeper.store.store import Store

if TYPE_CHECKING:
    from viewkeeper.maintain.common_changes import CommonChanges
    from viewkeeper.maintain.fetched_rows import Fetched


class OutOfQueries(Exception):
    """A view on trial has run more queries than allowed: its recursion may not end."""


@dataclass
class Work:
    """What maintenance has read, for the report. `within`: what this is a part of."""

    files_read: int = 0
    files_total: int = 0
    rows_read: int = 0
    read: list[tuple[Relation, str]] = field(default_factory=list)
    queries: int = 0
    steps: int = 0
    within: Work | None = None

    def step(self) -> None:
        """Notes a step of a recursion on the driver."""
        self.steps += 1
        if self.within is not None:
            self.within.step()

    def query(self) -> None:
        """Notes that a query is run."""
        self.queries += 1
        if self.within is not None:
            self.within.query()

    def found(self, relation: Relation, state: str, rows: int) -> None:
        """Records that rows of a relation were found among those that are kept on the driver."""
        if self.within is not None:
            self.within.found(relation, state, rows)
        self.rows_read += rows
        if (relation, state) not in self.read:
            self.read.append((relation, state))

    def count(self, relation: Relation, state: str, picked: Scan, rows: int) -> None:
        """Records that a relation is read in a state, and so many of its signed rows."""
        if self.within is not None:
            self.within.count(relation, state, picked, rows)
        self.files_read += len(picked.files)
        self.files_total += picked.total_files
        self.rows_read += rows
        if picked.files:
            self.read.append((relation, state))


class StateReader:
    """Reads relations in two states: at an epoch plus the changes of a transaction, and at an earlier epoch."""

    def __init__(
        self,
        store: Store,
        by_id: Callable[[str], Relation],
        epoch: int,
        since: int,
        pending: Mapping[str, Pending] | None = None,
    ) -> None:
        """New is `epoch` with the pending changes, old is `since`."""
        self.store = store
        self.engine = store.engine
        self.by_id = by_id
        self.epoch = epoch
        self.since = since
        self.pending = pending or {}
        self.fetched: Fetched | None = None  # these three are shared by the views of one transaction
        self.common: CommonChanges | None = None
        self.recursions = Recursions(OnceEach())
        self.own: frozenset[str] = frozenset()  # the view being maintained: reads of its own contents are not counted
        self.lane = "auto"  # that of the view being maintained
        self.most_queries: int | None = None
        self.work = Work()

    @property
    def queries(self) -> int:
        """The number of queries it has run so far."""
        return self.work.queries

    def apart(self) -> StateReader:
        """The same reader with a count of its own: others may use this one at the same time."""
        reader = copy.copy(self)
        reader.work = Work(within=self.work)
        return reader

    def grown(self, changed: Collection[str]) -> set[str]:
        """Those of some changed relations whose change is known, on the driver, to be inserts only."""
        if self.since < self.epoch:
            return set()
        pending = {key: self.pending[key] for key in changed if key in self.pending}
        return {
            key
            for key, change in pending.items()
            if not change.staged and change.rows.num_rows and change.rows[WEIGHT].to_numpy().min() > 0
        }

    @staticmethod
    def of(tx: Situation, since: int | None = None) -> StateReader:
        """A reader of what a transaction sees; old is the epoch it began from, unless `since` is given."""
        epoch = tx.state.epoch
        reader = StateReader(tx.store, tx.by_id, epoch, epoch if since is None else since, tx.pending)
        reader.most_queries = tx.most_queries
        return reader

    def rederived(self, node: n.Rederived) -> Lowered:
        """The change of a recursion that is not stored."""
        net = self.recursions.rederived(self.engine, self, node)
        return signed(self.engine, self, net, node.recursion.shown, node.outputs)

    def fixpoint(self, node: n.Fixpoint, binding: Binding | None) -> Lowered:
        """The rows that a recursion shows."""
        return self.recursions.rows(self.engine, self, node, binding)

    # reads of a plan -------------------------------------------------------------------------------

    def scan(self, scan: n.Scan, binding: Binding | None) -> Lowered:
        """The rows of a relation in a state: at least those that the binding asks for."""
        if self.common is not None and scan.relation in self.common.wanted:
            return self.common.scan(self, scan)
        relation = self.by_id(scan.relation)
        if scan.state == n.CHANGE:
            return self._change(scan, relation)
        keys, known = (None, ()) if binding is None else self._keys(scan, relation, binding)
        picked = pick(self._source(relation, scan.state), keys)
        found = None if picked.is_empty else self._on_driver(scan, relation, picked)
        if relation.id not in self.own:
            self.work.count(relation, scan.state, picked, picked.file_rows if found is None else found.looked_at)
        if picked.is_empty:
            return self._nothing(scan)
        if found is not None:
            rows, source = found.rows, picked.source
            if source.rows is not None and source.rows.num_rows:
                rows = consolidate(pa.concat_tables([rows, source.rows.select([*scan.stored_names, WEIGHT])]))
            return self.local(expand(rows).rename_columns([a.label for a in scan.outputs]), scan.outputs)
        frame = self._plain(scan, picked)
        return Lowered(frame, scan.outputs, False, known, bool(known))

    def _on_driver(self, scan: n.Scan, relation: Relation, picked: Scan) -> Found | None:
        """The committed rows if they are few: those of a small relation, or of a few keys of a large one."""
        if picked.source.staged or any(column.type.has_map() for column in relation.schema):
            return None
        if picked.file_rows <= self.engine.tuning.whole_rows:
            rows = self.store.small.net_rows(picked).select([*scan.stored_names, WEIGHT])
            return Found(rows, picked.file_rows)
        if picked.keys is None:
            return None
        if self.fetched is None:
            return self.store.rows_by_key(picked, scan.stored_names)
        return self.fetched.rows(self, scan, relation, picked)

    def keyed(self, scan: n.Scan) -> KeyedRows | None:
        """The rows of a relation by key, if they are kept on the driver."""
        relation = self.by_id(scan.relation)
        if scan.state == n.CHANGE or (self.common is not None and scan.relation in self.common.wanted):
            return None
        source = self._source(relation, scan.state)
        moved = 0 if source.rows is None else source.rows.num_rows
        if source.staged or moved > self.engine.tuning.tuple_rows:
            return None
        kept = self.store.kept.state(relation.id, relation.schema, source.files, source.epoch)
        if kept is None:
            return None
        change = RowIndex(len(relation.schema))
        if source.rows is not None and moved:
            rows = source.rows
            change.add(zip(row_tuples(rows.drop_columns([WEIGHT])), rows[WEIGHT].to_pylist(), strict=True))
        names = relation.schema.names
        places = tuple(names.index(name) for name in scan.stored_names)
        note = partial(self.work.found, relation, scan.state) if relation.id not in self.own else lambda _: None
        return KeyedRows(kept, places, places == tuple(range(len(names))), change, self.since == self.epoch, note)

    def step(self) -> None:
        """Notes a step of a recursion on the driver; ends a trial that has taken too many."""
        self.work.step()
        self._check_trial()

    def _check_trial(self) -> None:
        if self.most_queries is not None and self.work.queries + self.work.steps > self.most_queries:
            raise OutOfQueries(f"more than {self.most_queries} queries")

    def size(self, scan: n.Scan) -> int:
        """The number of signed rows stored of a relation."""
        if scan.state == n.CHANGE:
            return 0
        return self.by_id(scan.relation).stored_rows

    def keep(self, lowered: Lowered, *, large: bool = False) -> Lowered:
        """The same rows computed once: on the driver if few, in scratch files if many. `large`: many are expected."""
        if lowered.derived:
            self.step()
        elif lowered.rows is None and not lowered.empty:
            self.work.query()
            self._check_trial()
        if lowered.empty:
            return lowered
        if lowered.rows is not None:
            rows = consolidate(lowered.rows) if lowered.weighted else lowered.rows
            if rows.num_rows == lowered.rows.num_rows:
                return replace(lowered, count=rows.num_rows, derived=False)
            return replace(self.local(rows, lowered.outputs, weighted=True), wide=lowered.wide)
        schema = schema_of(lowered.outputs)
        lowered = replace(
            lowered, source=lowered.frame.select(*lowered.columns)
        )  # a join's own frame has another order
        small = self.engine.collect_small(lowered.frame) if not large else None
        if small is not None:
            table = conform(small, schema, signed=lowered.weighted)
            if lowered.weighted:
                table = consolidate(table)
            return self.local(table, lowered.outputs, weighted=lowered.weighted)
        extra = f"{WEIGHT} bigint" if lowered.weighted else ""
        path = self.store.scratch_path()
        frame = consolidated(lowered.frame, schema) if lowered.weighted else lowered.frame
        self.engine.write(frame, self.store.storage.url(path))
        kept, rows = adopt_scratch(self.store, path, schema, extra)
        return Lowered(kept, lowered.outputs, lowered.weighted, (), False, rows == 0, count=rows)

    # states ----------------------------------------------------------------------------------------

    def _source(self, relation: Relation, state: str) -> Source:
        if state == n.OLD:
            return Source(relation.schema, relation.files_at(self.since), self.since)
        pending = self.pending.get(relation.id)
        staged = tuple(pending.staged) if pending else ()
        return Source(
            relation.schema, relation.files_at(self.epoch), self.epoch, staged, pending.rows if pending else None
        )

    def _change(self, scan: n.Scan, relation: Relation) -> Lowered:
        pending = self.pending.get(relation.id)
        names = scan.stored_names
        frames: list[Frame] = []
        rows: pa.Table | None = None
        if pending is not None:
            if pending.rows.num_rows:
                rows = pending.rows.select([*names, WEIGHT])
            if pending.staged:
                frames.append(stored_frame(self.engine, self.store.storage, pending.staged, relation.schema))
        if self.since < self.epoch:
            frames += self._between(relation)
        if not frames:
            net = self.known_change(scan)
            return self._nothing(scan, weighted=True) if net is None else self.local(net, scan.outputs, weighted=True)
        items = [(quote(name), a.label) for name, a in zip(names, scan.outputs, strict=True)]
        parts = [frame.select(*listed(*items, WEIGHT)) for frame in frames]
        if rows is not None:
            schema = schema_of(scan.outputs)
            parts.append(self.engine.arrow(rows.rename_columns([*schema.names, WEIGHT]), schema, f"{WEIGHT} bigint"))
        return self.keep(Lowered(self.engine.union(parts), scan.outputs, True, (), True))

    def known_change(self, scan: n.Scan) -> pa.Table | None:
        """The net change of a scan's columns since the transaction began, under their labels, if it is on the driver.

        A row that is replaced by one that differs in other columns only is no change of these.
        """
        pending = self.pending.get(scan.relation)
        if pending is None or pending.staged or not pending.rows.num_rows:
            return None
        known = self.fetched.changes if self.fetched is not None else {}
        name = (scan.relation, tuple(scan.stored_names))
        if name not in known:
            key = pending.relation.schema.key_among(scan.stored_names)
            known[name] = consolidate(pending.rows.select([*scan.stored_names, WEIGHT]), key)
        return known[name].rename_columns([*(a.label for a in scan.outputs), WEIGHT])

    def _between(self, relation: Relation) -> list[Frame]:
        """The committed rows after `since`."""
        newer = [file for file in relation.files_at(self.epoch) if file.last_epoch > self.since]
        if not newer:
            return []
        frame = stored_frame(self.engine, self.store.storage, newer, relation.schema)
        return [frame.filter(parsed(disjunction((is_null(Name(EPOCH)), within_epochs(self.since, self.epoch)))))]

    # frames ----------------------------------------------------------------------------------------

    def _plain(self, scan: n.Scan, picked: Scan) -> Frame:
        """The picked rows with only the columns of the scan, duplicates repeated."""
        pairs = zip(scan.stored_names, scan.outputs, strict=True)
        items = [(quote(name), a.label) for name, a in pairs]
        labels = [a.label for a in scan.outputs]
        frame = signed_frame(self.engine, self.store.storage, picked).select(*listed(*items, WEIGHT))
        if not picked.has_repeats:
            return frame.select(*listed(*labels))
        if picked.has_deletions:
            frame = consolidated(frame, schema_of(scan.outputs), guarded=True)
        return frame.select(*listed(*labels, (copies(Name(WEIGHT)), "_vk_copy"))).select(*listed(*labels))

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
        frame = partial(self._sent, table, outputs, weighted)
        known = table.drop_columns([WEIGHT]) if weighted else table
        count = table.num_rows
        return Lowered(frame, outputs, weighted, (known,), True, count == 0, wide, table, count, derived)

    def _sent(self, table: pa.Table, outputs: tuple[Attribute, ...], weighted: bool) -> Frame:
        return self.engine.arrow(table, schema_of(outputs), f"{WEIGHT} bigint" if weighted else "")

    def _nothing(self, scan: n.Scan, *, weighted: bool = False) -> Lowered:
        schema = schema_of(scan.outputs)
        return self.local(
            (schema.signed_arrow if weighted else schema.arrow).empty_table(), scan.outputs, weighted=weighted
        )

    def _keys(self, scan: n.Scan, relation: Relation, binding: Binding) -> tuple[Keys | None, tuple[pa.Table, ...]]:
        """The binding as keys in the relation's own columns and types, sort columns first; and the same as known keys.

        A column that is compared with a value of another type is left out, unless both are integers.
        """
        names = dict(zip(scan.outputs, scan.stored_names, strict=True))
        usable = [a for a in binding.columns if _comparable(binding.table.column(a.label).type, a.type)]
        if not usable:
            return None, ()
        order = [name.lower() for name in relation.schema.sort_columns]
        columns = sorted(
            usable, key=lambda a: order.index(names[a].lower()) if names[a].lower() in order else len(order)
        )
        schema = relation.schema.subset([names[a] for a in columns])
        arrays = []
        for attribute, stored in zip(columns, schema, strict=True):
            array = binding.table.column(attribute.label)
            if array.type != stored.type.arrow:
                array = _fitting(array, stored.type.arrow)
            arrays.append(array)
        known = binding.table.select([a.label for a in columns])
        return Keys(pa.table(arrays, names=schema.names), schema, self.engine.tuning), (known,)


def _comparable(given: pa.DataType, kind: Type) -> bool:
    """Whether values of one type can be looked up among those of another without a cast."""
    return bool(given == kind.arrow) or (pa.types.is_integer(given) and kind.is_integer)


def _fitting(array: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Integers as another integer type. One that does not fit equals no stored value and becomes zero."""
    wide = pc.cast(array, pa.int64())
    limit = 1 << (kind.bit_width - 1)
    if kind.bit_width < 64:
        inside = pc.and_(pc.greater_equal(wide, pa.scalar(-limit)), pc.less(wide, pa.scalar(limit)))
        wide = pc.if_else(inside, wide, pa.scalar(0, pa.int64()))
    return pc.cast(wide, kind)


def schema_of(outputs: tuple[Attribute, ...]) -> Schema:
    """The schema of a lowered frame."""
    return Schema(tuple(Column(a.label, a.type) for a in outputs))
