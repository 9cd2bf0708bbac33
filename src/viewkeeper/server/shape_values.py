"""Values of shapes: every value is a string in the text form of Postgres, and a header names the Postgres types.

Arrays of plain values have the form {1,NULL,3}; all other nested values are JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.algebra.json_values import to_json, to_text
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type

_TYPES = {
    "tinyint": "int2",
    "smallint": "int2",
    "int": "int4",
    "bigint": "int8",
    "float": "float4",
    "double": "float8",
    "decimal": "numeric",
    "string": "text",
    "binary": "bytea",
    "boolean": "bool",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def schema_header(schema: Schema, chosen: Iterable[str], key: tuple[str, ...]) -> str:
    """The Postgres types of the chosen columns, as JSON in ASCII."""
    found: dict[str, dict[str, Any]] = {}
    for name in chosen:
        column = schema.column(name)
        about = _described(column.type)
        if name in key:
            about["pk_index"] = key.index(name)
        if not column.nullable and "dims" not in about:  # clients would refuse NULL as an element, too
            about["not_null"] = True
        found[column.name] = about
    return json.dumps(found, separators=(",", ":"))


def _described(kind: Type) -> dict[str, Any]:
    if kind.name == "array" and kind.element is not None and not kind.element.is_nested:
        return {**_described(kind.element), "dims": 1}
    if kind.is_nested:
        return {"type": "jsonb"}
    if kind.name == "decimal":
        return {"type": "numeric", "precision": kind.precision, "scale": kind.scale}
    return {"type": _TYPES[kind.name]}


def texts(column: pa.ChunkedArray | pa.Array, kind: Type) -> list[str | None]:
    """The values of a column in the text form of Postgres; None for NULL."""
    match kind.name:
        case "string":
            return list(column.to_pylist())
        case "tinyint" | "smallint" | "int" | "bigint" | "boolean" | "date":
            return list(column.cast(pa.string()).to_pylist())
        case "timestamp" | "timestamp_ntz":
            zone = "+00" if kind.name == "timestamp" else ""
            plain = column.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string()).to_pylist()
            return [None if text is None else text.rstrip("0").rstrip(".") + zone for text in plain]
        case "array" if kind.element is not None and not kind.element.is_nested:
            return [_array(part, kind.element) for part in column]
        case _:
            return [None if value is None else _text(value, kind) for value in column.to_pylist()]


def _text(value: Any, kind: Type) -> str:
    match kind.name:
        case "float":
            return str(np.float32(value)) if math.isfinite(value) else to_text(value)
        case "binary":
            return f"\\x{value.hex()}"
        case _ if kind.is_nested:
            return json.dumps(_json(value, kind), ensure_ascii=False, separators=(",", ":"))
        case _:
            return to_text(value)


def _array(values: pa.ListScalar, element: Type) -> str | None:
    if not values.is_valid:
        return None
    return "{" + ",".join(_element(text, element) for text in texts(values.values, element)) + "}"


def _element(text: str | None, kind: Type) -> str:
    if text is None:
        return "NULL"
    if kind.name in ("string", "binary", "timestamp", "timestamp_ntz"):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return text


def _json(value: Any, kind: Type) -> Any:
    """A nested value as JSON."""
    if value is None:
        return None
    if kind.name == "struct":
        return {name: _json(value[name], part) for name, part in kind.fields}
    if kind.name == "array" and kind.element is not None:
        return [_json(part, kind.element) for part in value]
    if kind.name == "map" and kind.value is not None:
        pairs = value.items() if isinstance(value, dict) else value
        return {key if isinstance(key, str) else to_text(key): _json(part, kind.value) for key, part in pairs}
    return to_json(value)
