"""The footer of a Parquet file: its schema, its row groups, and where their columns and page indexes are.

Arrow reads footers too, but does not tell where a page index is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Span: TypeAlias = tuple[int, int]
"""The bytes of a file from one offset to another."""


@dataclass(frozen=True)
class Element:
    """A node of the schema, with its own bytes."""

    raw: bytes
    name: str
    children: int
    repeated: bool


@dataclass(frozen=True)
class Described:
    """A column of a row group, as the footer describes it; the last two are parts of the page index."""

    physical_type: int
    encodings: bytes
    codec: int
    uncompressed: int
    compressed: int
    data: int
    dictionary: int | None
    places: Span | None
    bounds: Span | None

    @property
    def begin(self) -> int:
        """Where its bytes begin: with the dictionary, if there is one."""
        return self.dictionary if self.dictionary and self.dictionary < self.data else self.data

    @property
    def stop(self) -> int:
        """Where its bytes end."""
        return self.begin + self.compressed


@dataclass(frozen=True)
class Group:
    """A row group: its rows, and its columns in the order of the schema's leaves."""

    rows: int
    chunks: list[Described]


class Compact:
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

    def skip(self, kind: int) -> None:
        """Skips the value of a field."""
        self.at = _after(self.data, self.at, kind)


def _after(data: bytes, at: int, kind: int) -> int:
    """Where the value of a field of some type ends. Most of a footer is skipped: this is written to be fast."""
    if kind == 12:
        while True:
            byte = data[at]
            at += 1
            if byte == 0:
                return at
            if byte < 0x10:  # the id of the field follows
                at = _after(data, at, 6)
            kind = byte & 0x0F
            if 4 <= kind <= 6:
                while data[at] >= 0x80:
                    at += 1
                at += 1
            else:
                at = _after(data, at, kind)
    if 4 <= kind <= 6:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind in (1, 2):
        return at  # the value of a boolean is its type
    if kind == 3:
        return at + 1
    if kind == 7:
        return at + 8
    if kind == 13:
        return at + 16
    reader = Compact(data)
    reader.at = at
    if kind == 8:
        reader.binary()
        return reader.at
    if kind in (9, 10):
        count, inner = reader.list_header()
        kinds = [inner]
    elif kind == 11:
        count = reader.number()
        kinds = [data[reader.at] >> 4, data[reader.at] & 0x0F] if count else []
        reader.at += bool(count)
    else:
        raise KeyError(f"type {kind}")
    at = reader.at
    for _ in range(count):
        for inner in kinds:
            at = at + 1 if inner in (1, 2) else _after(data, at, inner)
    return at


def read_footer(data: bytes) -> tuple[list[Element], list[Group]]:
    """The schema and the row groups of a file's footer."""
    reader = Compact(data)
    elements: list[Element] = []
    groups: list[Group] = []
    for field, kind in reader.fields():
        if field == 2:
            elements = [_element(reader) for _ in range(reader.list_header()[0])]
        elif field == 4:
            groups = [_group(reader) for _ in range(reader.list_header()[0])]
        else:
            reader.skip(kind)
    return elements, groups


def _element(reader: Compact) -> Element:
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
    return Element(reader.data[start : reader.at], name, children, repeated)


def _group(reader: Compact) -> Group:
    rows = 0
    chunks: list[Described] = []
    for field, kind in reader.fields():
        if field == 1:
            chunks = [_described(reader) for _ in range(reader.list_header()[0])]
        elif field == 3:
            rows = reader.integer()
        else:
            reader.skip(kind)
    return Group(rows, chunks)


def _described(reader: Compact) -> Described:
    facts: dict[int, Any] = {}
    spans = dict.fromkeys((4, 5, 6, 7), 0)
    for field, kind in reader.fields():
        if field == 3:
            facts = _column_facts(reader)
        elif field in spans:
            spans[field] = reader.integer()
        else:
            reader.skip(kind)
    places, bounds = (
        (spans[offset], spans[offset] + spans[length]) if spans[offset] and spans[length] else None
        for offset, length in ((4, 5), (6, 7))
    )
    return Described(facts[1], facts[2], facts[4], facts[6], facts[7], facts[9], facts.get(11), places, bounds)


def _column_facts(reader: Compact) -> dict[int, Any]:
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


def flat_columns(elements: list[Element]) -> Iterator[tuple[Element, int]]:
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


def page_encoding(data: bytes, at: int) -> int | None:
    """The encoding of the data page whose header is at an offset; None if it is no data page."""
    reader = Compact(data)
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
