"""Look-ups on the driver: the rows with a few keys, from files of any size, without the engine.

The key columns of the files that are looked into become sorted indexes, which find the rows; of the other columns only
the pages with those rows are read. Indexes and decoded pages are cached, because a file never changes.

    net(σ[key ∈ K](F1 ⊎ ... ⊎ Fn)) = net(F1[rows of K] ⊎ ... ⊎ Fn[rows of K])        rows of K: by the index of each Fi

Beyond some limits (keys, rows, bytes to decode) the engine is faster, and reads.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.rows import canonical, consolidate, rows_among
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Column, Schema
from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.running import check_stopped, side_by_side
from viewkeeper.log.checksums import check_files, damaged_file
from viewkeeper.log.storage import Storage
from viewkeeper.store.bounds import Keys, is_whole
from viewkeeper.store.byte_cache import ByteCache
from viewkeeper.store.file_reading import unreadable
from viewkeeper.store.key_index import Codes, KeyIndex, Numbers, Wanted, can_index, codes_of, is_exact
from viewkeeper.store.parquet_footer import Span
from viewkeeper.store.parquet_pages import Layout, NotPages, PagedColumn, ReadSpans, decode_pages, read_layout
from viewkeeper.store.scans import Scan, Source
from viewkeeper.store.small_files import SmallFiles

T = TypeVar("T")

LAYOUT, BOUNDS = "_vk_layout", "_vk_bounds"
"""Parts of files in the cache; pages are there under the name of their column, indexes under those of theirs."""

MOST_PAGES = 0.5
"""The share of a column's pages from which on all of it is decoded, for an index."""

OFTEN = 6
"""The number of decoded pages of a file's key column from which on all of it is decoded: others will be wanted too."""

OFTEN_IN = 16_000
"""In larger files so many more: a decoded page for every so many rows."""

MOST_CACHED = 1 / 32
"""The share of the cache that one look-up may fill with pages. Those of thousands of keys are not wanted again."""

PAGE_OVERHEAD = 300
"""About how many bytes a decoded page takes beside its values."""

PAGE_COST = 4 << 10
"""A page takes as long to decode as so many more bytes of it would."""

WIDTHS = {"string": 24, "binary": 24, "decimal": 16}
"""About how many bytes a value takes, where it is not 8."""

TAILS = 256
"""Relations whose inlined batches are kept as one table; a flush bounds their rows."""

REMOTE_THREADS = 16
"""Files of an object store that are read at the same time: most of the time is spent waiting."""

_BIGINT = Type("bigint")

_Pages: TypeAlias = dict[int, pa.Array]
"""The values of pages, by their numbers."""


@dataclass(frozen=True)
class Found:
    """The net signed rows with some keys, and how many signed rows of files these come from."""

    rows: pa.Table
    looked_at: int


@dataclass(frozen=True)
class _Hit:
    """The rows of a file that may have one of the keys, and for each the number of a key with its code."""

    file: DataFile
    rows: Numbers
    numbers: Numbers


@dataclass(frozen=True)
class _Places:
    """The pages that have some rows, and where the rows are in these pages one after the other."""

    needed: list[int]
    rows: pa.Array


@dataclass(frozen=True)
class _Plan:
    """What to read for a hit: columns, their pages, and where its rows are in these."""

    hit: _Hit
    columns: Schema
    paged: list[PagedColumn]
    places: list[_Places]


class _Search:
    """The codes of keys: of all their columns, and of the first column alone."""

    def __init__(self, keys: Keys) -> None:
        self.schema = Schema(keys.schema.columns)
        self.table = canonical(keys.table, self.schema).combine_chunks()
        self.all = Wanted.of(self._codes(self.schema))
        self.first_schema = Schema(self.schema.columns[:1])
        several = len(self.schema) > 1 and is_exact(self.first_schema)
        self.first = Wanted.of(self._codes(self.first_schema)) if several else None

    def _codes(self, schema: Schema) -> Codes:
        return codes_of([self.table.column(name) for name in schema.names], schema)

    @property
    def is_exact(self) -> bool:
        return is_exact(self.schema)


@dataclass(frozen=True)
class _Tail:
    """The rows of the inlined batches of a relation, and the codes of the columns that they were looked up by."""

    files: tuple[DataFile, ...]
    rows: pa.Table
    codes: dict[tuple[str, ...], Codes] = field(default_factory=dict)

    def rows_with(self, search: _Search) -> pa.Table:
        """The rows that may have one of the keys."""
        names = tuple(search.schema.names)
        if names not in self.codes:
            self.codes[names] = codes_of([self.rows.column(name) for name in names], search.schema)
        return self.rows.take(pa.array(search.all.among(self.codes[names])[0]))


class Lookups:
    """Finds rows by keys in the files of a database; what it decodes is cached."""

    def __init__(self, storage: Storage, engine: Engine, small: SmallFiles) -> None:
        self.storage = storage
        self.engine = engine
        self.small = small
        self.tuning = engine.tuning
        self.cache = ByteCache(self.tuning.cache_bytes)
        self._tails: OrderedDict[str, _Tail] = OrderedDict()
        self._lock = threading.Lock()

    def net_rows(self, scan: Scan, columns: Sequence[str]) -> Found | None:
        """The net of the rows of a scan's files with one of its keys, with some columns; None if the engine is to read.

        Rows that an open transaction has on the driver are not among them.
        """
        keys, schema = scan.keys, scan.source.schema
        if keys is None or not 0 < len(keys) <= self.tuning.lookup_keys:
            return None
        wanted = schema.subset(dict.fromkeys([*columns, *keys.schema.names]))
        if not all(can_index(column.type) for column in wanted):
            return None
        search, epoch = _Search(keys), scan.source.epoch
        small = [file for file in scan.files if not file.is_inlined and file.rows <= self.tuning.page_rows]
        large = [file for file in scan.files if not file.is_inlined and file.rows > self.tuning.page_rows]
        if self._bytes_to_index(search, schema, large) > self.tuning.index_bytes:
            return None
        try:
            hits = self._hits(search, large)
            if hits is None:
                return None
            read = wanted if not search.is_exact else schema.subset(c for c in columns if c not in keys.schema.names)
            plans = [self._plan(hit, read, epoch) for hit in hits]
            todo = sum(map(self._bytes_to_decode, plans))
            if todo > self.tuning.lookup_bytes:
                return None
            many = todo > self.tuning.cache_bytes * MOST_CACHED
            values = self._values_at_once if many else self._values
            rows_of = partial(self._rows_of, values, search, wanted, epoch)
            parts = list(self._each(rows_of, plans, many=many))
        except _OtherColumns:
            return None
        if small:
            parts.append(self._small_rows(small, search, schema, wanted, epoch))
        if any(file.is_inlined for file in scan.files):
            parts.append(self._tail(scan.source).rows_with(search).select([*wanted.names, WEIGHT]))
        rows = pa.concat_tables(parts) if parts else wanted.signed_arrow.empty_table()
        if not search.is_exact:
            rows = rows_among(rows, search.schema.names, search.table)
        return Found(consolidate(rows.select([*columns, WEIGHT]), schema.key_among(columns)), rows.num_rows)

    def forget(self, files: Iterable[DataFile]) -> None:
        """Drops the tails that begin with one of some inlined batches: a flush has replaced them."""
        with self._lock:
            for file in files:
                self._tails.pop(file.path, None)

    def keep_only(self, paths: Iterable[str]) -> None:
        """Drops what is cached of files that are not among these."""
        there = set(paths)
        self.cache.drop_files(lambda path: path not in there)

    def _small_rows(
        self, files: Sequence[DataFile], search: _Search, schema: Schema, wanted: Schema, epoch: int
    ) -> pa.Table:
        """The rows of files of one page, which are read in full, up to an epoch."""
        parts = []
        for file in files:
            rows = self.small.read(file, schema)
            if file.merged and file.last_epoch > epoch:
                rows = rows.filter(pc.less_equal(rows[EPOCH], epoch))
            parts.append(rows.select([*wanted.names, WEIGHT]))
        together = pa.concat_tables(parts)
        codes = codes_of([together.column(name) for name in search.schema.names], search.schema)
        return together.take(pa.array(search.all.among(codes)[0]))

    def _tail(self, source: Source) -> _Tail:
        """The rows of all inlined batches of a relation. They are kept, and the next time only newer ones are read."""
        files = tuple(file for file in source.files if file.is_inlined)
        first = files[0].path
        with self._lock:
            tail = self._tails.get(first)
        if tail is None or files[: len(tail.files)] != tail.files or tail.rows.schema != source.schema.stored_arrow:
            tail = _Tail((), source.schema.stored_arrow.empty_table())
        if len(tail.files) < len(files):
            newer = (self.small.read(file, source.schema) for file in files[len(tail.files) :])
            tail = _Tail(files, pa.concat_tables([tail.rows, *newer]).combine_chunks())
            with self._lock:
                self._tails[first] = tail
                self._tails.move_to_end(first)
                while len(self._tails) > TAILS:
                    self._tails.popitem(last=False)
        return tail

    # which rows ------------------------------------------------------------------------------------

    def _bytes_to_index(self, search: _Search, schema: Schema, files: Sequence[DataFile]) -> int:
        """About how many bytes of key columns have to be decoded before the keys can be looked up."""
        names = tuple(search.schema.names)
        first = search.first_schema if search.first is not None else search.schema
        if tuple(first.names) == schema.sort_columns[:1] and is_whole(first.columns[0].type):
            return 0  # the pages that may have a key are known
        width = sum(_width(column.type) for column in first)
        missing = (
            file.rows
            for file in files
            if self.cache.get(file.path, names) is None and self.cache.get(file.path, tuple(first.names)) is None
        )
        return width * sum(missing)

    def _hits(self, search: _Search, files: Sequence[DataFile]) -> list[_Hit] | None:
        """The rows of each file that may have one of the keys; None if they are too many."""
        hits: list[_Hit] = []
        total = 0
        for hit in self._each(lambda file: self._find(search, file), files):
            total += len(hit.rows)
            if total > self.tuning.lookup_rows:
                return None
            if len(hit.rows):
                hits.append(hit)
        return hits

    def _find(self, search: _Search, file: DataFile) -> _Hit:
        if search.first is not None and self.cache.get(file.path, tuple(search.schema.names)) is None:
            most = self.tuning.rows_per_value * len(search.first.values)  # for more, an index of all columns is better
            found = self._find_by_pages(search.first, search.first_schema, file)
            if found is None:
                index = self._index(file, search.first_schema)
                found = _Hit(file, *index.find(search.first)) if index.count(search.first) <= most else None
            if found is not None and len(found.rows) <= most:
                return found
        elif search.is_exact:
            found = self._find_by_pages(search.all, search.schema, file)
            if found is not None:
                return found
        return _Hit(file, *self._index(file, search.schema).find(search.all))

    def _find_by_pages(self, wanted: Wanted, schema: Schema, file: DataFile) -> _Hit | None:
        """The rows of a file with some values of a column that it is sorted by, from the pages that may have them.

        None if the file is not sorted by it, as far as its page index shows, or if an index is better.
        """
        (column,) = schema.columns
        bounds = self._page_bounds(file, column)
        if bounds is None or wanted.null is not None or self.cache.get(file.path, (column.name,)) is not None:
            return None
        lows, highs = bounds
        wanted = wanted.between(lows[0], highs[-1])
        pages = pages_between(highs.searchsorted(wanted.values, "left"), lows.searchsorted(wanted.values, "right"))
        had = self.cache.get(file.path, column.name) or ()
        often = len(had) >= max(OFTEN, file.rows // OFTEN_IN)
        if len(pages) > len(lows) * MOST_PAGES or (often and self._has_room(file)):
            return None
        (paged,) = self._paged(file, (column,), self._reader(file))
        (values,) = self._pages(file, Schema((column,)), [paged], [pages])
        if not pages:
            return _Hit(file, np.empty(0, np.int64), np.empty(0, np.int64))
        found, numbers = wanted.among(codes_of([pa.concat_arrays([values[page] for page in pages])], schema))
        return _Hit(file, np.concatenate([paged.rows_of(page) for page in pages])[found], numbers)

    def _has_room(self, file: DataFile) -> bool:
        """Whether an index of a file does not drive others out of the cache."""
        return self.cache.bytes + 8 * file.rows <= self.cache.most

    def _page_bounds(self, file: DataFile, column: Column) -> tuple[Numbers, Numbers] | None:
        """The least and greatest values of the pages of a column of integers, if they ascend."""
        if not is_whole(column.type):
            return None
        name = (BOUNDS, column.name)
        known = self.cache.get(file.path, name)
        if known is None:
            with self.cache.loading(file.path):
                known = self.cache.get(file.path, name)
                if known is None:
                    read = self._reader(file)
                    found = self._paged(file, (column,), read)[0].bounds(read)
                    known = () if found is None else tuple(part.astype(_number_type(column.type)) for part in found)
                    self.cache.put(file.path, name, known, PAGE_OVERHEAD + sum(part.nbytes for part in known))
        return known or None

    def _index(self, file: DataFile, schema: Schema) -> KeyIndex:
        """The index of some columns of a file."""
        name = tuple(schema.names)
        found: KeyIndex | None = self.cache.get(file.path, name)
        if found is not None:
            return found
        with self.cache.loading(file.path):
            found = self.cache.get(file.path, name)
            if found is None:
                read = self._reader(file)
                paged = self._paged(file, schema, read)
                parts = self._decoded(file, schema, paged, [each.all_pages() for each in paged], read)
                found = KeyIndex.of(codes_of([pa.chunked_array(values) for values in parts], schema))
                self.cache.put(file.path, name, found, found.nbytes)
            return found

    # their values ----------------------------------------------------------------------------------

    def _plan(self, hit: _Hit, read: Schema, epoch: int) -> _Plan:
        """Which pages of which columns have some rows."""
        columns = _stored(hit.file, read, epoch)
        plan = _Plan(hit, columns, self._paged(hit.file, columns, self._reader(hit.file)), [])
        known: dict[int, _Places] = {}
        for paged in plan.paged:
            places = known.get(id(paged.first_rows))  # mostly the pages of all columns begin with the same rows
            if places is None:
                places = known[id(paged.first_rows)] = _places(paged.first_rows, hit.rows)
            plan.places.append(places)
        return plan

    def _bytes_to_decode(self, plan: _Plan) -> int:
        """About how many bytes of pages have to be decoded."""
        had = self._cached(plan.hit.file, plan.columns)
        return sum(
            (paged.page_bytes + PAGE_COST) * len(_missing(pages, places.needed))
            for paged, places, pages in zip(plan.paged, plan.places, had, strict=True)
        )

    def _rows_of(
        self, values: Callable[[_Plan], list[pa.Array]], search: _Search, wanted: Schema, epoch: int, plan: _Plan
    ) -> pa.Table:
        """The rows of a hit up to an epoch, with their weights. `values` gives those of the planned columns."""
        hit = plan.hit
        arrays = dict(zip(plan.columns.names, values(plan), strict=True))
        for name in search.schema.names:
            if name not in arrays:  # the codes are exact, so the row has the value of the key
                arrays[name] = search.table.column(name).chunk(0).take(pa.array(hit.numbers))
        if WEIGHT not in arrays:
            arrays[WEIGHT] = pa.array(np.full(len(hit.rows), hit.file.low_weight, np.int64))
        rows = pa.table([arrays[name] for name in (*wanted.names, WEIGHT)], schema=wanted.signed_arrow)
        return rows.filter(pc.less_equal(arrays[EPOCH], epoch)) if EPOCH in arrays else rows

    def _values(self, plan: _Plan) -> list[pa.Array]:
        """The values of the planned columns and rows."""
        needed = [places.needed for places in plan.places]
        pages = self._pages(plan.hit.file, plan.columns, plan.paged, needed)
        return [_taken(had, places) for had, places in zip(pages, plan.places, strict=True)]

    def _values_at_once(self, plan: _Plan) -> list[pa.Array]:
        """The same from pages that are not cached."""
        needed = [places.needed for places in plan.places]
        decoded = self._decoded(plan.hit.file, plan.columns, plan.paged, needed, self._reader(plan.hit.file))
        return [
            (parts[0] if len(parts) == 1 else pa.concat_arrays(parts)).take(places.rows)
            for parts, places in zip(decoded, plan.places, strict=True)
        ]

    def _pages(
        self, file: DataFile, columns: Schema, paged: Sequence[PagedColumn], needed: Sequence[list[int]]
    ) -> list[_Pages]:
        """The values of pages of some columns, at least of the needed ones: from the cache, or read and cached."""
        pages = self._cached(file, columns)
        if not any(_missing(had, numbers) for had, numbers in zip(pages, needed, strict=True)):
            return pages
        with self.cache.loading(file.path):
            pages = self._cached(file, columns)
            missing = [_missing(had, numbers) for had, numbers in zip(pages, needed, strict=True)]
            decoded = self._decoded(file, columns, paged, missing, self._reader(file))
            for number, (each, new, parts) in enumerate(zip(paged, missing, decoded, strict=True)):
                if new:
                    more = dict(zip(new, _split(each, new, parts), strict=True))
                    size = sum(array.nbytes + PAGE_OVERHEAD for array in more.values())
                    pages[number] = self.cache.add(file.path, each.name, more, size)
        return pages

    def _cached(self, file: DataFile, columns: Schema) -> list[_Pages]:
        return [had or {} for had in self.cache.get_all(file.path, columns.names)]

    # reading ---------------------------------------------------------------------------------------

    def _paged(self, file: DataFile, columns: Iterable[Column], read: ReadSpans) -> list[PagedColumn]:
        """The pages of some columns of a file."""
        layout: Layout | None = self.cache.get(file.path, LAYOUT)
        if layout is None:
            with self.cache.loading(file.path):
                layout = self._layout(file, read)
        names = [column.name for column in columns]
        try:
            found = layout.columns(names, read)
        except NotPages as problem:
            raise unreadable(file.path, problem) from problem
        there = [paged for paged in found if paged is not None]
        if len(there) < len(names):
            raise _OtherColumns(", ".join(names))
        return there

    def _layout(self, file: DataFile, read: ReadSpans) -> Layout:
        found: Layout | None = self.cache.get(file.path, LAYOUT)
        if found is None:
            try:
                found = read_layout(file.size, read)
            except NotPages as problem:
                raise unreadable(file.path, problem) from problem
            if found.rows != file.rows:
                raise damaged_file(file, f"it has {found.rows:,} rows, the ledger says {file.rows:,}")
            self.cache.put(file.path, LAYOUT, found, found.nbytes)
        return found

    def _reader(self, file: DataFile) -> ReadSpans:
        """Reads spans of a file, whose bytes are checked before the first."""
        checked = False

        def read(spans: Sequence[Span]) -> list[bytes]:
            nonlocal checked
            if not checked:
                check_files(self.storage, [file], far=self.engine.kind != "sail")
                checked = True
            return self.storage.ranges(file.path, spans)

        return read

    def _decoded(
        self,
        file: DataFile,
        columns: Schema,
        paged: Sequence[PagedColumn],
        wanted: Sequence[list[int]],
        read: ReadSpans,
    ) -> list[list[pa.Array]]:
        """The values of some pages of some columns, one after the other, in one array per row group.

        Columns of which the same rows are wanted are decoded together.
        """
        together: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for number, (each, pages) in enumerate(zip(paged, wanted, strict=True)):
            if pages:
                together.setdefault((id(each.first_rows), tuple(pages)), []).append(number)
        jobs = [
            (pages, sum(map(paged[numbers[0]].rows_in, pages)), [(n, paged[n].chunks[chunk]) for n in numbers])
            for (_, chosen), numbers in together.items()
            for chunk, pages in paged[numbers[0]].by_chunk(chosen)
        ]
        spans = [chunk.spans(pages) for pages, _, chunks in jobs for _, chunk in chunks]
        data = iter(read([span for each in spans for span in each]))
        bytes_of = iter([[next(data) for _ in each] for each in spans])
        found: list[list[pa.Array]] = [[] for _ in paged]
        for pages, rows, chunks in jobs:
            try:
                values = decode_pages({paged[n].name: (chunk, next(bytes_of)) for n, chunk in chunks}, pages, rows)
                for n, _ in chunks:
                    found[n].append(_as_array(values.column(paged[n].name), columns.columns[n].type))
            except (NotPages, OSError, pa.ArrowException) as problem:
                raise unreadable(file.path, problem) from problem
        return found

    def _each(self, work: Callable[[Any], T], items: Sequence[Any], *, many: bool = False) -> Iterable[T]:
        """The results for several files: of an object store, or if `many` pages are decoded, several at a time."""
        if len(items) < 2 or (self.storage.local and not many):
            for item in items:
                check_stopped()
                yield work(item)
        else:
            yield from side_by_side(work, items, (os.cpu_count() or 2) if self.storage.local else REMOTE_THREADS)


class _OtherColumns(Exception):
    """A file does not have a column of the relation in the form in which this reads it."""


def _split(paged: PagedColumn, pages: list[int], parts: Sequence[pa.Array]) -> Iterator[pa.Array]:
    """The values page by page; a part holds several pages."""
    start, left = 0, iter(parts)
    values = next(left)
    for page in pages:
        if start == len(values):
            start, values = 0, next(left)
        yield values.slice(start, paged.rows_in(page))
        start += paged.rows_in(page)


def _as_array(values: pa.ChunkedArray, kind: Type) -> pa.Array:
    if values.type != kind.arrow:
        values = values.cast(kind.arrow)
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)


def _number_type(kind: Type) -> str:
    """The NumPy type of the codes of integers, dates and timestamps."""
    return f"int{INTEGERS.get(kind.name, 32 if kind.name == 'date' else 64)}"


def _width(kind: Type) -> int:
    return WIDTHS.get(kind.name, 8)


def _stored(file: DataFile, read: Schema, epoch: int) -> Schema:
    """The columns to read of a file: also the weight unless all rows have the same, and the epoch if some are later."""
    more = [WEIGHT] if file.low_weight != file.high_weight else []
    if file.merged and file.last_epoch > epoch:
        more.append(EPOCH)
    return Schema((*read.columns, *(Column(name, _BIGINT) for name in more)))


def pages_between(starts: Numbers, stops: Numbers) -> list[int]:
    """The pages from a start to before its stop, for any of some pairs that ascend."""
    inside = starts < stops
    starts, stops = starts[inside], stops[inside]
    starts = np.maximum(starts, np.concatenate(([0], stops[:-1])))
    counts = np.maximum(stops - starts, 0)
    pages: list[int] = (np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())).tolist()
    return pages


def _places(first_rows: Numbers, rows: Numbers) -> _Places:
    pages = first_rows.searchsorted(rows, "right") - 1
    needed, which = np.unique(pages, return_inverse=True)
    sizes = first_rows[needed + 1] - first_rows[needed]
    before = np.cumsum(sizes) - sizes
    return _Places(needed.tolist(), pa.array(rows - first_rows[pages] + before[which]))


def _missing(had: _Pages, needed: list[int]) -> list[int]:
    return [page for page in needed if page not in had]


def _taken(pages: _Pages, places: _Places) -> pa.Array:
    if len(places.needed) == 1:
        return pages[places.needed[0]].take(places.rows)
    return pa.concat_arrays([pages[page] for page in places.needed]).take(places.rows)
