"""What maintaining a view takes when one of its tables changes: what the effort grows with, and what is read.

The change is differentiated as it will be at a commit, over the auxiliary relations that the view would have. The
result shows by which columns every other relation is read, or that it is read in full.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.null_expressions import merged_keys
from viewkeeper.delta.compile import differentiate
from viewkeeper.plan.auxiliary import Auxiliary, split
from viewkeeper.plan.group_state import group_by_of, group_state
from viewkeeper.plan.maintainable import has_single_row
from viewkeeper.plan.neighbor_columns import has_state
from viewkeeper.plan.strategy_names import FIXPOINT, FOLD, TOPK, differentiated, strategy_name

OPERATIONS = ("insert", "delete", "update")
"""What can be done to the rows of a table."""


class Scale(IntEnum):
    """What the effort grows with, the least first."""

    NOTHING = 0
    LINEAR = 1
    BOUND = 2
    GROUPS = 3
    WHOLE = 4


COSTS = {
    Scale.NOTHING: "the view does not change",
    Scale.LINEAR: "in proportion to the change; nothing else is read",
    Scale.BOUND: "in proportion to the change and the rows that its keys select in other tables",
    Scale.GROUPS: "in proportion to the groups that the change touches",
    Scale.WHOLE: "a full scan for every change: better left virtual, or with refresh = 'full'",
}


@dataclass(frozen=True)
class Reading:
    """A relation that is read: by some of its columns, or in full if there are none."""

    relation: str
    name: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} by {', '.join(self.columns)}" if self.columns else f"all of {self.name}"


@dataclass(frozen=True)
class Effort:
    """What one operation on one reference takes."""

    scale: Scale
    readings: tuple[Reading, ...]
    remarks: tuple[str, ...] = ()


def effort_of(node: n.Node, reference: str, operation: str) -> Effort:
    """What an operation on the relation of one scan takes, for a materialized view."""
    numbers = itertools.count(1)
    parts = split(node, lambda: f"auxiliary {next(numbers)}", lambda scan: scan.stored_names[0])
    work = _Work(parts.auxiliaries, reference, operation)
    for part in parts.auxiliaries:
        if work.maintain(part.node, auxiliary=True):
            work.changed.add(part.scan.relation)
    work.maintain(parts.node, auxiliary=False)
    return Effort(work.scale, tuple(dict.fromkeys(work.readings)), tuple(dict.fromkeys(work.remarks)))


class _Work:
    """What has to be done for one change, gathered relation by relation."""

    def __init__(self, auxiliaries: Sequence[Auxiliary], reference: str, operation: str) -> None:
        self.auxiliaries = {part.scan.relation: part.node for part in auxiliaries}
        self.only_inserts = operation == "insert"
        self.grown = {reference} if self.only_inserts else set[str]()
        self.changed = {reference}
        self.scale = Scale.NOTHING
        self.readings: list[Reading] = []
        self.remarks: list[str] = []

    def maintain(self, node: n.Node, *, auxiliary: bool) -> bool:
        """Adds what a stored relation takes; whether it can change at all."""
        strategy = strategy_name(node, group_state(node), auxiliary=auxiliary)
        change = differentiate(differentiated(node, strategy), self.changed, self.grown)
        if change is None:
            return False
        if strategy == FIXPOINT:
            self._needs(Scale.BOUND)
            self.remarks.append("a recursion is maintained round by round, as far as the change reaches")
            return True
        self._reads(readings_of(change, frozenset()))
        match group_by_of(node) or node:
            case n.Aggregate() as folded if strategy == FOLD:
                self._needs(Scale.GROUPS if folded.groups else Scale.LINEAR)
                self._folded(folded)
            case n.Top() if strategy == TOPK:
                self._needs(Scale.GROUPS)
                if not self.only_inserts:
                    self.remarks.append("a top-k buffer is refilled when too many of its rows are deleted")
            case _:
                self._needs(Scale.LINEAR)
        return True

    def _folded(self, node: n.Aggregate) -> None:
        if not has_state(node):
            self._reads(readings_of(node.input, frozenset(node.groups)))
            return
        if any(call.share is not None for call in node.calls):
            self.remarks.append("a group is read again for a percentile when that has left its neighbors")
        if not self.only_inserts and any(call.function in ("min", "max") for call in node.calls):
            self.remarks.append("a group that loses its minimum or maximum is read again")

    def _needs(self, scale: Scale) -> None:
        self.scale = max(self.scale, scale)

    def _reads(self, readings: Iterator[tuple[n.Scan, tuple[str, ...]]]) -> None:
        for scan, columns in readings:
            stored = self.auxiliaries.get(scan.relation)
            if stored is not None and (columns or _is_small(stored)):
                continue  # it is sorted by these columns
            name = "an auxiliary relation" if stored is not None else scan.name
            self.readings.append(Reading(scan.relation, name, columns))
            self._needs(Scale.BOUND if columns else Scale.WHOLE)


def _is_small(auxiliary: n.Node) -> bool:
    """Whether an auxiliary relation has few rows however large its input is."""
    return has_single_row(auxiliary) or (isinstance(auxiliary, n.Top) and not auxiliary.partition)


Bound = frozenset[Attribute]


def readings_of(node: n.Node, bound: Bound) -> Iterator[tuple[n.Scan, tuple[str, ...]]]:
    """The scans below a node that are read, with the names of the columns they are read by."""
    match node:
        case n.Scan():
            if node.state != n.CHANGE:
                pairs = zip(node.attributes, node.stored_names, strict=True)
                yield node, tuple(name for a, name in pairs if a in bound)
        case n.Project():
            merged = [equality for a, equality in merged_keys(node).items() if a in bound]
            if merged:
                left, right = node.input.inputs
                yield from readings_of(left, frozenset(e.left for e in merged))
                yield from readings_of(right, frozenset(e.right for e in merged))
                return
            below = frozenset(e.attribute for a, e in node.columns if a in bound and e.attribute is not None)
            yield from readings_of(node.input, below)
        case n.Join():
            yield from _joined(node, bound)
        case n.Exists() | n.Outer():
            yield from _beside(node, bound)
        case n.Restrict():
            yield from readings_of(node.right, bound)
            yield from readings_of(node.left, bound | {left for left, _ in node.on})
        case n.Aggregate():
            yield from readings_of(node.input, bound & frozenset(node.groups))
        case n.Window() | n.Top():
            yield from readings_of(node.input, bound & frozenset(node.partition))
        case n.Rederived():
            pass  # read round by round, by the keys of the round before
        case n.Union() | n.Monus() | n.Least():
            places = [i for i, a in enumerate(node.outputs) if a in bound]
            for part in node.inputs:
                yield from readings_of(part, frozenset(part.outputs[i] for i in places))
        case _:
            for part in node.inputs:
                yield from readings_of(part, bound & frozenset(part.outputs))


def _joined(node: n.Join, bound: Bound) -> Iterator[tuple[n.Scan, tuple[str, ...]]]:
    """Changes come first; an input that is equal to a column that is known already is read by it."""
    known = set(bound)
    waiting = sorted(node.inputs, key=lambda part: not n.is_change(part))
    while waiting:
        part = max(waiting, key=lambda one: (n.is_change(one), len(_linked(node.equalities, one, known))))
        waiting.remove(part)
        linked = _linked(node.equalities, part, known)
        yield from readings_of(part, linked)
        if linked or n.is_change(part):
            known |= set(part.outputs)


def _linked(equalities: Sequence[n.Equality], part: n.Node, known: set[Attribute]) -> Bound:
    """The columns of an input that are known, or equal to one that is."""
    found = {a for a in part.outputs if a in known}
    for e in equalities:
        for one, other in ((e.left, e.right), (e.right, e.left)):
            if one in part.outputs and other in known:
                found.add(one)
    return frozenset(found)


def _beside(node: n.Exists | n.Outer, bound: Bound) -> Iterator[tuple[n.Scan, tuple[str, ...]]]:
    """The right side is read by the keys of the left side, if those are few.

    A bound column of a side that may be missing leaves only rows in which it is there: the join pads that much less.
    """
    inner = dict(node.padded) if isinstance(node, n.Outer) else {}
    below = frozenset(inner.get(a, a) for a in bound)
    ours, theirs = (below & frozenset(side.outputs) for side in node.inputs)
    full = isinstance(node, n.Outer) and node.full
    if theirs and (ours or not full):
        yield from _joined(n.Join(node.inputs, node.equalities), below)
        return
    turned = bool(theirs)
    first, second = (node.right, node.left) if turned else (node.left, node.right)
    yield from readings_of(first, theirs or ours)
    narrow = n.is_change(first) or bool(theirs or ours)
    keys = frozenset(e.left if turned else e.right for e in node.equalities if narrow)
    yield from readings_of(second, keys)
