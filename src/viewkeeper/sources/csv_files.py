"""CSV files as batches of text: RFC 4180 as pyarrow.csv reads it, the same for all engines.

An empty field without quotes is NULL, `""` is an empty string. Line breaks, doubled quotes and backslashes in quotes
are text. Blank lines are ignored. Memory is bounded by the size of a block, which grows only for a longer record.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from viewkeeper.errors import TypeMismatch
from viewkeeper.sources.files import SourceFile, unreadable

BLOCK = 4 << 20
"""Bytes parsed at a time."""

_LARGEST = 1 << 30
_OPTIONS = ("header", "sep", "delimiter", "quote", "escape", "nullvalue", "encoding")
_IGNORED = {"multiline": "true", "mode": "failfast", "inferschema": None}
"""Options of Spark's reader that ask for the behavior here, with that value (None: any)."""


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    header: bool = True
    separator: str = ","
    quote: str = '"'
    escape: str = ""
    null: str = ""
    encoding: str = "utf-8"

    @property
    def escaping(self) -> str:
        """The escape character, if it is not the quote itself."""
        return "" if self.escape == self.quote else self.escape

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8."""
        return codecs.lookup(self.encoding).name == "utf-8"


def dialect_of(options: Mapping[str, str]) -> Dialect:
    """The dialect of a user's options, which are named as in Spark's reader."""
    given = {name.lower(): str(value) for name, value in options.items()}
    for name in given:
        if name in _IGNORED and _IGNORED[name] in (None, given[name].lower()):
            continue
        if name not in _OPTIONS:
            raise TypeMismatch(
                f"the option {name} = {given[name]} of CSV files is not supported",
                hint=f"the options are {', '.join(_OPTIONS)}",
            )
    if given.get("header", "true").lower() not in ("true", "false"):
        raise TypeMismatch(f"header = {given['header']} is not known", hint="use header = 'true' or 'false'")
    dialect = Dialect(
        given.get("header", "true").lower() == "true",
        given.get("sep", given.get("delimiter", ",")),
        given.get("quote", '"'),
        given.get("escape", ""),
        given.get("nullvalue", ""),
        given.get("encoding", "utf-8"),
    )
    for name, mark in (("sep", dialect.separator), ("quote", dialect.quote), ("escape", dialect.escape)):
        if len(mark.encode()) > 1 or (name == "sep" and not mark):
            raise TypeMismatch(f"{name} = {mark!r} is not one ASCII character", hint="use one, such as ; or |")
    try:
        codecs.lookup(dialect.encoding)
    except LookupError:
        raise TypeMismatch(f"there is no encoding '{dialect.encoding}'", hint="use encoding = 'utf-8'") from None
    return dialect


class CsvFile:
    """One CSV file: the names in its header, its rows as text, and their lines."""

    def __init__(self, file: SourceFile, dialect: Dialect) -> None:
        self.file = file
        self.dialect = dialect
        first = next((fields for _, fields in self._records()), None)
        self.is_empty = first is None
        self._width = len(first or ())
        self.names = first or []
        if not dialect.header:
            self.names = [f"c{number}" for number in range(1, self._width + 1)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, all columns as strings named by their position."""
        skip = 1 if self.dialect.header else 0
        for data in self._whole_records():
            try:
                table = self._parse(data).slice(skip)
            except pa.ArrowInvalid as problem:
                raise self._explained(problem) from None
            skip = 0
            yield from table.combine_chunks().to_batches()

    def _parse(self, data: bytes) -> pa.Table:
        dialect = self.dialect
        columns = [str(number) for number in range(self._width)]
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(block_size=len(data) + 1, column_names=columns),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.separator,
                quote_char=dialect.quote or False,
                escape_char=dialect.escaping or False,
                newlines_in_values=True,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _whole_records(self) -> Iterator[bytes]:
        """The text in pieces that end where a record ends.

        Arrow splits text anywhere, and loses a line feed when it splits a line break in quotes.
        """
        ends = RecordEnds(self.dialect)
        rest, size = b"", BLOCK
        source = self._utf8()
        while True:
            data = source.read(size)
            if not data:
                break
            rest += data
            end = ends.last(rest)
            if end:
                if rest[:end].strip(b"\r\n"):
                    yield rest[:end]
                rest, size = rest[end:], BLOCK
            elif len(rest) > _LARGEST:
                raise self._never_closed()
            else:
                size = len(rest)  # a record longer than a block
        if ends.is_open(rest):
            raise self._never_closed()
        if rest.strip(b"\r\n"):
            yield rest

    def _utf8(self) -> Any:
        """The bytes of the file as UTF-8, without a byte order mark."""
        dialect, stream = self.dialect, _Readable(self.file.open_text())
        if dialect.is_utf8:
            buffered = io.BufferedReader(stream, 1 << 16)
            if buffered.peek(3)[:3] == codecs.BOM_UTF8:
                buffered.read(3)
            return buffered
        text = io.TextIOWrapper(io.BufferedReader(stream), dialect.encoding, newline="")
        return _Encoded(text, self.file.path, dialect.encoding)

    def _never_closed(self) -> TypeMismatch:
        return TypeMismatch(
            f"{self.file.path} ends inside a quoted field",
            detail=f"the field begins in the record of line {max((line for line, _ in self._records()), default=1)}",
            hint='close its quotes; a quote inside a quoted field is written twice: ""',
        )

    # positions -----------------------------------------------------------------------------------

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """All records that are not blank, with their first lines; slow, for the header and for errors."""
        dialect = self.dialect
        encoding = "utf-8-sig" if dialect.is_utf8 else dialect.encoding
        stream = io.BufferedReader(_Readable(self.file.open_text()))
        text = io.TextIOWrapper(stream, encoding, errors="replace", newline="")
        reader = csv.reader(
            text,
            delimiter=dialect.separator,
            quotechar=dialect.quote or None,
            quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
            escapechar=dialect.escaping or None,
        )
        line = 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error:  # a field too long for the module: later lines are not known
            return
        except OSError as problem:
            raise unreadable(self.file.path, problem) from problem

    def place_of(self, row: int) -> str:
        """The first line of a row, in words. Rows count from 0, after the header."""
        wanted = row + (1 if self.dialect.header else 0)
        line = next((line for number, (line, _) in enumerate(self._records()) if number == wanted), None)
        return f"row {row + 1} of {self.file.path}" if line is None else f"line {line} of {self.file.path}"

    def _explained(self, problem: pa.ArrowInvalid) -> TypeMismatch:
        """An error with the line, for a file that pyarrow.csv refuses."""
        path = self.file.path
        for line, fields in self._records():
            if len(fields) != self._width:
                return TypeMismatch(
                    f"line {line} of {path} has {len(fields)} fields, its first line has {self._width}",
                    detail="the line begins with " + repr(self.dialect.separator.join(fields)[:80]),
                    hint='put fields that hold a separator or a line break in quotes: "a,b"',
                )
            if any("�" in field for field in fields) and "UTF8" in str(problem):
                return TypeMismatch(
                    f"line {line} of {path} is not {self.dialect.encoding}",
                    hint="say how the text is encoded: options={'encoding': 'latin-1'}",
                )
        return TypeMismatch(f"{path} cannot be read as CSV", detail=str(problem).split("\n")[0])


class RecordEnds:
    """Finds the ends of records in text that begins with a record. A quote opens a field only at its start."""

    def __init__(self, dialect: Dialect) -> None:
        self._quote, self._separator = dialect.quote.encode(), dialect.separator.encode()
        quote, escape = re.escape(self._quote), re.escape(dialect.escaping.encode())
        inner = rb"[^" + quote + (escape + rb"]|" + escape + rb"." if escape else rb"]") + rb"|" + quote * 2
        start = rb"(?:(?<=[" + re.escape(self._separator) + rb"\r\n])|\A)"
        quoted = start + quote + rb"((?:" + inner + rb")*+)(" + quote + rb")?"
        parts = [quoted] * bool(quote) + [escape + rb"."] * bool(escape)
        self._special = re.compile(rb"|".join(parts), re.DOTALL) if parts else None
        self._plain = not escape

    def last(self, data: bytes) -> int:
        """The position after the last line break outside quotes; 0 if there is none."""
        if self._special is None or (self._plain and self._quote not in data):
            return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        found = self._by_parity(data) if self._plain else None
        return self._by_scanning(data)[0] if found is None else found

    def is_open(self, data: bytes) -> bool:
        """Whether the text ends inside a quoted field."""
        return self._special is not None and self._by_scanning(data)[1]

    def _by_parity(self, data: bytes) -> int | None:
        """The same by counting quotes, all at once; None if a quote is inside a field without quotes."""
        letters = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(letters == self._quote[0])
        opening = quotes[::2]
        before = letters[opening[opening > 0] - 1]
        starts = np.isin(before, np.frombuffer(self._separator + b"\r\n" + self._quote, np.uint8))
        if not starts.all():
            return None
        breaks = np.flatnonzero((letters == 10) | (letters == 13))
        outside = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
        return int(outside[-1]) + 1 if len(outside) else 0

    def _by_scanning(self, data: bytes) -> tuple[int, bool]:
        """The same field by field, and whether a quoted field is still open at the end."""
        assert self._special is not None
        end, position = 0, 0
        for found in self._special.finditer(data):
            gap = max(data.rfind(b"\n", position, found.start()), data.rfind(b"\r", position, found.start()))
            end = gap + 1 if gap >= 0 else end
            position = found.end()
            if found.group().startswith(self._quote or b" ") and found.end() == len(data) and found.group(2) is None:
                return end, True
        gap = max(data.rfind(b"\n", position), data.rfind(b"\r", position))
        return (gap + 1 if gap >= 0 else end), False


class _Encoded:
    """Text in another encoding, read as UTF-8."""

    def __init__(self, text: io.TextIOWrapper, path: str, encoding: str) -> None:
        self._text, self._path, self._encoding = text, path, encoding

    def read(self, size: int) -> bytes:
        """About `size` bytes; none at the end."""
        try:
            return self._text.read(size).encode()
        except UnicodeError as problem:
            raise TypeMismatch(f"{self._path} is not {self._encoding}", detail=str(problem)) from None


class _Readable(io.RawIOBase):
    """An Arrow stream as a Python stream."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
