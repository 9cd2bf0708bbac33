"""Batches inside ledger entries: the data that follows the head of an entry.

An entry is its head (a line of JSON and a line with its checksum), followed by the data of the batches of a small
commit. The head alone is part of the chain, so that vacuum can remove data that nobody needs any more. The batches have
checksums of their own in the head, as files have.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from viewkeeper.catalog.data_files import DataFile, place_of

if TYPE_CHECKING:
    from viewkeeper.log.storage import Storage


def split_entry(data: bytes) -> tuple[bytes, bytes]:
    """The head of an entry, and its data, which is empty for most entries."""
    first = data.find(b"\n")
    end = data.find(b"\n", first + 1) + 1 if first >= 0 else 0
    return (data[:end], data[end:]) if end else (data, b"")


class Inlined:
    """The data of the entries that were written or read last, in memory: up to `most` bytes, the rest is read again."""

    def __init__(self) -> None:
        self.most = 64 << 20
        self.held = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, entry: str, data: bytes) -> None:
        """Keeps the data of an entry."""
        with self._lock:
            self._drop(entry)
            self._kept[entry] = data
            self.held += len(data)
            while self.held > self.most:
                self._drop(next(iter(self._kept)))

    def forget(self, entries: Iterable[str]) -> None:
        """Drops the data of entries that nobody is going to read."""
        with self._lock:
            for entry in entries:
                self._drop(entry)

    def _drop(self, entry: str) -> None:
        self.held -= len(self._kept.pop(entry, b""))

    def data(self, storage: Storage, entry: str) -> bytes | None:
        """The data of an entry; None if it has none, or none any more."""
        with self._lock:
            if entry in self._kept:
                self._kept.move_to_end(entry)
                return self._kept[entry]
        read = storage.read(entry)
        data = split_entry(read)[1] if read is not None else b""
        if not data:
            return None
        self.put(entry, data)
        return data

    def batch(self, storage: Storage, file: DataFile) -> memoryview | None:
        """The bytes of an inlined batch; None if they are not there any more."""
        entry, position = place_of(file.path)
        data = self.data(storage, entry)
        return None if data is None else memoryview(data)[position : position + file.size]
