"""Rows of two tables that match in some columns, by position. Equality is that of relations: NaN equals NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewkeeper.algebra.expressions import Attribute, Equality
from viewkeeper.algebra.row_codes import codes_of_columns
from viewkeeper.algebra.rows import canonical_array
from viewkeeper.algebra.types import Type

Positions = npt.NDArray[np.int64]


def one_chunk(column: pa.ChunkedArray) -> Any:
    """A column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def codes(columns: Sequence[tuple[Any, Type]]) -> Positions:
    """A number for each row, equal for rows with equal values in all columns; NULL equals NULL."""
    return codes_of_columns([canonical_array(array, kind) for array, kind in columns])


On = Sequence[tuple[Attribute, Attribute, bool]]
"""Pairs of columns of two tables, each with whether NULLs match (`<=>`)."""


def _keys_of(left: pa.Table, right: pa.Table, on: On) -> tuple[Positions, Positions, Any, Any]:
    """A number for the key of each row of both tables, and which rows can match: not those with NULL, but for <=>."""
    columns, matchable = [], np.ones(left.num_rows + right.num_rows, dtype=bool)
    for mine, theirs, null_safe in on:
        one, other = one_chunk(left.column(mine.label)), one_chunk(right.column(theirs.label))
        if one.type != other.type:
            one, other = one.cast(pa.int64()), other.cast(pa.int64())  # integers of two widths
        both = pa.concat_arrays([one, other])
        kind = mine.type if mine.type.arrow == both.type else Type("bigint")
        columns.append((both, kind))
        if not null_safe:
            matchable &= both.is_valid().to_numpy(zero_copy_only=False)
    keys, at = codes(columns), left.num_rows
    return keys[:at], keys[at:], matchable[:at], matchable[at:]


def have_partner(left: pa.Table, right: pa.Table, on: On) -> Any:
    """Which left rows have an equal key on the right side. However often a key occurs, no pairs are made."""
    if not on:
        return np.full(left.num_rows, right.num_rows > 0)
    ours, theirs, can, could = _keys_of(left, right, on)
    return np.isin(ours, theirs[could]) & can


class Matching:
    """The pairs of rows of two tables whose key columns are equal."""

    def __init__(self, left: pa.Table, right: pa.Table, on: On) -> None:
        self.counts = (left.num_rows, right.num_rows)
        if not on:
            self.left = np.repeat(np.arange(left.num_rows), right.num_rows)
            self.right = np.tile(np.arange(right.num_rows), left.num_rows)
            return
        ours, theirs, can, could = _keys_of(left, right, on)
        there = np.flatnonzero(could)
        order = there[np.argsort(theirs[there], kind="stable")]
        ordered = theirs[order]
        low, high = np.searchsorted(ordered, ours, "left"), np.searchsorted(ordered, ours, "right")
        number = np.where(can, high - low, 0)
        self.left = np.repeat(np.arange(left.num_rows), number)
        begins = np.repeat(low - np.concatenate(([0], np.cumsum(number)[:-1])), number)
        self.right = order[begins + np.arange(len(self.left))] if len(self.left) else np.zeros(0, dtype=np.int64)

    def kept(self, mask: Any) -> None:
        """Keeps the pairs for which a mask holds."""
        chosen = np.asarray(mask)
        self.left, self.right = self.left[chosen], self.right[chosen]

    @property
    def left_without(self) -> Positions:
        """The left rows that have no partner."""
        return np.setdiff1d(np.arange(self.counts[0]), self.left)

    @property
    def right_without(self) -> Positions:
        """The right rows that have no partner."""
        return np.setdiff1d(np.arange(self.counts[1]), self.right)


def pairs_of(equalities: Sequence[Equality], left: Sequence[Attribute]) -> On:
    """Equalities as pairs of a column of the left side and one of the right."""
    ours = set(left)
    return [(e.left, e.right, e.null_safe) if e.left in ours else (e.right, e.left, e.null_safe) for e in equalities]
