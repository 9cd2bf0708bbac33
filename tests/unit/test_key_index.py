"""The sorted index finds the rows that a scan finds, for keys of every type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.test_file_skipping import KINDS, decimals, examples
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.store.key_index import KeyIndex, Wanted, codes_of, is_exact

EXACT = {**KINDS, "DECIMAL(18,2)": decimals(18, 2)}
"""DECIMAL(18,2) is the longest with exact codes."""


def table_of(schema: Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows as they are given: -0.0 and any NaN stay."""
    columns = [pa.array([row[i] for row in rows], column.type.arrow) for i, column in enumerate(schema)]
    return pa.table(columns, schema=schema.arrow)


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows to compare as in GROUP BY."""
    return [tuple(0.0 if value == 0 else value for value in row) for row in row_tuples(table)]


def index_of(table: pa.Table, schema: Schema) -> KeyIndex:
    return KeyIndex.of(codes_of(table.columns, schema))


def wanted_of(table: pa.Table, schema: Schema) -> Wanted:
    return Wanted.of(codes_of(table.columns, schema))


def check(schema: Schema, stored: pa.Table, keys: pa.Table) -> None:
    """The index finds all rows with the keys; other rows only if codes are not exact, and no row twice."""
    index, wanted = index_of(stored, schema), wanted_of(keys, schema)
    rows, numbers = index.find(wanted)
    assert len(rows) == len(numbers) == index.count(wanted)
    assert len(set(rows.tolist())) == len(rows)
    held, asked = plain(stored), plain(keys)
    among = dict(zip(*(part.tolist() for part in wanted.among(codes_of(stored.columns, schema))), strict=True))
    assert among == dict(zip(rows.tolist(), numbers.tolist(), strict=True))
    naive = {row for row, key in enumerate(held) if key in set(asked)}
    if is_exact(schema):
        assert set(rows.tolist()) == naive
        assert all(held[row] == asked[number] for row, number in zip(rows, numbers, strict=True))
    else:
        assert set(rows.tolist()) >= naive


@pytest.mark.parametrize("kind", EXACT)
@examples(60)
@given(data=st.data())
def test_one_column(kind: str, data: st.DataObject) -> None:
    schema = Schema((Column("k", parse_type(kind)),))
    values = [(value,) for value in data.draw(st.lists(st.one_of(st.none(), EXACT[kind]), max_size=12))]
    if data.draw(st.booleans()):  # as in files
        last = [row for row in values if row[0] is None or row[0] != row[0]]
        values = sorted(row for row in values if row not in last) + last
    others = data.draw(st.lists(st.tuples(st.one_of(st.none(), EXACT[kind])), max_size=4))
    chosen = data.draw(st.lists(st.sampled_from([*values, *others]), max_size=8)) if values or others else []
    check(schema, table_of(schema, values), table_of(schema, chosen))


@examples(200)
@given(data=st.data())
def test_several_columns(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=2, max_size=4))
    schema = Schema(tuple(Column(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds)))
    row = st.tuples(*(st.one_of(st.none(), KINDS[kind]) for kind in kinds))
    values = data.draw(st.lists(row, min_size=1, max_size=8))
    keys = data.draw(st.lists(st.one_of(st.sampled_from(values), row), max_size=6))
    check(schema, table_of(schema, values), table_of(schema, keys))


def test_zeros_and_nans_are_one_each() -> None:
    for kind, bits in (("DOUBLE", np.uint64), ("FLOAT", np.uint32)):
        schema = Schema((Column("k", parse_type(kind)),))
        float_type = schema.columns[0].type.arrow.to_pandas_dtype()
        other_nan = np.array([0xFFF8000000000001 if bits is np.uint64 else 0xFFC00001], bits).view(float_type)
        stored = pa.table([pa.array(np.concatenate((other_nan, [-0.0, 0.0, math.nan, 1.0])).astype(float_type))], ["k"])
        keys = pa.table([pa.array([0.0, math.nan], schema.columns[0].type.arrow)], ["k"])
        rows, numbers = index_of(stored, schema).find(wanted_of(keys, schema))
        assert sorted(zip(rows.tolist(), numbers.tolist(), strict=True)) == [(0, 1), (1, 0), (2, 0), (3, 1)]


def test_a_slice_is_indexed_by_its_own_rows() -> None:
    for kind, values in (("DECIMAL(30,2)", [5, 6, None, 8]), ("BIGINT", [5, 6, None, 8]), ("STRING", ["a", "b", None])):
        schema = Schema((Column("k", parse_type(kind)),))
        stored = table_of(schema, [(value,) for value in values]).slice(1)
        rows, _ = index_of(stored, schema).find(wanted_of(table_of(schema, [(values[1],), (None,)]), schema))
        assert sorted(rows.tolist()) == [0, 1], kind


def test_a_sorted_column_takes_no_more_than_its_values() -> None:
    schema = Schema((Column("k", parse_type("INT")),))
    stored = pa.table([pa.array([*range(1000), None, None], pa.int32())], ["k"])
    index = index_of(stored, schema)
    assert (index.rows, index.nbytes) == (None, 4 * 1000 + 4 * 2)
