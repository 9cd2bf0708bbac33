"""Incremental or full: which is cheaper for one view and one change, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewkeeper.algebra.tuning import Tuning
from viewkeeper.plan.cost import Changed, Rates, Stored, full_recursion_seconds, full_seconds, incremental_seconds


@dataclass(frozen=True)
class Choice:
    """An incremental or full refresh, and the reason for it. `weighed`: their costs were compared."""

    strategy: str
    reason: str
    note: str = ""
    weighed: bool = False
    limit: float | None = None
    """Seconds that an incremental refresh may cost before it is given up for a full one."""


def choose(
    refresh: str, changed: int, stored: Stored, rates: Rates, tuning: Tuning, lay_out: Callable[[], Sequence[Changed]]
) -> Choice:
    """The refresh for so many changed rows. `lay_out` gives the plans of an incremental one; called only if needed."""
    if refresh in ("full", "incremental"):
        return Choice(refresh, f"refresh = '{refresh}'")
    if stored.total <= tuning.negligible_rows:
        return Choice(
            "incremental", f"{count(changed)} changed, {count(stored.total)} to compute it from: too few to matter"
        )
    changes = lay_out()
    incremental, full = incremental_seconds(stored, changes, rates), full_seconds(stored, changed, rates)
    reason = (
        f"incremental about {span(incremental)} ({', '.join([f'{count(changed)} changed', *reads(changes)])}), "
        f"full about {span(full)} ({count(stored.total)})"
    )
    is_full_cheaper = full * tuning.full_margin + tuning.spare_queries * rates.query < incremental
    return Choice("full" if is_full_cheaper else "incremental", reason, weighed=True)


def choose_for_recursion(
    refresh: str, changed: int, stored: Stored, rates: Rates, tuning: Tuning, given_up: int = 0
) -> Choice:
    """The refresh of a recursive relation.

    How many rounds a change takes is not known beforehand. So unless the change is large, the refresh is incremental
    until that has cost as much as a full one would. `given_up`: so many times in a row it did, and is not tried now.
    """
    if refresh in ("full", "incremental"):
        return Choice(refresh, f"refresh = '{refresh}'")
    reason = f"{count(changed)} changed of {count(stored.total)} that the recursion reads"
    if changed * tuning.large_share > stored.total and changed > tuning.negligible_rows:
        return Choice("full", f"{reason}: full refresh", weighed=True)
    if given_up:
        return Choice("full", f"{reason}; incremental refresh was given up {given_up} times in a row", weighed=True)
    matters = stored.total + stored.rows > tuning.negligible_rows
    limit = full_recursion_seconds(stored, rates, tuning) if matters else None
    return Choice("incremental", reason, weighed=True, limit=limit)


def turns(choice: Callable[[int], Choice], most: int) -> int | None:
    """The break-even: from about how many changed rows on a full refresh is chosen; None if not even with `most`."""

    def is_full(changed: int) -> bool:
        return choice(changed).strategy == "full"

    low, high = 0, 1
    while not is_full(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > max(1, high // 20):
        middle = (low + high) // 2
        low, high = (low, middle) if is_full(middle) else (middle, high)
    unit = int(10 ** max(0, len(str(high)) - 2))
    return -(-high // unit) * unit


def reads(changes: Sequence[Changed]) -> list[str]:
    """What an incremental refresh reads, in words."""
    readings = [(change, reading) for change in changes for reading in change.plan.readings if reading.rows]
    by_key = sum(1 for change, reading in readings if reading.columns and change.known)
    whole = sum(reading.rows for change, reading in readings if not (reading.columns and change.known))
    words = [f"{by_key} read{'' if by_key == 1 else 's'} by key"] if by_key else []
    words += [f"{count(whole)} in full"] if whole else []
    groups = round(max((change.lost(reading) for change in changes for reading in change.plan.again), default=0.0))
    return [*words, f"about {groups:,} group{'' if groups == 1 else 's'} read again"] if groups else words


def span(seconds: float) -> str:
    """A duration in words, with two digits."""
    if seconds < 0.001:
        return "1 ms"
    if seconds < 0.9995:
        return f"{_two_digits(seconds * 1000)} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{_two_digits(seconds):,} s"


def count(rows: int) -> str:
    """A number of rows in words."""
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _two_digits(number: float) -> int:
    return int(float(f"{number:.2g}"))
