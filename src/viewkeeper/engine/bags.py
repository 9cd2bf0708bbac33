"""Signed bags on the engine: consolidation, which is a GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.algebra.expressions import Name, call, comparison, integer
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.types import quote
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.maps import as_entries, from_entries, hidden

IS_THERE = comparison("<>", Name("_vk_total"), integer(0))
"""Whether the weights of a row do not cancel."""


def consolidated(frame: Frame, schema: Schema, *, guarded: bool = False) -> Frame:
    """The net rows: every row once, with its weight, zeros left out.

    `guarded`: values are NULL until the weight is known, so that no condition is tested on a deleted row.
    """
    names = [quote(name) for name in schema.names]
    total = grouped(frame, schema, (), {WEIGHT: "sum"})
    if guarded:
        shown = [(hidden(Name(c.name), c.type, IS_THERE), c.name) for c in schema]
        total = total.select(*listed(*shown, "_vk_total"))
    return total.filter(parsed(IS_THERE)).select(*listed(*names, ("_vk_total", WEIGHT)))


def grouped(frame: Frame, schema: Schema, more: Sequence[str], aggregate: dict[str, str]) -> Frame:
    """GROUP BY the schema's columns and `more`; the one aggregate is named `_vk_total`."""
    names = [quote(name) for name in schema.names]
    if any(column.type.has_map() for column in schema):
        items = [(as_entries(Name(c.name), c.type), c.name) for c in schema]
        frame = frame.select(*listed(*items, *more, *aggregate))
    total = frame.groupBy(*names, *more).agg(aggregate).toDF(*schema.names, *more, "_vk_total")
    if any(column.type.has_map() for column in schema):
        items = [(from_entries(Name(c.name), c.type), c.name) for c in schema]
        total = total.select(*listed(*items, *more, "_vk_total"))
    return total


def grouped_sums(frame: Frame, schema: Schema, names: Sequence[str]) -> Frame:
    """GROUP BY the schema's columns; the sum of each named column `_vk_x` is `_vk_sx`."""
    labels = [quote(name) for name in schema.names]
    has_maps = any(column.type.has_map() for column in schema)
    if has_maps:
        items = [(as_entries(Name(c.name), c.type), c.name) for c in schema]
        frame = frame.select(*listed(*items, *names))
    sums = [parsed(call("sum", Name(name))).alias(name.replace("_vk_", "_vk_s")) for name in names]
    total = frame.groupBy(*labels).agg(*sums)
    if has_maps:
        items = [(from_entries(Name(c.name), c.type), c.name) for c in schema]
        total = total.select(*listed(*items, *[name.replace("_vk_", "_vk_s") for name in names]))
    return total
