"""Verification: a view computed anew from its own query and compared with what is stored, as bags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.types import quote
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.columns import listed
from viewkeeper.engine.lowering import Lowering
from viewkeeper.store.state import Relation, State
from viewkeeper.store.store import Store
from viewkeeper.transaction.intake import canonical_frame
from viewkeeper.transaction.reading import StateReader
from viewkeeper.transaction.transaction import conform, no_such_table

TOLERANCE = 1e-9
"""FLOAT and DOUBLE values may differ by this share; everything else must be equal."""

SHOWN = 20
"""Differing rows that are kept for the user."""


@dataclass(frozen=True)
class Checked:
    """One view, compared at one epoch. `missing` rows should be stored and are not, `extra` ones should not be."""

    name: str
    epoch: int
    rows: int
    checksum: str
    missing: tuple[tuple[Any, ...], ...] = ()
    extra: tuple[tuple[Any, ...], ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the view is what its query says."""
        return not self.missing and not self.extra

    def __str__(self) -> str:
        if self.equal:
            return f"{self.name}: equal, {self.rows:,} rows at epoch {self.epoch}, checksum {self.checksum}"
        lines = [f"{self.name}: DIFFERENT at epoch {self.epoch}"]
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

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return "\n".join(str(view) for view in self.views) or "there are no materialized views"


def verify(store: Store, state: State, names: Sequence[str]) -> Certificate:
    """Compares views with their queries."""
    checked = []
    for name in names:
        relation = state.find(name)
        if relation is None:
            raise no_such_table(name, state.names(), None, "view")
        checked.append(_check(store, state, relation))
    return Certificate(tuple(checked))


def _check(store: Store, state: State, relation: Relation) -> Checked:
    assert relation.definition is not None
    epoch = relation.definition.refreshed if relation.definition.is_demand else state.epoch
    reader = StateReader(store, state.relations.__getitem__, epoch, epoch)
    lowering = Lowering(store.engine, reader)
    node = relation.definition.as_written
    schema = relation.schema
    anew = lowering.lower(n.at(node, n.NEW))
    fresh = canonical_frame(store.engine, anew.frame.select(*listed(*anew.columns)).toDF(*schema.names), schema)
    if relation.kind == "view":  # nothing is stored: what it is, is what its query says
        rows, checksum = _sum_up(store, fresh.select(*listed(*map(quote, schema.names), f"1 AS {WEIGHT}")), schema)
        return Checked(relation.name, epoch, rows, checksum)
    newest = StateReader(store, state.relations.__getitem__, state.epoch, state.epoch)
    kept = newest.scan(n.Scan(relation.id, relation.name, node.outputs, n.NEW, tuple(schema.names)), None)
    stored = kept.frame.select(*listed(*kept.columns)).toDF(*schema.names)
    plus = fresh.select(*listed(*map(quote, schema.names), f"CAST(1 AS BIGINT) AS {WEIGHT}"))
    minus = stored.select(*listed(*map(quote, schema.names), f"CAST(-1 AS BIGINT) AS {WEIGHT}"))
    differing = consolidated(store.engine.union([plus, minus]), schema)
    found = conform(store.engine.collect(differing.limit(10_000)), schema, signed=True)
    missing, extra = _apart(found, schema)
    rows, checksum = _sum_up(store, stored.select(*listed(*map(quote, schema.names), f"1 AS {WEIGHT}")), schema)
    return Checked(relation.name, epoch, rows, checksum, tuple(missing[:SHOWN]), tuple(extra[:SHOWN]))


def _apart(found: pa.Table, schema: Schema) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows on either side that differ by more than the tolerance of floats."""
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


def _without(row: tuple[Any, ...], places: list[int]) -> tuple[Any, ...]:
    return tuple(value for index, value in enumerate(row) if index not in places)


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)


def _sum_up(store: Store, frame: Any, schema: Schema) -> tuple[int, str]:
    """How many rows there are, and a checksum of them that does not depend on their order."""
    plain = [
        f"hex({quote(c.name)})" if c.type.name == "binary" else f"CAST({quote(c.name)} AS STRING)"
        for c in schema
        if not c.type.is_nested
    ]
    texts = ", ".join(f"coalesce({text}, '-')" for text in plain) or "''"
    total = frame.select(*listed(f"CAST(crc32(CAST(concat_ws('|', {texts}) AS BINARY)) AS BIGINT) AS _vk_crc"))
    table = store.engine.collect(total.select(*listed("count(1) AS _vk_rows", "coalesce(sum(_vk_crc), 0) AS _vk_sum")))
    rows, checksum = table.column(0)[0].as_py(), table.column(1)[0].as_py()
    return int(rows), f"{int(checksum) & 0xFFFFFFFFFFFFFFFF:016x}"
