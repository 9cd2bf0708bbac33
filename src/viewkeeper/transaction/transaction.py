"""A transaction: what it started from, what it has read, and the net change it has gathered so far.

Later statements see earlier ones: a table inside a transaction is its committed files, plus the files this transaction
has staged, plus the signed rows it holds on the driver. What is committed is the net of them all.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.cast import cast_table
from viewkeeper.algebra.rows import consolidate, filter_rows, row_tuples
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Schema
from viewkeeper.algebra.types import quote
from viewkeeper.analysis.ranges import Ranges
from viewkeeper.engine.engine import SMALL, Frame
from viewkeeper.errors import AlreadyExists, NotFound, Place, ViewkeeperError
from viewkeeper.store.batch import read_files, stored_frame
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scan import Scan, Source, consolidated, pick, signed_frame
from viewkeeper.store.state import DataFile, Relation, State
from viewkeeper.store.store import Held, Store
from viewkeeper.transaction.change import Change


@dataclass(frozen=True)
class Read:
    """Something a transaction has read: rows with some keys, rows in some ranges, or all of a relation."""

    relation: str
    keys: Keys | None = None
    ranges: Ranges | None = None


@dataclass
class Pending:
    """The change a transaction makes to one relation."""

    relation: Relation
    rows: pa.Table
    staged: list[DataFile] = field(default_factory=list)
    files_read: int = 0
    files_total: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no change."""
        return self.rows.num_rows == 0 and not self.staged


class Transaction:
    """Gathers changes; knows nothing of SQL and nothing of committing."""

    def __init__(self, store: Store) -> None:
        self.store = store
        held = store.hold()
        self.state: State = held.state
        self.pending: dict[str, Pending] = {}
        self.created: dict[str, Relation] = {}
        self.dropped: set[str] = set()
        self.reads: list[Read] = []
        self.absent: set[str] = set()
        store.use(self)

    @property
    def zone(self) -> str:
        """The database's time zone."""
        return self.state.settings.time_zone

    # definitions ---------------------------------------------------------------------------------

    def find(self, name: str) -> Relation | None:
        """The relation of that name as this transaction sees it."""
        for relation in self.created.values():
            if relation.name.lower() == name.lower() and relation.id not in self.dropped:
                return relation
        found = self.state.find(name)
        if found is None:
            self.absent.add(name)
        return None if found is None or found.id in self.dropped else found

    def relation(self, name: str, place: Place | None = None) -> Relation:
        """The relation of that name, or NotFound with the nearest name."""
        found = self.find(name)
        if found is None:
            raise no_such_table(name, self.names(), place)
        return found

    def names(self) -> list[str]:
        """The relations this transaction sees."""
        there = [r for r in self.state.relations.values() if r.lives_at(self.state.epoch)]
        return sorted(r.name for r in [*there, *self.created.values()] if r.id not in self.dropped)

    def create(self, name: str, schema: Schema) -> Relation:
        """Declares a new table."""
        if self.find(name) is not None:
            raise AlreadyExists(
                f"there is already a table named '{name}'", hint=f"DROP TABLE {name}, or CREATE TABLE IF NOT EXISTS"
            )
        relation = Relation(uuid.uuid4().hex[:16], name, schema, self.state.epoch + 1)
        self.created[relation.id] = relation
        return relation

    def drop(self, relation: Relation) -> None:
        """Drops a table; what this transaction did to it before does not matter any more."""
        self.pending.pop(relation.id, None)
        if relation.id in self.created:
            del self.created[relation.id]
        else:
            self.dropped.add(relation.id)

    # reading -------------------------------------------------------------------------------------

    def source(self, relation: Relation) -> Source:
        """The relation as this transaction sees it."""
        pending = self.pending.get(relation.id)
        return Source(
            relation.schema,
            relation.files_at(self.state.epoch),
            self.state.epoch,
            tuple(pending.staged) if pending else (),
            pending.rows if pending else None,
        )

    def scan(
        self,
        relation: Relation,
        keys: Keys | None = None,
        ranges: Ranges | None = None,
        *,
        with_deletions: bool = False,
    ) -> Scan:
        """What has to be read of a relation; remembered, because a conflicting change would make it wrong."""
        if relation.id not in self.created:
            self.reads.append(Read(relation.id, keys, ranges))
        scan = pick(self.source(relation), keys, ranges, with_deletions=with_deletions)
        pending = self.pending.get(relation.id)
        if pending is not None:
            pending.files_read += len(scan.files)
            pending.files_total += scan.total_files
        return scan

    def key_weights(self, relation: Relation, keys: Keys) -> dict[tuple[Any, ...], int]:
        """How many rows there are for each of some keys. Weights add, so nothing needs consolidating."""
        names = keys.schema.names
        scan = self.scan(relation, keys)
        found: dict[tuple[Any, ...], int] = {}
        if scan.files:
            files_only = Scan(scan.source, scan.files, None, scan.total_files, keys)
            frame = signed_frame(self.store.engine, self.store.storage, files_only)
            total = frame.groupBy(*[quote(name) for name in names]).agg({WEIGHT: "sum"}).toDF(*names, "_vk_total")
            table = self.store.engine.collect(total)
            counts = table["_vk_total"].to_pylist()
            plain = conform(table.select(names), keys.schema)
            found = dict(zip(row_tuples(plain), counts, strict=True))
        if scan.has_rows and scan.rows is not None:
            wanted = set(row_tuples(keys.table))
            for row, weight in zip(row_tuples(scan.rows.select(names)), scan.rows[WEIGHT].to_pylist(), strict=True):
                if row in wanted:
                    found[row] = found.get(row, 0) + weight
        return found

    def rows_with(self, relation: Relation, keys: Keys) -> pa.Table:
        """The net rows that have one of some keys, with their weights, on the driver."""
        scan = self.scan(relation, keys)
        if scan.is_empty:
            return relation.schema.signed_arrow.empty_table()
        frame = consolidated(signed_frame(self.store.engine, self.store.storage, scan), relation.schema)
        return conform(self.store.engine.collect(frame), relation.schema, signed=True)

    # changing ------------------------------------------------------------------------------------

    def pending_of(self, relation: Relation) -> Pending:
        """The change gathered for a relation."""
        if relation.id not in self.pending:
            self.pending[relation.id] = Pending(relation, relation.schema.signed_arrow.empty_table())
        return self.pending[relation.id]

    def add_rows(self, relation: Relation, change: pa.Table) -> None:
        """Joins a checked change, held on the driver, to the transaction's net change (delta-union)."""
        pending = self.pending_of(relation)
        rows = consolidate(pa.concat_tables([pending.rows, change]))
        if rows.num_rows > SMALL:
            pending.staged.extend(self.store.writer(relation).write_rows(rows))
            rows = rows.slice(0, 0)
        pending.rows = rows

    def add_files(self, relation: Relation, files: Iterable[DataFile]) -> None:
        """Joins a checked change, already written as files, to the transaction's net change."""
        self.pending_of(relation).staged.extend(files)

    def settle(self) -> None:
        """Makes every gathered change net: parts that may cancel each other are consolidated."""
        for pending in self.pending.values():
            if not pending.staged:
                continue
            if pending.rows.num_rows:
                pending.staged.extend(self.store.writer(pending.relation).write_rows(pending.rows))
                pending.rows = pending.rows.slice(0, 0)
            lows = min(file.low_weight for file in pending.staged)
            highs = max(file.high_weight for file in pending.staged)
            if lows < 0 < highs and len(pending.staged) > 1:
                self._consolidate_staged(pending)

    def _consolidate_staged(self, pending: Pending) -> None:
        store, schema = self.store, pending.relation.schema
        source = Source(schema, (), self.state.epoch, tuple(pending.staged))
        frame = consolidated(signed_frame(store.engine, store.storage, pick(source)), schema)
        rows = sum(file.rows for file in pending.staged)
        written = store.writer(pending.relation).write_frame(with_no_epoch(frame), rows)
        store.storage.delete(file.path for file in pending.staged)
        pending.staged = written

    def changes(self) -> dict[str, Change]:
        """The net change of every relation that has one."""
        self.settle()
        found = {}
        for pending in self.pending.values():
            if not pending.is_empty:
                found[pending.relation.name] = self._change(pending)
        return found

    def _change(self, pending: Pending) -> Change:
        schema = pending.relation.schema
        if not pending.staged:
            rows = pending.rows
            return Change(schema, lambda: rows)
        return change_of_files(self.store, schema, tuple(pending.staged), self.store.hold())

    def discard(self) -> None:
        """Removes the files this transaction staged; nobody has seen them."""
        self.store.clear_scratch()
        self.store.storage.delete(file.path for pending in self.pending.values() for file in pending.staged)
        self.pending.clear()
        self.created.clear()
        self.dropped.clear()


def change_of_files(
    store: Store, schema: Schema, files: tuple[DataFile, ...], held: Held, epoch: int | None = None
) -> Change:
    """A change that is read from its files when asked for: all their rows, or (merged files) those of one epoch.

    `held` keeps the files until then.
    """

    def fetch() -> pa.Table:
        if sum(file.rows for file in files) <= SMALL:
            rows = read_files(store.storage, files, schema)
            if epoch is not None:
                rows = filter_rows(rows, [number == epoch for number in rows[EPOCH].to_pylist()])
            return rows.drop_columns([EPOCH])
        frame = stored_frame(store.engine, store.storage, files, schema)
        if epoch is not None:
            whole = any(not file.merged for file in files)
            frame = frame.filter(f"{EPOCH} = {epoch}" + (f" OR {EPOCH} IS NULL" if whole else ""))
        return conform(store.engine.collect(frame.drop(EPOCH)), schema, signed=True)

    return Change(schema, fetch, held)


def with_no_epoch(frame: Frame) -> Frame:
    """Signed rows as a batch file holds them: the epoch comes from the ledger."""
    return frame.selectExpr("*", f"CAST(NULL AS BIGINT) AS {EPOCH}")


def conform(table: pa.Table, schema: Schema, *, signed: bool = False) -> pa.Table:
    """What an engine sent, in exactly our Arrow types."""
    plain = cast_table(table.select(list(range(len(schema)))), schema, "the result", "UTC")
    if not signed:
        return plain
    return plain.append_column(pa.field(WEIGHT, pa.int64()), pc.cast(table.column(len(schema)), pa.int64()))


def no_such_table(name: str, names: list[str], place: Place | None) -> ViewkeeperError:
    """NotFound for a table, with the nearest name."""
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], 1)
    if near:
        hint = f"did you mean '{next(n for n in names if n.lower() == near[0])}'?"
    else:
        hint = f"the tables are {', '.join(names)}" if names else "there are no tables yet: CREATE TABLE ..."
    return NotFound(f"there is no table named '{name}'", place=place, hint=hint)
