"""Evaluates queries through translation and lowering on an engine, and the same text on DuckDB."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Fixpoint, Rederived, Scan
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.lowered import Binding, Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import NotFound, Place
from viewkeeper.sql.query import Query, Stored, Virtual, translate


class Tables:
    """Tables in memory: a catalog for translation, and frames for an engine."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored | Virtual] = {}
        self.arrow: dict[str, pa.Table] = {}

    def add(self, name: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
        listed = []
        for part in columns.split("; "):
            label, kind = part.split(" ", 1)
            listed.append(Column(label, parse_type(kind.replace(" NOT NULL", "")), "NOT NULL" not in kind))
        schema = Schema(tuple(listed))
        self.stored[name] = Stored(name, name, schema)
        arrays = [pa.array([row[i] for row in rows], type=c.type.arrow) for i, c in enumerate(listed)]
        self.arrow[name] = pa.Table.from_arrays(arrays, schema=schema.arrow)

    def find(self, name: str, place: Place) -> Stored | Virtual:
        found = self.stored.get(name.lower())
        if found is None:
            raise NotFound(f"there is no table '{name}'", place=place)
        return found


class PlainReader:
    """Reads all rows of a table, only the columns that are asked for; all operators are the engine's."""

    lane = "engine"

    def __init__(self, engine: Engine, tables: Tables) -> None:
        self.engine = engine
        self.tables = tables

    def scan(self, scan: Scan, binding: Binding | None) -> Lowered:
        stored = self.tables.stored[scan.relation]
        assert isinstance(stored, Stored)
        columns = tuple(column for column in stored.schema if column.name in scan.stored_names)
        rows = self.tables.arrow[scan.relation].select([column.name for column in columns])
        frame = self.engine.arrow(rows, Schema(columns))
        names = zip(scan.attributes, scan.stored_names, strict=True)
        return Lowered(frame.selectExpr(*[f"`{name}` AS {a.label}" for a, name in names]), scan.outputs)

    def keyed(self, scan: Scan) -> None:
        return None

    def step(self) -> None:
        raise NotImplementedError

    def size(self, scan: Scan) -> int:
        return 0

    def keep(self, lowered: Lowered, *, large: bool = False) -> Lowered:
        return lowered

    def fixpoint(self, node: Fixpoint, binding: Binding | None) -> Lowered:
        raise NotImplementedError

    def rederived(self, node: Rederived) -> Lowered:
        raise NotImplementedError

    def local(self, table: pa.Table, outputs: tuple[Attribute, ...], **options: Any) -> Lowered:
        raise NotImplementedError


class Oracle:
    """Both ways to answer a query."""

    def __init__(self, engine: Engine, tables: Tables) -> None:
        self.engine = engine
        self.tables = tables
        self.typer = EngineTyper(engine)
        self.duck = duckdb.connect()
        self.duck.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        self.duck.execute("SET TimeZone = 'UTC'")
        for name, table in tables.arrow.items():
            self.duck.register(f"arrow_{name}", table)
            self.duck.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{name}")

    def translated(self, text: str) -> Query:
        return translate(text, text, self.tables, self.typer)

    def rows(self, text: str) -> Counter[tuple[Any, ...]]:
        query = self.translated(text)
        lowered = Lowering(self.engine, PlainReader(self.engine, self.tables)).lower(query.node)
        table = self.engine.collect(lowered.frame)
        kinds = [a.type.arrow for a in query.node.outputs]
        for field, kind in zip(table.schema, kinds, strict=True):
            assert _same_kind(field.type, kind), f"{field.name}: {field.type} is not {kind}"
        columns = [column.to_pylist() for column in table.columns]
        return bag(list(zip(*columns, strict=True)) if columns else [()] * table.num_rows)

    def expected(self, text: str) -> Counter[tuple[Any, ...]]:
        return bag(self.duck.execute(text).fetchall())


def _same_kind(one: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_nested(one):
        return bool(pa.types.is_nested(other))
    if pa.types.is_timestamp(one):
        return bool(pa.types.is_timestamp(other))
    if pa.types.is_string(one) or pa.types.is_large_string(one):
        return bool(pa.types.is_string(other))
    return bool(one.equals(other))


def bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return float(f"{value:.9g}")
    if isinstance(value, (int, Decimal)):
        return float(f"{float(value):.9g}")
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(part) for part in value)
    if isinstance(value, dict):
        return tuple(_plain(part) for part in value.values())
    return value
