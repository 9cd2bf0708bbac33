"""Skipping files never loses a row: a stored key is always found, and a condition never skips a row that matches."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viewkeeper as vk
from tests.marks import long
from viewkeeper.algebra.rows import canonical
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.analysis.ranges import Ranges
from viewkeeper.catalog.column_bounds import decode, encode
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.store.bounds import CUT, Keys, comparable_rows, measure
from viewkeeper.store.scans import Source, pick

LETTERS = st.sampled_from(["a", "b", "\x00", "\x7f", "ÿ", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"])
TEXT = st.one_of(
    st.text(max_size=4),
    st.text(LETTERS, min_size=CUT - 2, max_size=CUT + 3),
    st.text(LETTERS, max_size=3).map(lambda tail: "p" * (CUT - 1) + tail),
    st.text(LETTERS, max_size=3).map(lambda tail: "\U0010ffff" * CUT + tail),
)
BYTES = st.one_of(
    st.binary(max_size=4),
    st.binary(max_size=3).map(lambda tail: b"\xff" * CUT + tail),
    st.binary(max_size=3).map(lambda tail: b"a" * (CUT - 1) + b"\xff" + tail),
)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    edges = st.sampled_from([top, -top, top - 1, 0, 1, -1])
    return st.one_of(edges, st.integers(-top, top)).map(lambda n: Decimal(f"{n}e-{scale}"))


def integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.one_of(st.sampled_from([low, high, low + 1, high - 1, 0]), st.integers(low, high))


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": integers(8),
    "SMALLINT": integers(16),
    "INT": integers(32),
    "BIGINT": integers(64),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(38,0)": decimals(38, 0),
    "DECIMAL(38,18)": decimals(38, 18),
    "DECIMAL(38,38)": decimals(38, 38),
    "STRING": TEXT,
    "BINARY": BYTES,
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(timezones=st.just(dt.UTC)),
    "TIMESTAMP_NTZ": st.datetimes(),
}


def table_of(schema: Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], column.type.arrow) for i, column in enumerate(schema)]
    return canonical(pa.table(columns, schema=schema.arrow), schema)


def file_of(schema: Schema, table: pa.Table, path: str) -> DataFile:
    """A file as the ledger keeps it: its bounds have been through JSON."""
    bounds = decode(json.loads(json.dumps(encode(measure(table, schema), schema))), schema)
    return DataFile(path, table.num_rows, 0, 1, 1, bounds)


def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(data=st.data())
def test_a_stored_key_is_always_found(kind: str, data: st.DataObject) -> None:
    check_stored_keys(kind, data)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@examples(400)
@given(data=st.data())
def test_many_stored_keys_are_always_found(kind: str, data: st.DataObject) -> None:
    check_stored_keys(kind, data)


def check_stored_keys(kind: str, data: st.DataObject) -> None:
    schema = Schema((Column("k", parse_type(kind)),))
    value = st.one_of(st.none(), KINDS[kind])
    files = data.draw(st.lists(st.lists(value, min_size=1, max_size=5), min_size=1, max_size=4))
    tables = [table_of(schema, [(part,) for part in values]) for values in files]
    source = Source(schema, tuple(file_of(schema, t, str(n)) for n, t in enumerate(tables)), 1)
    for number, table in enumerate(tables):
        for index in range(table.num_rows):
            found = pick(source, Keys(table.slice(index, 1), schema, vk.Tuning()))
            assert str(number) in {file.path for file in found.files}, table.slice(index, 1).to_pylist()
        everything = pick(source, Keys(pa.concat_tables(tables), schema, vk.Tuning()))
        assert len(everything.files) == len(tables)


@examples(150)
@given(data=st.data())
def test_a_stored_key_of_two_columns_is_always_found(data: st.DataObject) -> None:
    kinds = [data.draw(st.sampled_from(list(KINDS))) for _ in range(2)]
    schema = Schema((Column("a", parse_type(kinds[0])), Column("b", parse_type(kinds[1]))))
    row = st.tuples(*(st.one_of(st.none(), KINDS[kind]) for kind in kinds))
    files = data.draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3))
    tables = [table_of(schema, rows) for rows in files]
    source = Source(schema, tuple(file_of(schema, t, str(n)) for n, t in enumerate(tables)), 1)
    for number, table in enumerate(tables):
        for index in range(table.num_rows):
            found = pick(source, Keys(table.slice(index, 1), schema, vk.Tuning()))
            assert str(number) in {file.path for file in found.files}, table.slice(index, 1).to_pylist()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("FLOAT", "DOUBLE")])
@examples(60)
@given(data=st.data())
def test_a_value_inside_a_range_is_never_skipped(kind: str, data: st.DataObject) -> None:
    schema = Schema((Column("k", parse_type(kind)),))
    values = data.draw(st.lists(KINDS[kind], min_size=1, max_size=5))
    table = table_of(schema, [(value,) for value in values])
    file = file_of(schema, table, "f")
    plain = [row[0] for row in comparable_rows(table, schema)]
    for one in plain:
        for span in ((one, one), (one, None), (None, one), (min(plain), one), (one, max(plain))):
            assert Ranges((("k", (span,)),)).may_be_in(file.bounds)


def test_skipping_does_skip() -> None:
    schema = Schema((Column("k", parse_type("BIGINT")),))
    tables = [table_of(schema, [(n * 10 + i,) for i in range(10)]) for n in range(20)]
    source = Source(schema, tuple(file_of(schema, t, str(n)) for n, t in enumerate(tables)), 1)
    keys = Keys(table_of(schema, [(55,), (120,)]), schema, vk.Tuning())
    assert [file.path for file in pick(source, keys).files] == ["5", "12"]


# conditions -------------------------------------------------------------------------------------

COLUMNS = "n INT, i BIGINT, d DECIMAL(38,38), m DECIMAL(12,2), x DOUBLE, s STRING, a DATE"
VALUES: dict[str, list[Any]] = {
    "i": [None, -(2**63), 2**63 - 1, -1, 0, 1, 5, 2**53 + 1],
    "d": [None, Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38), Decimal("0.5"), Decimal("1e-38"), Decimal(0)],
    "m": [None, Decimal("1.50"), Decimal("-1.51"), Decimal("9999999999.99"), Decimal(2)],
    "x": [None, float("nan"), float("inf"), -float("inf"), 0.0, 2.0, -3.0, 9007199254740993.0, 1e300],
    "s": [None, "", "a", "it's", "z" * 60, "z" * 47 + "\U0010ffff\U0010ffff", "\U0001f600", "\uffff", "Z", "5"],
    "a": [None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), dt.date(2024, 2, 29)],
}
LITERALS = {
    "i": ["-1", "0", "5", "5.0", "4.5", "9223372036854775807", "9007199254740993", "99999999999999999999"],
    "m": ["1.5", "2", "-1.51", "1.505", "9999999999.99", "99999999999999"],
    "x": ["0", "2", "-3", "9007199254740993", "CAST('NaN' AS DOUBLE)"],
    "s": ["''", "'a'", "'it''s'", "'z'", f"'{'z' * 60}'", f"'{'z' * 47}\U0010ffff'", "'\uffff'", "'\U0001f600'"],
    "a": ["DATE'0001-01-01'", "'9999-12-31'", "DATE'1582-10-10'", "CAST('2024-02-29' AS DATE)"],
}
SPARK_ONLY = {"d": ["0.5", "0", "1", "-1", "0.00000000000000000000000000000000000001"]}


def conditions(draw: random.Random, engine: str, count: int) -> list[str]:
    literals = {**LITERALS, **(SPARK_ONLY if engine == "spark" else {})}
    found = []
    for _ in range(count):
        name = draw.choice(list(literals))
        one, two = (draw.choice(literals[name]) for _ in range(2))
        sign = draw.choice(["=", "<", "<=", ">", ">=", "<=>"])
        found.append(
            draw.choice(
                [
                    f"{name} {sign} {one}",
                    f"{one} {sign} t.{name}",
                    f"{name} BETWEEN {one} AND {two}",
                    f"t.{name} IN ({one}, {two})",
                    f"({name} {sign} {one}) AND n >= 0",
                    f"{name} > {one} AND {name} <= {two}",
                    f"NOT {name} {sign} {one}",
                    f"{name} {sign} {one} OR {name} IS NULL",
                ]
            )
        )
    return found


@pytest.mark.parametrize("count", [100, *long(150)])
@pytest.mark.parametrize("seed", [1])
def test_conditions_never_skip_a_row_that_matches(
    connect: Callable[..., vk.Database], engine: str, seed: int, count: int
) -> None:
    """DELETE and UPDATE with WHERE, over many small files, change the rows that SELECT with that WHERE gives."""
    draw = random.Random(seed)
    db = connect(durability="process", tuning=vk.Tuning(merged_files=1000, inlined_rows=0))
    db.sql(f"CREATE TABLE t ({COLUMNS})")
    number = 0
    for name, values in VALUES.items():
        for _ in range(3):
            with db.transaction() as tx:
                for value in draw.sample(values, 2):
                    row = {other: draw.choice(VALUES[other]) for other in VALUES} | {name: value, "n": number}
                    tx.insert("t", [row])
                    number += 1
    for condition in conditions(draw, engine, {"sail": count, "spark": 16}[engine]):
        expected = Counter(row[0] for row in db.sql(f"SELECT n FROM t WHERE {condition}").rows())
        tx = db.transaction()
        form = draw.choice(["DELETE FROM t", "UPDATE t SET n = n + 1000"])
        tx.sql(f"{form} WHERE {condition}")
        weights = {} if "t" not in (preview := tx.preview()) else preview["t"].weights()
        deleted = Counter({row[0]: -weight for row, weight in weights.items() if weight < 0})
        tx.rollback()
        assert deleted == expected, condition
