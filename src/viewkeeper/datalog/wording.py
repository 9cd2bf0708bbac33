"""Phrases that errors about rules share."""

from __future__ import annotations

from viewkeeper.datalog.normal import NormalRule
from viewkeeper.datalog.terms import Variable


def written(variable: Variable) -> str:
    """A variable's name as the user wrote it, before variables of aggregates were renamed."""
    place = variable.place
    return place.text.split("\n")[place.line - 1][place.column - 1 : place.column - 1 + place.length]


def where(rule: NormalRule) -> str:
    """The rule an error is about, for its detail."""
    part = f"alternative {rule.alternative} of " if rule.alternative is not None else ""
    return f"in {part}the {'fact' if rule.clause.body is None else 'rule'} {rule.clause}"
