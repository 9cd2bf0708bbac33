"""Steps of a recursion: a rule applied to the rows that one of its literals gained, or to all rows.

Few rows are joined on the driver, along an order that is made once for each rule: a round of a small change is look-ups
by key, of rows that the recursion has found, and of stored ones. Expressions are evaluated as in all of the driver's
lane. What the driver cannot do, and rounds of many rows, are lowered as a query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import Attribute, Expression, conjunction
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.driver.arrow_values import evaluate
from viewkeeper.driver.numbers import LeftToEngine
from viewkeeper.driver.row_index import ByKey, Columns, Row, key_of
from viewkeeper.engine.lowered import Binding, Keyed
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.bodies import body
from viewkeeper.recursion.join_orders import Join, JoinOrder, join_order
from viewkeeper.recursion.row_sets import Growing, Rows, Tuples, Workspace, table_of

Orders: TypeAlias = dict[tuple[int, int], tuple[Rule, JoinOrder | None]]
"""The join orders of rules by the id() of the rule, which is held so that no other gets its id, and the literal."""

Source = Callable[[Lowering, Literal], n.Node]
"""Returns the rows of a literal, under its attributes."""


@dataclass(frozen=True)
class Step:
    """A rule, the position of one of its literals and that literal's rows; without them, the whole body."""

    rule: Rule
    place: int | None = None
    rows: Rows | None = None


@dataclass(frozen=True)
class Updated:
    """A stored relation without some rows and with some more."""

    stored: Source
    removed: Growing
    added: Growing


class Joins:
    """Derives the rows of steps. `source` returns the rows of their literals.

    `growing` returns the sets of literals that gain rows meanwhile; `updated` those that are a stored relation without
    some rows and with some more, both of which grow meanwhile.
    """

    def __init__(
        self,
        space: Workspace,
        source: Source,
        growing: Callable[[Literal], Growing | None] = lambda _: None,
        updated: Callable[[Literal], Updated | None] = lambda _: None,
        orders: Orders | None = None,
    ) -> None:
        """`orders` has the join orders that are known already, and takes new ones."""
        self.space = space
        self.source = source
        self.growing = growing
        self.updated = updated
        self._most = space.engine.tuning.tuple_rows if space.reader.lane == "auto" else 0
        self._lookups: dict[tuple[Any, ...], _Lookup] = {}
        self._keyed: dict[str | int, Keyed] = {}
        self._orders: Orders = {} if orders is None else orders

    def derive(self, head: Predicate, steps: Sequence[Step]) -> Rows:
        """The distinct rows that some steps derive."""
        found = self._on_driver(head, steps)
        if found is not None:
            self.space.stepped()
            return self.space.of_tuples(list(found), head.attributes)

        def build(lowering: Lowering) -> n.Node:
            def of(step: Step) -> n.Node:
                def source(place: int, literal: Literal) -> n.Node:
                    if place == step.place and step.rows is not None:
                        return step.rows.node(lowering, literal.attributes)
                    return self.source(lowering, literal)

                return body(step.rule, head, source, step.place)

            parts = tuple(of(step) for step in steps)
            return parts[0] if len(parts) == 1 else n.Union(parts, head.attributes)

        return self.space.run(build, large=any(s.rows is not None and not s.rows.is_local for s in steps))

    # on the driver -------------------------------------------------------------------------------

    def _on_driver(self, head: Predicate, steps: Sequence[Step]) -> set[Row] | None:
        """The distinct rows of some steps, joined on the driver; None if the engine has to."""
        planned: list[tuple[Tuples, JoinOrder]] = []
        for step in steps:
            begin = self._beginning(step)
            order = self._order(step.rule, begin[0]) if begin is not None else None
            if begin is None or order is None or any(map(self._is_left, (*order.joins, *order.absent))):
                return None
            planned.append((begin[1], order))
        found: set[Row] = set()
        for begun, order in planned:
            try:
                derived = self._derived(order, begun, head)
            except LeftToEngine:
                return None
            if derived is None:
                return None
            found.update(derived)
            if len(found) > self._most:
                return None
        return found

    def _beginning(self, step: Step) -> tuple[int, Tuples] | None:
        """The literal that the join begins with, and its rows: the step's own, or the smallest set."""
        if step.rows is not None:
            assert step.place is not None
            return None if not step.rows.is_local or step.rows.count > self._most else (step.place, step.rows.tuples)
        positive = [(place, literal) for place, literal in enumerate(step.rule.body) if not literal.negated]
        there = [(place, self.growing(literal)) for place, literal in positive]
        grown = [(place, known) for place, known in there if known is not None and known.index is not None]
        if not grown:
            return None
        place, fewest = min(grown, key=lambda pair: pair[1].count)
        assert fewest.index is not None
        return None if len(fewest.index) > self._most else (place, list(fewest.index))

    def _order(self, rule: Rule, place: int) -> JoinOrder | None:
        key = (id(rule), place)
        if key not in self._orders:
            self._orders[key] = (rule, join_order(rule, place))
        return self._orders[key][1]

    def _derived(self, order: JoinOrder, rows: Tuples, head: Predicate) -> list[Row] | None:
        """The rows that a rule derives from those of one of its literals; None if they are too many."""
        rows = _equal(rows, order.same)
        for join in order.joins:
            joined = self._joined(join, rows) if rows else []
            if joined is None:
                return None
            rows = joined
        rows = _passing(rows, order.there, order.conditions)
        if order.computed and rows:
            rows = _with_values(rows, order)
        rows = _equal(rows, order.met)
        for join in order.absent:
            partners = self._joined(join, rows, apart=True) if rows else []
            if partners is None:
                return None
            rows = partners
        rows = _passing(rows, order.there, order.last)
        if order.head is not None:
            return list(map(order.head, rows))
        return _values(rows, order.there, order.columns, head.attributes) if rows else []

    def _joined(self, join: Join, current: Tuples, *, apart: bool = False) -> Tuples | None:
        """Rows joined with those of another literal that have the same key; or those without any (`apart`)."""
        wanted = set(map(join.ours, current))
        partners = self._partners(join, wanted)
        if partners is None:
            return None
        ours = join.ours
        if join.solid:
            matchable = [all(row[place] is not None for place in join.solid) for row in current]
        else:
            matchable = [True] * len(current)
        met = [partners.get(ours(row), ()) if flag else () for row, flag in zip(current, matchable, strict=True)]
        total = sum(map(len, met))
        if total > self._most:
            return None
        self.space.worked(total)
        pairs = zip(current, met, strict=True)
        if apart:
            return [row for row, others in pairs if not _equal([row + other for other in others], join.same)]
        return _equal([row + other for row, others in pairs for other in others], join.same)

    def _partners(self, join: Join, wanted: set[Any]) -> ByKey | None:
        known = self.growing(join.literal)
        if known is not None:
            return known.by(join.columns)
        updated = self.updated(join.literal)
        stored = self._stored(join, wanted, updated.stored if updated else self.source)
        return _after(updated, join.columns, wanted, stored) if stored is not None and updated is not None else stored

    def _is_left(self, join: Join) -> bool:
        """Whether rows of a literal are not on the driver, as an earlier look-up has shown."""
        return (join.literal.source, join.columns) in self._lookups and self._lookup(join).failed

    def _lookup(self, join: Join) -> _Lookup:
        return self._lookups.setdefault((join.literal.source, join.columns), _Lookup())

    def _stored(self, join: Join, wanted: set[Any], source: Source) -> ByKey | None:
        """The rows of a literal outside of the recursion, or of a stored relation, with some keys."""
        keyed = self._keyed.get(join.literal.source)
        if keyed is None:
            keyed = self.space.keyed(source(Lowering(self.space.engine, self.space.reader), join.literal))
            if keyed is not None:
                self._keyed[join.literal.source] = keyed
        found = keyed.find(join.columns, wanted) if keyed is not None else None
        if found is not None:
            return found
        lookup = self._lookup(join)
        missing = wanted - lookup.keys
        if missing and not lookup.failed:
            lookup.failed = not self._fetch(join, lookup, missing, source)
        return None if lookup.failed else lookup.rows

    def _fetch(self, join: Join, lookup: _Lookup, missing: set[Any], source: Source) -> bool:
        """Reads the rows with some keys; returns whether they are on the driver."""
        if len(missing) > self._most:
            return False
        literal, columns = join.literal, join.columns
        bound = tuple(literal.attributes[i] for i in columns)
        keys = list(missing) if len(columns) > 1 else [(key,) for key in missing]
        binding = Binding(bound, table_of(keys, bound))
        lowering = Lowering(self.space.engine, self.space.reader)
        lowered = lowering.lower(source(lowering, literal), binding)
        if lowered.rows is None and not lowered.empty:
            return False
        key = key_of(columns)
        if lowered.rows is not None:
            for row in dict.fromkeys(row_tuples(lowered.rows)):
                found = key(row)
                if found in missing:
                    lookup.rows.setdefault(found, []).append(row)
        lookup.keys |= missing
        return True


def _equal(rows: Tuples, pairs: Sequence[tuple[int, int, bool]]) -> Tuples:
    """The rows with equal values at some places."""
    for left, right, null_safe in pairs:
        rows = [row for row in rows if row[left] == row[right] and (null_safe or row[left] is not None)]
    return rows


def _table(rows: Tuples, there: Sequence[Attribute], values: Sequence[Expression]) -> pa.Table:
    """The columns of joined rows that some expressions read, as a table."""
    used = {a for value in values for a in value.attributes}
    places = [place for place, a in enumerate(there) if a in used] or [0]
    return table_of([tuple(row[place] for place in places) for row in rows], [there[place] for place in places])


def _passing(rows: Tuples, there: Sequence[Attribute], conditions: Sequence[Expression]) -> Tuples:
    """The rows for which all conditions are true."""
    if not conditions or not rows:
        return rows
    passes = evaluate(conjunction(conditions), _table(rows, there, conditions))
    if passes.type != pa.bool_():
        raise LeftToEngine("a condition that is not BOOLEAN")
    return [row for row, passed in zip(rows, passes.to_pylist(), strict=True) if passed]


def _with_values(rows: Tuples, order: JoinOrder) -> Tuples:
    """Joined rows with the computed values beside them."""
    values = [value for _, value in order.computed]
    there = order.there[: len(order.there) - len(values)]
    made = _values(rows, there, values, [a for a, _ in order.computed])
    return [row + more for row, more in zip(rows, made, strict=True)]


def _values(
    rows: Tuples, there: Sequence[Attribute], values: Sequence[Expression], outputs: Sequence[Attribute]
) -> Tuples:
    """The values of some expressions for each joined row."""
    table = _table(rows, there, values)
    columns = [evaluate(value, table).cast(a.type.arrow) for value, a in zip(values, outputs, strict=True)]
    return row_tuples(pa.table(columns, names=[a.label for a in outputs]))


def _after(updated: Updated, columns: Columns, wanted: set[Any], stored: ByKey) -> ByKey | None:
    """The rows with some keys of a stored relation without the removed and with the added rows."""
    removed, added = updated.removed.index, updated.added.by(columns)
    if removed is None or added is None:
        return None
    if not removed and not added:
        return stored
    return {key: [row for row in stored.get(key, ()) if row not in removed] + added.get(key, []) for key in wanted}


@dataclass
class _Lookup:
    """The rows of a relation by the values of some columns, as far as they were read."""

    keys: set[Any] = field(default_factory=set)
    rows: ByKey = field(default_factory=dict)
    failed: bool = False
