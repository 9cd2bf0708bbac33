"""Rows come in every form people have them in, and mean the same."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewkeeper as vk

ROWS = [
    (1, "EU", decimal.Decimal("12.50"), dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5, 6)),
    (2, None, None, None, None),
]
NAMES = ["id", "region", "amount", "day", "moment"]
COLUMNS = {name: [row[i] for row in ROWS] for i, name in enumerate(NAMES)}

FORMS: dict[str, Callable[[], Any]] = {
    "tuples": lambda: ROWS,
    "dicts": lambda: [dict(zip(NAMES, row, strict=True)) for row in ROWS],
    "dicts with other case and a name left out": lambda: [
        {"ID": 1, "Region": "EU", "amount": 12.5, "day": "2024-01-02", "moment": "2024-01-02T03:04:05.000006"},
        {"id": 2},
    ],
    "a generator": lambda: (row for row in ROWS),
    "Arrow": lambda: pa.table(COLUMNS),
    "an Arrow record batch": lambda: pa.table(COLUMNS).to_batches()[0],
    "Arrow in another order": lambda: pa.table(COLUMNS).select(NAMES[::-1]),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "polars": lambda: pl.DataFrame(COLUMNS),
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_every_form_means_the_same(db: vk.Database, form: str) -> None:
    db.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, region STRING, amount DECIMAL(12,2), day DATE, moment TIMESTAMP_NTZ)"
    )
    with db.transaction() as tx:
        assert tx.insert("t", FORMS[form]()) == 2
    assert db.sql("SELECT * FROM t ORDER BY id").rows() == ROWS
    with db.transaction() as tx:
        assert tx.delete("t", FORMS[form]()) == 2
    assert db.sql("SELECT * FROM t").rows() == []


def test_a_spark_frame(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, region STRING); CREATE TABLE u (id INT, region STRING, more DOUBLE)")
    db.sql("INSERT INTO u VALUES (1, 'EU', 0.5D), (2, NULL, NULL)")
    with db.transaction() as tx:
        assert tx.insert("t", db.sql("SELECT region, id FROM u").spark()) == 2
        with pytest.raises(vk.errors.TypeMismatch, match="there is a column 'more' that t does not have"):
            tx.insert("t", db.sql("SELECT * FROM u").spark())
    assert db.sql("SELECT * FROM t ORDER BY id").rows() == [(1, "EU"), (2, None)]
    assert db.sql("SELECT * FROM t").pandas().shape == (2, 2)
