"""Ingest: rows from Python, Arrow, pandas, polars and Spark frames, cast to the table's types and made canonical.

Few rows are cast on the driver, many by the engine; both raise for a value that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.cast import can_store, cast_table, match_names
from viewkeeper.algebra.expressions import BIGINT, Expression, Literal, Name, cast, null_of
from viewkeeper.algebra.rows import canonical
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.types import INTEGERS, Type, parse_type, quote
from viewkeeper.algebra.values import rows_to_arrow
from viewkeeper.catalog.relations import Relation
from viewkeeper.engine.canonical_frames import canonical_frame
from viewkeeper.engine.connect_columns import Item, listed
from viewkeeper.engine.engine import Engine, Frame
from viewkeeper.errors import TypeMismatch


def is_frame(rows: Any) -> bool:
    """Whether rows are given as a Spark DataFrame."""
    return type(rows).__module__.startswith("pyspark.") and hasattr(rows, "write")


def has_columns(rows: Any) -> bool:
    """Whether rows are given as columns with names: by Arrow, pandas, polars, or whatever exports Arrow's C stream."""
    return is_frame(rows) or isinstance(rows, pa.Table) or any(hasattr(rows, name) for name in _EXPORTS)


_EXPORTS = ("__arrow_c_stream__", "__arrow_c_array__", "to_arrow")


def rows_from(rows: Any, relation: Relation, zone: str) -> pa.Table:
    """Rows given by a user, as canonical Arrow rows of the relation."""
    schema = relation.schema
    if has_columns(rows):
        rows = _arrow(rows)
        table = cast_table(_by_name(rows, schema, relation.name), schema, relation.name, zone)
    elif isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise TypeMismatch(
            f"a {type(rows).__name__} is not a list of rows",
            hint="give a list of tuples or dicts, an Arrow table, a pandas, polars or Spark DataFrame",
        )
    else:
        table = rows_to_arrow(rows, schema, relation.name, zone)
    return canonical(table, schema)


def _arrow(rows: Any) -> pa.Table:
    """Rows in the columns of some other library."""
    if isinstance(rows, pa.Table):
        return rows
    if type(rows).__module__.startswith("pandas."):
        return pa.Table.from_pandas(rows, preserve_index=False)
    try:
        made = rows.to_arrow() if hasattr(rows, "to_arrow") else rows  # polars exports views of strings by the C stream
        return made if isinstance(made, pa.Table) else pa.table(made)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise TypeMismatch(
            f"a {type(rows).__name__} is not a table with columns", detail=str(problem), hint="give a data frame"
        ) from problem


def _by_name(table: pa.Table, schema: Schema, relation: str) -> pa.Table:
    """The table's columns in the schema's order; names without regard to case, a missing one is NULL."""
    order = match_names(table.column_names, schema, relation)
    arrays = [pa.nulls(table.num_rows) if index is None else table.column(index) for index in order]
    return pa.table(arrays, names=schema.names)


# on the engine ----------------------------------------------------------------------------------


def store_frame(engine: Engine, frame: Frame, relation: Relation, zone: str) -> Frame:
    """A frame with the relation's columns, in order, as its types, canonical."""
    typed = cast_frame(engine, frame, relation.schema, relation.name, zone)
    return canonical_frame(engine, typed, relation.schema)


def cast_frame(engine: Engine, frame: Frame, schema: Schema, relation: str, zone: str) -> Frame:
    """A frame's columns, in order, as the schema's types, by the same casting rules as on the driver.

    Casts on which all engines agree are left to the engine; for the rest, the workers run the driver's code.
    """
    alike = True
    items: list[Item] = []
    for (name, given), column in zip(engine.columns(frame), schema, strict=True):
        source, known = Name(name), _known_type(given)
        value: Expression = source
        if given == "void":
            value = cast(source, column.type)
        elif known is None or not can_store(known.arrow, column.type):
            raise TypeMismatch(
                f"a {given.upper()} does not fit column '{column.name}' of {relation}, which is {column.type}",
                hint=f"write CAST(... AS {column.type}) if that is what you mean",
            )
        elif _widens(known, column.type):
            value = cast(source, column.type)
        elif known.ddl != column.type.ddl:
            alike = False
        items.append((value, column.name))
    selected = frame.select(*listed(*items))
    return selected if alike else engine.in_python(selected, _cast_batches(schema, relation, zone), schema.ddl)


def _widens(given: Type, wanted: Type) -> bool:
    """Whether every value of a number type fits another exactly, so that a cast means the same everywhere."""
    if given.is_integer and wanted.is_integer:
        return INTEGERS[given.name] < INTEGERS[wanted.name]
    if given.is_integer and wanted.name == "decimal":
        return wanted.precision - wanted.scale >= len(str(1 << (INTEGERS[given.name] - 1)))
    if given.name == wanted.name == "decimal" and given != wanted:
        return wanted.scale >= given.scale and wanted.precision - wanted.scale >= given.precision - given.scale
    return given.name == "float" and wanted.name == "double"


def _cast_batches(schema: Schema, relation: str, zone: str) -> Any:
    """A function that casts Arrow record batches as the driver does, to run on the workers."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            table = cast_table(pa.Table.from_batches([batch]), schema, relation, zone)
            yield from table.combine_chunks().to_batches()

    return work


def frame_by_name(engine: Engine, frame: Frame, relation: Relation) -> Frame:
    """A frame's columns in the relation's order, by name."""
    given = [name for name, _ in engine.columns(frame)]
    order = match_names(given, relation.schema, relation.name)
    picked: list[Item] = [
        (null_of(column.type), column.name) if index is None else quote(given[index])
        for index, column in zip(order, relation.schema, strict=True)
    ]
    return frame.select(*listed(*picked))


def _known_type(given: str) -> Type | None:
    try:
        return parse_type(given)
    except TypeMismatch:
        return None


def signed_expression(frame: Frame, weight: int) -> Frame:
    """Plain rows as signed rows, all with the same weight."""
    return frame.select(*listed("*", (Literal(weight, BIGINT), WEIGHT)))
