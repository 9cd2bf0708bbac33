"""Sorted indexes of key columns: which rows of a file may have some keys.

Every key is a number, its code. Codes of equal keys are equal, where keys are equal as in `algebra/rows.py`. A single
column of a type of at most 64 bits has exact codes: other keys have other codes. Strings, longer decimals and keys of
several columns have hashes: a row that is found may have another key, and its key has to be compared.

An index holds the codes of a file's rows in order, and is searched by halving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from viewkeeper.algebra.rows import comparable_array
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type

Numbers: TypeAlias = "np.ndarray[Any, Any]"

_NULL = np.uint64(0x9E3779B97F4A7C15)
_STEPS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFT = np.uint64(29)

EXACT_DIGITS = 18
"""Digits of a DECIMAL that always fit in 64 bits."""


def can_index(kind: Type) -> bool:
    """Whether a column of a type can be part of an index."""
    return not kind.is_nested


def is_exact(schema: Schema) -> bool:
    """Whether keys of these columns have exact codes."""
    if len(schema) > 1:
        return False
    kind = schema.columns[0].type
    return kind.name not in ("string", "binary") and (kind.name != "decimal" or kind.precision <= EXACT_DIGITS)


@dataclass(frozen=True)
class Codes:
    """The codes of some keys. `valid` is False where the key, of one column, is NULL; None if none is."""

    values: Numbers
    valid: Numbers | None


def codes_of(columns: Sequence[Any], schema: Schema) -> Codes:
    """The codes of keys, given column by column as Arrow arrays of the schema's types."""
    parts = [_column_codes(array, column.type) for array, column in zip(columns, schema, strict=True)]
    if len(parts) == 1:
        return parts[0]
    mixed: Numbers = np.zeros(len(parts[0].values), np.uint64)
    for part in parts:
        words = part.values.astype(np.int64).view(np.uint64)
        if part.valid is not None:
            words = np.where(part.valid, words, _NULL)
        mixed = _mixed(mixed * _STEPS[1] + words)
    return Codes(mixed, None)


def _mixed(words: Numbers) -> Numbers:
    for step in _STEPS:
        words = (words ^ (words >> _SHIFT)) * step
    return words


def _column_codes(array: Any, kind: Type) -> Codes:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if kind.name in ("string", "binary"):
        return Codes(np.fromiter(map(hash, array.to_pylist()), np.int64, len(array)), valid)
    if kind.name == "decimal":
        words = np.frombuffer(array.buffers()[1] or b"", np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
        low, high = words[::2], words[1::2]
        if kind.precision > EXACT_DIGITS:
            low = _mixed(low.view(np.uint64) * _STEPS[1] + high.view(np.uint64)).view(np.int64)
        return Codes(low, valid)
    plain = comparable_array(array, kind)
    if valid is not None:
        plain = plain.fill_null(0)
    values = plain.to_numpy(zero_copy_only=False)
    return Codes(_float_bits(values) if kind.is_float else values, valid)


def _float_bits(values: Numbers) -> Numbers:
    """Floats as integers that are equal where floats are equal as in GROUP BY."""
    canonical: Numbers = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    return canonical.view(np.int32 if values.dtype == np.float32 else np.int64)


@dataclass(frozen=True)
class Wanted:
    """The different codes of some keys, in order, each with the number of a key that has it."""

    values: Numbers
    numbers: Numbers
    null: int | None

    @staticmethod
    def of(codes: Codes) -> Wanted:
        """The different ones of some codes."""
        values, null = codes.values, None
        numbers = np.arange(len(values))
        if codes.valid is not None:
            nulls = np.flatnonzero(~codes.valid)
            null = int(nulls[0]) if len(nulls) else None
            values, numbers = values[codes.valid], numbers[codes.valid]
        different, first = np.unique(values, return_index=True)
        return Wanted(different, numbers[first], null)

    def between(self, low: Any, high: Any) -> Wanted:
        """Those from one code to another, and NULL."""
        start, stop = self.values.searchsorted(low, "left"), self.values.searchsorted(high, "right")
        return Wanted(self.values[start:stop], self.numbers[start:stop], self.null)

    def among(self, codes: Codes) -> tuple[Numbers, Numbers]:
        """The places of these among some codes, and for each the number of a key that has it."""
        places = numbers = np.empty(0, np.int64)
        if len(self.values):
            nearest = np.minimum(self.values.searchsorted(codes.values), len(self.values) - 1)
            same = self.values[nearest] == codes.values
            places = np.flatnonzero(same if codes.valid is None else same & codes.valid)
            numbers = self.numbers[nearest[places]]
        if self.null is not None and codes.valid is not None:
            nulls = np.flatnonzero(~codes.valid)
            places = np.concatenate((places, nulls))
            numbers = np.concatenate((numbers, np.full(len(nulls), self.null)))
        return places, numbers


@dataclass(frozen=True)
class KeyIndex:
    """The codes of a file's rows in order. `rows` has the row of each code; None if it is the place of the code.

    `nulls` are the rows whose key, of one column, is NULL.
    """

    codes: Numbers
    rows: Numbers | None
    nulls: Numbers

    @staticmethod
    def of(codes: Codes) -> KeyIndex:
        """The index of all rows of a file."""
        values, rows = codes.values, None
        nulls = np.empty(0, np.int32)
        if codes.valid is not None:
            nulls = np.flatnonzero(~codes.valid).astype(np.int32)
            rows = np.flatnonzero(codes.valid).astype(np.int32)
            values = values[rows]
            if len(rows) and rows[-1] == len(rows) - 1:  # NULLs are last, as in sorted files
                rows = None
        if len(values) > 1 and not (values[1:] >= values[:-1]).all():
            order = np.argsort(values, kind="stable").astype(np.int32)
            values = values[order]
            rows = order if rows is None else rows[order]
        return KeyIndex(np.array(values), rows, nulls)  # a copy, not a view of the decoded column

    @property
    def nbytes(self) -> int:
        """How much memory this takes."""
        return int(self.codes.nbytes + self.nulls.nbytes + (0 if self.rows is None else self.rows.nbytes))

    def count(self, wanted: Wanted) -> int:
        """How many rows have one of the codes."""
        _, starts, stops = self._ends(wanted)
        return int((stops - starts).sum()) + (len(self.nulls) if wanted.null is not None else 0)

    def find(self, wanted: Wanted) -> tuple[Numbers, Numbers]:
        """The rows with one of the codes, and for each the number of a key that has it."""
        wanted, starts, stops = self._ends(wanted)
        counts = stops - starts
        total = int(counts.sum())
        if total:
            before = np.cumsum(counts) - counts
            rows = np.repeat(starts - before, counts) + np.arange(total)
            if self.rows is not None:
                rows = self.rows[rows]
            numbers = np.repeat(wanted.numbers, counts)
        else:
            rows = numbers = np.empty(0, np.int64)
        if wanted.null is not None and len(self.nulls):
            rows = np.concatenate((rows, self.nulls))
            numbers = np.concatenate((numbers, np.full(len(self.nulls), wanted.null)))
        return rows, numbers

    def _ends(self, wanted: Wanted) -> tuple[Wanted, Numbers, Numbers]:
        """The wanted codes that may be here, and where each begins and ends."""
        if len(self.codes):
            wanted = wanted.between(self.codes[0], self.codes[-1])
        starts, stops = (self.codes.searchsorted(wanted.values, side) for side in ("left", "right"))
        return wanted, starts, stops
