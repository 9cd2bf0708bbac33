"""The thresholds that decide where, how and when work is done. They change what a result costs, never the result."""

from __future__ import annotations

from dataclasses import dataclass, fields

from viewkeeper.errors import SqlError

LEAST = {
    "small_rows": 1,
    "page_rows": 1,
    "dictionary_bytes": 1,
    "sort_rows": 1,
    "file_rows": 1,
    "load_rows": 1,
    "load_bytes": 1,
    "merged_files": 2,
    "flushed_batches": 1,
    "flushed_rows": 1,
    "set_parts": 1,
    "view_threads": 1,
    "action_threads": 1,
    "action_attempts": 1,
    "runners_up": 1,
    "neighbors": 1,
}
"""The smallest value of a threshold, where it is not 0."""


TUPLES = 20_000
"""Rows from which on the engine is faster than a loop in Python."""


@dataclass(frozen=True)
class Tuning:
    """Thresholds of one open database: `viewkeeper.connect(path, tuning=Tuning(small_rows=10_000))`."""

    small_rows: int = 100_000
    """Most rows of a change or result handled on the driver, without a query; more would need much memory."""

    direct_rows: int = 1_000
    """Most rows sent inside a query, not as a scratch file: 10 rows take the same time either way, 15,000 twice."""

    whole_rows: int = 4_000
    """Most signed rows of a relation that the driver reads in full: below, that is faster than a query."""

    picked_rows: int = 20_000
    """The same for files picked by keys; higher, because only the rows with those keys are processed."""

    cached_rows: int = 400_000
    """Rows of small files cached in memory, the most recently used; a file counts as 20 rows at least."""

    cache_bytes: int = 256 << 20
    """Bytes of key columns and pages of data files cached in memory, the most recently used."""

    lookup_keys: int = 100_000
    """Most keys that the driver looks up in the files of a relation: for more, the engine is faster."""

    lookup_rows: int = 100_000
    """Most rows found by those keys; their columns are read page by page."""

    lookup_bytes: int = 512 << 20
    """Most bytes of pages decoded for one look-up, beside what is cached: for more, the engine is faster."""

    index_bytes: int = 32 << 20
    """Most bytes of key columns decoded for one look-up: later ones find them cached, so the first may be slow."""

    stage_rows: int = 200_000
    """For a larger relation, a query of its own first finds the keys it is read by, so that files can be skipped."""

    driver_merge_rows: int = 300_000
    """Most rows compacted on the driver: for more, the engine is faster in spite of the cost of a query."""

    driver_rows: int = 200_000
    """Most rows that an operator of a maintenance plan takes on the driver; with 0, all operators run on the engine."""

    kept_rows: int = 200_000
    """Rows of small relations that are kept on the driver between commits, for look-ups in recursions."""

    any_column_rows: int = 1_000_000
    """Most rows of a relation that a recursion reads by any column: a scan is quick even if no file is skipped."""

    set_parts: int = 12
    """Most parts of a growing set in a recursion before they are written as one: each is a branch of every query."""

    file_rows: int = 1_000_000
    """Rows of a stored file: each that is looked into costs as much as ten pages, and few are needed for many rows."""

    merged_files: int = 12
    """Files of similar size that are merged: fewer would rewrite rows more often, more would slow down reads."""

    inlined_rows: int = 4_000
    """Most rows of a commit that are written into its ledger entry, the smallest changes first; others go to files."""

    inlined_bytes: int = 1 << 20
    """The same in bytes, so that entries stay small."""

    flushed_batches: int = 32
    """Batches of a relation inside ledger entries that are flushed to a file: each is a part of every read of it."""

    flushed_rows: int = 10_000
    """The same in rows: an engine gets them inside every query that reads them."""

    held_bytes: int = 64 << 20
    """Bytes of ledger entries whose rows are held in memory; others are read from the entry when wanted."""

    page_rows: int = 250
    """Rows of a Parquet page: the least that is decoded of a column for one key."""

    dictionary_bytes: int = 65_536
    """Largest dictionary of a column; it is read in full for one key, so columns of many values have none."""

    sort_rows: int = 8_000_000
    """Rows that Sail, which sorts in memory, sorts at a time."""

    load_rows: int = 500_000
    """Rows per scratch file when the driver loads a file: few files, and little memory."""

    load_bytes: int = 128 << 20
    """The same in bytes, so that wide rows do not fill the memory."""

    literal_keys: int = 20
    """Most keys given to the engine as literals: with longer lists engines no longer skip pages."""

    candidate_keys: int = 64
    """A file with more keys inside its bounds is read without checking each key: most likely it holds one of them."""

    composite_keys: int = 5_000
    """With more composite keys, only their first column picks files: comparing all would cost more than it saves."""

    rows_per_value: int = 16
    """Most rows per value of the first column of composite keys for a lookup by that column alone."""

    negligible_rows: int = 10_000
    """Views over at most this many rows are always maintained incrementally: a full refresh would save nothing."""

    full_margin: float = 1.25
    """How many times cheaper a full refresh must be: estimates are rough, and views should not alternate."""

    spare_queries: int = 2
    """Queries that a full refresh must save besides: a difference of a few queries cannot be predicted."""

    large_share: int = 5
    """A recursion is recomputed if more than one in this many rows of its inputs has changed."""

    shared_rows: int = 20_000
    """With more changed rows, a join that views share is differentiated once; fewer stay on the driver anyway."""

    view_threads: int = 4
    """Views of a level that are maintained at the same time; most of the time they wait for the engine."""

    action_threads: int = 16
    """Detached rules whose actions run at the same time: a webhook that is slow to answer only waits."""

    action_attempts: int = 8
    """Attempts of a detached action before its firing is parked: with the pauses between them an hour and a half."""

    retry_seconds: float = 1.0
    """Seconds until a detached action that failed is tried again; four times as long after each further failure."""

    topk_slack: int = 50
    """A top-k holds twice this many rows, or twice its LIMIT if that is more; the rest is the buffer for deletes."""

    runners_up: int = 64
    """Values kept behind each minimum and maximum of a large group, for when it is deleted; at most twice as many."""

    neighbors: int = 64
    """Values kept on either side of a percentile of a large group, for when it moves; at most 16 times as many."""

    large_group: int = 1_000
    """Rows of a large group: a smaller one is read again when it loses an extremum, and for its percentiles."""

    @property
    def tuple_rows(self) -> int:
        """Most rows that the driver takes one by one, as rounds of a recursion do; as columns it takes more."""
        return min(self.driver_rows, TUPLES)

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), LEAST.get(field.name, 0)
            kinds = (int, float) if isinstance(field.default, float) else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
                what = "number" if len(kinds) > 1 else "whole number"
                raise SqlError(
                    f"{field.name} = {value!r} is not a {what} from {least} on",
                    hint=f"leave it out, or use for instance Tuning({field.name}={field.default})",
                )
