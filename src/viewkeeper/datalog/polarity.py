"""Polarity: by how many negations a relation reaches another, even, odd or both.

Additions pass an even number of negations as additions, and an odd one as removals. So a watcher that only wants
additions need not hear of every kind of change (Harrison and Dietrich 1994, section 4). An aggregate can turn either
kind into either, so it counts as both.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from viewkeeper.datalog.graph import Graph, Sign


class Polarity(Enum):
    """The numbers of negations on the ways from one relation to another."""

    EVEN = "even"
    ODD = "odd"
    BOTH = "both"


class Kind(Enum):
    """A kind of change."""

    ADDITIONS = "additions"
    REMOVALS = "removals"


_FLIPS = {Sign.POSITIVE: (False,), Sign.NEGATIVE: (True,), Sign.AGGREGATED: (False, True)}


def polarities(graph: Graph) -> dict[tuple[str, str], Polarity]:
    """The polarity of every (source, target) with a way from one to the other. Each relation reaches itself evenly."""
    steps: dict[str, dict[tuple[str, bool], None]] = {name: {} for name in graph.relations}
    for arc in graph.arcs:
        steps[arc.source].update(dict.fromkeys((arc.target, flip) for flip in _FLIPS[arc.sign]))
    found: dict[tuple[str, str], Polarity] = {}
    for source in graph.relations:
        reached = {(source, False)}
        queue = deque(reached)
        while queue:
            relation, odd = queue.popleft()
            for target, flip in steps[relation]:
                state = (target, odd != flip)
                if state not in reached:
                    reached.add(state)
                    queue.append(state)
        for target in graph.relations:
            parities = {odd for relation, odd in reached if relation == target}
            if parities:
                found[source, target] = _POLARITY[frozenset(parities)]
    return found


_POLARITY = {
    frozenset({False}): Polarity.EVEN,
    frozenset({True}): Polarity.ODD,
    frozenset({False, True}): Polarity.BOTH,
}


def relevant_kinds(polarity: Polarity, wanted: Kind) -> frozenset[Kind]:
    """The kinds of change at the source that can make the wanted kind at the target (Rules 1 to 3).

    Others may be left out only where the target is a set whose additions are checked against its old state.
    """
    other = Kind.REMOVALS if wanted is Kind.ADDITIONS else Kind.ADDITIONS
    match polarity:
        case Polarity.EVEN:
            return frozenset({wanted})
        case Polarity.ODD:
            return frozenset({other})
        case Polarity.BOTH:
            return frozenset({wanted, other})
