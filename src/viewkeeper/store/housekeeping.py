"""Housekeeping after commits: flush and compaction, in a thread of its own, so that no commit waits for it."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.store.store import Store


class Housekeeping:
    """Flushes inlined batches, and merges small files of relations that commits have changed, one after the other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._flush = False
        self._waiting: dict[str, None] = {}
        self._running: concurrent.futures.Future[None] | None = None
        self._thread: concurrent.futures.ThreadPoolExecutor | None = None

    def compact(self, keys: Iterable[str]) -> None:
        """Flushes and compacts, where due for the relations with these ids, as soon as the thread is free."""
        from viewkeeper.store.compaction import is_due
        from viewkeeper.store.flushing import is_flush_due

        keys = list(keys)
        state, tuning = self._store.state, self._store.tuning
        due = [key for key in keys if is_due(state, key, tuning)]
        flush = is_flush_due(state, keys, tuning)
        if not due and not flush:
            return
        with self._lock:
            self._flush |= flush
            self._waiting.update(dict.fromkeys(due))
            if self._running is None or self._running.done():
                if self._thread is None:
                    self._thread = concurrent.futures.ThreadPoolExecutor(1, "viewkeeper-housekeeping")
                self._running = self._thread.submit(self._work)

    def _next(self) -> Callable[[], None] | None:
        from viewkeeper.store.compaction import compact_tier

        with self._lock:
            if self._flush:
                self._flush = False
                return self._flushed
            key = next(iter(self._waiting), None)
            if key is None:
                self._running = None
                return None
            del self._waiting[key]
            return lambda: compact_tier(self._store, key)

    def _flushed(self) -> None:
        from viewkeeper.store.compaction import is_due
        from viewkeeper.store.flushing import flush, is_flush_due

        state = self._store.refresh()
        if not is_flush_due(state, state.relations, self._store.tuning):
            return  # commits that came while a flush was under way have asked for another one
        keys = flush(self._store)
        due = [key for key in keys if is_due(self._store.state, key, self._store.tuning)]
        with self._lock:
            self._waiting.update(dict.fromkeys(due))

    def _work(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
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
        """Waits for the work under way, and ends the thread."""
        self.wait()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
