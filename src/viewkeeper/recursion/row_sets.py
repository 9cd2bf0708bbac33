"""Sets of rows during a recursion, few on the driver, many in scratch files; and the queries that compute them.

Every round's rows are computed by one query and stored, so a plan never grows with the number of rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Equality, Name, column, comparison, integer
from viewkeeper.algebra.rows import consolidate, filter_rows, part_with_sign, row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.driver.row_index import ByKey, Columns, Row, is_plain, sort_in
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.lowered import Binding, Keyed, Lowered, Reader
from viewkeeper.engine.lowering import Lowering

Tuples = list[Row]

Build = Callable[[Lowering], n.Node]
"""Builds the expression of one query; given rows become part of it through its lowering."""


class Rows:
    """Distinct rows, already computed: in files, or on the driver, as tuples or as a table with labels for names."""

    def __init__(
        self,
        attributes: tuple[Attribute, ...],
        count: int,
        send: Callable[[Rows], Lowered],
        *,
        lowered: Lowered | None = None,
        table: pa.Table | None = None,
        tuples: Tuples | None = None,
    ) -> None:
        """`lowered` are the same rows for the engine, to which `send` sends those that are on the driver only."""
        self.attributes = attributes
        self.count = count
        self.is_local = table is not None or tuples is not None
        self._send = send
        self._lowered = lowered
        self._table = table
        self._tuples = tuples

    @functools.cached_property
    def lowered(self) -> Lowered:
        """The rows for the engine; those on the driver are sent at first use."""
        return self._send(self) if self._lowered is None else self._lowered

    @functools.cached_property
    def table(self) -> pa.Table:
        """The rows as a table, where they are on the driver."""
        return self._table if self._table is not None else table_of(self.tuples, self.attributes)

    @functools.cached_property
    def tuples(self) -> Tuples:
        """The rows, where they are on the driver."""
        assert self.is_local
        return self._tuples if self._tuples is not None else row_tuples(self._table)

    def chosen(self, flags: Sequence[bool]) -> Rows:
        """Those of the rows on the driver for which a flag is set; the same object if it is for all."""
        if all(flags):
            return self
        if self._table is not None:
            table = filter_rows(self._table, flags)
            return Rows(self.attributes, table.num_rows, self._send, table=table)
        found = [row for row, flag in zip(self.tuples, flags, strict=True) if flag]
        return Rows(self.attributes, len(found), self._send, tuples=found)

    def named(self, attributes: tuple[Attribute, ...]) -> pa.Table:
        """The rows as a table under other labels, where they are on the driver."""
        return self.table.rename_columns([a.label for a in attributes])

    def on_driver(self) -> Tuples | None:
        """The rows; None if they are in files."""
        return self.tuples if self.is_local else None

    def node(self, lowering: Lowering, attributes: Sequence[Attribute]) -> n.Node:
        """The rows inside a query, under given attributes."""
        return renamed(lowering.given(self.lowered), attributes)


def table_of(rows: Tuples, attributes: Sequence[Attribute]) -> pa.Table:
    """Tuples of plain values as a table with columns named by labels."""
    columns = zip(*rows, strict=True) if rows else [()] * len(attributes)
    arrays = [pa.array(values, a.type.arrow) for values, a in zip(columns, attributes, strict=True)]
    return pa.table(arrays, names=[a.label for a in attributes])


def renamed(node: n.Node, attributes: Sequence[Attribute]) -> n.Node:
    """An expression with other attributes for its columns, by position."""
    if node.outputs == tuple(attributes):
        return node
    pairs = zip(attributes, node.outputs, strict=True)
    return n.Project(node, tuple((new, column(old)) for new, old in pairs))


def copied(node: n.Node) -> n.Scan | None:
    """The stored relation whose columns an expression copies, in its order; None if it does more."""
    places = list(range(len(node.outputs)))
    while isinstance(node, n.Project):
        taken = [value.attribute for _, value in node.columns]
        if any(a is None for a in taken):
            return None
        places = [node.input.outputs.index(taken[place]) for place in places]
        node = node.input
    if not isinstance(node, n.Scan) or places == list(range(len(node.outputs))):
        return node if isinstance(node, n.Scan) else None
    names = tuple(node.stored_names[place] for place in places)
    return replace(node, attributes=tuple(node.outputs[place] for place in places), columns=names)


def all_equal(left: Sequence[Attribute], right: Sequence[Attribute]) -> tuple[Equality, ...]:
    """The equalities of whole rows, NULL equal to NULL."""
    return tuple(Equality(a, b, null_safe=True) for a, b in zip(left, right, strict=True))


def rest_of(left: n.Node, right: Callable[[tuple[Attribute, ...]], n.Node]) -> n.Node:
    """The rows of one expression that another does not have; `right` returns it under given attributes."""
    others = tuple(Attribute(_OTHER + i, a.name, a.type) for i, a in enumerate(left.outputs))
    return n.Exists(left, right(others), all_equal(left.outputs, others), negated=True)


LOWERED_STEPS = 16
"""A round that is lowered, and computed on the driver, takes as long as so many steps that were prepared."""


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
        self._steps = 0

    def worked(self, rows: int) -> None:
        """Counts rows that were joined on the driver."""
        self._rows += rows
        if self.limit is None:
            return
        rates, queries = self.engine.rates, self.reader.queries
        if queries * rates.query + self._rows * rates.on_driver + self._steps * rates.step > self.limit:
            raise TooDear(f"{queries:,} queries and {self._rows:,} rows on the driver")

    def stepped(self) -> None:
        """Counts a step on the driver."""
        self._steps += 1
        self.reader.step()

    def run(self, build: Build, *, large: bool = False) -> Rows:
        """The distinct rows of an expression. `large`: they are not expected to fit on the driver."""
        lowering = Lowering(self.engine, self.reader)
        lowered = lowering.lower(n.Distinct(build(lowering)))
        if lowered.empty:
            return self.on_driver(_empty(lowered.outputs), lowered.outputs)
        self._steps += LOWERED_STEPS if lowered.derived else 0
        self.worked(0)
        return self.kept(self.reader.keep(lowered, large=large))

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
        return self.kept(self.reader.keep(Lowered(frame, kept.outputs), large=True))

    def on_driver(self, table: pa.Table, attributes: tuple[Attribute, ...]) -> Rows:
        """Distinct rows that are on the driver already."""
        named = table.rename_columns([a.label for a in attributes])
        return Rows(attributes, table.num_rows, self._sent, table=named)

    def of_tuples(self, rows: Tuples, attributes: tuple[Attribute, ...]) -> Rows:
        """Distinct rows of plain values that are on the driver as tuples."""
        return Rows(attributes, len(rows), self._sent, tuples=rows)

    def kept(self, lowered: Lowered) -> Rows:
        """Rows that were computed once."""
        return Rows(lowered.outputs, lowered.count, self._sent, lowered=lowered, table=lowered.rows)

    def _sent(self, rows: Rows) -> Lowered:
        return self.reader.local(rows.table, rows.attributes)

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
        if not rows.is_local or not rows.attributes or not all(is_plain(a.type) for a in rows.attributes):
            return None
        lowering = Lowering(self.engine, self.reader)
        node = renamed(build(lowering), rows.attributes)
        columns = tuple(range(len(rows.attributes)))
        keyed = self.keyed(node)
        if keyed is not None:
            tuples = rows.tuples if len(columns) > 1 else [value for (value,) in rows.tuples]
            found = keyed.find(columns, tuples)
            if found is not None:
                return rows.chosen([key in found for key in tuples])
        lowered = lowering.lower(node, Binding(rows.attributes, rows.table))
        if lowered.rows is None and not lowered.empty:
            return None
        there = set(row_tuples(lowered.rows)) if lowered.rows is not None else set()
        return rows.chosen([row in there for row in rows.tuples])

    def keyed(self, node: n.Node) -> Keyed | None:
        """The rows of an expression by key, if they are those of a relation that is kept on the driver."""
        scan = copied(node)
        return None if scan is None or not all(is_plain(a.type) for a in scan.outputs) else self.reader.keyed(scan)

    def less(self, rows: Rows, build: Build) -> Rows:
        """Those of some rows that an expression does not have."""
        if rows.count == 0:
            return rows
        if rows.is_local:
            found = self.among(rows, build)
            if found.is_local:
                return self.without(rows, set(found.tuples))

        def remaining(lowering: Lowering) -> n.Node:
            return rest_of(lowering.given(rows.lowered), lambda others: renamed(build(lowering), others))

        return self.run(remaining, large=not rows.is_local)

    def without(self, rows: Rows, known: set[Row]) -> Rows:
        """Those of some rows on the driver that are not among known ones."""
        return rows.chosen([row not in known for row in rows.tuples])


class Growing:
    """A set of rows that grows round by round."""

    def __init__(self, space: Workspace, attributes: tuple[Attribute, ...]) -> None:
        self.space = space
        self.attributes = attributes
        self.count = 0
        self._few: list[Rows] = []
        self._index: set[Row] | None = set()
        self._by: dict[Columns, ByKey] = {}
        self._many: list[Lowered] = []
        self._current: Lowered | None = None

    def add(self, rows: Rows) -> None:
        """Adds rows that are not in the set yet."""
        if rows.count == 0:
            return
        self.count += rows.count
        self._current = None
        if not rows.is_local:
            self._many.append(rows.lowered)
            self._index = None
        else:
            self._few.append(rows)
            if self._index is not None:
                self._index.update(rows.tuples)
                for columns, known in self._by.items():
                    sort_in(known, columns, rows.tuples)
        if sum(part.count for part in self._few) > self.space.engine.tuning.small_rows:
            flushed = self.space.reader.local(self._few_rows(), self.attributes)
            self._many.append(replace(flushed, rows=None, known=(), narrow=False))
            self._few, self._index = [], None
        if len(self._many) > self.space.engine.tuning.set_parts:
            parts = self._many
            self._many = [self.space.run(lambda lowering: self._together(lowering, parts), large=True).lowered]

    def _few_rows(self) -> pa.Table:
        """The rows that are on the driver."""
        tables = [part.named(self.attributes) for part in self._few]
        return pa.concat_tables([_empty(self.attributes), *tables])

    def parts(self) -> list[Rows]:
        """All rows, in parts."""
        if len(self._few) > 1 and self._index is not None and not self._many:
            return [self.space.on_driver(self._few_rows(), self.attributes)]
        return [*map(self.space.kept, self._many), *self._few]

    @property
    def index(self) -> set[Row] | None:
        """The rows as tuples, if all are on the driver."""
        return self._index

    def by(self, columns: Columns) -> ByKey | None:
        """The rows by the values of some columns, if all are on the driver."""
        if self._index is None:
            return None
        if columns not in self._by:
            self._by[columns] = {}
            sort_in(self._by[columns], columns, self._index)
        return self._by[columns]

    def new_among(self, rows: Rows) -> Rows:
        """Those of some rows that are not in the set."""
        if self.count == 0 or rows.count == 0:
            return rows
        if self._index is not None and rows.is_local:
            return self.space.without(rows, self._index)
        return self.space.less(rows, self._all_parts)

    def node(self, lowering: Lowering, attributes: Sequence[Attribute]) -> n.Node:
        """All rows inside a query, under given attributes."""
        return renamed(self._all_parts(lowering), attributes)

    def _all_parts(self, lowering: Lowering) -> n.Node:
        parts = list(self._many)
        if self._few or not parts:
            if self._current is None:
                self._current = self.space.reader.local(self._few_rows(), self.attributes)
            parts.append(self._current)
        return self._together(lowering, parts)

    def _together(self, lowering: Lowering, parts: Sequence[Lowered]) -> n.Node:
        given = tuple(lowering.given(part) for part in parts)
        if len(given) == 1:
            return renamed(given[0], self.attributes)
        return n.Union(given, self.attributes)


_OTHER = 9_000_000
"""Column ids that do not occur in sets of rows begin here."""


def _empty(attributes: tuple[Attribute, ...]) -> pa.Table:
    return pa.table([pa.array([], a.type.arrow) for a in attributes], names=[a.label for a in attributes])
