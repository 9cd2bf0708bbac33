"""New views on trial: their maintenance is run once on generated rows, in a state that is thrown away.

A view over empty tables does not show whether its first change will work. So before a definition is accepted, the real
propagation runs in a state of its own: it computes the view from inserted rows, and then its change when rows of every
table are inserted, updated and deleted at once. A plan that the engine refuses, or that breaks a law, is refused here,
with the engine's message. After an error that depends on values (division by zero, overflow, a bad cast) other rows are
tried; such an error never refuses a definition.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import EPOCH, Schema
from viewkeeper.algebra.serial import fingerprint
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation, Table, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.engine.problems import Endless, depends_on_values
from viewkeeper.errors import (
    Conflict,
    NotMaintainable,
    Place,
    SessionLost,
    StatementTimeout,
    StorageError,
    ViewkeeperError,
)
from viewkeeper.maintain.failures import complaint_of
from viewkeeper.maintain.net_changes import net_change
from viewkeeper.maintain.propagation import maintained_node, propagate
from viewkeeper.maintain.state_reader import OutOfQueries, StateReader
from viewkeeper.store.batches import describe
from viewkeeper.transaction.generated_rows import generated
from viewkeeper.transaction.open_transaction import OpenTransaction

VARIANTS = 3
"""The number of sets of generated rows."""

MOST_QUERIES = 40
"""The trial of a recursion that takes more queries over so few rows ends there, and counts as passed."""

WIDE = 10
"""More scans in a view, and no generated row occurs twice: a join of so many tables would have each row 2¹⁰ times."""

PlaceOf = Callable[[str], Place | None]

_passed: dict[Hashable, None] = {}
_lock = threading.Lock()

REMEMBERED = 10_000
"""So many trials that have passed in this process are not run again: those last passed."""


def try_definitions(tx: OpenTransaction, place_of: PlaceOf) -> None:
    """Tries the views that a statement has defined; raises NotMaintainable if one cannot be maintained.

    `place_of` gives the position of a view in the statement.
    """
    keys, tx.untried = tx.untried, set()
    there = {relation.id: relation for relation in tx.alive()}
    views = [as_derived(there[key]) for key in keys if key in there]
    if not views:
        return
    trial = _Trial(tx, views)
    course = trial.course
    with _lock:
        known = course in _passed
    if known:
        return
    trial.run(place_of)
    with _lock:
        _passed[course] = None
        while len(_passed) > REMEMBERED:
            del _passed[next(iter(_passed))]


class _Trial:
    """Some views with their auxiliary relations, over tables of generated rows."""

    def __init__(self, tx: OpenTransaction, views: Collection[Derived]) -> None:
        self.store = tx.store.on(tx.store.engine.for_few_rows())
        self.base = tx.state
        keys = dict.fromkeys(key for view in views for key in (*view.definition.hidden, view.id))
        self.tried = {key: _on_trial(as_derived(tx.by_id(key))) for key in keys}
        read = [scan.relation for view in self.tried.values() for scan in n.scans(_node(view))]
        inputs = [tx.by_id(key) for key in dict.fromkeys(read) if key not in self.tried]
        self.inputs = {given.id: Table(given.id, given.name, given.schema, 0) for given in inputs}

    @property
    def course(self) -> Hashable:
        """A value that is equal for trials that take the same course: the plans, and all that decides how they run.

        It holds the functions themselves, so that no other one can be taken for them.
        """
        numbers = {key: f"{index}" for index, key in enumerate([*self.inputs, *self.tried])}

        def numbered(part: n.Node) -> n.Node:
            return replace(part, relation=numbers[part.relation]) if isinstance(part, n.Scan) else part

        parts = [
            *(_shape(relation.schema) for relation in self.inputs.values()),
            *(
                [
                    view.kind,
                    view.definition.refresh,
                    _shape(view.schema),
                    fingerprint(n.transform(_node(view), numbered)),
                ]
                for view in self.tried.values()
            ),
        ]
        engine = self.store.engine
        plans = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        functions = frozenset((name, function) for name, (function, _) in engine.functions.items())
        settings = (engine.where, engine.settings, frozenset(engine.conf.items()), engine.tuning, engine.limits)
        return plans, functions, settings

    # running --------------------------------------------------------------------------------------

    def run(self, place_of: PlaceOf) -> None:
        """Tries one set of rows after the other, until one passes or its error does not depend on values."""
        for variant in range(VARIANTS):
            try:
                self._run(variant)
                return
            except (SessionLost, StatementTimeout, StorageError, Conflict):
                raise
            except Exception as problem:
                if any(isinstance(cause, OutOfQueries | Endless) for cause in _causes(problem)):
                    return
                values = depends_on_values(problem)
                if values is False or (values is None and variant == VARIANTS - 1):
                    raise self._refused(problem, place_of) from problem

    def _run(self, variant: int) -> None:
        recursive = any(isinstance(part, n.Fixpoint) for view in self.tried.values() for part in _node(view).walk())
        is_wide = any(sum(1 for _ in n.scans(_node(view))) > WIDE for view in self.tried.values())
        named = {reference.table.lower() for r in self.inputs.values() for reference in r.schema.references}
        rows = {
            key: generated(
                r.schema, variant, apart=recursive and not named, grows=r.name.lower() in named, once=is_wide
            )
            for key, r in self.inputs.items()
        }
        stored = {view.id for view in self.tried.values() if not isinstance(view, VirtualView)}
        relations: dict[str, Relation] = {**self.inputs, **self.tried}
        state = replace(self.base, epoch=0, oldest=0, relations=relations)
        state = self._step(state, {key: steps.first for key, steps in rows.items()}, stored)
        self._step(state, {key: steps.then for key, steps in rows.items()})

    def _step(self, state: State, changes: dict[str, pa.Table], to_load: Iterable[str] = ()) -> State:
        """The state after one transaction of the trial."""
        tx = OpenTransaction(self.store, state)
        tx.most_queries = MOST_QUERIES
        tx.to_load |= set(to_load)
        for key, rows in changes.items():
            if rows.num_rows:
                tx.add_rows(state.relations[key], rows)
        propagate(tx)
        for view in self.tried.values():
            if isinstance(view, VirtualView) and state.epoch:
                node = _node(view)
                read = {scan.relation for scan in n.scans(node)}
                reader = StateReader.of(tx)
                reader.lane = view.definition.lane
                net_change(self.store, view, node, read & tx.changed, reader)
        epoch = state.epoch + 1
        relations = dict(state.relations)
        for key, pending in tx.pending.items():
            files = [replace(file, first_epoch=epoch, last_epoch=epoch) for file in self._files(pending.rows, key)]
            staged = [replace(file, first_epoch=epoch, last_epoch=epoch) for file in pending.staged]
            relations[key] = replace(relations[key], files=(*relations[key].files, *files, *staged))
        return replace(state, epoch=epoch, relations=relations)

    def _files(self, rows: pa.Table, key: str) -> list[DataFile]:
        if rows.num_rows == 0:
            return []
        schema = {**self.inputs, **self.tried}[key].schema
        rows = rows.append_column(pa.field(EPOCH, pa.int64()), pa.nulls(rows.num_rows, pa.int64()))
        path = self.store.write_scratch(rows)
        data = self.store.storage.read(path)
        assert data is not None
        return [describe(rows, schema, path, data, merged=False)]

    def _refused(self, problem: Exception, place_of: PlaceOf) -> NotMaintainable:
        views = [view.name for view in self.tried.values() if not isinstance(view, Auxiliary)]
        said = problem.view if isinstance(problem, ViewkeeperError) else None
        cause = _first(problem)
        hint = "write the query in another way"
        if self._runs_in_full():
            hint = f"WITH (refresh = 'full') refreshes it in full at every commit, or {hint}"
        return NotMaintainable(
            f"{said or ', '.join(views)} cannot be maintained: {complaint_of(cause)}",
            place=place_of(said or views[0]),
            detail="its maintenance was tried on generated rows; nothing was changed",
            hint=hint,
        )

    def _runs_in_full(self) -> bool:
        """Whether a view that cannot be maintained incrementally could be refreshed in full instead."""
        views = [view for view in self.tried.values() if not isinstance(view, Auxiliary)]
        if len(views) != 1 or isinstance(views[0], VirtualView) or views[0].definition.refresh == "full":
            return False
        definition = views[0].definition
        full = replace(views[0], definition=replace(definition, refresh="full", stored=definition.query, hidden=()))
        self.tried = {full.id: full}
        try:
            self._run(0)
        except Exception:
            return False
        return True


def _on_trial(relation: Derived) -> Derived:
    """A view as it is tried: maintained incrementally at every step, unless it is always refreshed in full.

    The engine computes it, because that is what may be unable to: a large change will go there. The rounds of a
    recursion would be too many queries.
    """
    definition = relation.definition
    refresh = "full" if definition.refresh == "full" else "incremental"
    recursive = any(isinstance(part, n.Fixpoint) for part in _node(relation).walk())
    lane = definition.lane if recursive else "engine"
    tried = replace(definition, refresh=refresh, on="commit", lag=None, refreshed=0, suspended=0, lane=lane)
    tried = replace(tried, runners_up="", neighbors="")
    return replace(relation, files=(), former=(), definition=tried, created=0)


def _node(view: Derived) -> n.Node:
    """The expression that is maintained for a view; for a virtual one its query over its auxiliary relations."""
    return maintained_node(view)


def _shape(schema: Schema) -> list[object]:
    columns = [[column.name, column.type.ddl, column.nullable] for column in schema]
    return [columns, [[key.primary, list(key.columns)] for key in schema.keys], [str(r) for r in schema.references]]


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """An error and its causes."""
    cause: BaseException | None = problem
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _first(problem: BaseException) -> BaseException:
    """The original error, before the name of a view was added to it."""
    while isinstance(problem, ViewkeeperError) and problem.view is not None and problem.__cause__ is not None:
        problem = problem.__cause__
    return problem
