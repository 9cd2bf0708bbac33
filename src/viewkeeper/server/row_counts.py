"""How many rows files insert and delete, from the ledger where it says so, else from their column of weights."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.data_files import DataFile, is_inlined, place_of
from viewkeeper.log.storage import Storage

MOST_ROWS = 1_000_000
"""Rows of a file beyond which its weights are not read to be counted."""


class RowCounts:
    """Counts of inserted and deleted rows by file. Files never change, so what was counted once is remembered."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._counted = functools.lru_cache(maxsize=20_000)(self._read)

    def of(self, path: str, rows: int, low: int, high: int) -> tuple[int, int] | None:
        """The inserted and deleted rows of a file with weights from `low` to `high`; None if it is not known."""
        if low == high:
            return (rows * low, 0) if low > 0 else (0, -rows * low)
        return self._counted(path) if rows <= MOST_ROWS else None

    def _read(self, path: str) -> tuple[int, int] | None:
        try:
            weights = self._weights(path)
        except Exception:  # it was compacted and vacuumed: the count is no longer known
            return None
        total = int(pc.sum(weights).as_py() or 0)
        plus = int(pc.sum(pc.filter(weights, pc.greater(weights, 0))).as_py() or 0)
        return plus, plus - total

    def _weights(self, path: str) -> pa.ChunkedArray:
        if is_inlined(path):
            entry, position = place_of(path)
            data = memoryview(self._storage.inlined.data(self._storage, entry) or b"")
            return pa.ipc.open_stream(pa.py_buffer(data[position:])).read_all()[WEIGHT]
        with self._storage.open(path) as file:
            return pq.ParquetFile(file).read(columns=[WEIGHT])[WEIGHT]

    def total(self, files: Iterable[DataFile]) -> int | None:
        """How many rows some files hold together; None if it is not known."""
        found = [self.of(file.path, file.rows, file.low_weight, file.high_weight) for file in files]
        known = [pair for pair in found if pair is not None]
        return sum(plus - minus for plus, minus in known) if len(known) == len(found) else None

    def of_entry(self, files: Iterable[dict[str, Any]]) -> dict[str, int | None]:
        """The inserted and deleted rows of files as a ledger entry names them."""
        found = [self.of(file["path"], file["rows"], *file["weights"]) for file in files]
        known = [pair for pair in found if pair is not None]
        if len(known) < len(found):
            return {"inserted": None, "deleted": None}
        return {"inserted": sum(plus for plus, _ in known), "deleted": sum(minus for _, minus in known)}
