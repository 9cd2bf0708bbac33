"""The rows that a transaction has looked up by key, before its own changes, so that they are not read again.

    known(R, K) = (keys that were asked for, net(R ⋉ keys))          for each relation R and key columns K

Maintenance asks for the same keys: the deleted rows of a table, and the keys of inserted ones that do not occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from viewkeeper.algebra.rows import is_among, rows_among


@dataclass
class _Known:
    """Keys without rows, and keys with all their rows, each replaced at once: views in other threads read them."""

    absent: list[pa.Table] = field(default_factory=list)
    found: list[tuple[pa.Table, pa.Table]] = field(default_factory=list)


class KnownRows:
    """What has been looked up, by relation and key columns."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], _Known] = {}

    def note_absent(self, relation: str, keys: pa.Table) -> None:
        """Records that a relation has no rows with some keys."""
        self._of(relation, keys).absent.append(keys)

    def note(self, relation: str, keys: pa.Table, rows: pa.Table) -> None:
        """Records the net rows of a relation with some keys, with all its columns and their weights."""
        names, known = keys.column_names, self._of(relation, keys)
        new, had = self.split(relation, keys)
        known.found.append((new, rows_among(rows, names, new) if had else rows))

    def split(self, relation: str, keys: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Those of some keys that were not looked up; and the rows with the others."""
        keys = self.without_absent(relation, keys.column_names, keys)
        known = self._known.get((relation, tuple(keys.column_names)))
        if known is None or not known.found or not keys.num_rows:
            return keys, []
        if len(known.found) > 1:
            all_keys, all_rows = zip(*known.found, strict=True)
            known.found = [(pa.concat_tables(all_keys), pa.concat_tables(all_rows))]
        had, rows = known.found[0]
        there = is_among(keys, had)
        if not there.any():
            return keys, []
        found = rows_among(rows, keys.column_names, keys.filter(pa.array(there)))
        return keys.filter(pa.array(~there)), [found]

    def without_absent(self, relation: str, names: Sequence[str], keys: pa.Table) -> pa.Table:
        """Those of some keys, of these columns of a relation, that are not known to be absent."""
        known = self._known.get((relation, tuple(names)))
        if known is None or not known.absent or not keys.num_rows:
            return keys
        if len(known.absent) > 1:
            known.absent = [pa.concat_tables(known.absent)]
        there = is_among(keys, known.absent[0])
        return keys.filter(pa.array(~there)) if there.any() else keys

    def clear(self) -> None:
        """Forgets everything: the state has changed."""
        self._known.clear()

    def _of(self, relation: str, keys: pa.Table) -> _Known:
        return self._known.setdefault((relation, tuple(keys.column_names)), _Known())
