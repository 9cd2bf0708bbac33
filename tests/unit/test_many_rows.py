"""What is done with many rows in columns means the same as row by row."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from viewkeeper.algebra.row_codes import codes_of_columns
from viewkeeper.algebra.rows import (
    consolidate,
    is_among,
    negated,
    numbered_rows,
    row_tuples,
    rows_among,
    signed,
    weights_in,
    without_balanced,
)
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.store.known_rows import KnownRows

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bigint": (pa.int64(), [None, 0, 1, -1, 2**63 - 1, -(2**63)]),
    "boolean": (pa.bool_(), [None, True, False]),
    "double": (pa.float64(), [None, 0.0, 1.5, math.nan, math.inf, -math.inf]),
    "string": (pa.string(), [None, "", "a", "ä", "a\0b", "😀"]),
    "decimal": (
        pa.decimal128(38, 2),
        [None, decimal.Decimal("0.00"), decimal.Decimal("-1.10"), decimal.Decimal(10) ** 35],
    ),
    "date": (pa.date32(), [None, dt.date(1, 1, 1), dt.date(2026, 11, 18)]),
    "binary": (pa.binary(), [None, b"", b"\xff"]),
    "array": (pa.list_(pa.int32()), [None, [], [1], [1, None]]),
}


def table(draw: random.Random, kinds: list[str], rows: int) -> pa.Table:
    columns = [pa.array(draw.choices(VALUES[kind][1], k=rows), VALUES[kind][0]) for kind in kinds]
    made = pa.table(columns, [f"c{index}" for index in range(len(kinds))])
    cut = draw.randrange(rows + 1)
    return pa.concat_tables([made.slice(0, cut), made.slice(cut)])  # several chunks


def drawn(seed: int) -> tuple[random.Random, list[str]]:
    draw = random.Random(seed)
    return draw, draw.choices(list(VALUES), k=draw.randint(1, 4))


@pytest.mark.parametrize("seed", range(60))
def test_rows_among_others(seed: int) -> None:
    draw, kinds = drawn(seed)
    rows, keys = (table(draw, kinds, draw.choice([0, 1, 5, 80, 300])) for _ in range(2))
    wanted = set(row_tuples(keys))
    assert is_among(rows, keys).tolist() == [row in wanted for row in row_tuples(rows)]
    found = rows_among(rows, rows.column_names, keys)
    assert row_tuples(found) == [row for row in row_tuples(rows) if row in wanted]


@pytest.mark.parametrize("seed", range(30))
def test_numbers_of_rows(seed: int) -> None:
    draw, kinds = drawn(seed)
    rows = table(draw, [kind for kind in kinds if kind != "array"] or ["bigint"], draw.choice([1, 70, 400]))
    numbers = codes_of_columns([column.combine_chunks() for column in rows.columns]).tolist()
    assert len(set(zip(numbers, row_tuples(rows), strict=True))) == len(set(numbers)) == len(set(row_tuples(rows)))


def test_numbers_of_rows_with_many_columns() -> None:
    """More combinations than 64 bits number."""
    draw = random.Random(1)
    columns = [pa.array(draw.choices(range(2_000), k=3_000)) for _ in range(12)]
    rows = pa.table(columns, [f"c{n}" for n in range(12)])
    rows = pa.concat_tables([rows, rows.slice(0, 500)])
    numbers = codes_of_columns([column.combine_chunks() for column in rows.columns]).tolist()
    assert len(set(zip(numbers, row_tuples(rows), strict=True))) == len(set(numbers)) == len(set(row_tuples(rows)))


@pytest.mark.parametrize("seed", range(40))
def test_the_net_of_many_rows(seed: int) -> None:
    draw, kinds = drawn(seed)
    rows = table(draw, kinds, draw.choice([0, 3, 90, 500]))
    weights = draw.choices([-2, -1, 1, 2], k=rows.num_rows)
    net = consolidate(rows.append_column(pa.field(WEIGHT, pa.int64()), pa.array(weights, pa.int64())))
    expected: Counter[Any] = Counter()
    for row, weight in zip(row_tuples(rows), weights, strict=True):
        expected[row] += weight
    found = list(zip(row_tuples(net.drop_columns([WEIGHT])), net[WEIGHT].to_pylist(), strict=True))
    assert len(found) == len(dict(found))
    assert dict(found) == {row: weight for row, weight in expected.items() if weight}


@pytest.mark.parametrize("seed", range(40))
def test_the_net_of_rows_with_different_keys(seed: int) -> None:
    """Naming columns that may tell all rows apart changes nothing, whether they do or not."""
    draw, kinds = drawn(seed)
    rows = table(draw, kinds, draw.choice([0, 3, 90]))
    if seed % 2:
        rows = rows.append_column("key", pa.array(draw.sample(range(1_000), rows.num_rows), pa.int64()))
    weights = pa.array(draw.choices([-1, 0, 1, 2], k=rows.num_rows), pa.int64())
    change = rows.append_column(pa.field(WEIGHT, pa.int64()), weights)
    assert Counter(row_tuples(consolidate(change, rows.column_names[-1:]))) == Counter(row_tuples(consolidate(change)))


@pytest.mark.parametrize("seed", range(40))
def test_weights_and_numbers_of_rows(seed: int) -> None:
    draw, kinds = drawn(seed)
    rows, stored = (table(draw, kinds, draw.choice([0, 1, 5, 80, 300])) for _ in range(2))
    weights = pa.array(draw.choices([1, 2, 3], k=stored.num_rows), pa.int64())
    net = consolidate(stored.append_column(pa.field(WEIGHT, pa.int64()), weights))
    held = dict(zip(row_tuples(net.drop_columns([WEIGHT])), net[WEIGHT].to_pylist(), strict=True))
    assert weights_in(rows, net).tolist() == [held.get(row, 0) for row in row_tuples(rows)]
    numbers = numbered_rows(rows).tolist()
    assert sorted(set(numbers)) == list(range(len(set(row_tuples(rows)))))
    assert len(set(zip(numbers, row_tuples(rows), strict=True))) == len(set(numbers))


@pytest.mark.parametrize("seed", range(40))
def test_groups_that_stay_what_they_were(seed: int) -> None:
    draw = random.Random(seed)
    kinds = draw.choices(["bigint", "string", "boolean", "double"], k=draw.randint(0, 2))
    count = draw.choice([1, 6, 90])
    rows = table(draw, [*kinds, "decimal", "boolean"], count)
    groups, summed, counted = rows.column_names[: len(kinds)], rows.column_names[-2], rows.column_names[-1]
    weights = draw.choices([-2, -1, 1, 2], k=count)
    change = rows.append_column(pa.field(WEIGHT, pa.int64()), pa.array(weights, pa.int64()))
    if draw.random() < 0.5:
        change = pa.concat_tables([change, negated(change)])
    totals: dict[Any, list[Any]] = {}
    with decimal.localcontext(decimal.Context(prec=100)):
        for row in row_tuples(change):
            *key, value, flag, weight = row
            found = totals.setdefault(tuple(key), [0, 0, 0])
            found[0] += weight
            found[1] += weight * (flag is not None)
            found[2] += weight * (value or 0)
    kept = without_balanced(change, groups, [counted], [summed])
    assert row_tuples(kept) == [row for row in row_tuples(change) if any(totals[row[: len(kinds)]])]


@pytest.mark.parametrize("seed", range(40))
def test_what_was_looked_up(seed: int) -> None:
    """Keys are looked up in turn, some of them again; whatever is known is what the relation has."""
    draw = random.Random(seed)
    kinds = draw.choices(["bigint", "string", "decimal", "date"], k=2)
    stored = signed(table(draw, [*kinds, "double"], draw.choice([5, 200])), 1)
    names = ["c0", "c1"]
    known = KnownRows()
    asked: set[Any] = set()
    for _ in range(6):
        keys = table(draw, kinds, draw.choice([1, 4, 90]))
        keys = keys.group_by(names).aggregate([]).select(names)
        rows = rows_among(stored, names, keys)
        if draw.random() < 0.5:
            known.note("r", keys, rows)
        else:
            keys = keys.filter(pa.array([key not in set(row_tuples(stored.select(names))) for key in row_tuples(keys)]))
            known.note_absent("r", keys)
        asked |= set(row_tuples(keys))
        wanted = table(draw, kinds, draw.choice([1, 30]))
        left, parts = known.split("r", wanted)
        assert set(row_tuples(left)) == set(row_tuples(wanted)) - asked
        found = [row for part in parts for row in row_tuples(part)]
        there = [row for row in row_tuples(stored) if row[:2] in set(row_tuples(wanted)) & asked]
        assert Counter(found) == Counter(there)
        assert known.split("other", wanted)[0] is wanted
    known.clear()
    assert known.split("r", stored.select(names))[0].num_rows == stored.num_rows
