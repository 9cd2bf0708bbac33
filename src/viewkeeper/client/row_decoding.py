"""Rows of JSON values as Arrow tables of their types."""

from __future__ import annotations

import base64
import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.algebra.values import rows_to_arrow


def schema_from(columns: Sequence[dict[str, Any]]) -> Schema:
    """The columns that a server describes."""
    return Schema(tuple(Column(each["name"], parse_type(each["type"])) for each in columns))


def signed_rows(updates: Sequence[dict[str, Any]], schema: Schema) -> pa.Table:
    """The updates of a frame as signed rows."""
    rows = [
        tuple(decoded(value, column.type) for value, column in zip(update["row"], schema, strict=True))
        for update in updates
    ]
    table = rows_to_arrow(rows, schema, "the frame", "UTC")
    return table.append_column(pa.field(WEIGHT, pa.int64()), pa.array([u["diff"] for u in updates], pa.int64()))


def decoded(value: Any, kind: Type) -> Any:
    """A JSON value as the value of a type."""
    if value is None:
        return None
    match kind.name:
        case "decimal":
            return decimal.Decimal(str(value))
        case "binary":
            return base64.b64decode(value)
        case "float" | "double":
            return float(value)
        case "array":
            assert kind.element is not None
            return [decoded(part, kind.element) for part in value]
        case "struct":
            return {name: decoded(value[name], part) for name, part in kind.fields}
        case "map":
            assert kind.key is not None
            assert kind.value is not None
            return [(_key(key, kind.key), decoded(part, kind.value)) for key, part in value.items()]
        case _:
            return value


def _key(text: str, kind: Type) -> Any:
    if kind.is_integer:
        return int(text)
    return text == "true" if kind.name == "boolean" else decoded(text, kind)
