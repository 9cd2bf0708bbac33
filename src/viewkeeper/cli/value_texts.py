"""Values as text: for a table and for CSV."""

from __future__ import annotations

from typing import Any

from viewkeeper.algebra.json_values import to_text


def to_cell(value: Any) -> str:
    """A value on one line of a table: control characters are escaped, so that none reaches the terminal."""
    text = to_text(value)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode()


def to_csv(value: Any) -> str:
    """A value as a CSV field: NULL is empty, an empty string is quoted."""
    if value is None:
        return ""
    text = to_text(value)
    if (isinstance(value, str) and (not text or text != text.strip())) or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
