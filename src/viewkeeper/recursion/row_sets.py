"""Sets of rows during a recursion, few on the driver, many in scratch files; and the queries that compute them.

Every round's rows are computed by one query and stored, so a plan never grows with the number of rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Equality, Name, column, comparison, integer
from viewkeeper.algebra.rows import consolidate, filter_rows, part_with_sign, row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.lowered import Binding, Lowered, Reader
from viewkeeper.engine.lowering import Lowering
from viewkeeper.plan.cost import RATES

Tuples = list[tuple[Any, ...]]

Build = Callable[[Lowering], n.Node]
"""Builds the expression of one query; given rows become part of it through its lowering."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct rows, already computed: on the driver, as a `table` with columns named by labels, or in files."""

    attributes: tuple[Attribute, ...]
    count: int
    table: pa.Table | None
    make: Callable[[], Lowered]

    @functools.cached_property
    def lowered(self) -> Lowered:
        """The rows for the engine; those on the driver are sent at first use."""
        return self.make()

    @functools.cached_property
    def tuples(self) -> Tuples:
        """The rows, where they are on the driver."""
        assert self.table is not None
        return row_tuples(self.table)

    def on_driver(self) -> Tuples | None:
        """The rows; None if they are in files."""
        return None if self.table is None else self.tuples

    def node(self, lowering: Lowering, attributes: Sequence[Attribute]) -> n.Node:
        """The rows inside a query, under given attributes."""
        return renamed(lowering.given(self.lowered), attributes)


def _kept(lowered: Lowered) -> Rows:
    return Rows(lowered.outputs, lowered.count, lowered.rows, lambda: lowered)


def renamed(node: n.Node, attributes: Sequence[Attribute]) -> n.Node:
    """An expression with other attributes for its columns, by position."""
    if node.outputs == tuple(attributes):
        return node
    pairs = zip(attributes, node.outputs, strict=True)
    return n.Project(node, tuple((new, column(old)) for new, old in pairs))


def all_equal(left: Sequence[Attribute], right: Sequence[Attribute]) -> tuple[Equality, ...]:
    """The equalities of whole rows, NULL equal to NULL."""
    return tuple(Equality(a, b, null_safe=True) for a, b in zip(left, right, strict=True))


def rest_of(left: n.Node, right: Callable[[tuple[Attribute, ...]], n.Node]) -> n.Node:
    """The rows of one expression that another does not have; `right` returns it under given attributes."""
    others = tuple(Attribute(_OTHER + i, a.name, a.type) for i, a in enumerate(left.outputs))
    return n.Exists(left, right(others), all_equal(left.outputs, others), negated=True)


class TooDear(Exception):
    """Maintaining a recursion has cost more than its limit."""


class Workspace:
    """Runs the queries of a recursion, and stops when they have cost more than a limit."""

    def __init__(self, engine: Engine, reader: Reader, limit: float | None = None) -> None:
        """`limit` is in seconds of the cost model."""
        self.engine = engine
        self.reader = reader.apart()
        self.limit = limit
        self._rows = 0

    def worked(self, rows: int) -> None:
        """Counts rows that were joined on the driver."""
        self._rows += rows
        if self.limit is None:
            return
        rates, queries = RATES[self.engine.kind], self.reader.queries
        if queries * rates.query + self._rows * rates.on_driver > self.limit:
            raise TooDear(f"{queries:,} queries and {self._rows:,} rows on the driver")

    def run(self, build: Build, *, large: bool = False) -> Rows:
        """The distinct rows of an expression. `large`: they are not expected to fit on the driver."""
        lowering = Lowering(self.engine, self.reader)
        lowered = lowering.lower(n.Distinct(build(lowering)))
        if lowered.empty:
            return self.on_driver(_empty(lowered.outputs), lowered.outputs)
        self.worked(0)
        return _kept(self.reader.keep(lowered, large=large))

    def parted(self, change: n.Node) -> tuple[Rows, Rows]:
        """The inserted and the deleted rows of a change, each once."""
        lowered = Lowering(self.engine, self.reader).lower(change)
        if lowered.empty:
            none = self.on_driver(_empty(lowered.outputs), lowered.outputs)
            return none, none
        kept = self.reader.keep(lowered)
        if kept.rows is not None:
            net = consolidate(kept.rows)
            inserted, deleted = (part_with_sign(net, sign).drop_columns([WEIGHT]) for sign in (1, -1))
            return self.on_driver(inserted, kept.outputs), self.on_driver(deleted, kept.outputs)
        return self._with_sign(kept, ">"), self._with_sign(kept, "<")

    def _with_sign(self, kept: Lowered, sign: str) -> Rows:
        frame = kept.frame.filter(parsed(comparison(sign, Name(WEIGHT), integer(0)))).select(
            *listed(*[a.label for a in kept.outputs])
        )
        return _kept(self.reader.keep(Lowered(frame, kept.outputs), large=True))

    def on_driver(self, table: pa.Table, attributes: tuple[Attribute, ...]) -> Rows:
        """Distinct rows that are on the driver already."""
        named = table.rename_columns([a.label for a in attributes])
        return Rows(attributes, table.num_rows, named, lambda: self.reader.local(named, attributes))

    def of_tuples(self, rows: Sequence[tuple[Any, ...]], attributes: tuple[Attribute, ...]) -> Rows:
        """Distinct rows that are on the driver as tuples."""
        columns = zip(*rows, strict=True) if rows else [()] * len(attributes)
        arrays = [pa.array(values, a.type.arrow) for values, a in zip(columns, attributes, strict=True)]
        return self.on_driver(pa.table(arrays, names=[a.label for a in attributes]), attributes)

    def among(self, rows: Rows, build: Build) -> Rows:
        """Those of some rows that an expression has; it is read by their keys."""
        local = self._among_on_driver(rows, build)
        if local is not None:
            return local
        pairs = tuple((a, a) for a in rows.attributes)

        def restricted(lowering: Lowering) -> n.Node:
            return n.Restrict(renamed(build(lowering), rows.attributes), lowering.given(rows.lowered), pairs)

        return self.run(restricted)

    def _among_on_driver(self, rows: Rows, build: Build) -> Rows | None:
        """The same on the driver, if the matching rows of the expression are there; else None."""
        if rows.table is None or not rows.attributes or not all(is_plain(a) for a in rows.attributes):
            return None
        lowering = Lowering(self.engine, self.reader)
        binding = Binding(rows.attributes, rows.table)
        lowered = lowering.lower(renamed(build(lowering), rows.attributes), binding)
        if lowered.rows is None and not lowered.empty:
            return None
        there = set(row_tuples(lowered.rows)) if lowered.rows is not None else set()
        return self.on_driver(filter_rows(rows.table, [row in there for row in rows.tuples]), rows.attributes)

    def less(self, rows: Rows, build: Build) -> Rows:
        """Those of some rows that an expression does not have."""
        if rows.count == 0:
            return rows
        if rows.table is not None:
            found = self.among(rows, build)
            if found.table is not None:
                return self.without(rows, set(found.tuples))

        def remaining(lowering: Lowering) -> n.Node:
            return rest_of(lowering.given(rows.lowered), lambda others: renamed(build(lowering), others))

        return self.run(remaining, large=rows.table is None)

    def without(self, rows: Rows, known: set[tuple[Any, ...]]) -> Rows:
        """Those of some rows on the driver that are not among known ones."""
        assert rows.table is not None
        found = [row not in known for row in rows.tuples]
        return rows if all(found) else self.on_driver(filter_rows(rows.table, found), rows.attributes)


class Growing:
    """A set of rows that grows round by round."""

    def __init__(self, space: Workspace, attributes: tuple[Attribute, ...]) -> None:
        self.space = space
        self.attributes = attributes
        self.count = 0
        self._few = _empty(attributes)
        self._index: set[tuple[Any, ...]] | None = set()
        self._by: dict[tuple[int, ...], dict[Any, Tuples]] = {}
        self._many: list[Lowered] = []
        self._current: Lowered | None = None

    def add(self, rows: Rows) -> None:
        """Adds rows that are not in the set yet."""
        if rows.count == 0:
            return
        self.count += rows.count
        self._current = None
        if rows.table is None:
            self._many.append(rows.lowered)
            self._index = None
        else:
            self._few = pa.concat_tables([self._few, rows.table.rename_columns(self._few.column_names)])
            if self._index is not None:
                self._index.update(rows.tuples)
                for columns, known in self._by.items():
                    _sort_in(known, columns, rows.tuples)
        if self._few.num_rows > self.space.engine.tuning.small_rows:
            flushed = self.space.reader.local(self._few, self.attributes)
            self._many.append(replace(flushed, rows=None, known=(), narrow=False))
            self._few, self._index = _empty(self.attributes), None
        if len(self._many) > self.space.engine.tuning.set_parts:
            parts = self._many
            self._many = [self.space.run(lambda lowering: self._together(lowering, parts), large=True).lowered]

    def parts(self) -> list[Rows]:
        """All rows, in parts."""
        few = [self.space.on_driver(self._few, self.attributes)] if self._few.num_rows else []
        return [*map(_kept, self._many), *few]

    @property
    def index(self) -> set[tuple[Any, ...]] | None:
        """The rows as tuples, if all are on the driver."""
        return self._index

    def by(self, columns: tuple[int, ...]) -> dict[Any, Tuples] | None:
        """The rows by the values of some columns, if all are on the driver."""
        if self._index is None:
            return None
        if columns not in self._by:
            self._by[columns] = {}
            _sort_in(self._by[columns], columns, self._index)
        return self._by[columns]

    def new_among(self, rows: Rows) -> Rows:
        """Those of some rows that are not in the set."""
        if self.count == 0 or rows.count == 0:
            return rows
        if self._index is not None and rows.table is not None:
            return self.space.without(rows, self._index)
        return self.space.less(rows, self._all_parts)

    def node(self, lowering: Lowering, attributes: Sequence[Attribute]) -> n.Node:
        """All rows inside a query, under given attributes."""
        return renamed(self._all_parts(lowering), attributes)

    def _all_parts(self, lowering: Lowering) -> n.Node:
        parts = list(self._many)
        if self._few.num_rows or not parts:
            if self._current is None:
                self._current = self.space.reader.local(self._few, self.attributes)
            parts.append(self._current)
        return self._together(lowering, parts)

    def _together(self, lowering: Lowering, parts: Sequence[Lowered]) -> n.Node:
        given = tuple(lowering.given(part) for part in parts)
        if len(given) == 1:
            return renamed(given[0], self.attributes)
        return n.Union(given, self.attributes)


def _sort_in(known: dict[Any, Tuples], columns: tuple[int, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    key_of = itemgetter(*columns)
    for row in rows:
        known.setdefault(key_of(row), []).append(row)


def is_plain(attribute: Attribute) -> bool:
    """Whether values are equal on the driver exactly if they are on the engine."""
    kind = attribute.type
    return kind.is_integer or kind.name in ("string", "date", "boolean", "decimal")


_OTHER = 9_000_000
"""Column ids that do not occur in sets of rows begin here."""


def _empty(attributes: tuple[Attribute, ...]) -> pa.Table:
    return pa.table([pa.array([], a.type.arrow) for a in attributes], names=[a.label for a in attributes])
