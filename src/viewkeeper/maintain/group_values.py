"""Values in groups, as columns on the driver: their ranks, and the groups as numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.ordered_values import in_order
from viewkeeper.algebra.rows import canonical_array, row_tuples

Numbering: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Groups:
    """The groups of some rows, and below them the touched groups, each with a number that equal ones share."""

    def __init__(self, keys: list[pa.Array], rows: int, total: int) -> None:
        numbers = np.zeros(total, np.int64)
        for key in keys:
            distinct = key.dictionary_encode(null_encoding="encode")
            codes = distinct.indices.to_numpy(zero_copy_only=False)
            _, numbers = np.unique(numbers * (len(distinct.dictionary) + 1) + codes, return_inverse=True)
        self.keys = keys
        self.rows, self.touched = numbers[:rows], numbers[rows:]
        self.count = 1 + int(numbers.max(initial=0))


def position_in_group(groups: Numbering, counted: Any, count: int) -> Numbering:
    """The position of each row among the counted ones of its group, from 1; rows are in the order of groups."""
    before = np.concatenate([[0], np.cumsum(np.bincount(groups[counted], minlength=count))])
    position: Numbering = np.cumsum(counted) - before[groups]
    return position


def ranks_of(values: Any, *, descending: bool) -> Numbering:
    """The position of each value among the distinct ones, best first."""
    distinct = one_array(in_order(values)).dictionary_encode()
    places = np.empty(len(distinct.dictionary), np.int64)
    places[pc.array_sort_indices(distinct.dictionary).to_numpy()] = np.arange(len(places))
    if descending:
        places = len(places) - 1 - places
    ranks: Numbering = places[distinct.indices.to_numpy(zero_copy_only=False)]
    return ranks


def best_places(keys: list[pa.Array], values: pa.Array, *, descending: bool) -> dict[tuple[Any, ...], int]:
    """Per group, where its best value is."""
    ranks = ranks_of(values, descending=descending).tolist()
    best: dict[tuple[Any, ...], int] = {}
    for place, group in enumerate(group_tuples(keys, len(values))):
        if group not in best or ranks[place] < ranks[best[group]]:
            best[group] = place
    return best


def group_tuples(keys: list[pa.Array], rows: int) -> list[tuple[Any, ...]]:
    """Groups as values that can be looked up."""
    return row_tuples(pa.table(keys, [f"{i}" for i in range(len(keys))])) if keys else [()] * rows


def not_null_rows(table: pa.Table, label: str) -> pa.Table:
    """The rows where a column is not NULL."""
    column = table.column(label)
    return table if column.null_count == 0 else table.filter(column.is_valid())


def one_array(column: Any) -> Any:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def plain_array(column: Any, attribute: Attribute) -> Any:
    """A column as one array of canonical values of the attribute's type."""
    return one_array(canonical_array(one_array(column.cast(attribute.type.arrow)), attribute.type))
