"""Durations as people write them: '7 days'."""

from __future__ import annotations

import re

from viewkeeper.errors import SqlError

_UNITS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "week": 604800,
}


def seconds(duration: str | float) -> float:
    """A duration such as '7 days' in seconds; a number is in seconds already."""
    if isinstance(duration, (int, float)) and not isinstance(duration, bool):
        return float(duration)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", str(duration).lower())
    word = found.group(2) if found else ""
    unit = word if word in _UNITS else word.removesuffix("s")
    if found is None or unit not in _UNITS:
        raise SqlError(
            f"'{duration}' is not a duration", hint="write for instance '30 seconds', '5 minutes' or '7 days'"
        )
    return float(found.group(1)) * _UNITS[unit]
