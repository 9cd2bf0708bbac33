"""Values as CSV."""

from __future__ import annotations

from typing import Any

from viewkeeper.algebra.json_values import to_text


def to_csv(value: Any) -> str:
    """A value as a CSV field: NULL is empty, an empty string is quoted."""
    if value is None:
        return ""
    text = to_text(value)
    if (isinstance(value, str) and (not text or text != text.strip())) or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
