"""Planning of incremental refreshes: what one would read, found without reading anything, and the choice by cost.

A plan depends on a definition, on which input changes, and roughly on the sizes of the relations. It is made once for
each combination and cached as long as the definition lives. Exact sizes are filled in when it is used.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation, VirtualView
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.lowered import Binding, Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.attempts import attempts_of
from viewkeeper.maintain.differentiate import safe_inputs
from viewkeeper.maintain.fold import extrema_of
from viewkeeper.maintain.net_changes import looked_up_by
from viewkeeper.maintain.situation import Pending
from viewkeeper.maintain.state_reader import StateReader, schema_of
from viewkeeper.maintain.strategies import strategy_of
from viewkeeper.plan.choice import Choice, choose, choose_for_recursion
from viewkeeper.plan.cost import Changed, Lane, Plan, Reading, Stored
from viewkeeper.plan.group_state import group_by_of
from viewkeeper.plan.strategy_names import FIXPOINT, FOLD
from viewkeeper.recursion.prepared import prepared

Find = Callable[[str], Relation]

_HEAVY = (n.Join, n.Outer, n.Exists, n.Distinct, n.Monus, n.Least, n.Aggregate, n.Window, n.Top)


class PlanReader:
    """A reader for planning: records what would be read, and reads nothing."""

    def __init__(self, engine: Engine, find: Find, lane: str) -> None:
        self.engine = engine
        self.lane = lane
        self.find = find
        self.readings: list[Reading] = []
        self.queries = 0

    def scan(self, scan: n.Scan, binding: Binding | None) -> Lowered:
        """Records a read; returns a frame that is never run."""
        if scan.state == n.CHANGE:
            return self._pretend(scan.outputs, weighted=True)
        relation = self.find(scan.relation)
        names = dict(zip(scan.outputs, scan.stored_names, strict=True))
        columns = tuple(names[a] for a in binding.columns) if binding is not None else ()
        self.readings.append(_reading(relation, scan.name, scan.state, columns))
        known = binding is not None or self.size(scan) <= self.engine.tuning.whole_rows
        return self._pretend(scan.outputs, known=known)

    def apart(self) -> PlanReader:
        """The same: nothing is run, so there is nothing to be counted apart."""
        return self

    def keyed(self, scan: n.Scan) -> None:
        """Nothing is kept on the driver for planning."""

    def step(self) -> None:
        """Planning takes no steps."""

    def size(self, scan: n.Scan) -> int:
        """The number of signed rows stored of a relation."""
        return 0 if scan.state == n.CHANGE else rows_of(self.find(scan.relation))

    def keep(self, lowered: Lowered, *, large: bool = False) -> Lowered:
        """Records a query; the result counts as rows on the driver, with known keys."""
        self.queries += lowered.rows is None
        return self._pretend(lowered.outputs, weighted=lowered.weighted)

    def fixpoint(self, node: n.Fixpoint, binding: Binding | None) -> Lowered:
        """Records a full scan of everything that a recursion reads."""
        for scan in n.scans(node):
            self.scan(scan, None)
        return self._pretend(node.outputs, known=False)

    def rederived(self, node: n.Rederived) -> Lowered:
        """Records bound reads of everything that a recursion reads, in both states."""
        for scan in n.scans(node):
            for state in (n.OLD, n.NEW):
                names = tuple(scan.stored_names[:1])
                self.readings.append(_reading(self.find(scan.relation), scan.name, state, names))
        return self._pretend(node.outputs, weighted=True)

    def local(
        self,
        table: pa.Table,
        outputs: tuple[Attribute, ...],
        *,
        weighted: bool = False,
        derived: bool = False,
        wide: tuple[pa.Table, ...] = (),
    ) -> Lowered:
        """Rows on the driver, which planning ignores."""
        return self._pretend(outputs, weighted=weighted, wide=wide)

    def _pretend(
        self,
        outputs: tuple[Attribute, ...],
        *,
        weighted: bool = False,
        known: bool = True,
        wide: tuple[pa.Table, ...] = (),
    ) -> Lowered:
        schema = schema_of(outputs)
        table = (schema.signed_arrow if weighted else schema.arrow).empty_table()
        frame = partial(self.engine.arrow, table, schema, f"{WEIGHT} bigint" if weighted else "")
        keys = pa.table([pa.nulls(1, a.type.arrow) for a in outputs], names=[a.label for a in outputs])
        rows = table if known else None
        return Lowered(frame, outputs, weighted, (keys,) if known else (), known, wide=wide, rows=rows)


def _reading(relation: Relation, name: str, state: str, columns: tuple[str, ...]) -> Reading:
    first = [column.lower() for column in relation.schema.sort_columns[:1]]
    return Reading(relation.id, name, state, columns, any(column.lower() in first for column in columns))


def rows_of(relation: Relation) -> int:
    """The number of signed rows stored of a relation."""
    return relation.stored_rows


# plans -------------------------------------------------------------------------------------------

_plans: weakref.WeakKeyDictionary[Definition, dict[tuple[object, ...], Plan | None]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def plan_of(engine: Engine, find: Find, relation: Derived, key: str) -> Plan | None:
    """The plan of an incremental refresh after a change of one input; None if the change cannot reach the relation."""
    definition = relation.definition
    sizes = {scan.relation: rows_of(find(scan.relation)) for scan in n.scans(definition.maintained)}
    rough = tuple(rows.bit_length() for rows in (*sizes.values(), rows_of(relation)))
    name = (relation.id, key, rough, _follows(find, relation), engine.tuning)
    with _lock:
        known = _plans.setdefault(definition, {})
    if name not in known:
        known[name] = _make_plan(engine, find, relation, key)
    plan = known[name]
    if plan is None:
        return None
    groups = _groups_of(relation) if strategy_of(relation).name == FOLD else 0
    readings = tuple(_sized(reading, find, groups, engine.tuning) for reading in plan.readings)
    again = (_sized(reading, find, groups, engine.tuning) for reading in plan.again)
    return replace(plan, readings=readings, again=_lost(relation, again, find, engine.tuning) if groups else ())


def _follows(find: Find, relation: Derived) -> bool:
    """Whether a group-by holds neighbors of its percentiles."""
    return bool(relation.definition.neighbors) and rows_of(find(relation.definition.neighbors)) > 0


def _groups_of(relation: Derived) -> int:
    """About how many groups a group-by holds. A commit that changes groups deletes as many rows as it inserts."""
    grown = sum(file.rows for file in relation.files if file.low_weight > 0)
    merged = sum(file.rows for file in relation.files if file.low_weight < 0 and file.merged)
    return max(1, grown + merged // 2)


def _make_plan(engine: Engine, find: Find, relation: Derived, key: str) -> Plan | None:
    node = relation.definition.maintained
    expressions = strategy_of(relation).computed(relation, node, key, _follows(find, relation))
    if not expressions:
        return None
    reader = PlanReader(engine, find, relation.definition.lane)
    lowering = Lowering(engine, reader, looks=False)
    done = [lowering.lower(expression) for expression in expressions]
    readings = reader.readings
    lane = "driver" if all(lowered.rows is not None or lowered.empty for lowered in done) else "engine"
    full = (r.name for r in readings if not r.columns and rows_of(find(r.relation)) > engine.tuning.whole_rows)
    left = _kept_from_driver(lowering, full) if lane == "engine" else ()
    is_read = any(reading.relation == relation.id for reading in readings)
    if not (isinstance(relation, VirtualView) or is_read or key in safe_inputs(relation, node, find)):
        readings.append(_reading(relation, relation.name, n.OLD, looked_up_by(relation)))
    waiting = reader.queries + any(each.rows is None for each in done)
    again = PlanReader(engine, find, relation.definition.lane)
    for expression in strategy_of(relation).again(relation, node, key):
        Lowering(engine, again, looks=False).lower(expression)
    rest = tuple(reading for reading in again.readings if reading not in readings)
    return Plan(tuple(readings), reader.queries + 1, waiting, lane, left, rest, strategy_of(relation).passes)


def _kept_from_driver(lowering: Lowering, full: Iterable[str]) -> tuple[str, ...]:
    """Why a small change is not computed on the driver: an option, what is left to the engine, what is read in full."""
    if lowering.reader.lane == "engine":
        return ("lane = 'engine'",)
    if not lowering.engine.tuning.driver_rows:
        return ("driver_rows = 0",)
    return tuple(dict.fromkeys((*lowering.left, *(f"{name} is read in full" for name in full))))


def _sized(reading: Reading, find: Find, groups: int, tuning: Tuning) -> Reading:
    """A reading with current sizes. `groups`: the number of groups of a group-by, 0 for other relations."""
    relation = find(reading.relation)
    rows = rows_of(relation)
    per_key = max(1.0, rows / groups) if groups else 1.0
    return replace(reading, rows=rows, files=len(relation.files), local=rows <= tuning.whole_rows, per_key=per_key)


def _lost(relation: Derived, readings: Iterable[Reading], find: Find, tuning: Tuning) -> tuple[Reading, ...]:
    """What is read of groups that lose an extremum: each deleted row is that of its group as likely as any other row.

    Large groups that have runners-up are not read.
    """
    node, own = group_by_of(relation.definition.maintained), relation.definition.runners_up
    extrema = extrema_of(node) if node is not None else 0
    least = tuning.large_group if own and rows_of(find(own)) else math.inf
    return tuple(replace(r, share=min(1.0, extrema / r.per_key)) for r in readings if r.per_key < least)


# choices -----------------------------------------------------------------------------------------


def stored_of(find: Find, relation: Derived, pending: Mapping[str, int], tuning: Tuning) -> Stored:
    """The sizes that the costs of a relation depend on, beside its plan. `pending`: changed rows not stored yet."""
    node = relation.definition.maintained
    inputs = {scan.relation: rows_of(find(scan.relation)) + pending.get(scan.relation, 0) for scan in n.scans(node)}
    queries = 1 + sum(rows > tuning.whole_rows for rows in inputs.values())
    heavy = any(isinstance(part, _HEAVY) for part in node.walk())
    return Stored(rows_of(relation), tuple(inputs.values()), heavy, queries)


def followed(
    engine: Engine, find: Find, relation: Derived, changed: Mapping[str, int], grown: Collection[str] = ()
) -> list[Changed]:
    """The plans of a relation for changed inputs, with how many rows of each changed. `grown`: by inserts alone."""
    plans = {key: plan_of(engine, find, relation, key) for key in changed}
    tuning = engine.tuning
    lane = Lane(tuning.lookup_keys, tuning.lookup_rows, tuning.driver_rows)
    return [
        Changed(changed[key], plan, changed[key] <= tuning.small_rows, lane, key not in grown)
        for key, plan in plans.items()
        if plan is not None
    ]


def refresh_of(relation: Derived, dependents: Callable[[str], Iterable[Derived]]) -> str:
    """The option that decides. An auxiliary relation is maintained incrementally if any view that needs it insists."""
    if isinstance(relation, Auxiliary) and any(
        user.definition.refresh == "incremental" and relation.id in user.definition.hidden
        for user in dependents(relation.id)
    ):
        return "incremental"
    return relation.definition.refresh


def decide(reader: StateReader, relation: Derived, changed: Collection[str], refresh: str) -> Choice:
    """The choice between incremental and full refresh of a stored relation, after changes of some of its inputs."""
    find, rates, tuning = reader.by_id, reader.engine.rates, reader.engine.tuning
    pending = {key: _rows_that_matter(reader, relation, key) for key in sorted(changed)}
    rows = {key: _newer_rows(reader, key) + pending[key] for key in pending}
    if strategy_of(relation).name == FIXPOINT:
        stored = stored_of(find, relation, {}, tuning)
        node = relation.definition.maintained
        if 2 * stored.rows <= tuning.tuple_rows and isinstance(node, n.Fixpoint) and prepared(node).is_for_driver:
            stored = replace(stored, queries=0)
        given_up = attempts_of(relation, reader, changed).left_out()
        return choose_for_recursion(refresh, sum(rows.values()), stored, rates, tuning, given_up)
    return choose(
        refresh,
        sum(rows.values()),
        stored_of(find, relation, pending, tuning),
        rates,
        tuning,
        lambda: followed(reader.engine, find, relation, rows, reader.grown(rows)),
    )


def _rows_that_matter(reader: StateReader, relation: Derived, key: str) -> int:
    """The number of signed rows that the open transaction adds to an input, in the columns that a relation reads."""
    nodes = [scan for scan in n.scans(relation.definition.maintained) if scan.relation == key]
    changes = [reader.known_change(scan) for scan in nodes]
    if not changes or any(change is None for change in changes):
        return pending_rows(reader.pending, key)
    return max(int(change.num_rows) for change in changes if change is not None)


def pending_rows(changes: Mapping[str, Pending], key: str) -> int:
    """The number of signed rows that the open transaction adds to a relation."""
    pending = changes.get(key)
    return 0 if pending is None else int(pending.rows.num_rows) + sum(file.rows for file in pending.staged)


def _newer_rows(reader: StateReader, key: str) -> int:
    """The number of committed rows between the reader's two states of a relation; a merged file counts as a whole."""
    return sum(file.rows for file in reader.by_id(key).files_at(reader.epoch) if file.last_epoch > reader.since)
