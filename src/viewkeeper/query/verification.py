"""Verification: a view recomputed from its own query and compared with what is stored, as bags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.expressions import (
    BIGINT,
    STRING,
    Expression,
    Literal,
    Name,
    call,
    cast,
    coalesce,
    integer,
    string,
)
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.types import Type, quote
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import Derived, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import Frame
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.query.second_opinion import ALGEBRA, computed, other_engine
from viewkeeper.store.store import Store
from viewkeeper.transaction.suspension import stale_remarks

TOLERANCE = 1e-9
"""The relative tolerance of FLOAT and DOUBLE values; everything else must be equal."""

MOST_DIFFERENCES = 10_000
"""The limit of differing rows that are compared."""

MOST_NEAR = 1_000_000
"""The same with float columns: many of these rows may turn out to be within the tolerance."""

SHOWN = 20
"""The limit of differing rows in the certificate."""


@dataclass(frozen=True)
class Checked:
    """One view, compared at one epoch. `missing` rows should be stored and are not, `extra` ones should not be.

    `stale` is the remark on a suspended view, which is compared at the epoch as of which it is up to date. `engine` is
    the one that recomputed it, and `computed` what it ran; `second` if that was a second opinion.
    """

    name: str
    epoch: int
    rows: int
    checksum: str
    missing: tuple[tuple[Any, ...], ...] = ()
    extra: tuple[tuple[Any, ...], ...] = ()
    stale: str = ""
    engine: str = ""
    computed: str = ALGEBRA
    second: bool = False

    @property
    def equal(self) -> bool:
        """Whether the view is what its query says."""
        return not self.missing and not self.extra

    def __str__(self) -> str:
        by = f", by {self.engine} from {self.computed}" if self.second else ""
        if self.equal:
            said = f"{self.name}: equal, {self.rows:,} rows at epoch {self.epoch}, checksum {self.checksum}{by}"
            return f"{said}; {self.stale}" if self.stale else said
        lines = [f"{self.name}: DIFFERENT at epoch {self.epoch}{by}"]
        lines += [f"  should be there: {row}" for row in self.missing]
        lines += [f"  should not be there: {row}" for row in self.extra]
        return "\n".join(lines)


@dataclass(frozen=True)
class Certificate:
    """The outcome of verify: what was compared, and whether all of it is equal."""

    views: tuple[Checked, ...]

    @property
    def equal(self) -> bool:
        """Whether every view is what its query says."""
        return all(view.equal for view in self.views)

    @property
    def rows(self) -> int:
        """How many rows were compared."""
        return sum(view.rows for view in self.views)

    @property
    def epoch(self) -> int:
        """The newest epoch that was compared at."""
        return max((view.epoch for view in self.views), default=0)

    @property
    def checksum(self) -> str:
        """A checksum over all rows, whatever their order."""
        return f"{sum(int(view.checksum, 16) for view in self.views) & 0xFFFFFFFFFFFFFFFF:016x}"

    @property
    def missing(self) -> tuple[tuple[Any, ...], ...]:
        """Rows that should be stored and are not (some of them, if there are many)."""
        return tuple(row for view in self.views for row in view.missing)

    @property
    def extra(self) -> tuple[tuple[Any, ...], ...]:
        """Rows that are stored and should not be (some of them, if there are many)."""
        return tuple(row for view in self.views for row in view.extra)

    @property
    def remarks(self) -> list[str]:
        """Remarks on the views that are stale."""
        return [view.stale for view in self.views if view.stale]

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return "\n".join(str(view) for view in self.views) or "there are no materialized views"


def verify(store: Store, state: State, names: Sequence[str], engine: str | None = None) -> Certificate:
    """Compares views with their recomputed queries; on another engine, if one is named."""
    other = store.on(other_engine(store.engine, engine)) if engine is not None else None
    checked = []
    for name in names:
        relation = state.find(name)
        if relation is None:
            raise no_such_table(name, state.names(), None, "view")
        check = partial(_check, store, other, state, as_derived(relation))
        checked.append(
            check() if other is None else other.engine.surviving(check)
        )  # the caller handles lost sessions of the own engine
    return Certificate(tuple(checked))


def _check(store: Store, other: Store | None, state: State, relation: Derived) -> Checked:
    """Compares one view. The own engine computes the checksum, so that it is the same whichever engine recomputes."""
    by = other or store
    epoch = relation.definition.refreshed if relation.definition.is_demand else state.epoch
    schema = relation.schema
    fresh, how = computed(by, state, relation, epoch, foreign=other is not None)
    done = partial(Checked, engine=by.engine.kind, computed=how, second=other is not None)
    if isinstance(relation, VirtualView):  # nothing is stored, so the own engine's result takes its place
        if other is None:
            return done(relation.name, epoch, *_sum_up(store, _once(fresh, schema), schema))
        own = _once(computed(store, state, relation, epoch, foreign=False)[0], schema)
        rows, checksum = _sum_up(store, own, schema)
        collected = store.engine.collect(own.select(*listed(*map(quote, schema.names))))
        stored = other.engine.arrow(conform(collected, schema, signed=False), schema)
    else:
        stored = _stored(by, state, relation)
        own = stored if other is None else _stored(store, state, relation)
        rows, checksum = _sum_up(store, _once(own, schema), schema)
    missing, extra = _differing(by, fresh, stored, schema)
    stale = "; ".join(stale_remarks(state, [relation], state.epoch))
    return done(relation.name, epoch, rows, checksum, tuple(missing[:SHOWN]), tuple(extra[:SHOWN]), stale)


def _once(frame: Frame, schema: Schema) -> Frame:
    return frame.select(*listed(*map(quote, schema.names), (integer(1), WEIGHT)))


def _stored(store: Store, state: State, relation: Derived) -> Frame:
    """The rows of a view as they are stored."""
    schema, outputs = relation.schema, relation.definition.as_written.outputs
    newest = StateReader(store, state.relations.__getitem__, state.epoch, state.epoch)
    found = newest.scan(n.Scan(relation.id, relation.name, outputs, n.NEW, tuple(schema.names)), None)
    return found.frame.select(*listed(*found.columns)).toDF(*schema.names)


def _differing(
    store: Store, fresh: Frame, stored: Frame, schema: Schema
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows that only one side has: those that should be stored, and those that should not."""
    plus = fresh.select(*listed(*map(quote, schema.names), (Literal(1, BIGINT), WEIGHT)))
    minus = stored.select(*listed(*map(quote, schema.names), (Literal(-1, BIGINT), WEIGHT)))
    differing = consolidated(store.engine.union([plus, minus]), schema)
    most = MOST_NEAR if any(column.type.is_float for column in schema) else MOST_DIFFERENCES
    return _apart(conform(store.engine.collect(differing.limit(most)), schema, signed=True), schema)


def _apart(found: pa.Table, schema: Schema) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The missing and the extra rows, without pairs that differ only within the tolerance of floats."""
    missing: list[tuple[Any, ...]] = []
    extra: list[tuple[Any, ...]] = []
    for row, weight in zip(row_tuples(found.drop_columns([WEIGHT])), found[WEIGHT].to_pylist(), strict=True):
        (missing if weight > 0 else extra).extend([row] * abs(weight))
    floats = [index for index, column in enumerate(schema) if column.type.is_float]
    if not floats:
        return missing, extra
    by_rest: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in extra:
        by_rest.setdefault(_without(row, floats), []).append(row)
    left = []
    for row in missing:
        candidates = by_rest.get(_without(row, floats), [])
        near = next((other for other in candidates if all(_near(row[i], other[i]) for i in floats)), None)
        if near is None:
            left.append(row)
        else:
            candidates.remove(near)
    return left, [row for rows in by_rest.values() for row in rows]


def _without(row: tuple[Any, ...], indexes: list[int]) -> tuple[Any, ...]:
    return tuple(value for index, value in enumerate(row) if index not in indexes)


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)


def _sum_up(store: Store, frame: Any, schema: Schema) -> tuple[int, str]:
    """The number of rows, and a checksum that does not depend on their order."""
    plain = [
        call("hex", Name(c.name)) if c.type.name == "binary" else cast(Name(c.name), STRING)
        for c in schema
        if not c.type.is_nested
    ]
    texts: list[Expression] = [coalesce(text, string("-")) for text in plain] or [string("")]
    line = cast(call("concat_ws", string("|"), *texts), Type("binary"))
    total = frame.select(*listed((cast(call("crc32", line), BIGINT), "_vk_crc")))
    summed = coalesce(call("sum", Name("_vk_crc")), integer(0))
    counts = listed((call("count", integer(1)), "_vk_rows"), (summed, "_vk_sum"))
    table = store.engine.collect(total.select(*counts))
    rows, checksum = table.column(0)[0].as_py(), table.column(1)[0].as_py()
    return int(rows), f"{int(checksum) & 0xFFFFFFFFFFFFFFFF:016x}"


def certificate_rows(verified: Certificate) -> pa.Table:
    """The rows of VERIFY: one per view; `difference` lists rows that differ, and is NULL where none does.

    `engine` is the one that recomputed the view, `computed` what it ran.
    """
    views = verified.views
    differences = [None if view.equal else str(view).split("\n", 1)[1] for view in views]
    return pa.table(
        {
            "view": pa.array([view.name for view in views], pa.string()),
            "equal": pa.array([view.equal for view in views], pa.bool_()),
            "epoch": pa.array([view.epoch for view in views], pa.int64()),
            "rows": pa.array([view.rows for view in views], pa.int64()),
            "checksum": pa.array([view.checksum for view in views], pa.string()),
            "difference": pa.array(differences, pa.string()),
            "engine": pa.array([view.engine for view in views], pa.string()),
            "computed": pa.array([view.computed for view in views], pa.string()),
        }
    )
