"""Whether a transaction can change what a query returns, decided on the driver before anything is read.

A changed relation does not reach a query if no scan of it sees a change: its rows differ in other columns only, or do
not pass the filters right above the scan. What reaches it may still lead to kinds of change that nobody wants, because
the query has an odd or an even number of negations over it (Griffin and Libkin's safe transactions).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.analysis.polarity import Kinds, Reading, readings
from viewkeeper.analysis.ranges import Ranges
from viewkeeper.analysis.relevance import FewRows, filters_of, rows_that_may_pass
from viewkeeper.catalog.definition import Definition
from viewkeeper.maintain.situation import Pending

KnownChange = Callable[[n.Scan], pa.Table | None]
"""The net change of a scan's columns, under their labels; None if it is not on the driver."""


def reaching(node: n.Node, changed: Collection[str], wanted: Kinds, known: KnownChange) -> frozenset[str]:
    """The changed relations that reach a query; none if they cannot lead to a wanted kind of change.

    Whole queries are left out by kind, never single relations: in a bag a deletion can cancel an insertion.
    """
    found: set[str] = set()
    leads = Kinds.NONE
    for reading in readings(node):
        if reading.scan.relation in changed:
            kinds = _kinds(reading, known(reading.scan))
            if kinds is not Kinds.NONE:
                found.add(reading.scan.relation)
                leads |= reading.polarity.gives(kinds)
    return frozenset(found) if leads & wanted else frozenset()


def _kinds(reading: Reading, change: pa.Table | None) -> Kinds:
    """The kinds of change that a scan sees behind the filters above it."""
    if change is None:
        return Kinds.BOTH
    for condition in reversed(reading.conditions):
        if not change.num_rows:
            break
        change = rows_that_may_pass(change, condition)
    if not change.num_rows:
        return Kinds.NONE
    ends = pc.min_max(change[WEIGHT])
    kinds = Kinds.ADDITIONS if ends["max"].as_py() > 0 else Kinds.NONE
    return kinds | Kinds.REMOVALS if ends["min"].as_py() < 0 else kinds


_entrances: weakref.WeakKeyDictionary[Definition, dict[str, list[Ranges]]] = weakref.WeakKeyDictionary()
"""Per relation that a view reads, the ranges of the filters right above its scans."""


class Entrances:
    """Which changed relations a view sees anything of: the question for views that no row reaches, so it takes
    microseconds. The values of the changed rows are sorted once; each view asks whether one lies in its ranges."""

    def __init__(self, pending: Mapping[str, Pending], most: int) -> None:
        """Changes of more rows than `most`, or in files, may enter everywhere."""
        self._changes = {
            key: FewRows(change.rows, change.relation.schema)
            for key, change in pending.items()
            if not change.staged and 0 < change.rows.num_rows <= most
        }

    def may_enter(self, definition: Definition, key: str) -> bool:
        """Whether a changed row of a relation may pass the filters of a view."""
        change = self._changes.get(key)
        if change is None:
            return True
        known = _entrances.setdefault(definition, {})
        if key not in known:
            known[key] = filters_of(definition.maintained, key)
        return any(ranges.may_be_in(change) for ranges in known[key])
