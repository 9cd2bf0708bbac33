"""Recursions that never end, detected after a few rounds.

A column *grows* if rules compute it from itself, directly or through other columns. Suppose that every growing column
is a sum (or concatenation) of its former value and of values that do not grow, and that no condition reads it. Then
the other columns alone, the *key* of a row, decide which rules apply to it.

    A row of round r has an ancestor in every round before. If there were fewer keys than rounds, two ancestors have
    the same key. They differ, because each was new: the rules between them added something. The same rules apply
    again, add the same again, and so on for ever.

In a bag (UNION ALL) rows need not be new, so there two ancestors with the same key are enough, whatever grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeeper.algebra.datalog_rules import Predicate, Rule
from viewkeeper.algebra.expressions import Arithmetic, Attribute, Call, Cast, Column, Expression
from viewkeeper.catalog.settings import Limits
from viewkeeper.engine.problems import Endless
from viewkeeper.engine.running import check_stopped

FIRST = 4
"""Rounds before keys are compared: most recursions have ended by then."""

OnDriver = Callable[[], Sequence[tuple[Any, ...]] | None]
"""Returns rows if they are on the driver."""

Place = tuple[str, int]
"""A column of a recursive relation: the relation's name, and the column's position."""


@dataclass(frozen=True)
class Growth:
    """Which columns of recursive relations grow. `is_free`: by sums alone, and no condition reads them."""

    growing: frozenset[Place]
    columns: Mapping[str, tuple[Attribute, ...]]
    is_free: bool
    bag: bool = False

    @property
    def may_be_endless(self) -> bool:
        """Whether the recursion may never end: it does end if it only recombines existing values."""
        return self.bag or bool(self.growing)

    @property
    def column(self) -> str | None:
        """The name of a growing column."""
        return None if self._first is None else self._first.name

    @property
    def is_text(self) -> bool:
        """Whether that column is a string."""
        return self._first is not None and self._first.type.name == "string"

    @property
    def _first(self) -> Attribute | None:
        first = min(self.growing, default=None)
        return None if first is None else self.columns[first[0]][first[1]]

    def key(self, name: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """What decides which rules apply to a row: its columns that do not grow, and which of the others are NULL."""
        places = enumerate(row)
        return (name, *((value is None) if (name, place) in self.growing else value for place, value in places))


def growth_of(predicates: Iterable[Predicate], rules: Sequence[Rule], *, bag: bool = False) -> Growth:
    """Which columns of some relations grow by their rules, and how."""
    named = {predicate.name: predicate for predicate in predicates}
    growing = _growing(rules)
    is_free = all(_is_free(rule, named, growing, bag=bag) for rule in rules)
    return Growth(growing, {name: predicate.attributes for name, predicate in named.items()}, is_free, bag)


def _growing(rules: Sequence[Rule]) -> frozenset[Place]:
    """Columns computed from themselves, and those that take values of such columns."""
    taken: dict[Place, set[Place]] = {}
    computed: set[tuple[Place, Place]] = set()
    for rule in rules:
        sources = _places(rule)
        for place, value in enumerate(rule.columns):
            head = (rule.head, place)
            own = {sources[a] for a in value.attributes if a in sources}
            taken.setdefault(head, set()).update(own)
            if value.attribute is None:
                computed |= {(head, source) for source in own}
    reached = {place: _reached(place, taken) for place in taken}
    begun = {head for head, source in computed if head in reached.get(source, {source})}
    return frozenset(place for place in taken if place in begun or reached[place] & begun)


def _reached(place: Place, taken: Mapping[Place, set[Place]]) -> set[Place]:
    """The columns that a column takes values of, through others too, and itself."""
    found, waiting = {place}, [place]
    while waiting:
        for source in taken.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _places(rule: Rule) -> dict[Attribute, Place]:
    """The attributes of a rule that are columns of recursive relations."""
    return {
        attribute: (str(literal.source), place)
        for literal in rule.body
        if literal.is_recursive
        for place, attribute in enumerate(literal.attributes)
    }


def _is_free(rule: Rule, named: Mapping[str, Predicate], growing: frozenset[Place], *, bag: bool) -> bool:
    moving = {attribute for attribute, place in _places(rule).items() if place in growing}
    looked_at = {a for condition in rule.conditions for a in condition.attributes}
    looked_at |= {a for equality in rule.equalities for a in (equality.left, equality.right)}
    looked_at |= {a for _, value in rule.computed for a in value.attributes}
    if moving & looked_at:
        return False
    return bag or all(
        _is_sum(value, moving, named[rule.head].attributes[place])
        for place, value in enumerate(rule.columns)
        if (rule.head, place) in growing and moving & set(value.attributes)
    )


def _is_sum(value: Expression, moving: set[Attribute], column: Attribute) -> bool:
    if value.attribute is not None:
        return True
    kind = column.type
    if not (kind.is_integer or kind.name in ("decimal", "string")):
        return False
    return _adds(value, moving)


def _adds(value: Expression, moving: set[Attribute]) -> bool:
    """Whether a value is a sum or concatenation in which each growing column is a plain term."""
    if not moving & set(value.attributes):
        return True
    match value:
        case Column():
            return True
        case Cast(child):
            return _adds(child, moving)
        case Arithmetic("+", left, right):
            return _adds(left, moving) and _adds(right, moving)
        case Arithmetic("-", left, right):
            return _adds(left, moving) and not moving & set(right.attributes)
        case Call("concat", arguments):
            return all(_adds(part, moving) for part in arguments)
    return False


class Rounds:
    """Counts the rounds of a recursion, and stops it when it will not end or reaches a limit."""

    def __init__(self, growth: Growth, limits: Limits) -> None:
        self.growth = growth
        self.limits = limits
        self.count = 0
        self._from = FIRST
        self._keys: set[tuple[Any, ...]] | None = set() if growth.may_be_endless and growth.is_free else None

    def begin(self, rows: Iterable[tuple[str, OnDriver]]) -> None:
        """Begins a round, with the rows that the last one added, each with the name of its relation."""
        check_stopped()
        self.count += 1
        if self.growth.may_be_endless and self.count > self.limits.max_rounds:
            raise Endless(rounds=self.limits.max_rounds)
        if self._keys is None or self.count < FIRST:
            return
        for name, on_driver in rows:
            tuples = on_driver()
            if tuples is None:  # their keys are not on the driver: only later rounds can be compared
                self._keys.clear()
                self._from = self.count + 1
                return
            self._keys.update(self.growth.key(name, row) for row in tuples)
        if self.count - self._from >= len(self._keys):
            raise Endless(column=self.growth.column)
        if len(self._keys) > self.limits.max_rounds:
            self._keys = None  # the limit will be reached before

    def check_rows(self, count: int) -> None:
        """Stops a recursion that has more rows than the limit."""
        if count > self.limits.max_rows:
            raise Endless(rows=self.limits.max_rows)
