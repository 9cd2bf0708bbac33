"""A transaction: the state it started from, what it has read, and the net change it has gathered so far.

Later statements see earlier ones: a table inside a transaction is its committed files, plus the files this transaction
has staged, plus the signed rows it holds on the driver. The net of staged files and rows is committed.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.expressions import Name, disjunction, is_null
from viewkeeper.algebra.nodes import Node
from viewkeeper.algebra.rows import consolidate, is_among, rows_among, take
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Schema
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.algebra.types import quote, spelled
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.analysis.ranges import Ranges
from viewkeeper.catalog.active_rules import ActiveRule, Waiting
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.declared_functions import Function
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.graph import depending, reading
from viewkeeper.catalog.name_errors import already_exists, no_such_table
from viewkeeper.catalog.relations import Derived, Relation, Table, as_derived, kind_of, new_relation
from viewkeeper.catalog.state import State
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.connect_columns import parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.errors import Place, SqlError
from viewkeeper.log.open_log import Held
from viewkeeper.maintain.situation import Pending
from viewkeeper.store.batches import stored_frame, with_no_epoch
from viewkeeper.store.bounds import Keys
from viewkeeper.store.file_reading import read_files
from viewkeeper.store.known_rows import KnownRows
from viewkeeper.store.scans import Scan, Source, pick, signed_frame, within_epochs
from viewkeeper.store.store import Store
from viewkeeper.transaction.change import Change, Commit

if TYPE_CHECKING:
    from viewkeeper.transaction.hooks import CommitHook


@dataclass(frozen=True)
class Read:
    """A read of a transaction: rows with some keys, rows in some ranges, or all of a relation."""

    relation: str
    keys: Keys | None = None
    ranges: Ranges | None = None


class OpenTransaction:
    """Gathers changes; knows nothing of SQL and nothing of committing."""

    def __init__(self, store: Store, state: State | None = None) -> None:
        """Begins from the newest state, or from a given one that is never committed to."""
        self.store = store
        self.state: State = store.hold().state if state is None else state
        self.pending: dict[str, Pending] = {}
        self.created: dict[str, Relation] = {}
        self.dropped: set[str] = set()
        self.defined: dict[str, Definition] = {}  # new definitions of existing views, by id; the schema stays
        self.refreshed: dict[str, int] = {}  # the epochs as of which demand views are now up to date, by id
        self.suspended: set[str] = set()  # stored views that are no longer maintained from this transaction on
        self.to_load: set[str] = set()  # stored views whose contents the commit computes from their inputs
        self.redefined: set[str] = set()  # stored views whose change of definition is maintained incrementally
        self.formerly: dict[str, Node] = {}  # former expressions of redefined views, where they had to be rewritten
        self.functions: dict[str, Function | None] = {}  # declared here, or dropped (None), by name in lower case
        self.rules: dict[str, ActiveRule | None] = {}  # made or changed here, or dropped (None), by id
        self.given: dict[str, Frame] = {}  # the transition tables of the rule whose action is run, by name
        self.fired: list[dict[str, Any]] = []  # the rules that were fired, as the entry records them
        self.waiting: list[dict[str, Any]] = []  # changes of the firings that wait to be run
        self.firing: Waiting | None = None  # the firing of a detached rule that it carries out
        self.before_firing: int | None = None  # the epoch before that firing, while its action is run
        self.remarks: list[str] = []  # what the statement that is run says of what it defines
        self.warnings: list[str] = []  # what the user is told though it commits: violated assertions
        self.warned: dict[str, int] = {}  # the names of those assertions, with their numbers of new violating rows
        self.makes_epoch = False  # also without any change: REFRESH
        self.refreshing: set[str] = set()  # demand views that take in what has changed when it commits
        self.derived: set[str] = set()  # views whose changes were worked out from those of the tables
        self.reads: list[Read] = []
        self.absent: set[str] = set()
        self.untried: set[str] = set()  # views whose new definition has not been on trial yet
        self.most_queries: int | None = None  # limit of queries per view, on trial
        self.looked_up = KnownRows()  # of the state it began from
        self.hooks: tuple[CommitHook, ...] = ()  # called at the stages of its commit
        self.watched: set[str] = set()  # virtual views whose changes are derived too
        self.wanted: dict[str, Kinds] = {}  # of some watched views, the kinds of change that matter; of others, all
        self.seen: dict[str, pa.Table] = {}  # the changes of watched views, by id
        self.effects: list[Callable[[Commit], None]] = []  # run once, after the entry is in the ledger
        self._gathered: dict[str, Pending] | None = None  # changes by statements alone, without those by hooks
        self.marked: set[str] = set()  # staged files that a mark may still read
        if state is None:
            store.use(self)

    @property
    def zone(self) -> str:
        """The database's time zone."""
        return self.state.settings.time_zone

    @property
    def old_epoch(self) -> int:
        """The epoch that AS OF OLD reads: the one it began from; for a detached rule, an earlier one."""
        return self.state.epoch if self.before_firing is None else self.before_firing

    # definitions ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def defining(self) -> Iterator[None]:
        """Takes back what a statement has defined if it fails, so that it fails as a whole."""
        names = (
            *("created", "dropped", "defined", "suspended", "to_load", "redefined", "formerly", "untried"),
            *("rules", "waiting"),
        )
        before: dict[str, Any] = {name: getattr(self, name).copy() for name in names}
        before["pending"] = {key: replace(held, staged=list(held.staged)) for key, held in self.pending.items()}
        try:
            yield
        except BaseException:
            for name, held in before.items():
                setattr(self, name, held)
            raise

    def function(self, name: str) -> Function | None:
        """The declared function of that name, as this transaction sees it."""
        key = name.lower()
        return self.functions[key] if key in self.functions else self.state.functions.get(key)

    def function_names(self) -> list[str]:
        """The names of the declared functions, in lower case."""
        return sorted(key for key in {*self.state.functions, *self.functions} if self.function(key) is not None)

    def active_rules(self) -> list[ActiveRule]:
        """The active rules there are, as this transaction sees them, in the order of their creation."""
        there = {**self.state.rules, **self.rules}
        return sorted((rule for rule in there.values() if rule is not None), key=lambda rule: rule.order)

    def find(self, name: str) -> Relation | None:
        """The relation of that name as this transaction sees it."""
        for relation in self.created.values():
            if relation.name.lower() == name.lower() and relation.id not in self.dropped:
                return self._now(relation)
        found = self.state.find(name)
        if found is None:
            self.absent.add(name)
        return None if found is None or found.id in self.dropped else self._now(found)

    def _now(self, relation: Relation) -> Relation:
        """The relation with the definition this transaction has given it."""
        if not isinstance(relation, Derived):
            return relation
        definition = self.defined.get(relation.id, relation.definition)
        if relation.id in self.refreshed:
            definition = definition.resumed(self.refreshed[relation.id])
        elif relation.id in self.suspended:
            definition = self._suspended(definition)
        return relation if definition is relation.definition else replace(relation, definition=definition)

    def _suspended(self, definition: Definition) -> Definition:
        """The definition of a view that this transaction suspends: up to date as of the epoch it began from."""
        refreshed = definition.refreshed if definition.is_demand else self.state.epoch
        return replace(definition, refreshed=refreshed, suspended=self.state.epoch + 1)

    def by_id(self, key: str) -> Relation:
        """The relation with an id, as this transaction sees it."""
        return self._now(self.created[key] if key in self.created else self.state.relations[key])

    def relation(self, name: str, place: Place | None = None) -> Relation:
        """The relation of that name, or NotFound with the nearest name."""
        found = self.find(name)
        if found is None:
            raise no_such_table(name, self.names(), place)
        return found

    def table(self, name: str, place: Place | None = None) -> Table:
        """The table of that name, to be changed. A view is refused, because its rows come from its tables."""
        found = self.relation(name, place)
        if isinstance(found, Table):
            return found
        tables = ", ".join(table.name for table in self.tables_below(as_derived(found)))
        raise SqlError(
            f"{found.name} is a view: its rows come from {tables or 'its query alone'}",
            place=place,
            hint="change those tables instead" if tables else f"ALTER VIEW {spelled(found.name)} AS SELECT ...",
        )

    def tables_below(self, relation: Derived) -> list[Table]:
        """The tables that a view's rows come from, through other views too, in the order it names them."""
        found = map(self.by_id, reading(self.alive()).all_read([relation.id]))
        return [below for below in found if isinstance(below, Table)]

    def alive(self) -> list[Relation]:
        """The relations this transaction sees, of all kinds."""
        there = [*self.state.alive(), *self.created.values()]
        other = {*self.defined, *self.refreshed, *self.suspended}
        return [self._now(r) if r.id in other else r for r in there if r.id not in self.dropped]

    def dependents(self, key: str) -> list[Derived]:
        """The relations this transaction sees that read the one with this id or have it as an auxiliary relation."""
        is_as_before = not (self.created or self.dropped or self.defined)
        graph = self.state.depending if is_as_before else depending(self.alive())
        return [as_derived(self.by_id(user)) for user in graph.dependents(key)]

    def names(self) -> list[str]:
        """The names of the relations this transaction sees, without auxiliary ones."""
        return sorted(relation.name for relation in self.alive() if not relation.is_hidden)

    def create(self, name: str, schema: Schema, definition: Definition | None = None) -> Relation:
        """Declares a new table or, with a definition, a view."""
        there = self.find(name)
        if there is not None:
            raise already_exists(there, name, kind_of(definition))
        relation = new_relation(uuid.uuid4().hex[:16], name, schema, self.state.epoch + 1, definition)
        self.created[relation.id] = relation
        return relation

    def drop(self, relation: Relation) -> None:
        """Drops a relation and discards what this transaction did to it before."""
        self.pending.pop(relation.id, None)
        self.defined.pop(relation.id, None)
        self.redefined.discard(relation.id)
        self.refreshed.pop(relation.id, None)
        self.suspended.discard(relation.id)
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
        """What has to be read of a relation; recorded, because a concurrent change of it is a conflict."""
        if relation.id not in self.created:
            self.reads.append(Read(relation.id, keys, ranges))
        scan = pick(self.source(relation), keys, ranges, with_deletions=with_deletions)
        pending = self.pending.get(relation.id)
        if pending is not None:
            pending.files_read += len(scan.files)
            pending.files_total += scan.total_files
        return scan

    def key_weights(self, relation: Relation, keys: Keys) -> pa.Table:
        """Those of some keys that rows have, each with a number of rows. Weights add, so nothing is consolidated."""
        names = keys.schema.names
        scan = self.scan(relation, keys)
        stored = replace(scan, rows=None)
        there: pa.Table | None = None
        first = _first_column(scan, keys, self.store.tuning)
        if first is not None:
            found = self.store.rows_by_key(pick(stored.source, first), names)
            if found is not None:
                self._note_absent(relation, scan, first, found.rows)
                there = rows_among(found.rows, names, keys.table)
        if there is None:
            there = self._totals(stored, keys.schema)
        self._note_absent(relation, scan, keys, there)
        if scan.has_rows and scan.rows is not None:
            mine = rows_among(scan.rows.select([*names, WEIGHT]), names, keys.table)
            there = consolidate(pa.concat_tables([there, mine]))
        return there

    def _totals(self, scan: Scan, schema: Schema) -> pa.Table:
        """The number of rows with each key in the files of a scan."""
        if not scan.files:
            return schema.signed_arrow.empty_table()
        there = self.store.rows_by_key(scan, schema.names)
        if there is not None:
            return there.rows
        engine = self.store.engine
        frame = signed_frame(engine, self.store.storage, scan).groupBy(*map(quote, schema.names)).agg({WEIGHT: "sum"})
        return consolidate(conform(engine.fetch(frame.toDF(*schema.names, WEIGHT)), schema, signed=True))

    def _note_absent(self, relation: Relation, scan: Scan, keys: Keys, there: pa.Table) -> None:
        """Records which of some keys were not found, unless rows were found that the transaction has added."""
        if not scan.source.staged:
            found = is_among(keys.table, there.select(keys.schema.names)) if there.num_rows else None
            absent = keys.table if found is None else keys.table.filter(pa.array(~found))
            self.looked_up.note_absent(relation.id, absent)

    def rows_with(self, relation: Relation, keys: Keys) -> pa.Table:
        """The net rows that have one of some keys, with their weights, on the driver."""
        scan = self.scan(relation, keys)
        if scan.is_empty:
            return relation.schema.signed_arrow.empty_table()
        stored = replace(scan, rows=None)
        first = _first_column(stored, keys, self.store.tuning)
        there = self._rows_by(relation, pick(stored.source, first) if first is not None else stored)
        if there is None and first is not None:
            first, there = None, self._rows_by(relation, stored)
        if there is None:
            frame = consolidated(signed_frame(self.store.engine, self.store.storage, scan), relation.schema)
            return conform(self.store.engine.fetch(frame), relation.schema, signed=True)
        if first is not None:
            there = rows_among(there, keys.schema.names, keys.table)
        if not scan.has_rows or scan.rows is None:
            return there
        return consolidate(pa.concat_tables([there, rows_among(scan.rows, keys.schema.names, keys.table)]))

    def _rows_by(self, relation: Relation, stored: Scan) -> pa.Table | None:
        """The net rows in the files of a scan that have one of its keys; None if an engine is to read them."""
        found = self.store.rows_by_key(stored, relation.schema.names)
        if found is None:
            return None
        if stored.keys is not None and not stored.source.staged:
            self.looked_up.note(relation.id, stored.keys.table, found.rows)
        return found.rows

    # changing ------------------------------------------------------------------------------------

    def pending_of(self, relation: Relation) -> Pending:
        """The change gathered for a relation."""
        if relation.id not in self.pending:
            self.pending[relation.id] = Pending(relation, relation.schema.signed_arrow.empty_table())
        return self.pending[relation.id]

    def add_rows(self, relation: Relation, change: pa.Table) -> None:
        """Adds a checked net change, held on the driver, to the transaction's net change (delta-union)."""
        pending = self.pending_of(relation)
        key = relation.schema.key_among(relation.schema.names)
        rows = consolidate(pa.concat_tables([pending.rows, change]), key) if pending.rows.num_rows else change
        if rows.num_rows > self.store.tuning.small_rows:
            pending.staged.extend(self.store.writer(relation).write_rows(rows))
            rows = rows.slice(0, 0)
        pending.rows = rows

    def add_files(self, relation: Relation, files: Iterable[DataFile]) -> None:
        """Adds a checked change, already written as files, to the transaction's net change."""
        self.pending_of(relation).staged.extend(files)

    def settle(self) -> None:
        """Makes every gathered change net: consolidates parts that may cancel each other."""
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
        self._remove(pending.staged)
        pending.staged = written

    def _remove(self, files: Iterable[DataFile]) -> None:
        """Removes staged files that are not used any more, unless a mark may still read them."""
        self.store.storage.delete(file.path for file in files if file.path not in self.marked)

    @property
    def has_definitions(self) -> bool:
        """Whether it creates, drops, redefines, refreshes or declares something, or ends a firing that waited."""
        definitions = (self.created, self.dropped, self.defined, self.refreshed, self.functions, self.rules)
        return any(definitions) or bool(self.waiting)

    @property
    def changed(self) -> set[str]:
        """The ids of the relations it has changed so far."""
        return {key for key, pending in self.pending.items() if not pending.is_empty}

    def drop_derived(self) -> None:
        """Discards the changes of views, so that they can be derived again."""
        for key in self.derived:
            pending = self.pending.pop(key, None)
            if pending is not None:
                self._remove(pending.staged)
        self.derived.clear()
        self.refreshed.clear()
        self.seen.clear()

    def drop_reactions(self) -> None:
        """Undoes what hooks have changed. The first call records the changes by statements alone."""
        if self._gathered is None:
            self._gathered = {key: replace(held, staged=list(held.staged)) for key, held in self.pending.items()}
            return
        self.drop_derived()
        kept = {file.path for held in self._gathered.values() for file in held.staged}
        self._remove(file for held in self.pending.values() for file in held.staged if file.path not in kept)
        self.pending = {key: replace(held, staged=list(held.staged)) for key, held in self._gathered.items()}

    @contextlib.contextmanager
    def taken_back(self) -> Iterator[None]:
        """In the end takes back what statements have changed meanwhile."""
        before = {key: replace(held, staged=list(held.staged)) for key, held in self.pending.items()}
        self.marked.update(file.path for held in before.values() for file in held.staged)
        try:
            yield
        finally:
            kept = {file.path for held in before.values() for file in held.staged}
            self._remove(file for held in self.pending.values() for file in held.staged if file.path not in kept)
            self.pending = before

    def drop_marks(self) -> None:
        """Removes the files that only marks have read."""
        left = self.marked - {file.path for pending in self.pending.values() for file in pending.staged}
        self.marked.clear()
        self.store.storage.delete(left)

    def rebase(self, held: Held) -> None:
        """Continues from a newer state. The caller has checked that what was read of the older one still holds."""
        self.drop_derived()
        self.looked_up.clear()
        self.state = held.state

    def changes(self) -> dict[str, Change]:
        """The net change of every relation that has one."""
        self.settle()
        found = {}
        for pending in self.pending.values():
            if not pending.is_empty and not pending.relation.is_hidden:
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
        self.drop_marks()
        self.store.storage.delete(file.path for pending in self.pending.values() for file in pending.staged)
        self.pending.clear()
        self.created.clear()
        self.dropped.clear()
        self.defined.clear()
        self.refreshed.clear()
        self.suspended.clear()


def change_of_files(
    store: Store, schema: Schema, files: tuple[DataFile, ...], held: Held, epochs: tuple[int, int] | None = None
) -> Change:
    """A change that is read from its files when asked for: all their rows, or (merged files) those of some epochs.

    `epochs` are the one after which the change begins and the one with which it ends. `held` protects the files until
    then.
    """

    def fetch() -> pa.Table:
        if sum(file.rows for file in files) <= store.tuning.small_rows:
            rows = read_files(store.storage, files, schema)
            if epochs is not None:
                later = pc.and_(pc.greater(rows[EPOCH], epochs[0]), pc.less_equal(rows[EPOCH], epochs[1]))
                rows = take(rows, np.flatnonzero(later.to_numpy()))
            return rows.drop_columns([EPOCH])
        frame = stored_frame(store.engine, store.storage, files, schema)
        if epochs is not None:
            whole = any(not file.merged for file in files)
            among = within_epochs(*epochs)
            frame = frame.filter(parsed(disjunction((among, is_null(Name(EPOCH)))) if whole else among))
        return conform(store.engine.collect(frame.drop(EPOCH)), schema, signed=True)

    return Change(schema, fetch, held, sum(file.rows for file in files))


def change_at(store: Store, held: Held, relation: Relation, epoch: int) -> Change:
    """The net change of a stored relation in an epoch."""
    return change_between(store, held, relation, epoch - 1, epoch)


def change_between(store: Store, held: Held, relation: Relation, since: int, until: int) -> Change:
    """The net change of a stored relation after one epoch, up to another."""
    files = tuple(file for file in relation.files if file.first_epoch <= until and file.last_epoch > since)
    merged = any(file.merged for file in files)
    return change_of_files(store, relation.schema, files, held, (since, until) if merged else None)


def changed_epochs(store: Store, relation: Relation, since: int) -> list[int]:
    """The epochs after one in which a relation changed, in order."""
    found = {file.first_epoch for file in relation.files if not file.merged}
    merged = [file for file in relation.files if file.merged and file.last_epoch > since]
    if merged:
        frame = stored_frame(store.engine, store.storage, merged, relation.schema)
        found |= set(store.engine.collect(frame.select(EPOCH).distinct())[EPOCH].to_pylist())
    return sorted(number for number in found if number > since)


def _first_column(scan: Scan, keys: Keys, tuning: Tuning) -> Keys | None:
    """The first column of keys of several columns, if keys share its values and few rows have each value.

    Looking up by it also records which of its values do not occur, so that maintenance does not look them up again. The
    bounds of the files limit how many values an integer column has, which gives the average number of rows per value.
    """
    name = keys.schema.names[0]
    if len(keys.schema) < 2 or not keys.schema.column(name).type.is_integer or not scan.files:
        return None
    values = pa.table([keys.table.column(0).unique()], names=[name])
    if values.num_rows == keys.table.num_rows:
        return None
    for file in scan.files:
        bound = file.bounds.get(name)
        if bound is None or bound.low is None or file.rows > tuning.rows_per_value * (bound.high - bound.low + 1):
            return None
    return Keys(values, keys.schema.subset([name]), tuning)
