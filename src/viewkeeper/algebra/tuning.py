"""The thresholds that decide where and how work is done. No answer depends on them, only what it costs to get it."""

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
    "set_parts": 1,
    "view_threads": 1,
}
"""The smallest value of a threshold, where it is not 0."""


@dataclass(frozen=True)
class Tuning:
    """Thresholds of one open database: `viewkeeper.connect(path, tuning=Tuning(small_rows=10_000))`."""

    small_rows: int = 100_000
    """Changes and results of up to so many rows are handled on the driver, without a query; more need much memory."""

    direct_rows: int = 1_000
    """Up to so many rows are sent along with a query; 15,000 took twice as long as in a scratch file, 10 as long."""

    whole_rows: int = 4_000
    """Relations of up to so many signed rows are read whole on the driver: that takes less time than a query."""

    picked_rows: int = 20_000
    """The same for files picked by keys; more, because only the rows with those keys are worked on."""

    cached_rows: int = 400_000
    """So many rows of small files stay in memory, those used last: the files never change."""

    stage_rows: int = 200_000
    """A larger relation is worth a query of its own to learn the keys it is read by, so that files are skipped."""

    driver_merge_rows: int = 300_000
    """Up to so many rows are compacted on the driver: for more, the engine is faster in spite of its query."""

    driver_join_rows: int = 20_000
    """A round of a recursion joins up to so many rows on the driver: for more, the engine is faster than Python."""

    any_column_rows: int = 1_000_000
    """A recursion reads relations of up to so many rows by any column: even without skipped files the scan is quick."""

    set_parts: int = 12
    """A set that grows in a recursion is written as one when it has more parts: each is a branch of every query."""

    file_rows: int = 100_000
    """Rows of a stored file: small enough that a few keys skip most of a relation."""

    merged_files: int = 12
    """So many files of about the same size are merged: with fewer, rows are rewritten more often; more are slow."""

    page_rows: int = 1_000
    """Rows of a page: the least of a column that is decoded for one key."""

    dictionary_bytes: int = 65_536
    """What the dictionary of a column may take; it is read whole for one key, so columns of many values have none."""

    sort_rows: int = 8_000_000
    """So many rows are sorted at a time on Sail, which sorts in memory."""

    load_rows: int = 500_000
    """A file loaded by way of the driver goes to scratch files of so many rows: few files, and little in memory."""

    load_bytes: int = 128 << 20
    """The same in bytes: wide rows must not fill the memory."""

    literal_keys: int = 20
    """Up to so many keys are given to the engine as literals; with longer lists engines no longer skip pages."""

    candidate_keys: int = 64
    """A file with more keys inside its range is read without a look at each; most likely it has one of them."""

    composite_keys: int = 5_000
    """Of more keys only the first column picks files; comparing all columns would take longer than it saves."""

    rows_per_value: int = 16
    """Composite keys are looked up by their first column where at most so many rows share a value of it."""

    negligible_rows: int = 10_000
    """Views over up to so many rows are maintained incrementally, unweighed: a full refresh would save nothing."""

    full_margin: float = 1.25
    """A full refresh has to be so many times cheaper: estimates are rough, and a view should not flip to and fro."""

    spare_queries: int = 2
    """A full refresh has to save so many queries besides: a few more or less are not foreseen."""

    large_share: int = 5
    """A recursion is computed in full if more than one row in so many of its inputs has changed."""

    shared_rows: int = 20_000
    """With more changed rows, a join that several views have is differentiated once; fewer are on the driver anyway."""

    view_threads: int = 4
    """So many views of a level are maintained at the same time; most of it is waiting for the engine."""

    topk_slack: int = 50
    """A top-k holds twice so many rows, or twice as many as asked for: that many deletes until it has to read again."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), LEAST.get(field.name, 0)
            kinds = (int, float) if field.name == "full_margin" else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
                what = "number" if len(kinds) > 1 else "whole number"
                raise SqlError(
                    f"{field.name} = {value!r} is not a {what} from {least} on",
                    hint=f"leave it out, or use for instance Tuning({field.name}={field.default})",
                )
