"""Rows of a stored relation in one state by key: what is kept of the committed ones, and the transaction's change.

R@new[k] = R@old[k] ⊎ δR[k]        only the rows with the wanted keys are looked at
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from viewkeeper.driver.row_index import ByKey, Columns, Row, RowIndex
from viewkeeper.store.kept_rows import KeptState


@dataclass(frozen=True)
class KeyedRows:
    """Finds the rows of a scan. `places` are the positions of its columns in the relation.

    `is_all`: the change is all that differs from the old state. `note` is told how many rows were found.
    """

    kept: KeptState
    places: Columns
    is_whole: bool
    change: RowIndex
    is_all: bool
    note: Callable[[int], None]

    def find(self, columns: Columns, keys: Collection[object]) -> ByKey | None:
        """The distinct rows with some values of some of the scan's columns; None if they have to be looked up."""
        stored = tuple(self.places[column] for column in columns)
        found = self.kept.find(stored, keys)
        if found is None or (self.change.weights and not self._changed(found, stored, keys)):
            return None
        self.note(sum(map(len, found.values())))
        if self.is_whole:
            return found
        return {key: list(dict.fromkeys(map(self._seen, rows))) for key, rows in found.items()}

    def set_change(self) -> tuple[list[Row], list[Row]] | None:
        """The rows that were not there in the old state, and those that no longer are; None if that is not known."""
        columns = tuple(range(len(self.places)))
        seen = list(dict.fromkeys(map(self._seen, self.change.weights)))
        keys: list[object] = list(seen) if len(columns) > 1 else [row[0] for row in seen]
        before = replace(self, change=RowIndex(len(self.places))).find(columns, keys)
        after = self.find(columns, keys)
        if not self.is_all or before is None or after is None:
            return None
        pairs = list(zip(seen, keys, strict=True))
        inserted = [row for row, key in pairs if after.get(key) and not before.get(key)]
        return inserted, [row for row, key in pairs if before.get(key) and not after.get(key)]

    def _seen(self, row: Row) -> Row:
        return tuple(row[place] for place in self.places)

    def _changed(self, found: ByKey, stored: Columns, keys: Collection[object]) -> bool:
        """Applies the change to the rows that were found; returns whether that was possible."""
        for key, moved in self.change.find(stored, keys).items():
            before = self.kept.weights(moved)
            if before is None:
                return False
            now = {row: weight + self.change.weights[row] for row, weight in zip(moved, before, strict=True)}
            rows = [row for row in found.get(key, ()) if row not in now]
            found[key] = rows + [row for row, weight in now.items() if weight > 0]
        return True
