"""Scratch files: frames computed once, so that later uses read instead of computing again."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.algebra.schema import Schema
from viewkeeper.engine.engine import Frame
from viewkeeper.store.store import Store


def materialize(store: Store, frame: Frame, schema: Schema, extra: str) -> tuple[Frame, int]:
    """A frame over scratch files with the rows of another, and their number."""
    path = store.scratch_path()
    store.engine.write(frame, store.storage.url(path))
    return adopt_scratch(store, path, schema, extra)


def adopt_scratch(store: Store, path: str, schema: Schema, extra: str) -> tuple[Frame, int]:
    """Scratch files as a frame, and how many rows they hold."""
    files = [item.path for item in store.storage.list(path) if item.path.endswith(".parquet") and item.size]
    if not files:
        return store.engine.arrow(_empty(schema, extra), schema, extra), 0
    frame = store.engine.files([store.storage.url(file) for file in files], schema, extra)
    if store.storage.local:
        return frame, sum(pq.read_metadata(store.storage.url(file)).num_rows for file in files)
    return frame, store.engine.count(frame)


def _empty(schema: Schema, extra: str) -> pa.Table:
    return (schema.signed_arrow if extra else schema.arrow).empty_table()
