"""Polarity: which kind of change of a relation can lead to which kind of change of an expression.

Inserts pass an even number of negations as inserts, and an odd number as deletes (Harrison and Dietrich 1994, section
4, Rules 1 to 3). Operators that count, pad or rank rows can turn either kind into either. So a watcher of inserts need
not see every kind of change, and a transaction with one kind of change may lead to one kind only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Flag

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Expression


class Kinds(Flag):
    """Kinds of change."""

    NONE = 0
    ADDITIONS = 1
    REMOVALS = 2
    BOTH = 3


class Polarity(Flag):
    """By how many negations a relation is read: an even number, an odd one, or both."""

    EVEN = 1
    ODD = 2
    BOTH = 3

    @property
    def turned(self) -> Polarity:
        """The polarity with one negation more."""
        return {Polarity.EVEN: Polarity.ODD, Polarity.ODD: Polarity.EVEN}.get(self, self)

    def followed_by(self, other: Polarity) -> Polarity:
        """The polarity of what is read with another one by what is read with this one."""
        if self is Polarity.BOTH or other is Polarity.BOTH:
            return Polarity.BOTH
        return other if self is Polarity.EVEN else other.turned

    def gives(self, kinds: Kinds) -> Kinds:
        """The kinds of change that some kinds lead to."""
        turned = Kinds.NONE
        if Kinds.ADDITIONS in kinds:
            turned |= Kinds.REMOVALS
        if Kinds.REMOVALS in kinds:
            turned |= Kinds.ADDITIONS
        found = Kinds.NONE
        if Polarity.EVEN in self:
            found |= kinds
        if Polarity.ODD in self:
            found |= turned
        return found


@dataclass(frozen=True)
class Reading:
    """A scan of a query: the conditions of the filters right above it, and the polarity by which it is read."""

    scan: n.Scan
    conditions: tuple[Expression, ...]
    polarity: Polarity


def readings(node: n.Node) -> list[Reading]:
    """Every scan of a query that its rows depend on."""
    return list(_look(node, Polarity.EVEN, ()))


def polarities(node: n.Node) -> dict[str, Polarity]:
    """The polarity of every relation that an expression reads."""
    found: dict[str, Polarity] = {}
    for reading in readings(node):
        key = reading.scan.relation
        found[key] = found.get(key, reading.polarity) | reading.polarity
    return found


def relevant_kinds(node: n.Node, wanted: Kinds) -> dict[str, Kinds]:
    """Per relation, the kinds of change that can lead to wanted ones (Rules 1 to 3).

    Others may be ignored only where rows cannot cancel: in sets, or in a transaction with one kind of change.
    """
    return {relation: polarity.gives(wanted) for relation, polarity in polarities(node).items()}


def _look(node: n.Node, sign: Polarity, above: tuple[Expression, ...]) -> Iterator[Reading]:
    match node:
        case n.Scan():
            yield Reading(node, above, sign)
        case n.Filter():
            yield from _look(node.input, sign, (*above, node.condition))
        case n.Exists(negated=True) | n.Monus():
            yield from _look(node.left, sign, ())
            yield from _look(node.right, sign.turned, ())
        case n.Outer():
            yield from _look(node.left, Polarity.BOTH if node.full else sign, ())
            yield from _look(node.right, Polarity.BOTH, ())
        case n.Fixpoint():
            for rule in node.rules:
                for literal in rule.body:
                    if isinstance(literal.source, int):
                        yield from _look(node.inputs[literal.source], sign.turned if literal.negated else sign, ())
        case n.Aggregate() if node.calls or node.whole:
            yield from _look(node.input, Polarity.BOTH, ())
        case n.Window():
            yield from _look(node.input, Polarity.BOTH, ())
        case n.Top() if node.limit is not None or node.offset:
            yield from _look(node.input, Polarity.BOTH, ())
        case _:
            for part in node.inputs:
                yield from _look(part, sign, ())
