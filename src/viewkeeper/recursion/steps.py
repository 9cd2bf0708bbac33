"""Steps of a recursion: a rule applied to the rows that one of its literals gained, or to all rows.

Few rows are joined on the driver, which also reads the rows of stored relations with a few keys. So a round of a small
change costs no query. Many rows, and rules with conditions, computed values or negation, go to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.engine.lowered import Binding
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.bodies import body
from viewkeeper.recursion.row_sets import Growing, Rows, Tuples, Workspace, is_plain

ByKey = dict[Any, Tuples]

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
    ) -> None:
        self.space = space
        self.source = source
        self.growing = growing
        self.updated = updated
        self._most = space.engine.tuning.driver_join_rows if space.reader.lane == "auto" else 0
        self._lookups: dict[tuple[Any, ...], _Lookup] = {}
        self._orders: dict[tuple[int, int], _Order | None] = {}
        self._kept: list[Rule] = []  # so that no other rule gets the id() of a rule in _orders

    def derive(self, head: Predicate, steps: Sequence[Step]) -> Rows:
        """The distinct rows that some steps derive."""
        found = self._on_driver(steps)
        if found is not None:
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

        return self.space.run(build, large=any(s.rows is not None and s.rows.table is None for s in steps))

    # on the driver -------------------------------------------------------------------------------

    def _on_driver(self, steps: Sequence[Step]) -> set[tuple[Any, ...]] | None:
        """The distinct rows of some steps, joined on the driver; None if the engine has to."""
        planned: list[tuple[Tuples, _Order]] = []
        for step in steps:
            begin = self._beginning(step)
            order = self._order(step.rule, begin[0]) if begin is not None else None
            if begin is None or order is None or any(self._lookup(join).failed for join in order.joins):
                return None
            planned.append((begin[1], order))
        found: set[tuple[Any, ...]] = set()
        for current, order in planned:
            for join in order.joins:
                joined = self._joined(join, current) if current else []
                if joined is None:
                    return None
                current = joined
            found.update(map(order.head, current))
            if len(found) > self._most:
                return None
        return found

    def _beginning(self, step: Step) -> tuple[int, Tuples] | None:
        """The literal that the join begins with, and its rows: the step's own, or the smallest set."""
        if step.rows is not None:
            assert step.place is not None
            return None if step.rows.table is None or step.rows.count > self._most else (step.place, step.rows.tuples)
        positive = [(place, literal) for place, literal in enumerate(step.rule.body) if not literal.negated]
        there = [(place, self.growing(literal)) for place, literal in positive]
        grown = [(place, known) for place, known in there if known is not None and known.index is not None]
        if not grown:
            return None
        place, fewest = min(grown, key=lambda pair: pair[1].count)
        assert fewest.index is not None
        return None if len(fewest.index) > self._most else (place, list(fewest.index))

    def _order(self, rule: Rule, place: int) -> _Order | None:
        key = (id(rule), place)
        if key not in self._orders:
            self._orders[key] = _order_of(rule, place)
            self._kept.append(rule)
        return self._orders[key]

    def _joined(self, join: _Join, current: Tuples) -> Tuples | None:
        """Rows joined with those of another literal that have the same key."""
        key_of = join.ours
        wanted = set(map(key_of, current))
        partners = self._partners(join, wanted)
        if partners is None:
            return None
        met = [partners.get(key_of(row), ()) for row in current]
        total = sum(map(len, met))
        if total > self._most:
            return None
        self.space.worked(total)
        found = [row + other for row, others in zip(current, met, strict=True) for other in others]
        for left, right in join.same:
            found = [row for row in found if row[left] == row[right]]
        return found

    def _partners(self, join: _Join, wanted: set[Any]) -> ByKey | None:
        known = self.growing(join.literal)
        if known is not None:
            return known.by(join.columns)
        updated = self.updated(join.literal)
        lookup = self._lookups.setdefault((join.literal.source, join.columns), _Lookup())
        missing = wanted - lookup.keys
        if lookup.failed or (
            missing and not self._fetch(join, lookup, missing, updated.stored if updated else self.source)
        ):
            lookup.failed = True
            return None
        return _after(updated, join.columns, wanted, lookup.rows) if updated is not None else lookup.rows

    def _lookup(self, join: _Join) -> _Lookup:
        return self._lookups.setdefault((join.literal.source, join.columns), _Lookup())

    def _fetch(self, join: _Join, lookup: _Lookup, missing: set[Any], source: Source) -> bool:
        """Reads the rows with some keys; returns whether they are on the driver."""
        if len(missing) > self._most:
            return False
        literal, columns = join.literal, join.columns
        bound = tuple(literal.attributes[i] for i in columns)
        keys = list(missing) if len(columns) > 1 else [(key,) for key in missing]
        arrays = [pa.array([key[i] for key in keys], a.type.arrow) for i, a in enumerate(bound)]
        binding = Binding(bound, pa.table(arrays, names=[a.label for a in bound]))
        lowering = Lowering(self.space.engine, self.space.reader)
        lowered = lowering.lower(source(lowering, literal), binding)
        if lowered.rows is None and not lowered.empty:
            return False
        key_of = itemgetter(*columns)
        if lowered.rows is not None:
            for row in dict.fromkeys(row_tuples(lowered.rows)):
                key = key_of(row)
                if key in missing:
                    lookup.rows.setdefault(key, []).append(row)
        lookup.keys |= missing
        return True


def _after(updated: Updated, columns: tuple[int, ...], wanted: set[Any], stored: ByKey) -> ByKey | None:
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


@dataclass(frozen=True)
class _Join:
    """A literal to join: its key columns, the key of a joined row so far, and other columns that have to be equal."""

    literal: Literal
    columns: tuple[int, ...]
    ours: Callable[[tuple[Any, ...]], Any]
    same: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Order:
    """The joins of a rule that begins with one of its literals, and the head's columns in the joined row."""

    joins: tuple[_Join, ...]
    head: Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _order_of(rule: Rule, first: int) -> _Order | None:
    """The join order; None if the rule has more than equalities, or types that the driver compares differently."""
    others = [literal for place, literal in enumerate(rule.body) if place != first]
    if rule.conditions or rule.computed or any(literal.negated for literal in others):
        return None
    heads = [column.attribute for column in rule.columns]
    attributes = [a for literal in rule.body for a in literal.attributes]
    if not heads or any(a is None for a in heads) or not all(is_plain(a) for a in attributes):
        return None
    if any(not e.null_safe or e.left.type != e.right.type for e in rule.equalities):
        return None
    there = list(rule.body[first].attributes)
    joins: list[_Join] = []
    while others:
        linked = [(_links(rule, there, literal), literal) for literal in others]
        links, literal = max(linked, key=lambda pair: len(pair[0]))
        if not links:
            return None  # a cross join
        others.remove(literal)
        columns = tuple(links)
        places = tuple(there.index(links[column]) for column in columns)
        width = len(there)
        there += literal.attributes
        same = tuple(
            (there.index(e.left), there.index(e.right))
            for e in rule.equalities
            if e.left in there and e.right in there and max(there.index(e.left), there.index(e.right)) >= width
        )
        linked_already = {(place, width + column) for place, column in zip(places, columns, strict=True)}
        same = tuple(pair for pair in same if pair not in linked_already and pair[::-1] not in linked_already)
        joins.append(_Join(literal, columns, itemgetter(*places), same))
    inside = [e for e in rule.equalities if {e.left, e.right} <= set(rule.body[first].attributes)]
    if inside or any(a not in there for a in heads):
        return None
    picked = itemgetter(*(there.index(a) for a in heads if a is not None))
    single = len(heads) == 1
    return _Order(tuple(joins), (lambda row: (picked(row),)) if single else picked)


def _links(rule: Rule, there: list[Attribute], literal: Literal) -> dict[int, Attribute]:
    """The columns of a literal that equal a joined attribute, each with one such attribute."""
    found: dict[int, Attribute] = {}
    for place, attribute in enumerate(literal.attributes):
        for e in rule.equalities:
            for one, other in ((e.left, e.right), (e.right, e.left)):
                if one == attribute and other in there:
                    found.setdefault(place, other)
    return found
