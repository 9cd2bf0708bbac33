"""The order of rows: that of ORDER BY, NULLs where a key wants them, NaN greatest, strings by their UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.rows import canonical_array
from viewkeeper.driver.matching import codes, one_chunk

Integers = npt.NDArray[np.int64]


def ranks(table: pa.Table, key: n.Order) -> Integers:
    """A number for each row, in the order of a sort key: equal for equal values."""
    attribute = key.attribute
    array = canonical_array(table.column(attribute.label), attribute.type)
    if attribute.type.name == "boolean":
        array = array.cast(pa.int8())
    encoded = pc.dictionary_encode(array)
    count = len(encoded.dictionary)
    place = np.empty(count, dtype=np.int64)
    place[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(count)
    missing = encoded.indices.is_null().to_numpy(zero_copy_only=False)
    indices = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    found = place[indices] if count else np.zeros(len(array), dtype=np.int64)
    if key.descending:
        found = count - 1 - found
    return np.where(missing, -1 if key.nulls_first else count, found)


@dataclass(frozen=True)
class Sorted:
    """Rows by partition and order: `order` has their positions in the table. The other arrays are in that order.

    A partition is `start` to `end`; the peers of a row, which are equal in all keys, are `first` to `after`.
    """

    order: Integers
    start: Integers
    end: Integers
    first: Integers
    after: Integers

    @property
    def at(self) -> Integers:
        """The place of each row."""
        return np.arange(len(self.order))

    @property
    def number(self) -> Integers:
        """The number of each row in its partition, from 1."""
        return self.at - self.start + 1


def sorted_rows(table: pa.Table, partition: Sequence[Attribute], keys: Sequence[n.Order]) -> Sorted:
    """The rows of a table by partition, and by sort keys in each."""
    count = table.num_rows
    groups = codes([(one_chunk(table.column(a.label)), a.type) for a in partition])
    groups = groups if partition else np.zeros(count, dtype=np.int64)
    columns = [groups, *(ranks(table, key) for key in keys)]
    order = np.lexsort(tuple(reversed(columns)))
    new_group = _begins([groups[order]])
    new_peers = _begins([column[order] for column in columns])
    start, end = _extent(new_group)
    first, after = _extent(new_peers)
    return Sorted(order, start, end, first, after)


def _begins(columns: Sequence[Integers]) -> npt.NDArray[np.bool_]:
    """Whether a row differs from the one before it."""
    found = np.ones(len(columns[0]), dtype=bool)
    if len(found) > 1:
        found[1:] = False
        for column in columns:
            found[1:] |= column[1:] != column[:-1]
    return found


def _extent(begins: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """The first place of the run that each row is in, and the place after it."""
    starts = np.flatnonzero(begins)
    runs = np.cumsum(begins) - 1
    ends = np.append(starts[1:], len(begins))
    return starts[runs], ends[runs]
