"""JSON files as rows: one object per line, a line with an array of them, or one array over many lines.

Numbers keep their digits, so that a DECIMAL column gets them exactly and a DOUBLE column the nearest double.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Iterator
from typing import Any

from viewkeeper.algebra.types import quote
from viewkeeper.errors import TypeMismatch
from viewkeeper.sources.files import SourceFile, unreadable

ROWS = 50_000
"""Rows read at a time."""

LARGEST = 64 << 20
"""Letters of one object at most, in an array over many lines."""


_DECODER = json.JSONDecoder(parse_float=decimal.Decimal, parse_constant=float)


def json_rows(file: SourceFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, each with its line."""
    for number, line in enumerate(_lines(file), start=1):
        text = line.strip()
        if not text:
            continue
        if number == 1 and text.startswith(b"[") and not text.endswith(b"]"):
            yield from _array_over_lines(file)
            return
        try:
            value = _DECODER.decode(_text(file, text, number))
        except (ValueError, RecursionError) as problem:
            raise _not_json(file, number, str(problem).split(":")[0]) from None
        for row in value if isinstance(value, list) else [value]:
            if not isinstance(row, dict):
                raise _not_json(file, number, f"a {type(row).__name__} is not a row")
            yield number, row


def _array_over_lines(file: SourceFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an array that is spread over lines, each with the line on which it begins."""
    lines = _lines(file)
    number, text = 1, _text(file, next(lines), 1)
    at = text.index("[") + 1
    while True:
        start = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        number += text.count("\n", at, start)
        if text.startswith("]", start):
            _nothing_else(file, number, text[start + 1 :], lines)
            return
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as problem:
            more = next(lines, None) if _is_cut(problem, text) and len(text) - start <= LARGEST else None
            if more is None:
                raise _not_json(file, number, problem.msg) from None
            text, at = f"{text[start:]}\n{_text(file, more, number)}", 0
            continue
        if not isinstance(value, dict):
            raise _not_json(file, number, f"a {type(value).__name__} is not a row")
        yield number, value
        number += text.count("\n", start, end)
        at = end


def _is_cut(problem: json.JSONDecodeError, text: str) -> bool:
    """Whether what is wrong with an object is that its end is missing."""
    return problem.pos >= len(text.rstrip()) or problem.msg.startswith("Unterminated string")


_BETWEEN = re.compile(r"[ \t\r\n,]*")


def _nothing_else(file: SourceFile, number: int, rest: str, lines: Iterator[bytes]) -> None:
    if rest.strip() or any(line.strip() for line in lines):
        raise _not_json(file, number, "there is more after the array")


def _text(file: SourceFile, line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise TypeMismatch(f"line {number} of {file.path} is not UTF-8") from None


def _not_json(file: SourceFile, number: int, why: str) -> TypeMismatch:
    return TypeMismatch(
        f"line {number} of {file.path} is not a JSON object",
        detail=why,
        hint='write one object per line, such as {"id": 1}; jq -c . or jq -c .[] does it',
    )


def _lines(file: SourceFile) -> Iterator[bytes]:
    source, rest, first = file.open_text(), b"", True
    try:
        while data := source.read(1 << 20):
            if first:
                data, first = data.removeprefix(b"\xef\xbb\xbf"), False
            *whole, rest = (rest + data).split(b"\n")
            yield from whole
    except OSError as problem:
        raise unreadable(file.path, problem) from problem
    yield rest


class JsonColumns:
    """The columns of a new table for some rows: a type for all values of each name."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}

    def see(self, row: dict[str, Any], where: str) -> None:
        """Adds a row."""
        for name, value in row.items():
            self._found[name] = _merged(self._found.get(name), _kind(value, name, where), name, where)

    def columns(self) -> list[tuple[str, str]]:
        """Names and types, in the order of first occurrence; a column that is always NULL is a STRING."""
        return [(name, _ddl(kind)) for name, kind in self._found.items()]


def _kind(value: Any, name: str, where: str) -> Any:
    """A value's type as a name, ("array", element) or ("struct", fields); None for NULL."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "bigint" if -(1 << 63) <= value < 1 << 63 else "decimal(38,0)" if abs(value) < 10**38 else "double"
        case float() | decimal.Decimal():
            return "double"
        case str():
            return "string"
        case list():
            element = None
            for part in value:
                element = _merged(element, _kind(part, name, where), name, where)
            return ("array", element)
        case _:
            return ("struct", {key: _kind(part, name, where) for key, part in value.items()})


_NUMBERS = ("bigint", "decimal(38,0)", "double")


def _merged(left: Any, right: Any, name: str, where: str) -> Any:
    """The type for values of both types."""
    if left is None or right is None or left == right:
        return left if right is None else right
    if left in _NUMBERS and right in _NUMBERS:
        return max(left, right, key=_NUMBERS.index)
    if isinstance(left, tuple) and isinstance(right, tuple) and left[0] == right[0]:
        if left[0] == "array":
            return ("array", _merged(left[1], right[1], name, where))
        keys = dict.fromkeys([*left[1], *right[1]])
        return ("struct", {key: _merged(left[1].get(key), right[1].get(key), name, where) for key in keys})
    raise TypeMismatch(
        f"the column '{name}' holds values of several types: {_ddl(left).upper()} and {_ddl(right).upper()}",
        detail=f"the second is in {where}",
        hint="create the table with the type you want, and make all values fit it",
    )


def _ddl(kind: Any) -> str:
    if kind is None:
        return "string"
    if isinstance(kind, str):
        return kind
    if kind[0] == "array":
        return f"array<{_ddl(kind[1])}>"
    return f"struct<{','.join(f'{quote(key)}:{_ddl(part)}' for key, part in kind[1].items())}>"
