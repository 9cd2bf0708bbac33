"""Single pages of a Parquet file: where they are, and their values.

A page holds about a thousand rows of a column. The page index at the end of a file says where each page is, and what
its least and greatest values are; Arrow has no call to read just some pages. So the wanted pages are put together, with
a footer of their own, as a small file, which Arrow decodes. Without a page index, all pages of a column of a row group
count as one.

Only columns at the top level that are neither nested nor repeated are here: of these a page's rows are its values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.store.parquet_footer import (
    Compact,
    Described,
    Element,
    Group,
    Span,
    flat_columns,
    page_encoding,
    read_footer,
)

MAGIC = b"PAR1"

TAIL = 64 << 10
"""Bytes read from the end of a file at first; they mostly hold the footer and the places of all pages."""

MOST_LOOKED_AT = 8
"""With more pages, decoding a dictionary that none of them needs takes less time than finding that out."""

BY_DICTIONARY = (2, 8)
"""The encodings whose values are numbers of the dictionary."""

INTEGERS: dict[int, np.dtype[Any]] = {1: np.dtype("<i4"), 2: np.dtype("<i8")}
"""The physical types of integers, dates and timestamps."""

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

    element: Element
    described: Described
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

    def body(self, pages: Sequence[int], parts: Sequence[bytes]) -> tuple[bytes, int]:
        """The bytes of some pages, after their dictionary, if they need one, of so many bytes."""
        body, dictionary = b"".join(parts), self.dictionary[1] - self.dictionary[0]
        if not (dictionary and self.indexed) or len(pages) > MOST_LOOKED_AT:
            return body, dictionary
        at = dictionary
        for page in pages:
            if page_encoding(body, at) in BY_DICTIONARY:
                return body, dictionary
            at += int(self.sizes[page - self.first_page])
        return body[dictionary:], 0


@dataclass(frozen=True)
class PagedColumn:
    """The pages of a column: chunks, one per row group, and the first row of each page, then the number of rows.

    Columns whose pages begin with the same rows share the array that says so.
    """

    name: str
    chunks: tuple[Chunk, ...]
    first_rows: Numbers

    @cached_property
    def page_bytes(self) -> int:
        """How many bytes a page has on average, uncompressed."""
        return sum(chunk.described.uncompressed for chunk in self.chunks) // max(len(self.first_rows) - 1, 1)

    def all_pages(self) -> list[int]:
        """The numbers of all pages."""
        return list(range(len(self.first_rows) - 1))

    def rows_in(self, page: int) -> int:
        """How many rows a page has."""
        return int(self.first_rows[page + 1] - self.first_rows[page])

    def rows_of(self, page: int) -> Numbers:
        """The rows of a page."""
        return np.arange(self.first_rows[page], self.first_rows[page + 1])

    def by_chunk(self, pages: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Some pages, in order, by the number of the chunk that has them."""
        for number, chunk in enumerate(self.chunks):
            stop = chunk.first_page + len(chunk.offsets)
            mine = [page for page in pages if chunk.first_page <= page < stop]
            if mine:
                yield number, mine

    def bounds(self, read: ReadSpans) -> tuple[Numbers, Numbers] | None:
        """The least and the greatest integer of each page, if both ascend and no page has only NULLs; else None."""
        spans = [chunk.described.bounds for chunk in self.chunks if chunk.indexed]
        present = [span for span in spans if span is not None]
        if not present or len(present) < len(self.chunks):
            return None
        kind = INTEGERS.get(self.chunks[0].described.physical_type)
        if kind is None:
            return None
        found = [
            _page_bounds(data, kind, len(chunk.offsets)) for data, chunk in zip(read(present), self.chunks, strict=True)
        ]
        both = [each for each in found if each is not None]
        if len(both) < len(found):
            return None
        lows, highs = (np.concatenate(part) for part in zip(*both, strict=True))
        ascend = (lows[1:] >= lows[:-1]).all() and (highs[1:] >= highs[:-1]).all()
        return (lows, highs) if ascend else None


class Layout:
    """The number of rows of a file, and where the pages of its columns are, which is found out column by column."""

    def __init__(self, rows: int, described: Mapping[str, _Column], start: int, tail: bytes) -> None:
        """`tail` are the bytes of the file from `start` on, as far as they are known."""
        self.rows = rows
        self._described = described
        self._start, self._tail = start, tail
        self._found: dict[str, PagedColumn] = {}
        self._first_rows: dict[bytes, Numbers] = {}
        places = [each.places for column in described.values() for each, _ in column.chunks]
        self.nbytes = 1_000 + len(tail) + sum(1_000 + 2 * (each[1] - each[0]) for each in places if each is not None)
        """About how much memory this takes when all columns were asked for."""

    def columns(self, names: Iterable[str], read: ReadSpans) -> list[PagedColumn | None]:
        """The pages of some columns; None for one that the file does not have, or that has parts."""
        wanted = [name for name in dict.fromkeys(names) if name in self._described and name not in self._found]
        if wanted:
            try:
                self._find(wanted, read)
            except IndexError as problem:
                raise NotPages(f"its page index cannot be read: {problem!r}") from problem
        return [self._found.get(name) for name in names]

    def _find(self, names: Sequence[str], read: ReadSpans) -> None:
        described = [chunk for name in names for chunk in self._described[name].chunks]
        spans = [each.places for each, _ in described if each.places is not None]
        outside = [span for span in spans if span[0] < self._start]
        more = dict(zip(outside, read(outside), strict=True)) if outside else {}

        def bytes_of(span: Span) -> bytes:
            return more[span] if span in more else self._tail[span[0] - self._start : span[1] - self._start]

        places = _all_places(described, [bytes_of(span) for span in spans])
        number = 0
        for name in names:
            column = self._described[name]
            chunks: list[Chunk] = []
            first_rows: list[Numbers] = []
            first_page = first = 0
            for each, rows in column.chunks:
                offsets, sizes, starts = _as_one_page(each) if places is None else places[number]
                dictionary = (each.begin, int(offsets[0]))
                chunks.append(Chunk(column.element, each, dictionary, places is not None, first_page, offsets, sizes))
                first_rows.append(starts + first)
                first_page += len(offsets)
                first += rows
                number += 1
            together = np.concatenate([*first_rows, [first]])
            shared = self._first_rows.setdefault(together.tobytes(), together)
            self._found[name] = PagedColumn(name, tuple(chunks), shared)


@dataclass(frozen=True)
class _Column:
    """A column as the footer describes it: in each row group, with the rows of that group."""

    element: Element
    chunks: tuple[tuple[Described, int], ...]


def decode_pages(chunks: Mapping[str, tuple[Chunk, Sequence[bytes]]], pages: Sequence[int], rows: int) -> pa.Table:
    """The values of the same pages, which have so many rows, of some columns; given are the bytes of their spans."""
    parts = [(name, chunk, *chunk.body(pages, data)) for name, (chunk, data) in chunks.items()]
    small = _small_file(parts, rows)
    table = pq.ParquetFile(pa.BufferReader(small), page_checksum_verification=True).read(use_threads=False)
    if table.num_rows != rows:
        raise NotPages(f"pages of {', '.join(chunks)} have {table.num_rows} rows instead of {rows}")
    return table


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
        elements, groups = read_footer(tail[len(tail) - length - 8 : -8])
        return _layout(elements, [group for group in groups if group.rows], start, tail)
    except (IndexError, KeyError) as problem:
        raise NotPages(f"its footer cannot be read: {problem!r}") from problem


def _layout(elements: list[Element], groups: list[Group], start: int, tail: bytes) -> Layout:
    described = {
        element.name: _Column(element, tuple((group.chunks[leaf], group.rows) for group in groups))
        for element, leaf in flat_columns(elements)
    }
    return Layout(sum(group.rows for group in groups), described, start, tail)


def _as_one_page(chunk: Described) -> _Places:
    return np.array([chunk.data]), np.array([chunk.stop - chunk.data]), np.array([0])


# the page index -----------------------------------------------------------------------------------

_TOKENS = 7
"""A place of a page has seven numbers: three headers, each with a value, and the end."""


def _all_places(described: Sequence[tuple[Described, int]], parts: Sequence[bytes]) -> list[_Places] | None:
    """The places of the pages of some columns in some row groups, from their parts of the page index; None if not all
    have them as expected.

    In Thrift's compact protocol every byte of these lists ends a number or belongs to the next that does: the numbers
    of all lists are read at once.
    """
    if not parts or len(parts) < len(described):
        return None
    lists: list[bytes] = []
    counts: list[int] = []
    for data in parts:
        reader = Compact(data)
        if data[:1] != b"\x19":
            return None
        reader.at = 1
        count, kind = reader.list_header()
        if kind != 12 or count == 0:
            return None
        lists.append(data[reader.at :])
        counts.append(count)
    body = np.frombuffer(b"".join(lists), np.uint8)
    ends = np.flatnonzero(body < 0x80)
    begins = np.concatenate(([0], ends[:-1] + 1))
    within = np.arange(ends[-1] + 1) - np.repeat(begins, ends - begins + 1)
    if within.max() > 8:
        return None
    numbers = np.add.reduceat((body[: ends[-1] + 1] & 0x7F).astype(np.int64) << (7 * within), begins)
    firsts = begins.searchsorted(np.cumsum([0, *map(len, lists[:-1])]))
    chosen = np.concatenate([np.arange(at, at + count * _TOKENS) for at, count in zip(firsts, counts, strict=True)])
    if chosen.max() >= len(numbers):
        return None
    tokens = numbers[chosen].reshape(-1, _TOKENS)
    if not (tokens[:, ::2] == (0x16, 0x15, 0x16, 0)).all():
        return None
    offsets, sizes, first_rows = ((tokens[:, 1::2] >> 1) ^ -(tokens[:, 1::2] & 1)).T
    stops = np.cumsum(counts)
    is_first = np.zeros(len(offsets), bool)
    is_first[stops - counts] = True
    if (
        (first_rows[is_first] != 0).any()
        or (first_rows[stops - 1] >= [rows for _, rows in described]).any()
        or not ((first_rows[1:] > first_rows[:-1]) | is_first[1:]).all()
        or not ((offsets[1:] >= offsets[:-1] + sizes[:-1]) | is_first[1:]).all()
        or (sizes <= 0).any()
        or (offsets[is_first] < [chunk.begin for chunk, _ in described]).any()
        or (offsets[stops - 1] + sizes[stops - 1] > [chunk.stop for chunk, _ in described]).any()
    ):
        return None
    ranges = [slice(stop - count, stop) for stop, count in zip(stops, counts, strict=True)]
    return [(offsets[part].copy(), sizes[part].astype(np.int32), first_rows[part]) for part in ranges]


def _page_bounds(data: bytes, kind: np.dtype[Any], pages: int) -> tuple[Numbers, Numbers] | None:
    """The least and the greatest values of pages of one column chunk; None if a page has only NULLs."""
    reader = Compact(data)
    found: dict[int, Numbers] = {}
    for field, type_ in reader.fields():
        if field == 1:
            count, _ = reader.list_header()
            if count != pages or any(byte != 2 for byte in data[reader.at : reader.at + count]):
                return None
            reader.at += count
        elif field in (2, 3):
            count, _ = reader.list_header()
            width = kind.itemsize + 1  # the length comes first
            values = np.frombuffer(data, np.uint8, count * width, reader.at).reshape(count, width)
            if count != pages or (values[:, 0] != kind.itemsize).any():
                return None
            found[field] = values[:, 1:].copy().view(kind)[:, 0]
            reader.at += count * width
        else:
            reader.skip(type_)
    return (found[2], found[3]) if len(found) == 2 else None


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


def _structs(count: int) -> bytes:
    """The header of a list of structs."""
    return bytes([count << 4 | 12]) if count < 15 else b"\xfc" + _number(count)


def _small_file(parts: Sequence[tuple[str, Chunk, bytes, int]], rows: int) -> bytes:
    """A Parquet file of some columns, each with its bytes, which begin with a dictionary of so many bytes."""
    written, columns = [MAGIC], []
    at = len(MAGIC)
    for name, chunk, body, dictionary in parts:
        described = chunk.described
        columns += [
            b"\x26\x00\x1c\x15" + _integer(described.physical_type),
            b"\x19" + described.encodings,
            b"\x19\x18" + _binary(name.encode()),
            b"\x15" + _integer(described.codec),
            b"\x16" + _integer(rows),
            b"\x16" + _integer(described.uncompressed),
            b"\x16" + _integer(len(body)),
            b"\x26" + _integer(at + dictionary),
            b"\x26" + _integer(at) if dictionary else b"",
            b"\x00\x00",
        ]
        written.append(body)
        at += len(body)
    footer = [
        b"\x15\x04\x19" + _structs(len(parts) + 1),
        b"\x48" + _binary(b"schema") + b"\x15" + _integer(len(parts)) + b"\x00",
        *(chunk.element.raw for _, chunk, _, _ in parts),
        b"\x16" + _integer(rows) + b"\x19\x1c\x19" + _structs(len(parts)),
        *columns,
        b"\x16" + _integer(at) + b"\x16" + _integer(rows) + b"\x00\x00",
    ]
    tail = b"".join(footer)
    return b"".join([*written, tail, struct.pack("<I", len(tail)), MAGIC])
