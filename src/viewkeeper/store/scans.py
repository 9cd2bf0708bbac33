"""Reading a relation at an epoch: files picked by bounds on the driver, then one frame of signed rows.

Inlined batches are picked like files; their rows are sent with the query. The frame has the relation's columns and
`_weight`, not consolidated. `net_frame` makes net rows with weights of it,
`plain_frame` plain rows with duplicates repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewkeeper.algebra.expressions import Expression, Name, comparison, conjunction, disjunction, integer, is_null
from viewkeeper.algebra.rows import rows_among
from viewkeeper.algebra.schema import EPOCH, WEIGHT, Schema
from viewkeeper.algebra.types import quote
from viewkeeper.analysis.ranges import Ranges
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.engine.bags import consolidated
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Engine, Frame
from viewkeeper.engine.operator_parts import copies
from viewkeeper.log.storage import Storage
from viewkeeper.store.batches import stored_frame
from viewkeeper.store.bounds import Keys
from viewkeeper.store.file_reading import read_file


@dataclass(frozen=True)
class Source:
    """The parts of a relation at an epoch: committed files, and the rows of an open transaction."""

    schema: Schema
    files: tuple[DataFile, ...]
    epoch: int
    staged: tuple[DataFile, ...] = ()
    rows: pa.Table | None = None


@dataclass(frozen=True)
class Scan:
    """The part of a source that may hold the wanted rows."""

    source: Source
    files: tuple[DataFile, ...]
    rows: pa.Table | None
    total_files: int
    keys: Keys | None = field(default=None, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs to be read."""
        return not self.files and not self.has_rows

    @property
    def file_rows(self) -> int:
        """The number of signed rows of its files."""
        return sum(file.rows for file in self.files)

    @property
    def has_rows(self) -> bool:
        """Whether an open transaction adds rows from the driver."""
        return self.rows is not None and self.rows.num_rows > 0

    @property
    def has_deletions(self) -> bool:
        """Whether any weight may be negative, so that rows may cancel."""
        if any(file.low_weight < 0 for file in self.files):
            return True
        return self.has_rows and bool((self._weights < 0).any())

    @property
    def has_repeats(self) -> bool:
        """Whether any weight may be other than one."""
        if self.has_deletions or any(file.high_weight > 1 for file in self.files):
            return True
        return self.has_rows and bool((self._weights != 1).any())

    @property
    def _weights(self) -> npt.NDArray[np.int64]:
        assert self.rows is not None
        found: npt.NDArray[np.int64] = self.rows[WEIGHT].to_numpy()
        return found


def pick(
    source: Source, keys: Keys | None = None, ranges: Ranges | None = None, *, with_deletions: bool = False
) -> Scan:
    """Picks files by their bounds: those that may hold a key, or a row inside the ranges.

    `with_deletions` adds the files that may delete any row of those, so that no deleted row is returned, even with
    another key.
    """
    everything = (*source.files, *source.staged) if source.staged else source.files
    chosen = list(everything) if keys is None else keys.files_that_may_hold(everything)
    if ranges is not None:
        chosen = [file for file in chosen if ranges.may_be_in(file.bounds)]
    if with_deletions:
        deleting = [file for file in everything if file.low_weight < 0 and file not in chosen]
        todo = list(chosen)
        while todo and deleting:
            file = todo.pop()
            more = [other for other in deleting if _may_share_rows(file, other)]
            deleting = [other for other in deleting if other not in more]
            chosen += more
            todo += more
    return Scan(source, tuple(chosen), source.rows, len(everything), keys)


def _may_share_rows(one: DataFile, other: DataFile) -> bool:
    """Whether two files may hold the same row."""
    return all(bound.may_share(other.bounds[name]) for name, bound in one.bounds.items() if name in other.bounds)


def signed_frame(engine: Engine, storage: Storage, scan: Scan) -> Frame:
    """The scan's rows as a frame of columns and `_weight`; only rows with one of the keys, if it has keys."""
    schema = scan.source.schema
    frames: list[Frame] = []
    files = [file for file in scan.files if not file.is_inlined]
    if files:
        late = scan.keys is not None and len(scan.keys) > engine.tuning.literal_keys
        frame = stored_frame(engine, storage, files, schema, late=late)
        epoch = Name(EPOCH)
        if any(file.merged and file.last_epoch > scan.source.epoch for file in files):
            frame = frame.filter(
                parsed(disjunction((is_null(epoch), comparison("<=", epoch, integer(scan.source.epoch)))))
            )
        frames.append(frame.drop(EPOCH))
    parts = _inlined_rows(storage, scan, most_keys=engine.tuning.direct_rows)
    if scan.rows is not None and scan.has_rows:
        parts.append(scan.rows)
    if parts or not frames:
        rows = pa.concat_tables(parts) if parts else schema.signed_arrow.empty_table()
        # a scratch file lives as long as the transaction, but a frame of committed rows alone may be read later
        frames.append(engine.arrow(rows, schema, f"{WEIGHT} bigint", direct=not scan.has_rows))
    frame = engine.union(frames)
    return frame if scan.keys is None else engine.bind(frame, scan.keys.table, scan.keys.schema)


def within_epochs(since: int, until: int) -> Expression:
    """Whether a stored row was added after one epoch, and not after another."""
    epoch = Name(EPOCH)
    return conjunction((comparison(">", epoch, integer(since)), comparison("<=", epoch, integer(until))))


def _inlined_rows(storage: Storage, scan: Scan, most_keys: int) -> list[pa.Table]:
    """The rows of the scan's inlined batches; of few keys, only those with one of them."""
    found = [read_file(storage, file, scan.source.schema) for file in scan.files if file.is_inlined]
    if not found:
        return []
    rows = pa.concat_tables(found).drop_columns([EPOCH])
    if scan.keys is not None and len(scan.keys) <= most_keys:
        rows = rows_among(rows, scan.keys.schema.names, scan.keys.table)
    return [rows] if rows.num_rows else []


def net_frame(engine: Engine, storage: Storage, scan: Scan) -> Frame:
    """The scan's net rows with their weights, consolidated only where rows can cancel or repeat."""
    frame = signed_frame(engine, storage, scan)
    if scan.has_deletions or not scan.source.schema.is_set:
        return consolidated(frame, scan.source.schema, guarded=scan.has_deletions)
    return frame


def plain_frame(engine: Engine, storage: Storage, scan: Scan, *, guarded: bool) -> Frame:
    """The scan's rows as a user sees them: no weights, duplicates repeated."""
    frame = signed_frame(engine, storage, scan)
    names = [quote(name) for name in scan.source.schema.names]
    repeats = scan.has_repeats and not scan.source.schema.is_set
    # guarded if rows repeat: Sail would take the grouping columns for a key after the explode, but not computed ones
    if scan.has_deletions:
        frame = consolidated(frame, scan.source.schema, guarded=guarded or repeats)
    if repeats:
        frame = frame.select(*listed(*names, (copies(Name(WEIGHT)), "_vk_copy")))
    return frame.select(*listed(*names))
