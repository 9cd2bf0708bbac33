"""Signed rows on the driver as tuples, with an index by any of their columns.

A key is the value of one column, or the tuple of the values of several. NULL is None, and equal to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from viewkeeper.algebra.types import Type

Row = tuple[Any, ...]
ByKey = dict[Any, list[Row]]
Columns = tuple[int, ...]


def is_plain(kind: Type) -> bool:
    """Whether values of a type are equal on the driver exactly if they are on the engine."""
    return kind.is_integer or kind.name in ("string", "date", "boolean", "decimal")


def key_of(columns: Columns) -> Callable[[Row], Any]:
    """Returns the key of a row; that of no columns is the empty tuple."""
    return itemgetter(*columns) if columns else lambda _: ()


def sort_in(known: ByKey, columns: Columns, rows: Iterable[Row]) -> None:
    """Adds rows to those that are sorted by the values of some columns."""
    key = key_of(columns)
    for row in rows:
        known.setdefault(key(row), []).append(row)


class RowIndex:
    """The net of signed rows: rows whose weights sum up to 0 are not there."""

    def __init__(self, width: int) -> None:
        """`width` is the number of columns."""
        self._all = tuple(range(width))
        self.weights: dict[Row, int] = {}
        self._by: dict[Columns, ByKey] = {}

    def add(self, rows: Iterable[tuple[Row, int]]) -> None:
        """Adds rows, each with its weight."""
        touched: dict[Row, bool] = {}
        weights = self.weights
        for row, weight in rows:
            before = weights.get(row, 0)
            touched.setdefault(row, before != 0)
            if before + weight:
                weights[row] = before + weight
            else:
                weights.pop(row, None)
        if self._by:
            self._follow(touched)

    def _follow(self, touched: dict[Row, bool]) -> None:
        """Brings the indexes up to date; `touched` says of each row whether it was there before."""
        gone = {row for row, was_there in touched.items() if was_there and row not in self.weights}
        new = [row for row, was_there in touched.items() if not was_there and row in self.weights]
        for columns, known in self._by.items():
            for key in set(map(key_of(columns), gone)):
                left = [row for row in known[key] if row not in gone]
                if left:
                    known[key] = left
                else:
                    del known[key]
            sort_in(known, columns, new)

    def find(self, columns: Columns, keys: Iterable[Any]) -> ByKey:
        """The rows with some values of some columns."""
        if columns == self._all:
            rows = ((key, key if len(columns) > 1 else (key,)) for key in keys)
            return {key: [row] for key, row in rows if row in self.weights}
        known = self._by.get(columns)
        if known is None:
            known = self._indexed(columns)
        return {key: list(known[key]) for key in keys if key in known}

    def _indexed(self, columns: Columns) -> ByKey:
        known: ByKey = {}
        sort_in(known, columns, self.weights)
        self._by[columns] = known
        return known

    @property
    def entries(self) -> int:
        """The number of rows, counted once more for each index."""
        return len(self.weights) * (1 + len(self._by))
