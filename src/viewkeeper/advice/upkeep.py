"""How a view would be kept if one of the tables it names changed: what is worked out, and what is read for it.

The change is differentiated as it will be when it comes, over what would be stored beside the view. From what comes
out one can see by which columns every other relation is read, or that all of it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.delta.compile import differentiate
from viewkeeper.plan.auxiliary import Split, split

OPERATIONS = ("insert", "delete", "update")
"""What can be done to the rows of a table."""


class Effort(IntEnum):
    """How much work a change of a table is, the least first."""

    NOTHING = 0
    LINEAR = 1
    BOUND = 2
    GROUPS = 3
    WHOLE = 4


EFFORTS = {
    Effort.NOTHING: "the view does not change",
    Effort.LINEAR: "in proportion to the change; nothing else is read",
    Effort.BOUND: "in proportion to the change and to what its keys pick of other tables",
    Effort.GROUPS: "in proportion to the groups that the change touches",
    Effort.WHOLE: "reads all of a table for every change: better left virtual, or with refresh = 'full'",
}


@dataclass(frozen=True)
class Reading:
    """A relation that is read, by some of its columns; by none: all of it."""

    relation: str
    name: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} by {', '.join(self.columns)}" if self.columns else f"all of {self.name}"


@dataclass(frozen=True)
class Upkeep:
    """What a change of one kind to one reference leads to."""

    effort: Effort
    readings: tuple[Reading, ...]
    remarks: tuple[str, ...] = ()


def upkeep(node: n.Node, reference: str, operation: str) -> Upkeep:
    """What an operation on the relation of one scan leads to, for a view that is stored."""
    numbers = itertools.count(1)
    parts = split(node, lambda: f"kept {next(numbers)}", lambda scan: scan.stored_names[0])
    return _Upkeep(parts, reference, operation).work()


class _Upkeep:
    def __init__(self, parts: Split, reference: str, operation: str) -> None:
        self.parts = parts
        self.operation = operation
        self.changed = {reference}
        self.grown = self.changed if operation == "insert" else set[str]()
        self.kept = {part.scan.relation: part.node for part in parts.auxiliaries}
        self.effort = Effort.NOTHING
        self.readings: list[Reading] = []
        self.remarks: list[str] = []

    def work(self) -> Upkeep:
        for part in self.parts.auxiliaries:
            if self._follow(part.node):
                self.changed.add(part.scan.relation)
        self._follow(self.parts.node)
        return Upkeep(self.effort, tuple(dict.fromkeys(self.readings)), tuple(dict.fromkeys(self.remarks)))

    def _follow(self, node: n.Node) -> bool:
        """Notes what following the change takes for one stored relation; whether it can change at all."""
        if not any(scan.relation in self.changed for scan in n.scans(node)):
            return False
        below = node.input if isinstance(node, (n.Aggregate, n.Top)) else node
        change = differentiate(below, self.changed, self.grown)
        if change is None:
            return False
        match node:
            case n.Aggregate():
                self._needs(Effort.GROUPS if node.groups else Effort.LINEAR)
                self._note(_readings(change, frozenset()))
                self._group_by(node)
            case n.Top():
                self._needs(Effort.GROUPS)
                self._note(_readings(change, frozenset()))
                if self.operation != "insert":
                    self.remarks.append("rows beyond those kept are read again when too many of them go")
            case n.Fixpoint():
                self._needs(Effort.BOUND)
                self.remarks.append("a recursion follows round by round, as far as the change leads")
            case _:
                self._needs(Effort.LINEAR)
                self._note(_readings(change, frozenset()))
        return True

    def _group_by(self, node: n.Aggregate) -> None:
        if any(call.text is not None for call in node.calls):
            self._note(_readings(node.input, frozenset(node.groups)))
        elif self.operation != "insert" and any(call.function in ("min", "max") for call in node.calls):
            self.remarks.append("a group that loses its lowest or highest value is read again")

    def _needs(self, effort: Effort) -> None:
        self.effort = max(self.effort, effort)

    def _note(self, readings: Iterator[tuple[n.Scan, tuple[str, ...]]]) -> None:
        for scan, columns in readings:
            kept = self.kept.get(scan.relation)
            if kept is not None and (columns or (isinstance(kept, n.Aggregate) and not kept.groups)):
                continue  # what is kept beside the view is laid out for it, or one row
            name = "what is kept beside the view" if kept is not None else scan.name
            self.readings.append(Reading(scan.relation, name, columns))
            self._needs(Effort.BOUND if columns else Effort.WHOLE)


Bound = frozenset[Attribute]


def _readings(node: n.Node, bound: Bound) -> Iterator[tuple[n.Scan, tuple[str, ...]]]:
    """The scans below a node that are read, with the names of the columns they are read by."""
    match node:
        case n.Scan():
            if node.state != n.CHANGE:
                pairs = zip(node.attributes, node.stored_names, strict=True)
                yield node, tuple(name for a, name in pairs if a in bound)
        case n.Project():
            below = frozenset(e.attribute for a, e in node.columns if a in bound and e.attribute is not None)
            yield from _readings(node.input, below)
        case n.Join():
            yield from _joined(node, bound)
        case n.Exists() | n.Outer():
            yield from _beside(node, bound)
        case n.Restrict():
            yield from _readings(node.right, bound)
            yield from _readings(node.left, bound | {left for left, _ in node.on})
        case n.Aggregate():
            yield from _readings(node.input, bound & frozenset(node.groups))
        case n.Window() | n.Top():
            yield from _readings(node.input, bound & frozenset(node.partition))
        case n.Union() | n.Monus() | n.Least():
            places = [i for i, a in enumerate(node.outputs) if a in bound]
            for part in node.inputs:
                yield from _readings(part, frozenset(part.outputs[i] for i in places))
        case _:
            for part in node.inputs:
                yield from _readings(part, bound & frozenset(part.outputs))


def _joined(node: n.Join, bound: Bound) -> Iterator[tuple[n.Scan, tuple[str, ...]]]:
    """Parts that are a change come first; what is equal to something known is read by it."""
    known = set(bound)
    waiting = sorted(node.inputs, key=lambda part: not n.is_change(part))
    while waiting:
        part = max(waiting, key=lambda one: (n.is_change(one), len(_linked(node.equalities, one, known))))
        waiting.remove(part)
        linked = _linked(node.equalities, part, known)
        yield from _readings(part, linked)
        if linked or n.is_change(part):
            known |= set(part.outputs)


def _linked(equalities: Sequence[n.Equality], part: n.Node, known: set[Attribute]) -> Bound:
    """The columns of a part that are known, or equal to one that is."""
    found = {a for a in part.outputs if a in known}
    for e in equalities:
        for one, other in ((e.left, e.right), (e.right, e.left)):
            if one in part.outputs and other in known:
                found.add(one)
    return frozenset(found)


def _beside(node: n.Exists | n.Outer, bound: Bound) -> Iterator[tuple[n.Scan, tuple[str, ...]]]:
    """The right side is read by what the rows of the left side have in the columns that are compared."""
    left = bound & frozenset(node.left.outputs)
    yield from _readings(node.left, left)
    narrow = n.is_change(node.left) or bool(left)
    right = frozenset(e.right for e in node.equalities if narrow)
    yield from _readings(node.right, right)
