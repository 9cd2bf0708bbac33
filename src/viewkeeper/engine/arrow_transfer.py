"""Rows between driver and engine as Arrow, without extra round trips.

PySpark's createDataFrame asks the server for settings and for the meaning of a schema text; toArrow asks for the schema
of a query before it runs it. These three calls are not needed, because types and settings are known here. They take a
third of the time of a small commit. Sessions that are not PySpark's Connect client use the public API.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import LocalRelation
from pyspark.sql.connect.session import SparkSession

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type

_PLAIN: dict[str, t.DataType] = {
    "tinyint": t.ByteType(),
    "smallint": t.ShortType(),
    "int": t.IntegerType(),
    "bigint": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "boolean": t.BooleanType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp_ntz": t.TimestampNTZType(),
}


def spark_type(kind: Type) -> t.DataType:
    """The PySpark type of a column type."""
    if kind.name == "decimal":
        return t.DecimalType(kind.precision, kind.scale)
    if kind.name == "array" and kind.element is not None:
        return t.ArrayType(spark_type(kind.element))
    if kind.name == "map" and kind.key is not None and kind.value is not None:
        return t.MapType(spark_type(kind.key), spark_type(kind.value))
    if kind.name == "struct":
        return t.StructType([t.StructField(name, spark_type(part)) for name, part in kind.fields])
    return _PLAIN[kind.name]


def local_frame(session: Any, table: pa.Table, schema: Schema, extra: tuple[str, ...]) -> Any:
    """Arrow rows as a frame; `extra` names BIGINT columns after those of the schema.

    The rows are sent as one batch: Sail also evaluates expressions for an empty batch, where a fallible one raises.
    """
    table = table.combine_chunks()
    struct, text = spark_struct(schema, extra)
    if not isinstance(session, SparkSession) or any(column.type.is_nested for column in schema):
        return session.createDataFrame(table, schema=struct)
    return DataFrame(LocalRelation(table.rename_columns(struct.names), schema=text), session)


@lru_cache(maxsize=2_000)
def spark_struct(schema: Schema, extra: tuple[str, ...]) -> tuple[t.StructType, str]:
    """A schema as a PySpark type, and as JSON to send: without metadata, which makes Sail take one column for two."""
    fields = [t.StructField(column.name, spark_type(column.type)) for column in schema]
    struct = t.StructType(fields + [t.StructField(name, t.LongType()) for name in extra])
    return struct, struct.json().replace('"metadata":{},', "")


def fetched(frame: Any) -> pa.Table:
    """The rows of a frame, in the types that the engine sends; the caller casts them."""
    if isinstance(frame, DataFrame):
        table, _ = frame._to_table()
        return table
    return frame.toArrow()
