"""The disjunctive normal form of a body: its semicolons expanded."""

from __future__ import annotations

import itertools
import math

from viewkeeper.datalog.program_tree import Body, Conjunction, Disjunction, Literal

MOST_ALTERNATIVES = 256
"""Most rules that the semicolons of one clause may expand to."""


def count_alternatives(body: Body | None) -> int:
    """How many conjunctions a body has when its semicolons are expanded."""
    match body:
        case Disjunction():
            return sum(map(count_alternatives, body.parts))
        case Conjunction():
            return math.prod(map(count_alternatives, body.parts))
        case _:
            return 1


def written_out(body: Body | None) -> list[tuple[Literal, ...]]:
    """The conjunctions of a body, of which one must hold, in the order of the text."""
    match body:
        case None:
            return [()]
        case Disjunction():
            return [literals for part in body.parts for literals in written_out(part)]
        case Conjunction():
            choices = itertools.product(*map(written_out, body.parts))
            return [tuple(itertools.chain.from_iterable(choice)) for choice in choices]
        case _:
            return [(body,)]
