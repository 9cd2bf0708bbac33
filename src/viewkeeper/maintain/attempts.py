"""Attempts to refresh recursions incrementally. One that costs more than a full refresh is given up, and was in vain.

After the k-th time in a row it is left out 2^(k-1) - 1 times. So a recursion whose changes always lead far costs little
more than full refreshes, and one that changed once in such a way is tried again at once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection
from dataclasses import dataclass

from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Derived
from viewkeeper.maintain.state_reader import StateReader

MOST_LEFT_OUT = 31
"""Most commits in a row at which an incremental refresh is not tried."""


@dataclass
class Attempts:
    """How often in a row the incremental refresh was given up."""

    given_up: int = 0
    _out: int = 0

    def left_out(self) -> int:
        """The number of times in a row that it was given up, if it is not to be tried now, else 0."""
        self._out -= 1
        return self.given_up if self._out >= 0 else 0

    def ended(self, *, given_up: bool) -> None:
        """Records how an incremental refresh has ended."""
        self.given_up = self.given_up + 1 if given_up else 0
        self._out = min((1 << max(self.given_up - 1, 0)) - 1, MOST_LEFT_OUT)


_known: weakref.WeakKeyDictionary[Definition, dict[object, Attempts]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def attempts_of(relation: Derived, reader: StateReader, changed: Collection[str]) -> Attempts:
    """The attempts after changes of one kind: to the same relations, with inserts, deletes or both."""
    signs = set()
    for key in changed:
        pending = reader.pending.get(key)
        if pending is not None:
            signs |= {weight > 0 for weight in pending.rows[WEIGHT].to_pylist()}
    with _lock:
        known = _known.setdefault(relation.definition, {})
        return known.setdefault((frozenset(changed), frozenset(signs)), Attempts())
