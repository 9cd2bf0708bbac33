"""Rows as JSON values and as Arrow streams."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.json_values import to_json, to_text
from viewkeeper.algebra.rows import schema_of_arrow
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.errors import ViewkeeperError
from viewkeeper.query.result import Result

ARROW_STREAM = "application/vnd.apache.arrow.stream"


def json_bytes(document: Any) -> bytes:
    """A document as JSON; lone surrogates, which UTF-8 does not have, become question marks."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")


def json_value(value: Any) -> Any:
    """A value as JSON: decimals, dates and times as strings, binary as base64, NaN and infinities as strings."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {key if isinstance(key, str) else to_text(key): json_value(part) for key, part in value.items()}
        case list() | tuple():
            return [json_value(part) for part in value]
        case _:
            return to_json(value)


def json_rows(table: pa.Table) -> list[list[Any]]:
    """The rows of a table, values in the order of the columns."""
    if not table.num_columns:
        return []
    plain = [_is_plain(field.type) for field in table.schema]
    return [
        [value if simple else json_value(value) for value, simple in zip(row, plain, strict=True)]
        for row in Result(table=table).rows()
    ]


def _is_plain(kind: pa.DataType) -> bool:
    """Whether every value of a type is its own JSON."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def updates_of(rows: pa.Table) -> list[dict[str, Any]]:
    """Signed rows as updates: each row with its diff."""
    weights = rows[WEIGHT].to_pylist()
    plain = rows.drop_columns([WEIGHT])
    values = json_rows(plain) if plain.num_columns else [[] for _ in weights]
    return [{"row": row, "diff": weight} for row, weight in zip(values, weights, strict=True)]


def column_documents(columns: pa.Schema) -> list[dict[str, Any]]:
    """Names and types of the columns of a result."""
    return [{"name": field.name, "type": _type_name(field)} for field in columns]


def _type_name(field: pa.Field) -> str:
    """The type of a column; that of an engine's value that no column of a table can have, in Arrow's words."""
    try:
        return str(schema_of_arrow(pa.schema([field]))[0][1])
    except ViewkeeperError:
        return "VOID" if pa.types.is_null(field.type) else str(field.type)


def schema_documents(schema: Schema) -> list[dict[str, Any]]:
    """Names, types and nullability of the columns of a relation."""
    return [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in schema]


def arrow_stream(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
