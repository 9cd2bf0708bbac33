"""Spans of time as people write them: '7 days'."""

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


def seconds(span: str | float) -> float:
    """A span of time such as '7 days' in seconds; a number is seconds."""
    if isinstance(span, (int, float)) and not isinstance(span, bool):
        return float(span)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", str(span).lower())
    word = found.group(2) if found else ""
    unit = word if word in _UNITS else word.removesuffix("s")
    if found is None or unit not in _UNITS:
        raise SqlError(
            f"'{span}' is not a span of time", hint="write for instance '30 seconds', '5 minutes' or '7 days'"
        )
    return float(found.group(1)) * _UNITS[unit]
