"""Work that several threads of a transaction need and one of them does."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class OnceEach:
    """Makes something for a key when it is first asked for; all others get the same, or the same error."""

    def __init__(self) -> None:
        self._coming: dict[Hashable, concurrent.futures.Future[Any]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What there is for a key, made now if it is not there."""
        with self._lock:
            coming = self._coming.get(key)
            mine = coming is None
            if coming is None:
                coming = self._coming[key] = concurrent.futures.Future()
        if mine:
            try:
                coming.set_result(make())
            except BaseException as problem:
                coming.set_exception(problem)
        found: T = coming.result()
        return found
