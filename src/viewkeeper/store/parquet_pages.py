"""Single pages of a Parquet file: where they are, and their values.

A page holds about a thousand rows of a column. The page index at the end of a file says where each page is; Arrow has
no call to read just some of them. So the wanted pages are put together, with a footer of their own, as a small file of
one column, which Arrow decodes. Without a page index, all pages of a column of a row group count as one.

Only columns at the top level that are neither nested nor repeated are here: of these a page's rows are its values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MAGIC = b"PAR1"

TAIL = 64 << 10
"""Bytes read from the end of a file at first; they mostly hold the footer and the places of all pages."""

Span: TypeAlias = tuple[int, int]
"""The bytes of a file from one offset to another."""

ReadSpans: TypeAlias = Callable[[Sequence[Span]], list[bytes]]
"""Reads some spans of a file."""


Numbers: TypeAlias = "np.ndarray[Any, Any]"

_Places: TypeAlias = tuple[Numbers, Numbers, Numbers]
"""Offsets, sizes and first rows of pages."""


class NotPages(Exception):
    """The bytes are no Parquet file that can be read by pages."""


@dataclass(frozen=True)
class Chunk:
    """The pages of a column in one row group; the first of them is page `first_page` of the file.

    `indexed`: the file has a page index, so each page is one.
    """

    element: bytes
    encodings: bytes
    physical_type: int
    codec: int
    uncompressed: int
    dictionary: Span
    indexed: bool
    first_page: int
    offsets: Numbers
    sizes: Numbers

    def spans(self, pages: Sequence[int]) -> list[Span]:
        """The bytes of some pages: the dictionary first if there is one, pages next to each other together."""
        found: list[Span] = [self.dictionary] if self.dictionary[1] > self.dictionary[0] else []
        for page in pages:
            start = int(self.offsets[page - self.first_page])
            stop = start + int(self.sizes[page - self.first_page])
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], stop)
            else:
                found.append((start, stop))
        return found

    def decode(self, name: str, pages: Sequence[int], rows: int, parts: Sequence[bytes]) -> pa.Array:
        """The values of some pages, which have so many rows, one after the other; `parts` are their spans."""
        body, dictionary = b"".join(parts), self.dictionary[1] - self.dictionary[0]
        if dictionary and self.indexed and not self._use_dictionary(pages, body, dictionary):
            body, dictionary = body[dictionary:], 0
        small = _small_file(self, name.encode(), body, dictionary, rows)
        values = pq.ParquetFile(pa.BufferReader(small), page_checksum_verification=True).reader.read_column(0)
        if len(values) != rows:
            raise NotPages(f"pages of column '{name}' have {len(values)} rows instead of {rows}")
        return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)

    def _use_dictionary(self, pages: Sequence[int], body: bytes, first: int) -> bool:
        """Whether the values of any of some pages are numbers of the dictionary."""
        at = first
        for page in pages:
            if _encoding(body, at) in _BY_DICTIONARY:
                return True
            at += int(self.sizes[page - self.first_page])
        return False


@dataclass(frozen=True)
class PagedColumn:
    """The pages of a column: chunks, one per row group, and the first row of each page, then the number of rows."""

    name: str
    chunks: tuple[Chunk, ...]
    first_rows: Numbers

    @property
    def page_bytes(self) -> int:
        """How many bytes a page has on average, uncompressed."""
        return sum(chunk.uncompressed for chunk in self.chunks) // max(len(self.first_rows) - 1, 1)

    def all_pages(self) -> range:
        """The numbers of all pages."""
        return range(len(self.first_rows) - 1)

    def rows_in(self, page: int) -> int:
        """How many rows a page has."""
        return int(self.first_rows[page + 1] - self.first_rows[page])

    def by_chunk(self, pages: Sequence[int]) -> Iterator[tuple[Chunk, list[int]]]:
        """Some pages, in order, by the chunk that has them."""
        for chunk in self.chunks:
            stop = chunk.first_page + len(chunk.offsets)
            mine = [page for page in pages if chunk.first_page <= page < stop]
            if mine:
                yield chunk, mine


class Layout:
    """The number of rows of a file, and where the pages of its columns are."""

    def __init__(self, columns: Mapping[str, _Column], rows: int) -> None:
        self.rows = rows
        self._described = columns
        self._paged: dict[str, PagedColumn] = {}
        pages = sum(len(part.page_index) for column in columns.values() for part in column.parts)
        self.nbytes = 1_000 * len(columns) + 4 * pages  # about: a page has 10 bytes there and 20 in a PagedColumn

    def column(self, name: str) -> PagedColumn | None:
        """The pages of a column; None if there is no such column, or it is nested or repeated."""
        if name not in self._paged and name in self._described:
            found = _paged(name, self._described[name])
            for other in self._paged.values():  # pages that begin with the same rows share the array that says so
                if np.array_equal(other.first_rows, found.first_rows):
                    found = replace(found, first_rows=other.first_rows)
                    break
            self._paged[name] = found
        return self._paged.get(name)


def read_layout(size: int, read: ReadSpans) -> Layout:
    """The layout of a file of so many bytes."""
    start = max(0, size - TAIL)
    (tail,) = read([(start, size)])
    if len(tail) < 12 or tail[-4:] != MAGIC:
        raise NotPages("it does not end like a Parquet file")
    length = struct.unpack("<I", tail[-8:-4])[0]
    if length + 8 > size:
        raise NotPages("its footer is longer than the file")
    if length + 8 > len(tail):
        start = size - length - 8
        (tail,) = read([(start, size)])
    try:
        elements, groups = _footer(tail[len(tail) - length - 8 : -8])
        return _layout(elements, groups, start, tail, read)
    except (IndexError, KeyError) as problem:
        raise NotPages(f"its footer cannot be read: {problem!r}") from problem


def _layout(elements: list[_Element], groups: list[_Group], start: int, tail: bytes, read: ReadSpans) -> Layout:
    flat = list(_flat_columns(elements))
    groups = [group for group in groups if group.rows]
    spans = [span for group in groups for _, leaf in flat if (span := group.chunks[leaf].page_index)]
    outside = [span for span in spans if span[0] < start]
    more = dict(zip(outside, read(outside), strict=True)) if outside else {}

    def part(group: _Group, leaf: int) -> _Part:
        span = group.chunks[leaf].page_index
        if span is None:
            return _Part(group.chunks[leaf], group.rows, b"")
        data = more[span] if span in more else tail[span[0] - start : span[1] - start]
        return _Part(group.chunks[leaf], group.rows, data)

    columns = {element.name: _Column(element, [part(group, leaf) for group in groups]) for element, leaf in flat}
    return Layout(columns, sum(group.rows for group in groups))


def _paged(name: str, column: _Column) -> PagedColumn:
    chunks: list[Chunk] = []
    first_rows: list[Numbers] = []
    first_page = first = 0
    for part in column.parts:
        described = part.described
        places = _page_places(part.page_index, described, part.rows)
        offsets, sizes, starts = places or described.as_one_page
        chunks.append(
            Chunk(
                column.element.raw,
                described.encodings,
                described.physical_type,
                described.codec,
                described.uncompressed,
                (described.begin, int(offsets[0])),
                places is not None,
                first_page,
                offsets,
                sizes,
            )
        )
        first_rows.append(starts + first)
        first_page += len(offsets)
        first += part.rows
    return PagedColumn(name, tuple(chunks), np.concatenate([*first_rows, [first]]))


# the page index -----------------------------------------------------------------------------------

_TOKENS = 7
"""A place of a page has seven numbers: three headers, each with a value, and the end."""


def _page_places(data: bytes, described: _Described, rows: int) -> _Places | None:
    """The places of the pages that a page index gives; None if it is not as expected.

    Every byte of the list ends a number or belongs to the next that does: all numbers are read at once.
    """
    if data[:1] != b"\x19":
        return None
    reader = _Compact(data)
    reader.at = 1
    count, kind = reader.list_header()
    if kind != 12 or count == 0:
        return None
    body = np.frombuffer(data, np.uint8, offset=reader.at)
    ends = np.flatnonzero(body < 0x80)[: count * _TOKENS]
    if len(ends) < count * _TOKENS:
        return None
    body = body[: ends[-1] + 1]
    starts = np.concatenate(([0], ends[:-1] + 1))
    places = np.arange(len(body)) - np.repeat(starts, ends - starts + 1)
    if places.max() > 8:
        return None
    parts = (body & 0x7F).astype(np.int64) << (7 * places)
    tokens = np.add.reduceat(parts, starts).reshape(count, _TOKENS)
    if not (tokens[:, [0, 2, 4, 6]] == (0x16, 0x15, 0x16, 0)).all():
        return None
    values = (tokens[:, [1, 3, 5]] >> 1) ^ -(tokens[:, [1, 3, 5]] & 1)
    offsets, sizes, first_rows = values.T
    stop = described.data + described.compressed
    if first_rows[0] != 0 or (np.diff(np.append(first_rows, rows)) <= 0).any():
        return None
    if (sizes <= 0).any() or (np.diff(offsets) < sizes[:-1]).any() or offsets[0] < 4 or offsets[-1] + sizes[-1] > stop:
        return None
    return offsets, sizes, first_rows


# the footer ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Element:
    """A node of the schema, with its own bytes."""

    raw: bytes
    name: str
    children: int
    repeated: bool


@dataclass(frozen=True)
class _Described:
    """A column of a row group, as the footer describes it."""

    physical_type: int
    encodings: bytes
    codec: int
    uncompressed: int
    compressed: int
    data: int
    dictionary: int | None
    page_index: Span | None

    @property
    def begin(self) -> int:
        """Where its bytes begin: with the dictionary, if there is one."""
        return self.dictionary if self.dictionary and self.dictionary < self.data else self.data

    @property
    def as_one_page(self) -> _Places:
        """All its pages as one."""
        size = self.begin + self.compressed - self.data
        return np.array([self.data]), np.array([size]), np.array([0])


@dataclass(frozen=True)
class _Part:
    """A column of a row group, the rows of the group, and the bytes of the page index, if there is one."""

    described: _Described
    rows: int
    page_index: bytes


@dataclass(frozen=True)
class _Column:
    """A column of a file: its node of the schema, and its part in each row group."""

    element: _Element
    parts: list[_Part]


@dataclass(frozen=True)
class _Group:
    """A row group: its rows, and its columns in the order of the schema's leaves."""

    rows: int
    chunks: list[_Described]


class _Compact:
    """Reads Thrift's compact protocol, in which Parquet's footers are written."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self) -> int:
        """An unsigned number."""
        data, at = self.data, self.at
        byte = data[at]
        at += 1
        found = byte & 0x7F
        shift = 7
        while byte >= 0x80:
            byte = data[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
        self.at = at
        return found

    def integer(self) -> int:
        """A signed number."""
        found = self.number()
        return (found >> 1) ^ -(found & 1)

    def binary(self) -> bytes:
        """Bytes with their length before them."""
        length = self.number()
        self.at += length
        return self.data[self.at - length : self.at]

    def list_header(self) -> tuple[int, int]:
        """The number of a list's elements, and their type."""
        byte = self.data[self.at]
        self.at += 1
        count = byte >> 4
        return (self.number() if count == 15 else count), byte & 0x0F

    def fields(self) -> Iterator[tuple[int, int]]:
        """The ids and types of a struct's fields; the caller reads or skips each value."""
        last = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            if byte == 0:
                return
            last = last + (byte >> 4) if byte >> 4 else self.integer()
            yield last, byte & 0x0F

    def skip(self, kind: int, *, element: bool = False) -> None:
        """Skips a value. A boolean field has its value in its type, an element of a list in a byte."""
        if kind in (1, 2):
            self.at += int(element)
        elif kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            self.number()
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            self.binary()
        elif kind in (9, 10):
            count, inner = self.list_header()
            for _ in range(count):
                self.skip(inner, element=True)
        elif kind == 11:
            count = self.number()
            if count:
                kinds = self.data[self.at]
                self.at += 1
                for _ in range(count):
                    self.skip(kinds >> 4, element=True)
                    self.skip(kinds & 0x0F, element=True)
        elif kind == 12:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind == 13:
            self.at += 16
        else:
            raise KeyError(f"type {kind}")


_BY_DICTIONARY = (2, 8)
"""The encodings whose values are numbers of the dictionary."""


def _encoding(data: bytes, at: int) -> int | None:
    """The encoding of the data page whose header is at an offset; None if it is no data page."""
    reader = _Compact(data)
    reader.at = at
    for field, kind in reader.fields():
        if field in (5, 8):  # the header of a data page, and of one of the second version
            for inner, type_ in reader.fields():
                if inner == (2 if field == 5 else 4):
                    return reader.integer()
                reader.skip(type_)
        else:
            reader.skip(kind)
    return None


def _footer(data: bytes) -> tuple[list[_Element], list[_Group]]:
    """The schema and the row groups of a file's footer."""
    reader = _Compact(data)
    elements: list[_Element] = []
    groups: list[_Group] = []
    for field, kind in reader.fields():
        if field == 2:
            elements = [_element(reader) for _ in range(reader.list_header()[0])]
        elif field == 4:
            groups = [_group(reader) for _ in range(reader.list_header()[0])]
        else:
            reader.skip(kind)
    return elements, groups


def _element(reader: _Compact) -> _Element:
    start = reader.at
    name, children, repeated = "", 0, False
    for field, kind in reader.fields():
        if field == 3:
            repeated = reader.integer() == 2
        elif field == 4:
            name = reader.binary().decode()
        elif field == 5:
            children = reader.integer()
        else:
            reader.skip(kind)
    return _Element(reader.data[start : reader.at], name, children, repeated)


def _group(reader: _Compact) -> _Group:
    rows = 0
    chunks: list[_Described] = []
    for field, kind in reader.fields():
        if field == 1:
            chunks = [_described(reader) for _ in range(reader.list_header()[0])]
        elif field == 3:
            rows = reader.integer()
        else:
            reader.skip(kind)
    return _Group(rows, chunks)


def _described(reader: _Compact) -> _Described:
    facts: dict[int, Any] = {}
    offset = length = 0
    for field, kind in reader.fields():
        if field == 3:
            facts = _column_facts(reader)
        elif field == 4:
            offset = reader.integer()
        elif field == 5:
            length = reader.integer()
        else:
            reader.skip(kind)
    span = (offset, offset + length) if offset and length else None
    return _Described(facts[1], facts[2], facts[4], facts[6], facts[7], facts[9], facts.get(11), span)


def _column_facts(reader: _Compact) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for field, kind in reader.fields():
        if field in (1, 4, 6, 7, 9, 11):
            found[field] = reader.integer()
        else:
            start = reader.at
            reader.skip(kind)
            if field == 2:
                found[2] = reader.data[start : reader.at]
    return found


def _flat_columns(elements: list[_Element]) -> Iterator[tuple[_Element, int]]:
    """The columns at the top level that have no parts, each with its number among the leaves."""
    at, leaf = 1, 0

    def leaves_below(position: int) -> tuple[int, int]:
        """How many leaves a node has, and where the next node is."""
        element = elements[position]
        if not element.children:
            return 1, position + 1
        total, following = 0, position + 1
        for _ in range(element.children):
            count, following = leaves_below(following)
            total += count
        return total, following

    while at < len(elements):
        element = elements[at]
        if not element.children and not element.repeated:
            yield element, leaf
        count, at = leaves_below(at)
        leaf += count


# a small file -------------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _integer(value: int) -> bytes:
    return _number(value << 1)


def _binary(value: bytes) -> bytes:
    return _number(len(value)) + value


def _small_file(chunk: Chunk, name: bytes, body: bytes, dictionary: int, rows: int) -> bytes:
    """A Parquet file of one column with the given pages, before them a dictionary of so many bytes."""
    root = b"\x48" + _binary(b"schema") + b"\x15\x02\x00"
    begin = len(MAGIC)
    column = [
        b"\x15" + _integer(chunk.physical_type),
        b"\x19" + chunk.encodings,
        b"\x19\x18" + _binary(name),
        b"\x15" + _integer(chunk.codec),
        b"\x16" + _integer(rows),
        b"\x16" + _integer(chunk.uncompressed),
        b"\x16" + _integer(len(body)),
        b"\x26" + _integer(begin + dictionary),
        b"\x26" + _integer(begin) if dictionary else b"",
        b"\x00",
    ]
    group = [
        b"\x19\x1c\x26\x00\x1c",
        *column,
        b"\x00",
        b"\x16" + _integer(chunk.uncompressed),
        b"\x16" + _integer(rows),
        b"\x00",
    ]
    footer = b"".join(
        [b"\x15\x04\x19\x2c", root, chunk.element, b"\x16" + _integer(rows), b"\x19\x1c", *group, b"\x00"]
    )
    return b"".join([MAGIC, body, footer, struct.pack("<I", len(footer)), MAGIC])
