"""The order in which the driver joins the literals of a rule, made once for each literal that it can begin with.

A joined row is the rows of its literals one after the other, then the computed values. The operators are those of
`bodies.body`, in the same order: joins, conditions that cannot raise, computed values, negated literals, the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from viewkeeper.algebra.datalog_rules import Literal, Rule
from viewkeeper.algebra.expressions import Attribute, Equality, Expression
from viewkeeper.driver.arrow_values import why_not
from viewkeeper.driver.row_index import Columns, Row, is_plain, key_of


@dataclass(frozen=True)
class Join:
    """A literal to join by some of its columns, or whose rows must have no partner.

    `ours` takes the key from a joined row. `solid` are places in it that must not be NULL (=), `same` pairs of places,
    with the new row beside it, that have to be equal, each with whether NULLs are.
    """

    literal: Literal
    columns: Columns
    ours: Callable[[Row], object]
    solid: Columns
    same: tuple[tuple[int, int, bool], ...] = ()


@dataclass(frozen=True)
class JoinOrder:
    """How the rows of a rule are derived from those of one of its literals.

    `there` are the attributes of a joined row, `same` pairs of places that have to be equal from the beginning,
    `met` those that have to be once all values are computed.
    """

    there: tuple[Attribute, ...]
    same: tuple[tuple[int, int, bool], ...]
    joins: tuple[Join, ...]
    conditions: tuple[Expression, ...]
    computed: tuple[tuple[Attribute, Expression], ...]
    absent: tuple[Join, ...]
    met: tuple[tuple[int, int, bool], ...]
    last: tuple[Expression, ...]
    columns: tuple[Expression, ...]
    head: Callable[[Row], Row] | None
    """Takes the head's columns from a joined row; None if some are computed."""


@dataclass
class _Row:
    """The attributes of a joined row so far."""

    there: list[Attribute] = field(default_factory=list)

    def pairs(self, equalities: Sequence[Equality], since: int) -> tuple[tuple[int, int, bool], ...]:
        """The places of equal attributes, of which one is at `since` or later."""
        known = {a: place for place, a in enumerate(self.there)}
        found = [(known[e.left], known[e.right], e.null_safe) for e in equalities if {e.left, e.right} <= known.keys()]
        return tuple(pair for pair in found if max(pair[:2]) >= since)


def join_order(rule: Rule, first: int) -> JoinOrder | None:
    """The order that begins with one literal; None if there is something that only the engine can do."""
    attributes = [a for literal in rule.body for a in literal.attributes] + [a for a, _ in rule.computed]
    values = [*rule.conditions, *(value for _, value in rule.computed), *rule.columns]
    if not rule.columns or not all(is_plain(a.type) for a in attributes) or any(map(why_not, values)):
        return None
    if any(not _comparable(e) for e in rule.equalities):
        return None
    row = _Row(list(rule.body[first].attributes))
    same = row.pairs(rule.equalities, 0)
    joins: list[Join] = []
    waiting = [literal for place, literal in enumerate(rule.body) if place != first and not literal.negated]
    while waiting:
        best = max(waiting, key=lambda literal: len(_links(rule, row.there, literal)))
        join = _join(rule, row, best)
        if join is None:
            return None  # a cross join
        waiting.remove(best)
        joins.append(join)
    width = len(row.there)
    row.there += [a for a, _ in rule.computed]
    negated = [literal for place, literal in enumerate(rule.body) if place != first and literal.negated]
    absent = [_join(rule, row, literal, adds=False) for literal in negated]
    if any(join is None for join in absent):
        return None
    taken = [value.attribute for value in rule.columns]
    places = tuple(row.there.index(a) for a in taken if a is not None)
    return JoinOrder(
        tuple(row.there),
        same,
        tuple(joins),
        tuple(condition for condition in rule.conditions if not condition.raises),
        rule.computed,
        tuple(join for join in absent if join is not None),
        row.pairs(rule.equalities, width) if rule.computed else (),
        tuple(condition for condition in rule.conditions if condition.raises),
        rule.columns,
        _picked(places) if len(places) == len(taken) else None,
    )


def _picked(places: Columns) -> Callable[[Row], Row]:
    take = key_of(places)
    return (lambda row: (take(row),)) if len(places) == 1 else take


def _comparable(equality: Equality) -> bool:
    one, other = equality.left.type, equality.right.type
    return one == other or (one.is_integer and other.is_integer)


def _join(rule: Rule, row: _Row, literal: Literal, *, adds: bool = True) -> Join | None:
    """A literal joined to a row by all its columns that are linked; None if none is."""
    links = _links(rule, row.there, literal)
    if not links:
        return None
    columns = tuple(links)
    places = tuple(row.there.index(attribute) for attribute, _ in links.values())
    solid = tuple(place for place, (_, null_safe) in zip(places, links.values(), strict=True) if not null_safe)
    width = len(row.there)
    beside = _Row([*row.there, *literal.attributes])
    linked = {(place, width + column) for place, column in zip(places, columns, strict=True)}
    pairs = beside.pairs(rule.equalities, width)
    same = tuple(pair for pair in pairs if pair[2] is False or not {pair[:2], pair[:2][::-1]} & linked)
    if adds:
        row.there = beside.there
    return Join(literal, columns, key_of(places), solid, same)


def _links(rule: Rule, there: Sequence[Attribute], literal: Literal) -> dict[int, tuple[Attribute, bool]]:
    """The columns of a literal that equal an attribute of the row, each with one such attribute."""
    found: dict[int, tuple[Attribute, bool]] = {}
    for place, attribute in enumerate(literal.attributes):
        for e in rule.equalities:
            for one, other in ((e.left, e.right), (e.right, e.left)):
                if one == attribute and other in there:
                    found.setdefault(place, (other, e.null_safe))
    return found
