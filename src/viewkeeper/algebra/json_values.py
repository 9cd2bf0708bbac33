"""Values as text that people read, and as JSON that every parser accepts."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: Any) -> Any:
    """A value as JSON: decimals and NaN as strings, bytes as hex, dates and times in ISO form, maps as objects."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else to_text(value)
        case Mapping():
            return {key if isinstance(key, str) else to_text(key): to_json(part) for key, part in value.items()}
        case list() | tuple():
            return [to_json(part) for part in value]
        case _:
            return to_text(value)


def to_text(value: Any) -> str:
    """A value as people read it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float():
            return _float(value)
        case decimal.Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case dt.datetime():
            return value.isoformat(sep="T")
        case dt.date() | dt.time():
            return value.isoformat()
        case Mapping() | list() | tuple():
            return json.dumps(to_json(value), ensure_ascii=False)
        case _:
            return str(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)
