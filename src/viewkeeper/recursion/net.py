"""The input and the result of maintaining a recursion: sets of inserted and deleted rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Rule
from viewkeeper.delta.compile import differentiate
from viewkeeper.recursion.row_sets import Growing, Rows, Workspace
from viewkeeper.recursion.steps import Step

ADDED, REMOVED = 1, -1
"""The two kinds of change."""


@dataclass(frozen=True)
class Filtration:
    """One filtration: the potential deletions of a relation, those still derivable, and the actual ones."""

    relation: str
    approximation: Rows
    disqualified: Rows
    actual: Rows


@dataclass
class Trace:
    """The number of rows considered, by relation, for the report and for tests."""

    proposed: dict[str, int] = field(default_factory=dict)
    filtered: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    unbound: int = 0
    adornments: list[str] = field(default_factory=list)
    filtrations: list[Filtration] = field(default_factory=list)

    def note(self, counts: dict[str, int], name: str, count: int) -> None:
        """Adds to a relation's count."""
        counts[name] = counts.get(name, 0) + count

    def __str__(self) -> str:
        total = {kind: sum(getattr(self, kind).values()) for kind in ("proposed", "filtered", "removed", "added")}
        counted = ", ".join(f"{count:,} {kind}" for kind, count in total.items())
        return f"{counted} in {self.rounds} round{'' if self.rounds == 1 else 's'}"


@dataclass(frozen=True)
class Net:
    """The net change of every relation of a recursion."""

    added: dict[str, Growing]
    removed: dict[str, Growing]
    trace: Trace


class Outer:
    """The changes of a recursion's inputs, as sets: a row whose count changes but stays above 0 has not changed."""

    def __init__(self, space: Workspace, inputs: Sequence[n.Node], changed: Collection[str]) -> None:
        self.changes: dict[tuple[int, int], Rows] = {}
        for number, part in enumerate(inputs):
            if not any(scan.relation in changed for scan in n.scans(part)):
                continue
            inserted, deleted = self._kept_change(space, part) or self._derived_change(space, part, changed)
            self.changes |= {
                (number, sign): rows for sign, rows in ((ADDED, inserted), (REMOVED, deleted)) if rows.count
            }

    @staticmethod
    def _kept_change(space: Workspace, part: n.Node) -> tuple[Rows, Rows] | None:
        """The inserted and deleted rows of a relation that is kept on the driver."""
        keyed = space.keyed(part)
        change = keyed.set_change() if keyed is not None else None
        if change is None:
            return None
        inserted, deleted = change
        return space.of_tuples(inserted, part.outputs), space.of_tuples(deleted, part.outputs)

    @staticmethod
    def _derived_change(space: Workspace, part: n.Node, changed: Collection[str]) -> tuple[Rows, Rows]:
        change = differentiate(n.Distinct(part), changed)
        assert change is not None, "one of its relations has changed"
        return space.parted(change)

    def steps(self, rules: Sequence[Rule], sign: int) -> list[Step]:
        """The steps in which changes of one sign enter the rules; a negated literal flips the sign."""
        found = []
        for rule in rules:
            for place, literal in enumerate(rule.body):
                if isinstance(literal.source, int):
                    rows = self.changes.get((literal.source, -sign if literal.negated else sign))
                    if rows is not None:
                        found.append(Step(rule, place, rows))
        return found
