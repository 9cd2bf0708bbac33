"""Values as others that Arrow compares in the order of SQL, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def in_order(values: Any) -> Any:
    """Values that Arrow compares in the order of SQL. Floats become integers, because NaN is the greatest in SQL."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8())
    if pa.types.is_temporal(kind):
        return values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if not pa.types.is_floating(kind):
        return values
    wide = values.cast(pa.float64())
    bits = np.array(wide.fill_null(0.0).to_numpy(zero_copy_only=False)).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return pa.array(ordered, mask=wide.is_null().to_numpy(zero_copy_only=False))


def as_before(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The inverse of `in_order`."""
    if not pa.types.is_floating(kind):
        return values.cast(kind)
    ordered = values.fill_null(0).to_numpy()
    bits = np.where(ordered < 0, ordered ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), ordered)
    floats = pa.array(bits.view(np.float64), mask=values.is_null().to_numpy())
    return pa.chunked_array([floats]).cast(kind)
