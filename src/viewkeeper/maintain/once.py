"""Results that several threads of a transaction need and one of them computes."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class OnceEach:
    """Computes the value of a key when it is first asked for; everybody else gets the same value, or the same error."""

    def __init__(self) -> None:
        self._futures: dict[Hashable, concurrent.futures.Future[Any]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, computed now if nobody has asked for it before."""
        with self._lock:
            future = self._futures.get(key)
            mine = future is None
            if future is None:
                future = self._futures[key] = concurrent.futures.Future()
        if mine:
            try:
                future.set_result(make())
            except BaseException as problem:
                future.set_exception(problem)
        found: T = future.result()
        return found

    def drop(self, key: Hashable) -> None:
        """Forgets the value of a key that nobody will ask for again."""
        with self._lock:
            self._futures.pop(key, None)

    def __len__(self) -> int:
        return len(self._futures)
