"""Percentiles from the two values that they lie between, bit by bit as Apache Spark computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewkeeper.algebra.nodes import Share


def places(share: Share, counts: Any) -> tuple[Any, Any]:
    """Of so many values in ascending order, the places of the two that a percentile depends on, the lower first.

    Without values they are places that no value has.
    """
    before, after = _ends(share, counts)
    first, last = (counts - 1 - after, counts - 1 - before) if share.descending else (before, after)
    return np.where(counts > 0, first, 0), np.where(counts > 0, last, 0)


def percentile(share: Share, counts: Any, lower: Any, upper: Any) -> Any:
    """The percentiles of so many values, from those at the two places."""
    if share.discrete:
        return lower
    place = (counts - 1).astype(np.float64) * float(share.part)
    before, after = (upper, lower) if share.descending else (lower, upper)
    rest = place - np.floor(place)
    with np.errstate(invalid="ignore", over="ignore"):
        between = (1 - rest) * before + rest * after
    return np.where((rest == 0) | (before == after), before, between)


def _ends(share: Share, counts: Any) -> tuple[Any, Any]:
    """The two places in the order of the percentile."""
    if share.discrete:
        place = np.maximum(np.ceil(counts.astype(np.float64) * float(share.part)).astype(np.int64) - 1, 0)
        return place, place
    place = (counts - 1).astype(np.float64) * float(share.part)
    return np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
