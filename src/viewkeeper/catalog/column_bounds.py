"""Exact typed bounds of a file's columns, as the ledger records them.

A bound is sound: a stored value is never outside it. NULL and NaN are counted, not ordered. A column without a bound
may contain anything.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeeper.algebra.rows import NAN
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type


@dataclass(frozen=True)
class Bound:
    """The bounds of a column of a file. `low` and `high` are None when it holds only NULL and NaN."""

    low: Any
    high: Any
    nulls: int
    nans: int = 0

    def may_hold(self, value: Any) -> bool:
        """Whether the column may hold a value (None is NULL, NAN is NaN)."""
        if value is None:
            return self.nulls > 0
        if value == NAN:
            return self.nans > 0
        return self.low is not None and self.low <= value <= self.high

    def may_share(self, other: Bound) -> bool:
        """Whether the two columns may have a value in common."""
        if (self.nulls and other.nulls) or (self.nans and other.nans):
            return True
        return other.low is not None and self.may_overlap(other.low, other.high)

    def may_overlap(self, low: Any, high: Any) -> bool:
        """Whether a value of the column (not NULL or NaN) may lie in a closed range; None is open."""
        if self.low is None:
            return False
        return (low is None or self.high >= low) and (high is None or self.low <= high)


def encode(bounds: Mapping[str, Bound], schema: Schema) -> dict[str, list[Any]]:
    """Bounds as JSON: [low, high, nulls, nans] per column."""
    out: dict[str, list[Any]] = {}
    for name, bound in bounds.items():
        kind = schema.column(name).type
        out[name] = [_encode(bound.low, kind), _encode(bound.high, kind), bound.nulls, bound.nans]
    return out


def decode(body: Mapping[str, Sequence[Any]], schema: Schema) -> dict[str, Bound]:
    """The inverse of encode."""
    out: dict[str, Bound] = {}
    for name, (low, high, nulls, nans) in body.items():
        kind = schema.column(name).type
        out[name] = Bound(_decode(low, kind), _decode(high, kind), nulls, nans)
    return out


def _encode(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if kind.name == "binary":
        return bytes(value).hex()
    if kind.name == "decimal":
        return str(value)
    return repr(float(value)) if kind.is_float else value


def _decode(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if kind.name == "binary":
        return bytes.fromhex(value)
    if kind.name == "decimal":
        return decimal.Decimal(value)
    return float(value) if kind.is_float else value
