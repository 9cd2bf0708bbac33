"""Look-ups on the driver: limits, memory, threads, and what happens to files that are gone or damaged."""

from __future__ import annotations

import concurrent.futures
import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import WEIGHT, Column, Key, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.engine.engine import Engine
from viewkeeper.errors import StorageError
from viewkeeper.log.storage import LocalStorage
from viewkeeper.store.batches import describe
from viewkeeper.store.bounds import Keys
from viewkeeper.store.byte_cache import ByteCache
from viewkeeper.store.lookups import Lookups, pages_between
from viewkeeper.store.scans import Source, pick
from viewkeeper.store.small_files import SmallFiles

SCHEMA = Schema(
    (
        Column("k", parse_type("BIGINT"), nullable=False),
        Column("l", parse_type("INT"), nullable=False),
        Column("s", parse_type("STRING")),
        Column("x", parse_type("DOUBLE")),
    ),
    (Key(("k", "l"), primary=True),),
)
FILES, ROWS = 8, 3_000


class Counting(LocalStorage):
    """A directory that counts what is read of it."""

    def __init__(self, root: str) -> None:
        super().__init__(root, "process")
        self.spans: list[tuple[str, tuple[int, int]]] = []
        self.guard = threading.Lock()

    def ranges(self, path: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        with self.guard:
            self.spans += [(path, span) for span in spans]
        return super().ranges(path, spans)


def part(number: int) -> pa.Table:
    """Rows of one file: four rows for each key."""
    first = number * ROWS
    return pa.table(
        [
            pa.array([n // 4 for n in range(first, first + ROWS)], pa.int64()),
            pa.array([n % 4 for n in range(first, first + ROWS)], pa.int32()),
            pa.array([f"text {n * 7919 % 1000}" if n % 5 else None for n in range(first, first + ROWS)]),
            pa.array([n / 8 for n in range(first, first + ROWS)]),
            pa.array([1] * ROWS, pa.int64()),
            pa.nulls(ROWS, pa.int64()),
        ],
        schema=SCHEMA.stored_arrow,
    )


@pytest.fixture
def storage(tmp_path: Path) -> Counting:
    return Counting(str(tmp_path))


@pytest.fixture
def files(storage: Counting) -> tuple[DataFile, ...]:
    return tuple(written(storage, f"relations/r/{n}.parquet", part(n)) for n in range(FILES))


def written(storage: Counting, path: str, rows: pa.Table) -> DataFile:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", store_schema=False, write_page_index=True, max_rows_per_page=250)
    data = sink.getvalue().to_pybytes()
    storage.write(path, data, "batch")
    return describe(rows, SCHEMA, path, data, merged=False)


def lookups(storage: Counting, **tuning: int) -> Lookups:
    engine = Engine("sail", "sail", None, {}, {})
    engine.tuning = vk.Tuning(**tuning)
    return Lookups(storage, engine, SmallFiles(storage, engine.tuning))


def scan_of(files: Sequence[DataFile], values: dict[str, list[Any]]) -> Any:
    schema = SCHEMA.subset(values)
    arrays = [pa.array(values[column.name], column.type.arrow) for column in schema]
    return pick(Source(SCHEMA, tuple(files), 5), Keys(pa.table(arrays, schema.names), schema, vk.Tuning()))


def naive(values: dict[str, list[Any]], columns: list[str]) -> set[tuple[Any, ...]]:
    wanted = set(zip(*values.values(), strict=True))
    rows = pa.concat_tables([part(n) for n in range(FILES)])
    keys = row_tuples(rows.select(list(values)))
    return {row for key, row in zip(keys, row_tuples(rows.select(columns)), strict=True) if key in wanted}


def found(looking: Lookups, files: Sequence[DataFile], values: dict[str, list[Any]], columns: list[str]) -> Any:
    result = looking.net_rows(scan_of(files, values), columns)
    assert result is not None
    return set(row_tuples(result.rows.drop_columns([WEIGHT])))


def test_rows_are_found_by_any_key(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage)
    for values in (
        {"k": [0, 5, 749, 750, 5_999, 6_000, -1]},
        {"k": [7, 7, 9], "l": [1, 2, 9]},
        {"l": [3], "k": [4]},
        {"s": ["text 1", "none", None], "k": [3, 4, 5]},
        {"x": [0.125, 0.5, 700.0]},
        {"s": ["text 11", "text 919"]},
    ):
        for columns in (["k", "l", "s", "x"], ["s"], ["x", "k"]):
            assert found(looking, files, values, columns) == naive(values, columns), (values, columns)


def test_a_few_rows_by_the_first_column(storage: Counting, files: tuple[DataFile, ...]) -> None:
    """Keys of several columns are found by the first one if that leaves few rows; the others are not read in full."""
    looking = lookups(storage)
    assert found(looking, files, {"k": [7], "l": [2]}, ["x"]) == naive({"k": [7], "l": [2]}, ["x"])
    assert list(looking.cache.get(files[0].path, "k") or ()) == [0], "one page"
    assert looking.cache.get(files[0].path, ("k", "l")) is None
    assert found(looking, files, {"l": [2], "k": [7]}, ["x"]) == naive({"k": [7], "l": [2]}, ["x"])
    assert looking.cache.get(files[0].path, ("l", "k")) is not None


def test_what_is_cached_is_not_read_again(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage)
    first = found(looking, files, {"k": [5, 2_000]}, ["k", "s"])
    read = list(storage.spans)
    assert {path for path, _ in read} == {files[0].path, files[2].path}, "files without the keys are not looked into"
    assert found(looking, files, {"k": [5, 2_000]}, ["k", "s"]) == first
    assert storage.spans == read
    found(looking, files, {"k": [5]}, ["x"])
    new = [span for span in storage.spans if span not in read]
    assert {path for path, _ in new} == {files[0].path}
    assert sum(stop - start for _, (start, stop) in new) < files[0].size / 3, "one page of one column"


def test_pages_of_many_keys_are_not_cached(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage, cache_bytes=2_000_000)
    draw = random.Random(5)
    for columns in (["k", "l", "s", "x"], ["s"], ["x", "l"]):
        for values in (
            {"k": draw.sample(range(6_100), 700)},
            {"k": draw.choices(range(6_000), k=500), "l": draw.choices(range(6), k=500)},
            {"x": [n / 8 for n in draw.sample(range(30_000), 600)]},
        ):
            assert found(looking, files, values, columns) == naive(values, columns), (list(values), columns)
    kept = {(name, place) for place, name in looking.cache._parts if name in ("s", "x")}
    assert not kept
    assert found(looking, files, {"k": [5]}, ["s"]) == naive({"k": [5]}, ["s"])
    assert looking.cache.get(files[0].path, "s") is not None, "those of a few keys are"


def test_pages_between() -> None:
    draw = random.Random(2)
    for _ in range(500):
        count = draw.randrange(6)
        starts, stops = (sorted(draw.choices(range(9), k=count)) for _ in range(2))
        expected = sorted({page for pair in zip(starts, stops, strict=True) for page in range(*pair)})
        assert pages_between(np.array(starts, int), np.array(stops, int)) == expected, (starts, stops)


def test_rows_looked_at(storage: Counting, files: tuple[DataFile, ...]) -> None:
    result = lookups(storage).net_rows(scan_of(files, {"k": [5, 2_000, 10**9]}), ["s"])
    assert result is not None
    assert result.looked_at == 8


@pytest.mark.parametrize("limit", ["lookup_keys", "lookup_rows", "lookup_bytes", "index_bytes"])
def test_beyond_a_limit_the_engine_reads(storage: Counting, files: tuple[DataFile, ...], limit: str) -> None:
    scan = scan_of(files, {"x": [5.0, 2_000.0]})
    assert lookups(storage).net_rows(scan, ["s"]) is not None
    assert lookups(storage, **{limit: 1}).net_rows(scan, ["s"]) is None


def test_what_is_cached_counts_for_no_limit(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage)
    scan = scan_of(files, {"x": [5.0, 2_000.0]})
    expected = looking.net_rows(scan, ["s"])
    looking.tuning = vk.Tuning(lookup_bytes=0, index_bytes=0)
    again = looking.net_rows(scan, ["s"])
    assert again is not None
    assert expected is not None
    assert again.rows == expected.rows


def test_nested_columns_are_for_the_engine(storage: Counting) -> None:
    schema = Schema((Column("k", parse_type("INT")), Column("a", parse_type("ARRAY<INT>"))))
    rows = pa.table([[1], [[2]], [1], pa.nulls(1, pa.int64())], schema=schema.stored_arrow)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_schema=False)
    data = sink.getvalue().to_pybytes()
    storage.write("relations/n/1.parquet", data, "batch")
    file = describe(rows, schema, "relations/n/1.parquet", data, merged=False)
    keys = Keys(pa.table([pa.array([1], pa.int32())], ["k"]), schema.subset(["k"]), vk.Tuning())
    looking, scan = lookups(storage), pick(Source(schema, (file,), 5), keys)
    assert looking.net_rows(scan, ["k", "a"]) is None
    plain = looking.net_rows(scan, ["k"])
    assert plain is not None
    assert plain.rows.to_pylist() == [{"k": 1, WEIGHT: 1}]


def test_small_files_are_read_in_full(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage, page_rows=ROWS)
    for values in ({"k": [0, 5, 749, 750, 5_999]}, {"k": [7, 7], "l": [1, 9]}, {"s": ["text 1", None]}):
        assert found(looking, files, values, ["s", "x"]) == naive(values, ["s", "x"]), values
    assert (storage.spans, len(looking.cache)) == ([], 0)
    assert found(looking, files[:0], {"k": [1]}, ["s"]) == set()


def test_memory_is_bounded(storage: Counting, files: tuple[DataFile, ...]) -> None:
    draw = random.Random(3)
    looking = lookups(storage, cache_bytes=100_000)
    for _ in range(60):
        values = {"k": draw.sample(range(6_000), 5)}
        assert found(looking, files, values, ["k", "l", "s", "x"]) == naive(values, ["k", "l", "s", "x"])
        assert looking.cache.bytes <= 100_000
        assert looking.cache.bytes == sum(size for _, size in looking.cache._parts.values())
    assert len(looking.cache) > 0


def test_nothing_is_cached_without_room(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage, cache_bytes=0)
    assert found(looking, files, {"k": [5]}, ["s"]) == naive({"k": [5]}, ["s"])
    assert (len(looking.cache), looking.cache.bytes) == (0, 0)


def test_the_least_recently_used_goes_first() -> None:
    cache = ByteCache(30)
    for name in ("a", "b", "c"):
        cache.put("f", name, name, 10)
    assert cache.get("f", "a") == "a"
    cache.put("f", "d", "d", 10)
    assert [cache.get("f", name) for name in ("a", "b", "c", "d")] == ["a", None, "c", "d"]
    cache.put("f", "c", "larger", 20)
    assert cache.bytes == 30
    assert [cache.get("f", name) for name in ("a", "c", "d")] == [None, "larger", "d"]
    cache.put("f", "huge", "huge", 31)
    assert cache.get("f", "huge") is None
    cache.put("f", "c", "huge", 31)
    assert cache.get("f", "c") is None
    assert cache.bytes == 10


def test_threads_load_each_part_once(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage)
    columns = ["k", "l", "s", "x"]
    values = {"k": [1, 800, 1_600, 2_400, 3_100, 4_000, 5_000, 5_900]}
    start = threading.Barrier(8)

    def look(_: int) -> Any:
        start.wait()
        return found(looking, files, values, columns)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(look, range(8)))
    assert all(result == naive(values, columns) for result in results)
    assert len(storage.spans) == len(set(storage.spans)), "nothing was read twice"


def test_threads_with_little_room(storage: Counting, files: tuple[DataFile, ...]) -> None:
    looking = lookups(storage, cache_bytes=60_000)
    columns = ["k", "l", "s", "x"]

    def look(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(15):
            values = {"k": draw.sample(range(6_000), 3)}
            assert found(looking, files, values, columns) == naive(values, columns)
            assert looking.cache.bytes <= 60_000

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(look, range(4)))


def test_damaged_and_missing_files(storage: Counting, files: tuple[DataFile, ...]) -> None:
    scan = scan_of(files, {"k": [5]})
    path = storage._full(files[0].path)
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"garbage")
    with pytest.raises(StorageError, match="is damaged"):
        lookups(storage).net_rows(scan, ["s"])
    os.unlink(path)
    with pytest.raises(StorageError, match="is missing"):
        lookups(storage).net_rows(scan, ["s"])


def test_another_number_of_rows_is_damage(storage: Counting, files: tuple[DataFile, ...]) -> None:
    wrong = replace(files[0], rows=ROWS - 1)
    with pytest.raises(StorageError, match="is damaged"):
        lookups(storage).net_rows(scan_of([wrong], {"k": [5]}), ["s"])


FEW = vk.Tuning(inlined_rows=0, whole_rows=0, picked_rows=0, page_rows=1)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_vacuumed_files_leave_the_cache(connect: Callable[..., vk.Database]) -> None:
    db = connect(durability="process", keep="0 seconds", tuning=FEW)
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, s STRING)")
    for number in range(3):
        with db.transaction() as tx:
            tx.insert("t", [(n, "x") for n in range(number * 10, number * 10 + 10)])
    with db.transaction() as tx:
        tx.delete_by_key("t", [(4,), (14,), (24,)])
    cache = db._store.lookups.cache

    def cached() -> set[str]:
        return {path for path, _ in cache._parts}

    before = cached()
    assert before
    db.compact()
    db.vacuum(grace=0)
    assert not before & cached()
    assert before.isdisjoint(file.path for file in db._store.refresh().find("t").files)
    assert db.sql("SELECT count(*) FROM t").rows() == [(27,)]
