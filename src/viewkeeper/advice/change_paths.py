"""How changes of a relation reach a query that is watched, in words: what is pruned, the differential, what is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from viewkeeper.advice.effort import readings_of
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Expression, column
from viewkeeper.algebra.printing import formula, short
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.analysis.relevance import implied_ranges
from viewkeeper.analysis.triggering_graph import columns_read
from viewkeeper.delta.compile import differentiate
from viewkeeper.delta.positive import INSERTED, positive_differential

LEGEND = "δR = ΔR − ∇R: inserted rows less deleted ones; @old and @new: before and after; ⋉K: only touched keys"


def differential(node: n.Node, key: str, *, nervous: bool = False) -> list[str]:
    """The change of a query when one relation changes: as a formula, and what deriving it reads."""
    change = positive_differential(node, {key}) if nervous else differentiate(node, {key})
    if change is None:
        return []
    text = formula(n.transform(change, _plain))
    found = [f"{'N' if nervous else 'δ'} = {text}".replace(f"{_MARK}@new", "")]
    found += [f"looks only at {groups}" for groups in dict.fromkeys(_moving_groups(change))]
    found += _recursions(change)
    reads = _reads(change)
    alone = not any(isinstance(part, n.Rederived) for part in change.walk())
    return [*found, *(reads or (["reads nothing but the change"] if alone else []))]


_MARK = "\0"


def _plain(part: n.Node) -> n.Node:
    """For printing alone: inserted rows are ΔR, computed columns have their names, and nothing only passes rows on."""
    match part:
        case n.Scan() if part.relation.startswith(INSERTED):
            return replace(part, name=f"Δ{part.name}{_MARK}")
        case n.Net():
            return part.input
        case n.Project() if all(e.attribute is not None for _, e in part.columns):
            return part.input
        case n.Project():
            return n.Project(part.input, tuple((a, column(a)) for a in part.outputs))
        case _:
            return part


def _reads(change: n.Node) -> list[str]:
    """The relations that deriving a change reads, and by which columns."""
    ways: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for scan, columns in readings_of(n.transform(change, _as_change), frozenset()):
        states = ways.setdefault((scan.name, columns), [])
        states += [scan.state] if scan.state not in states else []
    return [
        f"reads {'' if columns else 'all of '}{name}{''.join(f'@{state}' for state in states[:1])}"
        f"{f' and {name}@{states[1]}' if len(states) > 1 else ''}{f' by {_listed(columns)}' if columns else ''}"
        for (name, columns), states in ways.items()
    ]


def _as_change(part: n.Node) -> n.Node:
    """Inserted rows are no read of a relation."""
    is_inserted = isinstance(part, n.Scan) and part.relation.startswith(INSERTED)
    return replace(part, state=n.CHANGE) if isinstance(part, n.Scan) and is_inserted else part


def _moving_groups(change: n.Node) -> Iterator[str]:
    """The groups that are looked at, where all aggregates of a group-by are linear."""
    for part in change.walk():
        if isinstance(part, n.Unbalanced):
            tables = dict.fromkeys(scan.name for scan in n.scans(part.input) if scan.state == n.CHANGE)
            moved = ["count", *(f"sum of {a.name}" for a in part.summed)]
            moved += [f"count of {a.name}" for a in part.counted if a not in part.summed]
            by = ", ".join(group.name for group in part.groups)
            yield f"groups of {', '.join(tables)} by {by} whose {' or '.join(moved)} changes"


def _recursions(change: n.Node) -> list[str]:
    found = [part.recursion for part in change.walk() if isinstance(part, n.Rederived)]
    lines = []
    for node in found:
        names = ", ".join(dict.fromkeys(scan.name for scan in n.scans(node)))
        lines.append(f"{node.shown} is a recursion that is not stored: round by round, {names} is read by keys")
        lines += [f"  {rule.text}" for rule in node.rules]
    return list(dict.fromkeys(lines))


# what is pruned ---------------------------------------------------------------------------------------


def unread_columns(node: n.Node, key: str, columns: Sequence[str]) -> list[str]:
    """Those of a relation's columns that a query does not read."""
    read = columns_read(node)[key]
    return [name for name in columns if name.lower() not in read]


def filters_at_the_door(node: n.Node, key: str) -> str | None:
    """The condition without which a changed row of a relation is dropped at once; None if some scan has none."""
    found: list[str] = []

    def look(part: n.Node, above: tuple[Expression, ...]) -> bool:
        if isinstance(part, n.Scan):
            if part.relation == key:
                found.append(" ∧ ".join(short(condition) for condition in above))
            return part.relation != key or bool(above)
        passed = above if isinstance(part, n.Project) else ()
        if isinstance(part, n.Filter):
            passed = (*above, part.condition) if implied_ranges(part.condition).columns else above
        passing = [look(below, passed) for below in part.inputs]
        return all(passing)

    return " or ".join(dict.fromkeys(found)) if look(node, ()) else None


def only_leads_to(kinds: Kinds, relation: str, rows: str) -> str:
    """Why a kind of change of a relation does not matter: it only leads to the opposite of what is waited for."""
    did = f"inserts into {relation}" if kinds == Kinds.ADDITIONS else f"deletes from {relation}"
    return f"{did} can only {rows}"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)
