"""Incremental or full: which way is cheaper for one view and one change, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from viewkeeper.algebra import nodes as n

FULL_SHARE = 0.3
"""With more of a relation changed than this, computing the view anew reads about as much as following the change."""


@dataclass(frozen=True)
class Choice:
    """A way to bring a view up to date, and the reason for it."""

    strategy: str
    reason: str
    note: str = ""


def choose(
    node: n.Node,
    changed: Collection[str],
    refresh: str,
    changed_rows: Callable[[n.Scan], int],
    size: Callable[[n.Scan], int],
) -> Choice:
    """The way to go for a change of some relations."""
    if refresh == "full":
        return Choice("full", "refresh = 'full'")
    if refresh == "incremental":
        return Choice("incremental", "refresh = 'incremental'")
    rows = sum(changed_rows(scan) for scan in _each(node) if scan.relation in changed)
    total = sum(size(scan) for scan in _each(node))
    if rows > FULL_SHARE * max(total, 1) and rows > 10_000:
        return Choice("full", f"{_rows(rows)} changed, {_rows(total)} to read for computing it anew")
    return Choice("incremental", f"{_rows(rows)} changed of {total:,}")


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _each(node: n.Node) -> list[n.Scan]:
    return list({scan.relation: scan for scan in n.scans(node)}.values())
