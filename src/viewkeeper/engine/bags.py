"""Signed bags on the engine: consolidation, which is a GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.types import quote
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.maps import as_entries, from_entries, hidden


def consolidated(frame: Frame, schema: Schema, *, guarded: bool = False) -> Frame:
    """The net rows: every row once, with its weight, zeros left out.

    `guarded`: values are NULL until the weight is known, so that no condition is tested on a deleted row.
    """
    names = [quote(name) for name in schema.names]
    total = grouped(frame, schema, (), {WEIGHT: "sum"})
    if guarded:
        shown = [f"{hidden(quote(c.name), c.type, '_vk_total <> 0')} AS {quote(c.name)}" for c in schema]
        total = total.select(*listed(*shown, "_vk_total"))
    return total.filter(parsed("_vk_total <> 0")).select(*listed(*names, f"_vk_total AS {WEIGHT}"))


def grouped(frame: Frame, schema: Schema, more: Sequence[str], aggregate: dict[str, str]) -> Frame:
    """GROUP BY the schema's columns and `more`; the one aggregate is named `_vk_total`."""
    names = [quote(name) for name in schema.names]
    if any(column.type.has_map() for column in schema):
        texts = [f"{as_entries(quote(c.name), c.type)} AS {quote(c.name)}" for c in schema]
        frame = frame.select(*listed(*texts, *more, *aggregate))
    total = frame.groupBy(*names, *more).agg(aggregate).toDF(*schema.names, *more, "_vk_total")
    if any(column.type.has_map() for column in schema):
        texts = [f"{from_entries(quote(c.name), c.type)} AS {quote(c.name)}" for c in schema]
        total = total.select(*listed(*texts, *more, "_vk_total"))
    return total


def grouped_sums(frame: Frame, schema: Schema, names: Sequence[str]) -> Frame:
    """GROUP BY the schema's columns; the sum of each named column `_vk_x` is `_vk_sx`."""
    labels = [quote(name) for name in schema.names]
    has_maps = any(column.type.has_map() for column in schema)
    if has_maps:
        texts = [f"{as_entries(quote(c.name), c.type)} AS {quote(c.name)}" for c in schema]
        frame = frame.select(*listed(*texts, *names))
    sums = [parsed(f"sum({name})").alias(name.replace("_vk_", "_vk_s")) for name in names]
    total = frame.groupBy(*labels).agg(*sums)
    if has_maps:
        texts = [f"{from_entries(quote(c.name), c.type)} AS {quote(c.name)}" for c in schema]
        total = total.select(*listed(*texts, *[name.replace("_vk_", "_vk_s") for name in names]))
    return total
