"""Which firings of detached rules are due, and when a failed one is tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewkeeper.algebra.tuning import Tuning
from viewkeeper.catalog.active_rules import ActiveRule, Waiting
from viewkeeper.catalog.state import State

GROWTH = 4
"""How many times longer a firing waits after each failed attempt."""


def next_firings(state: State, able: Callable[[ActiveRule], bool]) -> list[Waiting]:
    """The next firing of every rule that can run here: of those that are not parked, the one of its oldest epoch.

    The firings of a rule are run in the order of their epochs, so one that failed holds the later ones of its rule.
    """
    if not state.waiting:
        return []
    found: dict[str, Waiting] = {}
    for firing in sorted(state.waiting, key=lambda firing: firing.epoch):
        rule = state.rules[firing.rule]
        if not firing.parked and rule.enabled and able(rule):
            found.setdefault(firing.rule, firing)
    return list(found.values())


def after_failure(firing: Waiting, problem: str, at: float, tuning: Tuning) -> Waiting:
    """A firing after one more failed attempt: due again later, or parked after the last one."""
    attempts = firing.attempts + 1
    if attempts >= tuning.action_attempts:
        times = f"{attempts} attempts failed, the last one: " if attempts > 1 else ""
        return replace(firing, attempts=attempts, parked=f"{times}{problem}", problem=problem)
    return replace(firing, attempts=attempts, due=at + tuning.retry_seconds * GROWTH ** (attempts - 1), problem=problem)
