"""Rows picked by many keys out of large files: exactly those with a key, whatever its type."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from tests.marks import spark_long

ROWS = 30_000
KINDS: dict[str, tuple[str, pa.DataType, Callable[[int], Any]]] = {
    "bigint": ("BIGINT", pa.int64(), lambda i: i * 7 - 1000),
    "string": ("STRING", pa.string(), lambda i: f"key {i} é"),
    "decimal": ("DECIMAL(20,4)", pa.decimal128(20, 4), lambda i: decimal.Decimal(i * 7 - 999).scaleb(-4)),
    "date": ("DATE", pa.date32(), lambda i: dt.date(1900, 1, 1) + dt.timedelta(days=i)),
}


@pytest.mark.parametrize("kind", ["string", "decimal", *spark_long("bigint", "date")])
def test_rows_by_many_keys(db: vk.Database, kind: str) -> None:
    ddl, arrow, value = KINDS[kind]
    db.sql(f"CREATE TABLE t (k {ddl} PRIMARY KEY, n INT, s STRING); CREATE TABLE other (n INT, k {ddl})")
    keys = [value(i) for i in range(ROWS)]
    numbers = [None if i % 11 == 0 else i % 97 for i in range(ROWS)]
    texts = [None if i % 13 == 0 else f"text {i}" for i in range(ROWS)]
    with db.transaction() as tx:
        tx.insert("t", pa.table({"k": pa.array(keys, arrow), "n": pa.array(numbers, pa.int32()), "s": texts}))
    db.sql(
        "CREATE MATERIALIZED VIEW joined WITH (refresh = 'incremental') AS "
        "SELECT other.n, t.k, t.s FROM other LEFT JOIN t ON other.k = t.k"
    )
    rng = random.Random(5)
    chosen = sorted(rng.sample(range(ROWS), 300))
    with db.transaction() as tx:
        rows = [(i, keys[i]) for i in chosen] + [(-1, None), (-2, value(ROWS + 5))]
        tx.insert("other", rows)
    expected = {(i, keys[i], texts[i]): 1 for i in chosen} | {(-1, None, None): 1, (-2, None, None): 1}
    assert tx.commit_info is not None
    assert tx.commit_info.changes["joined"].weights() == expected
    gone = chosen[::2]
    with db.transaction() as tx:
        tx.delete_by_key("t", [keys[i] for i in gone])
    assert tx.commit_info is not None
    assert tx.commit_info.changes["t"].weights() == {(keys[i], numbers[i], texts[i]): -1 for i in gone}
    assert tx.commit_info.changes["joined"].weights() == {
        **{(i, keys[i], texts[i]): -1 for i in gone},
        **{(i, None, None): 1 for i in gone},
    }
    assert db.verify().equal


def test_by_many_composite_keys_with_nulls(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (a INT, b STRING, c INT); CREATE TABLE u (a INT, b STRING)")
    rows = [(None if i % 7 == 0 else i % 500, None if i % 5 == 0 else f"b{i % 300}", i) for i in range(20_000)]
    columns = list(zip(*rows, strict=True))
    with db.transaction() as tx:
        tx.insert("t", pa.table([pa.array(c) for c in columns], names=["a", "b", "c"]))
    db.sql(
        "CREATE MATERIALIZED VIEW safe WITH (refresh = 'incremental') AS "
        "SELECT u.a, u.b, t.c FROM u JOIN t ON u.a <=> t.a AND u.b <=> t.b"
    )
    db.sql(
        "CREATE MATERIALIZED VIEW plain WITH (refresh = 'incremental') AS "
        "SELECT u.a, u.b, t.c FROM u JOIN t ON u.a = t.a AND u.b = t.b"
    )
    wanted = sorted({row[:2] for row in rows[:400]}, key=str)
    with db.transaction() as tx:
        tx.insert("u", wanted)
    assert tx.commit_info is not None
    there = set(wanted)
    assert tx.commit_info.changes["safe"].weights() == {row: 1 for row in rows if row[:2] in there}
    assert tx.commit_info.changes["plain"].weights() == {
        row: 1 for row in rows if row[:2] in there and None not in row[:2]
    }
    assert db.verify().equal
