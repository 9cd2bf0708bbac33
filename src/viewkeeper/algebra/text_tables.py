"""Rows as tables for people: lines of text, and HTML for notebooks."""

from __future__ import annotations

import decimal
import html
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.cells import cell_len

from viewkeeper.algebra.json_values import to_text

Row = Sequence[Any]

FIRST = 20
"""So many rows of a result or change are shown where nobody asked for a number."""

_NUMBERS = (int, float, decimal.Decimal)


def to_cell(value: Any) -> str:
    """A value on one line of a table: control characters are escaped, so that none reaches the terminal."""
    text = to_text(value)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode()


def table_lines(columns: Sequence[str], rows: Iterable[Row], counts: Collection[str] = ()) -> list[str]:
    """A table as lines: header, separator, and a line per row; numbers are aligned right, counts have separators."""
    right = [True] * len(columns)
    cells: list[list[str]] = []
    for row in rows:
        for index, value in enumerate(row):
            if value is not None and not _is_number(value):
                right[index] = False
        cells.append(
            [f"{value:,}" if name in counts else to_cell(value) for name, value in zip(columns, row, strict=True)]
        )
    names = [to_cell(name) for name in columns]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    separator = "-+-".join("-" * width for width in widths)
    return [_line(names, widths, right), separator, *(_line(row, widths, right) for row in cells)]


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if to_right else cell + space)
    return " | ".join(padded).rstrip()


def signed_lines(rows: Iterable[Row], weights: Iterable[int]) -> list[str]:
    """Rows of a change as lines: + before an inserted row, − before a deleted one, and how many times."""
    lines = []
    for row, weight in zip(rows, weights, strict=True):
        lines.append(f"{_sign(weight)} {' | '.join(to_cell(value) for value in row)}{_times(weight)}")
    return lines


def _sign(weight: int) -> str:
    return "+" if weight > 0 else "−"


def _times(weight: int) -> str:
    return f" ({abs(weight)} times)" if abs(weight) > 1 else ""


def html_table(columns: Sequence[str], rows: Iterable[Row], more: str = "", signs: Sequence[int] = ()) -> str:
    """A table as HTML. `more`: a line below it. `signs`: the weight of each row, shown before and by its colour."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ([""] if signs else []) + list(columns))
    body = []
    for number, row in enumerate(rows):
        cells = "".join(_html_cell(value) for value in row)
        if signs:
            weight = signs[number]
            color = "rgba(46, 160, 67, 0.15)" if weight > 0 else "rgba(248, 81, 73, 0.15)"
            body.append(f'<tr style="background: {color}"><td>{_sign(weight)}{_times(weight)}</td>{cells}</tr>')
        else:
            body.append(f"<tr>{cells}</tr>")
    below = f"<p>{html.escape(more)}</p>" if more else ""
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{below}</div>"


def _html_cell(value: Any) -> str:
    align = ' style="text-align: right"' if _is_number(value) else ' style="text-align: left"'
    text = "<i>NULL</i>" if value is None else html.escape(to_cell(value))
    return f"<td{align}>{text}</td>"
