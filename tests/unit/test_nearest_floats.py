"""A number stored as FLOAT or DOUBLE is the nearest one, however it is ingested."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from viewkeeper.algebra.cast import cast_array, cast_table
from viewkeeper.algebra.schema import Column, make_schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.algebra.values import convert
from viewkeeper.errors import TypeMismatch

DOUBLE, FLOAT = parse_type("DOUBLE"), parse_type("FLOAT")


def nearest_float(number: Decimal) -> float:
    """By exact arithmetic: of the FLOAT next to the double and its neighbors the nearest, the even one at a tie."""
    about = np.float32(float(number))
    near = [about, np.nextafter(about, np.float32(np.inf)), np.nextafter(about, np.float32(-np.inf))]
    return float(min(near, key=lambda f: (abs(Decimal(float(f)) - number), int(f.view(np.uint32)) & 1)))


def decimals(count: int, digits: int, scale: int, seed: int) -> list[Decimal]:
    """Numbers of a scale with up to so many digits, most of them shorter."""
    draw = random.Random(seed)
    sizes = (10 ** draw.randint(1, digits) - 1 for _ in range(count))
    return [Decimal(draw.randint(-size, size)).scaleb(-scale) for size in sizes]


@pytest.mark.parametrize(("digits", "scale"), [(9, 2), (18, 6), (38, 0), (38, 10), (38, 38)])
def test_decimals_become_the_nearest_double_and_float(digits: int, scale: int) -> None:
    given = decimals(5_000, digits, scale, digits + scale)
    source = pa.array(given, pa.decimal128(digits, scale))
    assert cast_array(source, DOUBLE, "UTC").to_pylist() == [float(number) for number in given]
    assert cast_array(source, FLOAT, "UTC").to_pylist() == [nearest_float(number) for number in given]
    assert [convert(number, FLOAT, "UTC") for number in given[:500]] == [nearest_float(n) for n in given[:500]]


def test_whole_numbers_are_stored_exactly_or_not_at_all() -> None:
    draw = random.Random(3)
    given = [draw.randint(-(2**53), 2**53) >> draw.randint(0, 50) for _ in range(5_000)]
    assert cast_array(pa.array(given, pa.int64()), DOUBLE, "UTC").to_pylist() == given
    schema = make_schema([Column("x", DOUBLE)], [])
    with pytest.raises(TypeMismatch, match="9007199254740993 does not fit column 'x' of t, which is DOUBLE"):
        cast_table(pa.table({"x": [1, 2**53 + 1]}), schema, "t", "UTC")
    tie = 2**60 + 2**36 + 1  # by way of a double it is a tie of two FLOATs, and the wrong one is taken
    assert convert(tie, FLOAT, "UTC") == nearest_float(Decimal(tie)) != float(np.float32(float(tie)))


def test_decimal_literals_are_stored_as_the_nearest_double(db: vk.Database, tmp_path: Path) -> None:
    numbers = [Decimal("5984.2"), Decimal("0.07"), *decimals(100, 15, 6, 11)]
    with db.transaction() as tx:
        tx.sql("CREATE TABLE t (n INT PRIMARY KEY, x DOUBLE, y FLOAT); CREATE TABLE s (n INT, d DECIMAL(25,6))")
        tx.sql("INSERT INTO t VALUES " + ", ".join(f"({n}, {x:f}, {x:f})" for n, x in enumerate(numbers)))
        tx.insert("s", list(enumerate(numbers)))
        stored = dict(enumerate(numbers))
        for start, change in (
            (1_000, lambda: tx.insert("t", [(n + 1_000, x, x) for n, x in enumerate(numbers)])),
            (2_000, lambda: tx.insert("t", _arrow(numbers, 2_000))),
            (3_000, lambda: tx.sql("INSERT INTO t SELECT n + 3000, d, d FROM s")),
            (4_000, lambda: tx.load("t", str(_parquet(tmp_path, numbers, 4_000)))),
            (5_000, lambda: tx.load("t", str(_csv(tmp_path, numbers, 5_000)))),
            (
                6_000,
                lambda: tx.sql(
                    "MERGE INTO t USING (SELECT n + 6000 AS n, d FROM s) s ON t.n = s.n "
                    "WHEN NOT MATCHED THEN INSERT (n, x, y) VALUES (s.n, s.d, s.d)"
                ),
            ),
        ):
            change()
            stored |= {n + start: x for n, x in enumerate(numbers)}
        tx.sql("UPDATE t SET x = 5984.2, y = 5984.2 WHERE n = 7")
        stored[7] = Decimal("5984.2")
        found = tx.sql("SELECT n, x, y FROM t").rows()
    wanted = {(n, float(x), nearest_float(x)) for n, x in stored.items()}
    assert set(found) == wanted
    assert len(found) == len(wanted)


def _arrow(numbers: list[Decimal], start: int) -> pa.Table:
    exact = pa.array(numbers, pa.decimal128(25, 6))
    return pa.table({"n": pa.array(range(start, start + len(numbers)), pa.int32()), "x": exact, "y": exact})


def _parquet(directory: Path, numbers: list[Decimal], start: int) -> Path:
    pq.write_table(_arrow(numbers, start), directory / "rows.parquet")
    return directory / "rows.parquet"


def _csv(directory: Path, numbers: list[Decimal], start: int) -> Path:
    lines = [f"{n + start},{x:f},{x:f}" for n, x in enumerate(numbers)]
    (directory / "rows.csv").write_text("\n".join(["n,x,y", *lines]))
    return directory / "rows.csv"
