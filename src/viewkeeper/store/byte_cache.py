"""A cache of parts of data files, bounded by the bytes that they take. Files never change: no part gets stale."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

STRIPES = 64
"""Locks that the files share: loading parts of different files rarely waits for each other."""


class ByteCache:
    """Parts of files, by the path of the file and a name; those that were not used for longest are dropped first."""

    def __init__(self, most: int) -> None:
        """`most` is the most bytes that all parts together may take."""
        self.most = most
        self.bytes = 0
        self._parts: OrderedDict[tuple[str, Hashable], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._stripes = [threading.RLock() for _ in range(STRIPES)]

    def loading(self, path: str) -> threading.RLock:
        """The lock to hold while a part of a file is looked for and loaded, so that it is loaded once."""
        return self._stripes[hash(path) % STRIPES]

    def get(self, path: str, name: Hashable) -> Any | None:
        """A part of a file, or None."""
        with self._lock:
            return self._used((path, name))

    def get_all(self, path: str, names: Iterable[Hashable]) -> list[Any | None]:
        """Some parts of a file, None for each that is not there."""
        with self._lock:
            return [self._used((path, name)) for name in names]

    def _used(self, key: tuple[str, Hashable]) -> Any | None:
        found = self._parts.get(key)
        if found is None:
            return None
        self._parts.move_to_end(key)
        return found[0]

    def put(self, path: str, name: Hashable, part: Any, size: int) -> None:
        """Adds or replaces a part of a file that takes so many bytes; one beyond all bounds is not added."""
        with self._lock:
            self._drop((path, name))
            if size > self.most:
                return
            self._parts[path, name] = (part, size)
            self.bytes += size
            while self.bytes > self.most:
                self._drop(next(iter(self._parts)))

    def add(self, path: str, name: Hashable, more: dict[Any, Any], size: int) -> dict[Any, Any]:
        """Adds items that take so many bytes to a part that is a mapping; returns all of it."""
        with self._lock:
            had, before = self._parts.get((path, name), ({}, 0))
        found = {**had, **more}
        self.put(path, name, found, before + size)
        return found

    def drop_files(self, gone: Callable[[str], bool]) -> None:
        """Drops all parts of some files."""
        with self._lock:
            for key in [key for key in self._parts if gone(key[0])]:
                self._drop(key)

    def _drop(self, key: tuple[str, Hashable]) -> None:
        dropped = self._parts.pop(key, None)
        if dropped is not None:
            self.bytes -= dropped[1]

    def __len__(self) -> int:
        return len(self._parts)
