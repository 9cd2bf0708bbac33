"""Rows that a user asked for, in the form that they want them: Python, Arrow, pandas, polars, text, HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.rows import schema_of_arrow
from viewkeeper.algebra.text_tables import FIRST, html_table, table_lines
from viewkeeper.algebra.types import Type
from viewkeeper.errors import TypeMismatch


class ResultRows(ABC):
    """Rows with column names. Iterate over them, or convert them."""

    @abstractmethod
    def arrow(self) -> pa.Table:
        """The rows as an Arrow table, duplicates repeated."""

    def head(self, count: int) -> pa.Table:
        """The first rows, at most so many."""
        return self.arrow().slice(0, count)

    @property
    def columns(self) -> list[str]:
        """Column names in order."""
        return list(self.arrow().column_names)

    @property
    def has_rows(self) -> bool:
        """Whether this is the result of a query (even one with no rows), not of a change."""
        return bool(self.arrow().num_columns)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, duplicates repeated. Maps and structs are dicts; timestamps are in UTC."""
        return rows_of_arrow(self.arrow())

    def pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """The rows as a polars DataFrame; polars has to be installed."""
        import polars

        return polars.from_arrow(self.arrow())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __bool__(self) -> bool:
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        if not self.has_rows:
            return repr(self)
        columns, rows, are_all = self._first()
        return "\n".join([*table_lines(columns, rows), *([] if are_all else ["..."])])

    def _repr_html_(self) -> str | None:
        if not self.has_rows:
            return None
        columns, rows, are_all = self._first()
        return html_table(columns, rows, "" if are_all else f"the first {FIRST} rows")

    def _first(self) -> tuple[list[str], list[tuple[Any, ...]], bool]:
        """The columns, the first rows, and whether these are all; no more than one other is fetched."""
        table = self.head(FIRST + 1)
        return table.column_names, rows_of_arrow(table.slice(0, FIRST)), table.num_rows <= FIRST


def rows_of_arrow(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table as tuples. Maps and structs are dicts; timestamps are in UTC."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_timestamp(field.type) and field.type.tz:
            column = column.cast(pa.timestamp("us", "UTC"))
        try:
            values = column.to_pylist()
        except OverflowError as problem:
            raise TypeMismatch(
                f"column '{field.name}' has a date or time outside the years 1 to 9999, which Python does not have",
                hint="use arrow(), or a condition that leaves such rows out",
            ) from problem
        if pa.types.is_nested(field.type):
            kind = schema_of_arrow(pa.schema([field]))[0][1]
            values = [_plain(value, kind) for value in values]
        columns.append(values)
    return list(zip(*columns, strict=True)) if columns else []


def _plain(value: Any, kind: Type) -> Any:
    """A nested value as plain Python: maps and structs as dicts."""
    if value is None:
        return None
    if kind.name == "map" and kind.key is not None and kind.value is not None:
        pairs = value.items() if isinstance(value, dict) else value
        return {_hashable(_plain(k, kind.key)): _plain(v, kind.value) for k, v in pairs}
    if kind.name == "array" and kind.element is not None:
        return [_plain(part, kind.element) for part in value]
    if kind.name == "struct":
        return {name: _plain(value[name], part) for name, part in kind.fields}
    return value


def _hashable(value: Any) -> Any:
    """A map key that Python can hash: nested values become tuples."""
    if isinstance(value, dict):
        return tuple(_hashable(part) for part in value.values())
    if isinstance(value, list):
        return tuple(_hashable(part) for part in value)
    return value
