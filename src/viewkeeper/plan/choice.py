"""Incremental or full: which way is cheaper for one view and one change, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewkeeper.algebra.tuning import Tuning
from viewkeeper.plan.cost import Changed, Rates, Stored, full_seconds, incremental_seconds, recursion_anew


@dataclass(frozen=True)
class Choice:
    """A way to bring a view up to date, and the reason for it. `weighed`: the costs of both ways were compared."""

    strategy: str
    reason: str
    note: str = ""
    weighed: bool = False
    limit: float | None = None
    """Seconds that following the change may cost before it is given up for computing anew."""


def choose(
    refresh: str, changed: int, stored: Stored, rates: Rates, tuning: Tuning, lay_out: Callable[[], Sequence[Changed]]
) -> Choice:
    """The way to go for so many changed rows. `lay_out` says what following them reads; asked only if it matters."""
    if refresh in ("full", "incremental"):
        return Choice(refresh, f"refresh = '{refresh}'")
    if stored.total <= tuning.negligible_rows:
        return Choice(
            "incremental", f"{count(changed)} changed, {count(stored.total)} to compute it from: too few to matter"
        )
    changes = lay_out()
    follow, fresh = incremental_seconds(stored, changes, rates), full_seconds(stored, changed, rates)
    reason = (
        f"incremental about {span(follow)} ({', '.join([f'{count(changed)} changed', *reads(changes)])}), "
        f"full about {span(fresh)} ({count(stored.total)})"
    )
    is_cheaper = fresh * tuning.full_margin + tuning.spare_queries * rates.query < follow
    return Choice("full" if is_cheaper else "incremental", reason, weighed=True)


def choose_for_recursion(refresh: str, changed: int, stored: Stored, rates: Rates, tuning: Tuning) -> Choice:
    """The way to go for a recursive relation.

    How many rounds a change takes is not known beforehand. So it is followed, unless it is large, until that has cost
    as much as computing anew would.
    """
    if refresh in ("full", "incremental"):
        return Choice(refresh, f"refresh = '{refresh}'")
    told = f"{count(changed)} changed of {count(stored.total)} that the recursion reads"
    if changed * tuning.large_share > stored.total and changed > tuning.negligible_rows:
        return Choice("full", f"{told}: full refresh", weighed=True)
    matters = stored.total + stored.rows > tuning.negligible_rows
    limit = recursion_anew(stored, rates, tuning.small_rows) if matters else None
    return Choice("incremental", told, weighed=True, limit=limit)


def turns(choice: Callable[[int], Choice], most: int) -> int | None:
    """From about how many changed rows on a choice is for computing anew; None if not even with `most`."""

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
    """What following changes reads, in words."""
    readings = [(change, reading) for change in changes for reading in change.plan.readings if reading.rows]
    by_key = sum(1 for change, reading in readings if reading.columns and change.known)
    whole = sum(reading.rows for change, reading in readings if not (reading.columns and change.known))
    told = [f"{by_key} read{'' if by_key == 1 else 's'} by key"] if by_key else []
    return [*told, f"{count(whole)} in full"] if whole else told


def span(seconds: float) -> str:
    """A time in words, no more exact than an estimate is."""
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
