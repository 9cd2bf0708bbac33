"""A recursion whose incremental refresh is given up in vain again and again is left alone for longer and longer."""

from __future__ import annotations

from viewkeeper.maintain.attempts import MOST_LEFT_OUT, Attempts


def tried(attempts: Attempts, commits: int) -> list[bool]:
    """At which of some commits it is tried, if it is given up each time."""
    found = []
    for _ in range(commits):
        found.append(attempts.left_out() == 0)
        if found[-1]:
            attempts.ended(given_up=True)
    return found


def test_it_is_tried_more_and_more_rarely() -> None:
    attempts = Attempts()
    assert tried(attempts, 12) == [True, True, False, True, False, False, False, True, *[False] * 4]
    assert attempts.given_up == 4
    assert sum(tried(attempts, 10 * (MOST_LEFT_OUT + 1))) in (11, 12)


def test_once_it_pays_it_is_tried_again() -> None:
    attempts = Attempts()
    tried(attempts, 8)
    attempts.ended(given_up=False)
    assert (attempts.left_out(), attempts.given_up) == (0, 0)
