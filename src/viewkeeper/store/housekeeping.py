"""Housekeeping after commits: compaction, in a thread of its own, so that no commit waits for it."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.store.store import Store


class Housekeeping:
    """Merges small files of relations that commits have changed, one relation after the other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[str, None] = {}
        self._running: concurrent.futures.Future[None] | None = None
        self._thread: concurrent.futures.ThreadPoolExecutor | None = None

    def compact(self, keys: Iterable[str]) -> None:
        """Compacts the relations with these ids, where due, as soon as the thread is free."""
        from viewkeeper.store.compaction import is_due

        due = [key for key in keys if is_due(self._store.state, key, self._store.tuning)]
        if not due:
            return
        with self._lock:
            self._waiting.update(dict.fromkeys(due))
            if self._running is None or self._running.done():
                if self._thread is None:
                    self._thread = concurrent.futures.ThreadPoolExecutor(1, "viewkeeper-housekeeping")
                self._running = self._thread.submit(self._work)

    def _next(self) -> str | None:
        with self._lock:
            key = next(iter(self._waiting), None)
            if key is None:
                self._running = None
            else:
                del self._waiting[key]
            return key

    def _work(self) -> None:
        from viewkeeper.store.compaction import compact_tier

        while (key := self._next()) is not None:
            try:
                compact_tier(self._store, key)
            except ViewkeeperError:
                continue  # nothing is lost: the commits are valid, and the next one of this relation tries again
            finally:
                self._store.clear_scratch()

    def wait(self) -> None:
        """Returns when nothing is left to do."""
        while True:
            with self._lock:
                running = self._running
            if running is None:
                return
            running.result()

    def close(self) -> None:
        """Waits for the current compaction, and ends the thread."""
        self.wait()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
