"""Propagation: the net change of every affected view, worked out level by level (the wave front).

A view is looked at after everything it reads. Its change is computed from the changes of its inputs; if those cannot
reach it, or leave it as it was, nothing above it is touched. What comes out is net: every row once, and no row is
deleted that was not there, which is checked.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.rows import canonical, consolidate, part_with_sign, row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.analysis.safe_references import safe_relations
from viewkeeper.catalog.definition import AUXILIARY, VIEW, Definition
from viewkeeper.catalog.state import Relation
from viewkeeper.delta.compile import differentiate
from viewkeeper.delta.laws import once
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.canonical_frames import canonical_frame
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.folding import fold
from viewkeeper.engine.lowered import Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.prefix import move
from viewkeeper.engine.running import side_by_side
from viewkeeper.errors import Conflict, InternalError, SessionLost, StatementTimeout, StorageError
from viewkeeper.log.storage import now
from viewkeeper.maintain.declared_keys import declared_keys
from viewkeeper.maintain.failures import known_as, maintenance_failure
from viewkeeper.maintain.once import OnceEach
from viewkeeper.maintain.planning import decide, looked_up_by, pending_rows, refresh_of
from viewkeeper.maintain.recursions import Recursions, bag_change, signed
from viewkeeper.maintain.redefining import Compared, compared, former_node
from viewkeeper.maintain.report import Report
from viewkeeper.maintain.situation import Situation
from viewkeeper.maintain.state_reader import CommonChanges, Fetched, StateReader, Work, schema_of
from viewkeeper.plan.choice import Choice, span
from viewkeeper.store.batches import with_no_epoch
from viewkeeper.store.bounds import Keys
from viewkeeper.store.scans import Source, pick, signed_frame
from viewkeeper.store.scratch import materialize
from viewkeeper.store.store import Store

NOT_REACHED = Choice("none", "no changed row can reach it")

THREADS = 4
"""Views of a level that are worked on at the same time."""


@dataclass(frozen=True)
class Maintained:
    """How one view was brought up to date."""

    relation: Relation
    strategy: str
    reason: str
    work: Work
    seconds: float
    note: str = ""


def summed_up(done: Maintained, parts: Sequence[Maintained], rows: int) -> Report:
    """The report on a view: its own part and those of its auxiliary relations."""
    every = [*parts, done]
    works = [part.work for part in every]
    notes = [part.note for part in every if part.note]
    return Report(
        done.strategy,
        "; ".join(dict.fromkeys([done.reason, *notes])),
        rows,
        sum(work.files_read for work in works),
        sum(work.files_total for work in works),
        sum(part.seconds for part in every),
        sum(work.rows_read for work in works),
        tuple(dict.fromkeys(name for work in works for name in work.read)),
    )


def maintained_node(relation: Relation) -> n.Node:
    """What is kept of a stored view, as an expression over relations."""
    assert relation.definition is not None
    return relation.definition.maintained


def affected(tx: Situation, changed: Iterable[str]) -> list[list[Relation]]:
    """The stored views that a change of some relations may reach at a commit, in levels: each after all it reads."""
    stored = {
        r.id: {scan.relation for scan in n.scans(maintained_node(r))}
        for r in tx.alive()
        if r.definition is not None
        and r.kind != VIEW
        and (not r.definition.is_demand or r.id in tx.refreshing or r.id in tx.unfilled)
    }
    reached = set(changed)
    order: list[list[Relation]] = []
    while True:
        ready = [
            key
            for key, uses in stored.items()
            if (key in reached or uses & reached)
            and not any(other in uses and _reaches(stored, other, reached) for other in stored if other != key)
        ]
        if not ready:
            return order
        order.append([tx.by_id(key) for key in ready])
        reached.update(ready)
        for key in ready:
            del stored[key]


def _reaches(stored: dict[str, set[str]], key: str, reached: set[str]) -> bool:
    """Whether a view that is still to be looked at may change."""
    waiting, seen = [key], set()
    while waiting:
        current = waiting.pop()
        if current in seen or current not in stored:
            continue
        seen.add(current)
        if current in reached or stored[current] & reached:
            return True
        waiting += stored[current]
    return False


def has_views(tx: Situation) -> bool:
    """Whether the transaction may change a stored view."""
    return bool(affected(tx, {*tx.changed, *tx.unfilled, *tx.refreshing, *tx.redefined}))


def late(tx: Situation, at: float) -> set[str]:
    """The views with a lag that were last true longer ago than that: the next commit takes them along."""
    found: set[str] = set()
    for relation in tx.alive():
        definition = relation.definition
        if definition is None or definition.lag is None or not definition.is_demand or relation.id in tx.unfilled:
            continue
        if definition.suspended:
            continue
        if tx.state.time_of(definition.refreshed) <= at - definition.lag:
            found.update((*definition.hidden, relation.id))
    return found


def propagate(tx: Situation) -> list[Maintained]:
    """Works out the change of every view the transaction reaches, and joins it to the transaction."""
    tx.drop_derived()
    tx.settle()
    changed = tx.changed
    if changed:
        tx.refreshing |= late(tx, now())
    done: list[Maintained] = []
    order = affected(tx, {*changed, *tx.unfilled, *tx.refreshing, *tx.redefined})
    total, reached = sum(len(level) for level in order), 0
    kept = [(relation, maintained_node(relation)) for level in order for relation in level]
    together = _Together(
        Fetched(kept, tx.not_there),
        CommonChanges((relation.id, node) for relation, node in kept if _follows(tx, relation)),
        Recursions(OnceEach()),
    )
    for level in order:
        together.common.look(changed, lambda key: pending_rows(tx.pending, key))
        if tx.store.progress is not None:
            names = [relation.name for relation in level if relation.kind != AUXILIARY]
            tx.store.progress(", ".join(names) or "what views are made of", reached, total)
        reached += len(level)
        results = _side_by_side(tx, level, functools.partial(_answered_for, tx, frozenset(changed), together))
        for result in results:
            relation = result.relation
            done.append(result)
            tx.derived.add(relation.id)
            if relation.definition is not None and relation.definition.is_demand:
                tx.refreshed[relation.id] = tx.state.epoch + 1
            if not tx.pending_of(relation).is_empty:
                changed.add(relation.id)
    _watch(tx, changed)
    return done


def _watch(tx: Situation, changed: Collection[str]) -> None:
    """Derives the changes of the virtual views that someone watches; they are stored nowhere."""
    for key in sorted(tx.watched):
        relation = tx.by_id(key)
        assert relation.definition is not None
        node = relation.definition.as_written
        mine = {scan.relation for scan in n.scans(node)} & set(changed)
        rows = net_change(tx.store, relation, node, mine, StateReader.of(tx)) if mine else None
        if rows is not None and rows.num_rows:
            tx.seen[key] = rows


def _side_by_side(tx: Situation, level: list[Relation], work: Callable[[Relation], Maintained]) -> list[Maintained]:
    """The views of one level at the same time: most of it is waiting for the engine."""
    if len(level) == 1:
        return [work(level[0])]

    def apart(relation: Relation) -> tuple[Maintained, list[str]]:
        return work(relation), tx.store.give_scratch()

    done = side_by_side(apart, level, THREADS)
    for _, paths in done:
        tx.store.take_scratch(paths)
    return [result for result, _ in done]


def _follows(tx: Situation, relation: Relation) -> bool:
    """Whether a view may follow the change from the state before this transaction, under the definition it had."""
    if relation.id in tx.unfilled or relation.id in tx.refreshing or relation.id in tx.redefined:
        return False
    return refresh_of(relation, tx.alive()) != "full"


@dataclass(frozen=True)
class _Together:
    """What the views of a transaction have in common."""

    fetched: Fetched
    common: CommonChanges
    recursions: Recursions


def _answered_for(tx: Situation, changed: frozenset[str], together: _Together, relation: Relation) -> Maintained:
    """Brings a view up to date; what goes wrong is said to be that view's."""
    try:
        return _bring_up(tx, changed, together, relation)
    except (SessionLost, StatementTimeout, StorageError, Conflict):
        raise
    except Exception as problem:
        raise maintenance_failure(tx, relation, problem) from problem


def _bring_up(tx: Situation, changed: frozenset[str], together: _Together, relation: Relation) -> Maintained:
    """Brings a view up to date in the way it needs."""
    node = maintained_node(relation)
    read = {scan.relation for scan in n.scans(node)}
    if relation.id in tx.unfilled:
        reader = StateReader.of(tx)
        reader.recursions = together.recursions
        return _fill(tx, relation, node, reader)
    if relation.id in tx.refreshing:
        assert relation.definition is not None
        if relation.definition.suspended:
            return _fill(tx, relation, node, StateReader.of(tx))
        since = relation.definition.refreshed
        newer = {key for key in read if any(file.last_epoch > since for file in tx.by_id(key).files)}
        if not newer | (read & changed):
            return Maintained(relation, "none", "nothing that it reads has changed", Work(), 0.0)
        return maintain(tx, relation, node, newer | (read & changed), StateReader.of(tx, since))
    if not read & changed and relation.id not in tx.redefined:
        return Maintained(relation, "none", "nothing that it reads has changed", Work(), 0.0)
    reader = StateReader.of(tx)
    reader.fetched, reader.common, reader.recursions = together.fetched, together.common, together.recursions
    return maintain(tx, relation, node, read & changed, reader)


def _fill(tx: Situation, relation: Relation, node: n.Node, reader: StateReader) -> Maintained:
    """The first contents of a view, those under its new definition, or those of one that was suspended."""
    began = time.perf_counter()
    recompute(tx, relation, node, reader)
    reason = "its definition is new"
    if relation.definition is not None and relation.definition.suspended:
        reason = f"it was suspended since epoch {relation.definition.suspended}"
    elif relation.id in tx.state.relations:
        reason = f"its definition is another: {compared(tx, relation).told}"
    return Maintained(relation, "full", reason, reader.work, time.perf_counter() - began)


def maintain(
    tx: Situation, relation: Relation, node: n.Node, changed: Collection[str], reader: StateReader
) -> Maintained:
    """Brings one stored view up to date: by change, or by computing it anew, as the plan chooses."""
    began = time.perf_counter()
    reader.own = relation.id
    how = compared(tx, relation) if relation.id in tx.redefined else None
    choice = _redefined(how, changed) if how else decide(reader, relation, changed, refresh_of(relation, tx.alive()))
    if choice.strategy == "full":
        recompute(tx, relation, node, reader)
    else:
        change_of = functools.partial(_change_of, how, node, changed, reader)
        choice = by_change(tx, relation, node, changed, change_of, reader, choice)
    seconds = time.perf_counter() - began
    notes = [choice.note] if choice.note else []
    if relation.kind == AUXILIARY and how is not None:
        notes.insert(0, f"what is kept for it is another: {how.told}")
    if relation.kind == AUXILIARY and choice.weighed:
        did = "was computed anew" if choice.strategy == "full" else "followed the change"
        notes.insert(0, f"what is kept for it {did}: {choice.reason}")
    if choice.strategy == "incremental" and reader.common is not None:
        for common in reader.common.of(relation.id):
            names = sorted({known_as(tx.alive(), tx.by_id(key)) for key in common.users})
            notes.append(f"the change of {common} was worked out once for {', '.join(names)}")
    return Maintained(relation, choice.strategy, choice.reason, reader.work, seconds, "; ".join(notes))


def _redefined(how: Compared, changed: Collection[str]) -> Choice:
    """A definition that has changed is followed, unless rows that came or went with it stand against that."""
    reason = f"its definition is another: {how.told}"
    against = how.redefinition.cannot_follow(changed) if how.redefinition is not None else None
    return Choice("full", f"{reason}; {against}") if against else Choice("incremental", reason)


# by change ----------------------------------------------------------------------------------------


def by_change(
    tx: Situation,
    relation: Relation,
    node: n.Node,
    changed: Collection[str],
    change_of: Callable[[bool], n.Node | None],
    reader: StateReader,
    choice: Choice,
) -> Choice:
    """δV, joined to the transaction. `change_of` gives δ of the expression, or of what stands below its top."""
    lowering = Lowering(tx.store.engine, reader)
    if isinstance(node, n.Aggregate):
        return _group_by(tx, relation, node, change_of(True), lowering, choice)
    if isinstance(node, n.Fixpoint):
        return _recursion(tx, relation, node, changed, reader, choice)
    if isinstance(node, n.Top) and relation.kind == AUXILIARY:
        return _prefix(tx, relation, node, change_of(True), lowering, choice)
    change = change_of(False)
    lowered = lowering.lower(change) if change is not None else None
    if lowered is None or lowered.empty:
        return NOT_REACHED
    _join_change(tx, relation, lowered, check=ALWAYS_CHECKED or not _is_surely_minimal(tx, relation, node, changed))
    return choice


ALWAYS_CHECKED = False
"""Whether the deletions of every change are looked up in the stored view, also where they are sure to be there."""

_safe: weakref.WeakKeyDictionary[Definition, frozenset[str]] = weakref.WeakKeyDictionary()


def _is_surely_minimal(tx: Situation, relation: Relation, node: n.Node, changed: Collection[str]) -> bool:
    """Whether what a change deletes is sure to be there, once: all that changed is safe, and no row is there twice.

    Ceri and Widom's Theorems 5.5 to 5.7: a row of the view needs one row of a safe reference, so what goes with it was
    there, and what comes with it was not.
    """
    definition = relation.definition
    assert definition is not None
    if relation.id in tx.redefined:
        return False
    if definition not in _safe:
        _safe[definition] = safe_relations(node, declared_keys(tx.state.relations.get))
    return set(changed) <= _safe[definition]


def _change_of(
    how: Compared | None, node: n.Node, changed: Collection[str], reader: StateReader, below: bool
) -> n.Node | None:
    """δ of an expression, or of what is below its top node; from another one if it was redefined.

    The changes of joins that other views have as well are worked out once for all.
    """
    if how is not None and how.redefinition is not None:
        whole = how.redefinition.node
        return how.redefinition.change(whole.inputs[0] if below else whole, changed)
    node = node.inputs[0] if below else node
    if reader.common is None or not reader.common.wanted:
        return differentiate(node, changed, reader.grown(changed))
    return reader.common.sharing.change(node, changed, reader.common.wanted)


def _group_by(
    tx: Situation, relation: Relation, node: n.Aggregate, change: n.Node | None, lowering: Lowering, choice: Choice
) -> Choice:
    """A stored group-by: from its state, or by the touched groups where an aggregate has no state.

    δγ = γ(S@new ⋉ K) − γ@old ⋉ K        K = the groups of δS, γ@old as stored
    """
    if change is None:
        return NOT_REACHED
    stored = n.Scan(relation.id, relation.name, node.outputs, n.OLD, tuple(relation.schema.names))
    after = n.at(node.input, n.NEW)
    if all(call.text is None for call in node.calls):
        folded = fold(lowering, node, stored, after, change)
        if folded is None:
            return NOT_REACHED
        if folded.table is not None:
            _join_rows(tx, relation, folded.table)
            again = f"{folded.reread} group{'s' if folded.reread != 1 else ''} lost an extremum and were read again"
            return replace(choice, note=again if folded.reread else "")
    pairs = tuple((group, group) for group in node.groups if not group.type.has_map())
    if pairs:
        change = once(change)
    if lowering.lower(change).empty:
        return NOT_REACHED
    fresh = replace(node, input=n.Restrict(after, change, pairs) if pairs else after)
    before: n.Node = n.Restrict(stored, change, pairs) if pairs else stored
    _join_change(tx, relation, lowering.lower(_less(fresh, before)), check=False)
    return choice


def _prefix(
    tx: Situation, relation: Relation, node: n.Top, change: n.Node | None, lowering: Lowering, choice: Choice
) -> Choice:
    """The first rows of an order, kept with some slack."""
    if change is None:
        return NOT_REACHED
    stored = n.Scan(relation.id, relation.name, node.outputs, n.OLD, tuple(relation.schema.names))
    moved = move(lowering, node, stored, n.at(node.input, n.NEW), once(change))
    if moved is None:
        return NOT_REACHED
    _join_rows(tx, relation, moved.table)
    again = f"{moved.reread} prefix{'es' if moved.reread != 1 else ''} ran short and were read again"
    return replace(choice, note=again if moved.reread else "")


def _recursion(
    tx: Situation, relation: Relation, node: n.Fixpoint, changed: Collection[str], reader: StateReader, choice: Choice
) -> Choice:
    """A recursive relation: what goes and what comes, by the strategies of the package recursion."""
    engine = tx.store.engine
    shown = next(predicate for predicate in node.predicates if predicate.name == node.shown)
    own = n.Scan(relation.id, relation.name, shown.attributes, n.OLD, tuple(relation.schema.names))
    if node.bag:
        _join_change(tx, relation, bag_change(engine, reader, node, own, changed), check=True)
        return choice
    stored = node.stored or ((node.shown, own),)
    node = replace(node, stored=tuple((name, replace(scan, state=n.OLD)) for name, scan in stored))
    before = former_node(tx, relation) if relation.id in tx.redefined else node
    assert isinstance(before, n.Fixpoint)
    found = reader.recursions.change(engine, reader, before, node, changed, choice.limit)
    if isinstance(found, str):
        recompute(tx, relation, node, reader)
        assert choice.limit is not None
        return replace(choice, strategy="full", note=f"{found}: anew it costs about {span(choice.limit)}")
    net, how = found
    _join_change(tx, relation, signed(engine, reader, net, node.shown, node.outputs), check=True)
    return replace(choice, note=f"{how.name}: {net.trace}")


# anew ---------------------------------------------------------------------------------------------


def recompute(tx: Situation, relation: Relation, node: n.Node, reader: StateReader) -> None:
    """V@new − V@old, with V@new computed from its inputs and V@old as stored."""
    stored = n.Scan(relation.id, relation.name, node.outputs, n.OLD, tuple(relation.schema.names))
    difference = Lowering(tx.store.engine, reader).lower(_less(n.at(node, n.NEW), stored))
    _join_change(tx, relation, difference, check=False)


def _less(after: n.Node, before: n.Node) -> n.Node:
    """after − before, as a change."""
    return n.Union((after, n.Negate(before)), after.outputs)


# for views that store nothing ---------------------------------------------------------------------------


def net_change(
    store: Store, relation: Relation, node: n.Node, changed: Collection[str], reader: StateReader
) -> pa.Table:
    """δ of a query between the reader's two states, on the driver, under the relation's names."""
    change = differentiate(node, changed)
    if change is None:
        return relation.schema.signed_arrow.empty_table()
    return _collected(store, relation, Lowering(store.engine, reader).lower(change))


def net_difference(
    store: Store, relation: Relation, node: n.Node, before: n.Node | None, reader: StateReader
) -> pa.Table:
    """What one query gives in the new state less what another gave in the old one."""
    after = n.at(node, n.NEW)
    none = n.Rows(node.outputs, ())
    difference = _less(after, n.at(before, n.OLD) if before is not None else none)
    return _collected(store, relation, Lowering(store.engine, reader).lower(difference))


def _collected(store: Store, relation: Relation, change: Lowered) -> pa.Table:
    if change.empty:
        return relation.schema.signed_arrow.empty_table()
    rows = conform(store.engine.fetch(change.frame), schema_of(change.outputs), signed=True)
    return consolidate(_canonical(rows.rename_columns([*relation.schema.names, WEIGHT]), relation))


# joining a change to the transaction ----------------------------------------------------------------


def _join_change(tx: Situation, relation: Relation, change: Lowered, *, check: bool) -> None:
    if change.empty:
        return
    engine = tx.store.engine
    small = change.rows if change.rows is not None else engine.collect_small(change.frame)
    if small is not None:
        _join_rows(tx, relation, conform(small, schema_of(change.outputs), signed=True), check=check)
        return
    _join_frame(tx, relation, change.frame)


def _join_rows(tx: Situation, relation: Relation, rows: pa.Table, *, check: bool = False) -> None:
    rows = rows.rename_columns([*relation.schema.names, WEIGHT])
    net = consolidate(_canonical(rows, relation))
    if net.num_rows == 0:
        return
    if check:
        check_minimal(tx, relation, net)
    tx.add_rows(relation, net)


def _canonical(rows: pa.Table, relation: Relation) -> pa.Table:
    plain = canonical(rows.drop_columns([WEIGHT]), relation.schema)
    return plain.append_column(rows.schema.field(WEIGHT), rows[WEIGHT])


def _join_frame(tx: Situation, relation: Relation, frame: Frame) -> None:
    """A change too large for the driver: consolidated and written by the engine."""
    schema = relation.schema
    named = canonical_frame(tx.store.engine, frame.toDF(*schema.names, WEIGHT), schema, WEIGHT)
    kept, rows = materialize(tx.store, consolidated(named, schema), schema, f"{WEIGHT} bigint")
    if rows:
        tx.add_files(relation, tx.store.writer(relation).write_frame(with_no_epoch(kept), rows))


def check_minimal(tx: Situation, relation: Relation, net: pa.Table) -> None:
    """Raises unless every deleted row is there as often as it is deleted: a change is strongly minimal or wrong."""
    gone = part_with_sign(net, -1)
    if gone.num_rows == 0:
        return
    schema = relation.schema
    names = list(looked_up_by(relation))
    source = Source(schema, relation.files_at(tx.state.epoch), tx.state.epoch)
    keys = None
    if names:
        distinct = gone.select(names).group_by(names, use_threads=False).aggregate([])
        keys = Keys(distinct.select(names), schema.subset(names))
    picked = pick(source, keys)
    if tx.store.small.are_few(picked) and not any(column.type.has_map() for column in schema):
        stored = tx.store.small.net_rows(picked)
    else:
        engine = tx.store.engine
        frame = consolidated(signed_frame(engine, tx.store.storage, picked), schema)
        stored = conform(engine.fetch(frame), schema, signed=True)
    held = dict(zip(row_tuples(stored.drop_columns([WEIGHT])), stored[WEIGHT].to_pylist(), strict=True))
    for row, count in zip(row_tuples(gone.drop_columns([WEIGHT])), gone[WEIGHT].to_pylist(), strict=True):
        if held.get(row, 0) < count:
            raise InternalError(
                f"the change of {relation.name} deletes {row} {count} times, it is there {held.get(row, 0)} times",
                detail="nothing was changed",
                hint=f"run VERIFY VIEW {relation.name}, and report this",
            )
