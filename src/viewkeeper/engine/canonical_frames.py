"""Frames with canonical values: one NaN, no negative zero, maps sorted, as on the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.cast import cast_table
from viewkeeper.algebra.expressions import Expression, Name, call, case, cast, comparison, integer, string
from viewkeeper.algebra.rows import canonical
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import Engine, Frame


def canonical_frame(engine: Engine, frame: Frame, schema: Schema, *extra: str) -> Frame:
    """A frame of the schema's columns (and extra ones) with canonical values."""
    if any(c.type.is_nested and any(p.is_float or p.name == "map" for p in c.type.parts()) for c in schema):
        more = "".join(f", {name} bigint" for name in extra)
        return engine.in_python(frame, canonical_batches(schema), schema.ddl + more)
    return frame.select(*listed(*[(canonical_value(Name(c.name), c.type), c.name) for c in schema], *extra))


def canonical_batches(schema: Schema) -> Any:
    """A function over Arrow record batches that makes rows canonical, to run on the workers."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            plain = cast_table(table.select(list(range(len(schema)))), schema, "the load", "UTC")
            done = canonical(plain, schema)
            for index in range(len(schema), table.num_columns):
                done = done.append_column(table.schema.field(index), table.column(index))
            yield from done.combine_chunks().to_batches()

    return work


def canonical_value(value: Expression, kind: Type) -> Expression:
    """A value in which -0.0 is 0.0 and NaN has one sign: Sail orders a NaN that was negated before all numbers."""
    if not kind.is_float:
        return value
    zero = comparison("=", value, integer(0)), cast(integer(0), kind)
    return case((call("isnan", value), cast(string("NaN"), kind)), zero, default=value)
