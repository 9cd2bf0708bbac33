"""Single pages of a Parquet file have the values that the whole file has."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from viewkeeper.store.parquet_pages import TAIL, Layout, NotPages, PagedColumn, decode_pages, read_layout

ROWS = 2_500


def values() -> pa.Table:
    draw = random.Random(5)
    some = [draw.random() for _ in range(ROWS)]

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    return pa.table(
        {
            "number": pa.array([maybe(int(x * 1e15)) for x in some], pa.int64()),
            "few": pa.array([int(x * 5) for x in some], pa.int32()),
            "tiny": pa.array([int(x * 100) for x in some], pa.int8()),
            "nested": pa.array([[1, 2], None, [3]] * (ROWS // 3) + [[4]] * (ROWS % 3)),
            "text": [maybe(f"{'x' * int(x * 40)}é{x}") for x in some],
            "word": [maybe(draw.choice(["yes", "no", "Grüße"])) for _ in some],
            "part": pa.array([{"a": 1, "b": [2]}] * ROWS),
            "bytes": pa.array([maybe(bytes([int(x * 255)])) for x in some]),
            "real": pa.array(some),
            "flag": pa.array([maybe(x > 0.5) for x in some]),
            "amount": pa.array([maybe(decimal.Decimal(int(x * 1e12)).scaleb(-2)) for x in some], pa.decimal128(38, 2)),
            "day": pa.array([maybe(dt.date(2000, 1, 1) + dt.timedelta(days=int(x * 9000))) for x in some]),
            "moment": pa.array([int(x * 1e15) for x in some], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "nothing": pa.nulls(ROWS, pa.int64()),
        }
    )


class Bytes:
    """A file in memory, which records what is read of it."""

    def __init__(self, table: pa.Table, **options: Any) -> None:
        sink = io.BytesIO()
        pq.write_table(table, sink, store_schema=False, **{"write_page_index": True, **options})
        self.data = sink.getvalue()
        self.read_bytes = 0

    def read(self, spans: Any) -> list[bytes]:
        self.read_bytes += sum(stop - start for start, stop in spans)
        return [self.data[start:stop] for start, stop in spans]

    def layout(self) -> Layout:
        return read_layout(len(self.data), self.read)


def paged(file: Bytes, layout: Layout, name: str) -> PagedColumn:
    (found,) = layout.columns([name], file.read)
    assert found is not None
    return found


def decoded(file: Bytes, layout: Layout, name: str, pages: list[int]) -> pa.ChunkedArray:
    column = paged(file, layout, name)
    parts = []
    for number, mine in column.by_chunk(pages):
        chunk = column.chunks[number]
        data = file.read(chunk.spans(mine))
        parts.append(decode_pages({name: (chunk, data)}, mine, sum(map(column.rows_in, mine))).column(0))
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks])


OPTIONS: dict[str, dict[str, Any]] = {
    "as batches are written": {"compression": "zstd", "write_page_checksum": True, "max_rows_per_page": 100},
    "large dictionary": {"compression": "zstd", "max_rows_per_page": 100, "dictionary_pagesize_limit": 5_000},
    "no dictionary": {"use_dictionary": False, "max_rows_per_page": 100, "compression": "snappy"},
    "second version": {"data_page_version": "2.0", "max_rows_per_page": 100, "write_page_checksum": True},
    "no compression": {"compression": "none", "max_rows_per_page": 300},
    "other encodings": {
        "use_dictionary": False,
        "max_rows_per_page": 200,
        "column_encoding": {"number": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "real": "BYTE_STREAM_SPLIT"},
    },
    "row groups": {"row_group_size": 700, "max_rows_per_page": 100},
    "no page index": {"write_page_index": False, "row_group_size": 900},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_pages_have_the_values_of_the_file(options: str) -> None:
    table = values()
    file = Bytes(table, **OPTIONS[options])
    layout = file.layout()
    assert layout.rows == ROWS
    assert layout.columns(("nested", "part", "element", "a", "missing"), file.read) == [None] * 5
    for name in table.column_names:
        (column,) = layout.columns([name], file.read)
        if column is None:
            assert name in ("nested", "part")
            continue
        expected = pq.read_table(io.BytesIO(file.data), columns=[name]).column(0)
        pages = column.all_pages()
        assert len(pages) > 1
        assert decoded(file, layout, name, pages).combine_chunks() == expected.combine_chunks()
        for page in (pages[0], pages[len(pages) // 2], pages[-1]):
            first, stop = column.first_rows[page], column.first_rows[page + 1]
            assert decoded(file, layout, name, [page]).to_pylist() == expected[int(first) : int(stop)].to_pylist()
        some = pages[1::2]
        rows = [row for page in some for row in range(column.first_rows[page], column.first_rows[page + 1])]
        assert decoded(file, layout, name, some).to_pylist() == expected.take(rows).to_pylist()


def test_only_the_wanted_pages_are_read() -> None:
    table = pa.table({"k": pa.array(range(50_000)), "text": [f"text {n * 7919}" for n in range(50_000)]})
    file = Bytes(table, compression="zstd", max_rows_per_page=1_000)
    assert len(file.data) > 4 * TAIL
    layout = file.layout()
    assert file.read_bytes == TAIL
    file.read_bytes = 0
    assert decoded(file, layout, "text", [30]).to_pylist() == table["text"][30_000:31_000].to_pylist()
    assert file.read_bytes < 0.5 * len(file.data), "a page and the dictionary"


def test_a_long_footer_and_a_far_page_index() -> None:
    table = pa.table({f"column_{n}": pa.array(range(4_000)) for n in range(300)})
    file = Bytes(table, max_rows_per_page=100)
    layout = file.layout()
    assert decoded(file, layout, "column_7", [3]).to_pylist() == list(range(300, 400))


@pytest.mark.parametrize("damage", ["end", "length", "footer", "short"])
def test_what_is_no_file(damage: str) -> None:
    file = Bytes(pa.table({"k": [1, 2, 3]}))
    data = bytearray(file.data)
    if damage == "end":
        data[-1] = 0
    elif damage == "length":
        data[-8:-4] = b"\xff\xff\xff\x7f"
    elif damage == "footer":
        length = int.from_bytes(data[-8:-4], "little")
        data[-8 - length : -8] = b"\xff" * length
    else:
        data = data[-7:]
    file.data = bytes(data)
    with pytest.raises(NotPages):
        file.layout()


def test_a_damaged_page_is_noticed() -> None:
    file = Bytes(pa.table({"k": pa.array(range(5_000))}), write_page_checksum=True, max_rows_per_page=1_000)
    layout = file.layout()
    column = paged(file, layout, "k")
    chunk = column.chunks[0]
    parts = [bytearray(part) for part in file.read(chunk.spans([2]))]
    parts[-1][-5] ^= 1
    with pytest.raises(OSError, match="CRC"):
        decode_pages({"k": (chunk, [bytes(part) for part in parts])}, [2], column.rows_in(2))


def test_columns_are_decoded_together() -> None:
    table = values().select(["number", "text", "word", "amount", "nothing"])
    file = Bytes(table, compression="zstd", max_rows_per_page=100)
    layout = file.layout()
    first = paged(file, layout, "number")
    columns = {name: paged(file, layout, name) for name in table.column_names}
    assert all(column.first_rows is first.first_rows for column in columns.values())
    chunks = {name: column.chunks[0] for name, column in columns.items()}
    given = {name: (chunk, file.read(chunk.spans([3, 9]))) for name, chunk in chunks.items()}
    rows = [row for page in (3, 9) for row in range(first.first_rows[page], first.first_rows[page + 1])]
    assert decode_pages(given, [3, 9], len(rows)).to_pylist() == table.take(rows).to_pylist()


def test_bounds_of_pages() -> None:
    rising = [n // 3 for n in range(2_000)]
    table = pa.table(
        {
            "k": pa.array(rising),
            "small": pa.array(rising, pa.int32()),
            "day": pa.array(rising, pa.int32()).cast(pa.date32()),
            "some": pa.array([n if n % 2 else None for n in rising]),
            "falling": pa.array([-n for n in rising]),
            "text": [f"{n:05}" for n in rising],
            "last": pa.array([n if n < 400 else None for n in rising]),
        }
    )
    for options in ({"max_rows_per_page": 100}, {"max_rows_per_page": 100, "row_group_size": 700}):
        file = Bytes(table, **options)
        layout = file.layout()
        for name in ("k", "small", "day", "some"):
            column = paged(file, layout, name)
            found = column.bounds(file.read)
            assert found is not None
            for page in column.all_pages():
                part = table[name][int(column.first_rows[page]) : int(column.first_rows[page + 1])]
                part = part.cast(pa.int32()) if name == "day" else part
                ends = pc.min_max(part).as_py()
                assert (ends["min"], ends["max"]) == (found[0][page], found[1][page]), (name, page)
        for name in ("falling", "text", "last"):
            assert paged(file, layout, name).bounds(file.read) is None, name
    file = Bytes(table, write_page_index=False)
    assert paged(file, file.layout(), "k").bounds(file.read) is None
