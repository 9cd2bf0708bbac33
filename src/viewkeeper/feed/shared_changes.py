"""Changes that were derived for one subscription and serve others, such as those that resume after a restart.

The change between two epochs never changes, so it is derived once; who asks for it meanwhile waits.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.feed.bound_rows import Values
from viewkeeper.transaction.change import Change

MOST_KEPT = 200
"""Changes that are kept."""

MOST_ROWS = 100_000
"""Rows of all kept changes together."""


@dataclass(frozen=True)
class Parts:
    """A change; `by_values` has its rows by the values of the columns that subscriptions are bound by, if they are."""

    whole: Change
    by_values: dict[Values, pa.Table] | None

    def of(self, values: Values) -> Change:
        """The part with the values that a subscription is bound to."""
        if self.by_values is None:
            return self.whole
        rows = self.by_values.get(values)
        if rows is None:
            rows = self.whole.rows.slice(0, 0)
        return self.whole.part(rows)


class SharedChanges:
    """The changes of a channel that were derived last."""

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, Future[Parts]] = OrderedDict()
        self._rows: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, derive: Callable[[], Parts]) -> Parts:
        """The change with a key; derived unless it is kept, or another thread is deriving it."""
        with self._lock:
            found = self._found.get(key)
            if found is None:
                mine: Future[Parts] = Future()
                self._found[key] = mine
            else:
                self._found.move_to_end(key)
        if found is not None:
            problem = found.exception()
            return found.result() if problem is None else derive()  # the other may have run out of time
        try:
            made = derive()
        except BaseException as problem:
            with self._lock:
                self._found.pop(key, None)
            mine.set_exception(problem)
            raise
        mine.set_result(made)
        with self._lock:
            if key in self._found:
                self._rows[key] = made.whole.rows.num_rows
            while len(self._found) > MOST_KEPT or sum(self._rows.values()) > MOST_ROWS:
                oldest, _ = self._found.popitem(last=False)
                self._rows.pop(oldest, None)
        return made
