"""Propagation: the net change of every affected view, derived level by level (the wave front).

A view is maintained after everything it reads. Its change is computed from the changes of its inputs; if those cannot
reach it, or leave it as it was, nothing above it is touched. The result is net: every row once, and no row is deleted
that did not exist, which is checked.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.display_names import numbered
from viewkeeper.catalog.graph import depending, maintaining
from viewkeeper.catalog.relations import Auxiliary, Derived, VirtualView, as_derived
from viewkeeper.engine.running import side_by_side
from viewkeeper.errors import Conflict, SessionLost, StatementTimeout, StorageError
from viewkeeper.log.storage import now
from viewkeeper.maintain.common_changes import CommonChanges
from viewkeeper.maintain.declared_keys import simplified
from viewkeeper.maintain.failures import known_as, maintenance_failure
from viewkeeper.maintain.fetched_rows import Fetched
from viewkeeper.maintain.net_changes import collected, net_difference
from viewkeeper.maintain.once import OnceEach
from viewkeeper.maintain.planning import decide, pending_rows, refresh_of
from viewkeeper.maintain.reach import Entrances
from viewkeeper.maintain.recompute import recompute
from viewkeeper.maintain.recursions import Recursions
from viewkeeper.maintain.redefining import Compared, compared
from viewkeeper.maintain.report import Report
from viewkeeper.maintain.situation import Situation
from viewkeeper.maintain.state_reader import StateReader, Work
from viewkeeper.maintain.strategies import strategy_of
from viewkeeper.maintain.strategy import NOT_REACHED, Task
from viewkeeper.maintain.watched_queries import Shared, WatchedChanges, WatchedQuery, with_rows
from viewkeeper.plan.choice import Choice


@dataclass(frozen=True)
class Maintained:
    """How one view was maintained, for its report."""

    relation: Derived
    strategy: str
    reason: str
    work: Work
    seconds: float
    note: str = ""
    lane: str = ""


def summed_up(done: Maintained, parts: Sequence[Maintained], rows: int) -> Report:
    """The report on a view: its own part and those of its auxiliary relations."""
    if not parts and not done.note and done.work == Work():  # most views, if there are many
        return Report(done.strategy, done.reason, rows, 0, 0, done.seconds, lane=done.lane)
    every = [*parts, done]
    works = [part.work for part in every]
    notes = [part.note for part in every if part.note]
    names = numbered(done.relation)
    read = (f"{names.get(relation.id, relation.name)}@{state}" for work in works for relation, state in work.read)
    return Report(
        done.strategy,
        "; ".join(dict.fromkeys([done.reason, *notes])),
        rows,
        sum(work.files_read for work in works),
        sum(work.files_total for work in works),
        sum(part.seconds for part in every),
        sum(work.rows_read for work in works),
        tuple(dict.fromkeys(read)),
        max((part.lane for part in every), default=""),  # one query makes it the engine's
    )


def maintained_node(relation: Derived) -> n.Node:
    """The expression that is maintained for a view."""
    return relation.definition.maintained


def affected(tx: Situation, changed: Iterable[str]) -> list[list[Derived]]:
    """The stored views that a change of some relations may reach at a commit, in levels: each after all it reads."""
    stored = [
        r
        for r in tx.alive()
        if isinstance(r, Derived)
        and not isinstance(r, VirtualView)
        and (not r.definition.is_demand or r.id in tx.refreshing or r.id in tx.to_load)
    ]
    return [[as_derived(tx.by_id(key)) for key in level] for level in maintaining(stored).levels(changed)]


def has_views(tx: Situation) -> bool:
    """Whether the transaction may change a stored view."""
    return bool(affected(tx, {*tx.changed, *tx.to_load, *tx.refreshing, *tx.redefined}))


def late(tx: Situation, at: float) -> set[str]:
    """The views that have been out of date for longer than their lag: the next commit refreshes them."""
    found: set[str] = set()
    for relation in tx.alive():
        if not isinstance(relation, Derived) or relation.id in tx.to_load:
            continue
        definition = relation.definition
        if definition.lag is None or not definition.is_demand or definition.suspended:
            continue
        if tx.state.time_of(definition.refreshed) <= at - definition.lag:
            found.update((*definition.hidden, relation.id))
    return found


def propagate(tx: Situation, wanted: Collection[str] | None = None) -> list[Maintained]:
    """Derives the change of every view that the transaction reaches, and adds it to the transaction.

    If some are `wanted`, only of these and of what they read.
    """
    tx.drop_derived()
    tx.settle()
    changed = tx.changed
    if changed:
        tx.refreshing |= late(tx, now())
    done: list[Maintained] = []
    order = affected(tx, {*changed, *tx.to_load, *tx.refreshing, *tx.redefined})
    if wanted is not None:
        needed = {*wanted, *depending(tx.alive()).all_read(wanted)}
        order = [left for level in order if (left := [relation for relation in level if relation.id in needed])]
    order, missed = _reached(tx, order, changed)
    total, reached = sum(len(level) for level in order), 0
    views = [(relation, maintained_node(relation)) for level in order for relation in level]
    queries = _watched(tx)
    incremental = [(relation.id, node) for relation, node in views if _is_incremental(tx, relation)]
    shared = Shared(
        Fetched(views, tx.looked_up),
        CommonChanges([*incremental, *((query.name, query.node) for query in queries)]),
        Recursions(OnceEach()),
    )
    for number, level in enumerate(order):
        shared.common.select(changed, lambda key: pending_rows(tx.pending, key), tx.store.tuning.shared_rows)
        if tx.store.progress is not None:
            names = [relation.name for relation in level if not isinstance(relation, Auxiliary)]
            tx.store.progress(", ".join(names) or "auxiliary relations", reached, total)
        reached += len(level)
        results = _all_of(tx, level, changed, functools.partial(_maintain_or_fail, tx, frozenset(changed), shared))
        for result in results:
            relation = result.relation
            done.append(result)
            tx.derived.add(relation.id)
            if relation.definition.is_demand:
                tx.refreshed[relation.id] = tx.state.epoch + 1
            if not tx.pending_of(relation).is_empty:
                changed.add(relation.id)
        shared.release([relation for later in order[number + 1 :] for relation in later], queries)
    _watch(tx, queries, changed, shared)
    return [*done, *missed]


def _reached(
    tx: Situation, order: list[list[Derived]], changed: Collection[str]
) -> tuple[list[list[Derived]], list[Maintained]]:
    """The views that changed rows may reach, in levels; and the others, to which no row passes the filters."""
    entrances = Entrances(tx.pending, tx.store.tuning.driver_rows)
    live = {*changed, *tx.to_load, *tx.refreshing, *tx.redefined}
    kept: list[list[Derived]] = []
    missed: list[Maintained] = []
    for level in order:
        left: list[Derived] = []
        for relation in level:
            seen = relation.definition.read & live
            is_full = refresh_of(relation, tx.dependents) == "full"
            if relation.id in live or is_full or any(entrances.may_enter(relation.definition, key) for key in seen):
                left.append(relation)
            else:
                reason = NOT_REACHED.reason if seen else "nothing that it reads has changed"
                missed.append(Maintained(relation, NOT_REACHED.strategy, reason, Work(), 0.0))
        live.update(relation.id for relation in left)
        kept += [left] if left else []
    return kept, missed


def _watched(tx: Situation) -> list[WatchedQuery]:
    """The queries of the watched virtual views, but for those that are redefined."""
    return [
        WatchedQuery(key, watched_query(tx, as_derived(tx.by_id(key))), tx.wanted.get(key, Kinds.BOTH))
        for key in sorted(tx.watched)
        if _former(tx, key) is None
    ]


def _former(tx: Situation, key: str) -> Derived | None:
    """A virtual view that the transaction redefines, as it was."""
    return as_derived(tx.state.relations[key]) if key in tx.defined and key in tx.state.relations else None


def _watch(tx: Situation, queries: Sequence[WatchedQuery], changed: Collection[str], shared: Shared) -> None:
    """Derives the changes of the watched virtual views into `tx.seen`; those of a redefined one are the difference."""
    for key in tx.watched:
        former = _former(tx, key)
        if former is not None:
            relation = as_derived(tx.by_id(key))
            node = relation.definition.as_written
            rows = net_difference(tx.store, relation, node, former.definition.as_written, StateReader.of(tx))
            if rows.num_rows:
                tx.seen[key] = rows
    lowered = {query.name: found for query, found in WatchedChanges(tx, queries, changed, shared, net=False).lowered()}
    if len(lowered) > tx.store.tuning.view_threads:
        there = with_rows(tx.store.engine, {key: found.frame for key, found in lowered.items()})
        lowered = {key: lowered[key] for key in there}

    def fetch(key: str) -> pa.Table:
        return collected(tx.store, tx.by_id(key), lowered[key])

    fetched = side_by_side(fetch, lowered, tx.store.tuning.view_threads) if len(lowered) > 1 else map(fetch, lowered)
    for key, rows in zip(lowered, fetched, strict=True):
        if rows.num_rows:
            tx.seen[key] = rows


def watched_query(tx: Situation, relation: Derived) -> n.Node:
    """The query of a watched view, without the operators that keys make unnecessary in both states."""
    node = relation.definition.as_written
    read = {scan.relation for scan in n.scans(node)}
    return node if read & tx.defined.keys() else simplified(tx.by_id, relation)


def _all_of(
    tx: Situation, level: list[Derived], changed: Collection[str], work: Callable[[Derived], Maintained]
) -> list[Maintained]:
    """Maintains the views of one level. Those that wait for the engine do so in threads, the others are done here."""
    rows = sum(pending_rows(tx.pending, key) for key in changed)
    waiting = [relation for relation in level if not _stays_here(tx, relation, changed, rows)]
    if len(waiting) < 2:
        return [work(relation) for relation in level]

    def apart(relation: Derived) -> tuple[Maintained, list[str]]:
        return work(relation), tx.store.give_scratch()

    done = side_by_side(apart, waiting, tx.store.tuning.view_threads)
    for _, paths in done:
        tx.store.take_scratch(paths)
    found = {result.relation.id: result for result, _ in done}
    return [found[relation.id] if relation.id in found else work(relation) for relation in level]


_lanes: weakref.WeakKeyDictionary[Definition, dict[frozenset[str], str]] = weakref.WeakKeyDictionary()
"""In which lane a view was maintained last, by the changed relations that it reads."""


def _stays_here(tx: Situation, relation: Derived, changed: Collection[str], rows: int) -> bool:
    """Whether a view is expected to be maintained on the driver: a few rows change, and so it was the last time."""
    read = relation.definition.read.intersection(changed)
    if not read:
        return relation.id not in tx.to_load and relation.id not in tx.refreshing and relation.id not in tx.redefined
    return rows <= tx.store.tuning.driver_rows and _lanes.get(relation.definition, {}).get(read) == "driver"


def _is_incremental(tx: Situation, relation: Derived) -> bool:
    """Whether a view may be maintained incrementally from the state before this transaction, definition unchanged."""
    if relation.id in tx.to_load or relation.id in tx.refreshing or relation.id in tx.redefined:
        return False
    return refresh_of(relation, tx.dependents) != "full"


def _maintain_or_fail(tx: Situation, changed: frozenset[str], shared: Shared, relation: Derived) -> Maintained:
    """Maintains a view; an error names the view."""
    try:
        return _maintain(tx, changed, shared, relation)
    except (SessionLost, StatementTimeout, StorageError, Conflict):
        raise
    except Exception as problem:
        raise maintenance_failure(tx, relation, problem) from problem


def _maintain(tx: Situation, changed: frozenset[str], shared: Shared, relation: Derived) -> Maintained:
    """Maintains a view: an initial load, a refresh on demand, or its part in an ordinary commit."""
    node, read = maintained_node(relation), relation.definition.read
    if relation.id in tx.to_load:
        reader = StateReader.of(tx)
        reader.recursions = shared.recursions
        return _load(tx, relation, node, reader)
    if relation.id in tx.refreshing:
        if relation.definition.suspended:
            return _load(tx, relation, node, StateReader.of(tx))
        since = relation.definition.refreshed
        newer = {key for key in read if any(file.last_epoch > since for file in tx.by_id(key).files)}
        if not newer | (read & changed):
            return Maintained(relation, "none", "nothing that it reads has changed", Work(), 0.0)
        return maintain(tx, relation, node, newer | (read & changed), StateReader.of(tx, since))
    if not read & changed and relation.id not in tx.redefined:
        return Maintained(relation, "none", "nothing that it reads has changed", Work(), 0.0)
    return maintain(tx, relation, node, read & changed, shared.reader(tx))


def _load(tx: Situation, relation: Derived, node: n.Node, reader: StateReader) -> Maintained:
    """Computes a view from its inputs: its initial load, its new definition, or the end of its suspension."""
    began = time.perf_counter()
    reader.lane = relation.definition.lane
    recompute(Task(tx, relation, node, (), reader))
    reason = "its definition is new"
    if relation.definition.suspended:
        reason = f"it was suspended since epoch {relation.definition.suspended}"
    elif relation.id in tx.state.relations:
        reason = f"its definition has changed: {compared(tx, relation).difference}"
    return Maintained(relation, "full", reason, reader.work, time.perf_counter() - began)


def maintain(
    tx: Situation, relation: Derived, node: n.Node, changed: Collection[str], reader: StateReader
) -> Maintained:
    """Maintains one stored view: by an incremental or a full refresh, whichever the plan chooses."""
    began = time.perf_counter()
    reader.own = frozenset((relation.id, *relation.definition.beside))
    reader.lane = relation.definition.lane
    how = compared(tx, relation) if relation.id in tx.redefined else None
    choice = _redefined(how, changed) if how else decide(reader, relation, changed, refresh_of(relation, tx.dependents))
    task = Task(tx, relation, node, changed, reader, how)
    with tx.store.engine.counted() as calls:
        if choice.strategy == "full":
            recompute(task)
        else:
            choice = strategy_of(relation).maintain(task, choice)
    seconds = time.perf_counter() - began
    notes = [choice.note] if choice.note else []
    if isinstance(relation, Auxiliary) and how is not None:
        notes.insert(0, f"the definition of its auxiliary relation has changed: {how.difference}")
    if isinstance(relation, Auxiliary) and choice.weighed:
        did = "was refreshed in full" if choice.strategy == "full" else "was maintained incrementally"
        notes.insert(0, f"its auxiliary relation {did}: {choice.reason}")
    if choice.strategy == "incremental" and reader.common is not None:
        for common in reader.common.of(relation.id):
            names = sorted({known_as(tx.alive(), as_derived(tx.by_id(key))) for key in common.users})
            notes.append(f"the change of {common} was derived once for {', '.join(names)}")
    if calls and choice.strategy == "incremental":
        notes += [f"on the engine: {why}" for why in task.lowering.left]
    lane = "engine" if calls else "driver" if choice.strategy == "incremental" else ""
    _lanes.setdefault(relation.definition, {})[frozenset(changed)] = "engine" if calls else "driver"
    return Maintained(relation, choice.strategy, choice.reason, reader.work, seconds, "; ".join(notes), lane)


def _redefined(how: Compared, changed: Collection[str]) -> Choice:
    """The choice for a view whose definition has changed: incremental, unless changed rows of its inputs forbid it."""
    reason = f"its definition has changed: {how.difference}"
    against = how.redefinition.cannot_follow(changed) if how.redefinition is not None else None
    return Choice("full", f"{reason}; {against}") if against else Choice("incremental", reason)
