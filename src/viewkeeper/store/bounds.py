"""The bounds of a file's columns, and picking the files that may hold some keys.

Values are compared as plain Python values (dates as days, timestamps as microseconds), which sort as in Spark. Long
strings are truncated, upper bounds rounded up.
"""

from __future__ import annotations

import bisect
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.rows import FEW, NAN, comparable_array
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.algebra.types import Type
from viewkeeper.catalog.column_bounds import Bound
from viewkeeper.catalog.data_files import DataFile

CUT = 48
"""How many characters or bytes of a long value a bound has."""


def measure(table: pa.Table, schema: Schema) -> dict[str, Bound]:
    """The bounds of an Arrow table's columns."""
    found: dict[str, Bound] = {}
    for column in schema:
        bound = _measure_column(table.column(column.name), column.type)
        if bound is not None:
            found[column.name] = bound
    return found


def _measure_column(array: pa.ChunkedArray, kind: Type) -> Bound | None:
    if kind.is_nested:
        return None
    nulls = array.null_count
    plain = comparable_array(array, kind)
    nans = 0
    if kind.is_float:
        is_nan = pc.is_nan(plain)
        nans = pc.sum(is_nan).as_py() or 0
        if nans:
            plain = plain.filter(pc.fill_null(pc.invert(is_nan), False))
    if len(plain) == plain.null_count:
        return Bound(None, None, nulls, nans)
    if len(plain) <= FEW:
        values = [value for value in plain.to_pylist() if value is not None]
        least, most = min(values), max(values)
    else:
        least, most = pc.min_max(plain).as_py().values()
    low, high = _cut_low(least), _cut_high(most)
    return None if high is None else Bound(low, high, nulls, nans)


def is_whole(kind: Type) -> bool:
    """Whether the bounds of a type are whole numbers of up to 64 bits."""
    return kind.is_integer or kind.name in ("date", "timestamp", "timestamp_ntz")


def comparable_rows(table: pa.Table, schema: Schema) -> list[tuple[Any, ...]]:
    """Rows of keys as values that bounds can be compared with; NaN becomes the NAN mark."""
    columns: list[list[Any]] = []
    for column in schema:
        values = comparable_array(table.column(column.name), column.type).to_pylist()
        if column.type.is_float:
            values = [NAN if value is not None and math.isnan(value) else value for value in values]
        columns.append(values)
    return list(zip(*columns, strict=True))


def _cut_low(value: Any) -> Any:
    return value[:CUT] if isinstance(value, (str, bytes)) else value


def _cut_high(value: Any) -> Any:
    if not isinstance(value, (str, bytes)) or len(value) <= CUT:
        return value
    for length in range(CUT, 0, -1):
        if isinstance(value, bytes):
            if value[length - 1] < 255:
                return value[: length - 1] + bytes([value[length - 1] + 1])
        elif ord(value[length - 1]) < 0x10FFFF:
            following = ord(value[length - 1]) + 1
            return value[: length - 1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)
    return None


# picking ----------------------------------------------------------------------------------------


MANY = 8
"""From so many files on, the bounds of a column are compared in arrays."""

ARRAYS = 256
"""The bounds of so many columns are kept, those that were used last."""


@dataclass(frozen=True)
class _Ends:
    """The bounds of a column of whole numbers in each of some files, and whether it may hold NULL."""

    files: tuple[DataFile, ...]
    lows: npt.NDArray[np.int64]
    highs: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.bool_]

    @staticmethod
    def of(files: tuple[DataFile, ...], name: str) -> _Ends:
        """The bounds in those files; a file without a bound may hold anything."""
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        anything, nothing = (least, most, True), (most, least)
        found = []
        for file in files:
            bound = file.bounds.get(name)
            ends = nothing if bound is None or bound.low is None else (bound.low, bound.high)
            found.append(anything if bound is None else (*ends, bound.nulls > 0))
        lows, highs, nulls = zip(*found, strict=True)
        return _Ends(files, np.array(lows, np.int64), np.array(highs, np.int64), np.array(nulls, bool))


_ends: OrderedDict[tuple[str, str], _Ends] = OrderedDict()
_lock = threading.Lock()


def _ends_of(files: tuple[DataFile, ...], name: str) -> _Ends:
    """The bounds of a column in the files of a relation; they are kept until other files are asked for."""
    key = (files[0].path, name)
    with _lock:
        found = _ends.get(key)
    if found is None or found.files is not files:
        found = _Ends.of(files, name)
    with _lock:
        _ends[key] = found
        _ends.move_to_end(key)
        while len(_ends) > ARRAYS:
            _ends.popitem(last=False)
    return found


class Keys:
    """Key values to look up, sorted by their first column for picking files."""

    def __init__(self, table: pa.Table, schema: Schema, tuning: Tuning) -> None:
        """`table` has the key columns, `schema` their names and types, in the same order."""
        self._most = tuning.candidate_keys
        self.schema = schema
        self.table = table
        usable = [column.name for column in schema if not column.type.is_nested]
        looked = table.select(usable)
        if table.num_rows > tuning.composite_keys and usable:
            usable = usable[:1]
            looked = pa.table([table.column(usable[0]).unique()], names=usable)
        self.names = usable
        if len(usable) == 1 and schema.column(usable[0]).type.is_integer:
            values = looked.column(0)
            special: list[tuple[Any, ...]] = [(None,)] if values.null_count else []
            self._ordinary: list[tuple[Any, ...]] = []
            self._first: list[Any] = np.sort(values.drop_null().to_numpy()).tolist()
        else:
            rows = comparable_rows(looked, schema.subset(usable)) if usable else []
            special = [row for row in rows if row[0] is None or row[0] == NAN]
            ordinary = [row for row in rows if not (row[0] is None or row[0] == NAN)]
            self._ordinary = sorted(ordinary, key=lambda row: row[0])
            self._first = [row[0] for row in self._ordinary]
        self._special = special[: self._most]
        self._too_many_special = len(special) > self._most
        in_arrays = bool(usable) and is_whole(schema.column(usable[0]).type)
        self._numbers = np.array(self._first, np.int64) if in_arrays else None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def files_that_may_hold(self, files: tuple[DataFile, ...]) -> list[DataFile]:
        """The files that may hold one of the keys, by their bounds."""
        left = list(files)
        if self._numbers is not None and len(files) >= MANY:
            ends = _ends_of(files, self.names[0])
            chosen = ends.nulls if self._special else np.zeros(len(files), bool)
            if len(self._numbers):
                next_key = self._numbers.searchsorted(ends.lows)
                there = next_key < len(self._numbers)
                chosen = chosen | (there & (self._numbers[np.where(there, next_key, 0)] <= ends.highs))
            left = [files[place] for place in np.flatnonzero(chosen)]
        return [file for file in left if self.may_be_in(file.bounds)]

    def may_be_in(self, bounds: Mapping[str, Bound]) -> bool:
        """Whether a file with these bounds may hold one of the keys."""
        first = bounds.get(self.names[0]) if self.names else None
        if first is None:
            return True
        candidates: list[tuple[Any, ...]] = []
        if first.low is not None:
            start = bisect.bisect_left(self._first, first.low)
            if start < len(self._first) and self._first[start] <= first.high:
                if len(self.names) == 1:
                    return True
                stop = bisect.bisect_right(self._first, first.high)
                if stop - start > self._most:
                    return True
                candidates.extend(self._ordinary[start:stop])
        if not self._special:
            return bool(candidates) and any(self._row_may_be_in(row, bounds) for row in candidates)
        if first.nulls or first.nans:
            if self._too_many_special:
                return True
            candidates.extend(self._special)
        return any(self._row_may_be_in(row, bounds) for row in candidates)

    def _row_may_be_in(self, row: tuple[Any, ...], bounds: Mapping[str, Bound]) -> bool:
        for name, value in zip(self.names, row, strict=True):
            bound = bounds.get(name)
            if bound is not None and not bound.may_hold(value):
                return False
        return True
