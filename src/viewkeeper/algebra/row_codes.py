"""Numbers for rows that are equal exactly where the rows are, so that many rows are compared without a Python value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]

_MOST = 1 << 62


def codes_of_columns(columns: Sequence[Any]) -> Codes:
    """A number for each row, from 0 on, equal for rows with equal values in all columns: NULL equals NULL.

    The columns are Arrow arrays of canonical values without parts.
    """
    found = np.zeros(len(columns[0]) if columns else 0, dtype=np.int64)
    different = 1
    for array in columns:
        encoded = pc.dictionary_encode(array, null_encoding="encode")
        numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        count = max(len(encoded.dictionary), 1)
        if different * count > _MOST:
            found, different = _dense(found)
        found, different = found * count + numbers, different * count
    return _dense(found)[0] if len(columns) > 1 else found


def _dense(numbers: Codes) -> tuple[Codes, int]:
    values, places = np.unique(numbers, return_inverse=True)
    return places.astype(np.int64), max(len(values), 1)


def can_code(schema: pa.Schema) -> bool:
    """Whether rows of these columns can be numbered: none has values with parts."""
    return not any(pa.types.is_nested(field.type) for field in schema)


def codes_of_both(left: pa.Table, right: pa.Table) -> tuple[Codes, Codes]:
    """The numbers of the rows of two tables with the same columns, by position; equal rows of both have the same."""
    pairs = zip(left.columns, right.columns, strict=True)
    together = codes_of_columns([pa.concat_arrays([*one.chunks, *other.chunks]) for one, other in pairs])
    return together[: left.num_rows], together[left.num_rows :]
