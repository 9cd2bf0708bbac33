"""Changes too large for the driver go through the engine and files: the same random transactions with tiny limits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from tests.marks import long
from tests.property.driver import Driver

ROWS = {"sail": 250_000, "spark": 25_000}
"""Apache Spark has a tenth of the rows, and a tenth of the limits."""

pytestmark = pytest.mark.compiled


TINY = vk.Tuning(small_rows=3, file_rows=6, direct_rows=2, sort_rows=12, driver_merge_rows=10)
"""Three rows are already many."""


@pytest.mark.parametrize("steps", [90, *long(150)])
@pytest.mark.parametrize(("seed", "keep"), [(21, "0 seconds")])
def test_random_transactions_by_the_engine(
    connect: Callable[..., vk.Database], engine: str, seed: int, keep: str, steps: int
) -> None:
    Driver(connect, seed, keep=keep, span=30, tuning=TINY).run({"sail": steps, "spark": 20}[engine])


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(("seed", "keep"), [(22, "7 days"), pytest.param(32, "0 seconds", marks=pytest.mark.long)])
@pytest.mark.parametrize("steps", [90, *long(150)])
def test_more_random_transactions_by_the_engine(
    connect: Callable[..., vk.Database], seed: int, keep: str, steps: int
) -> None:
    Driver(connect, seed, keep=keep, span=30, tuning=TINY).run(steps)


@pytest.mark.long
@pytest.mark.parametrize("keep", ["7 days", "0 seconds"])
@pytest.mark.parametrize("seed", range(200, 206))
def test_many_random_transactions_by_the_engine(
    connect: Callable[..., vk.Database], engine: str, seed: int, keep: str
) -> None:
    Driver(connect, seed, keep=keep, span=30, tuning=TINY).run({"sail": 1500, "spark": 100}[engine])


def people(first: int, count: int) -> pa.Table:
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.table(
        {
            "id": ids,
            "mail": pa.array([f"p{n}@example.org" for n in range(first, first + count)]),
            "born": pa.array(
                [dt.date(1900, 1, 1) + dt.timedelta(days=n % 40_000) for n in range(first, first + count)]
            ),
            "score": pa.array([n / 4 for n in range(first, first + count)], pa.float64()),
        }
    )


@pytest.mark.spark_long  # there, the random transactions above have keys and go the same way
def test_a_quarter_million_rows_with_keys(connect: Callable[..., vk.Database], engine: str, tmp_path: Path) -> None:
    """Loaded from Parquet, changed by SQL, and refused where a load would break a key."""
    count = ROWS[engine]
    small = vk.Tuning().small_rows
    db = connect(tuning=vk.Tuning(small_rows=small if engine == "sail" else small // 10))
    db.sql("CREATE TABLE p (id BIGINT PRIMARY KEY, mail STRING NOT NULL UNIQUE, born DATE, score DOUBLE)")
    good = tmp_path / "good.parquet"
    pq.write_table(people(0, count), good)
    commit = db.load("p", str(good)).commit
    assert commit.epoch == 2
    assert commit.report["p"].rows_changed == count

    def state() -> tuple[int, ...]:
        return db.sql("SELECT count(*), sum(id), count(DISTINCT mail), sum(CAST(score * 4 AS BIGINT)) FROM p").rows()[0]

    total = count * (count - 1) // 2
    assert state() == (count, total, count, total)

    def refused(table: pa.Table, message: str) -> None:
        path = tmp_path / "bad.parquet"
        pq.write_table(table, path)
        with pytest.raises(vk.errors.ConstraintViolation) as caught:
            db.load("p", str(path))
        assert caught.value.message == message

    more = people(count, count)
    refused(
        pa.concat_tables([more, more.slice(count - 1, 1)]),
        f"PRIMARY KEY (id) of p is broken: there would be two rows with id = {2 * count - 1}",
    )
    refused(
        pa.concat_tables([more, people(7, 1)]), "PRIMARY KEY (id) of p is broken: there would be two rows with id = 7"
    )
    renamed = people(7, 1).set_column(0, "id", pa.array([3 * count], pa.int64()))
    refused(
        pa.concat_tables([more, renamed]),
        "UNIQUE (mail) of p is broken: there would be two rows with mail = 'p7@example.org'",
    )
    nameless = people(3 * count, 1).set_column(1, "mail", pa.nulls(1, pa.string()))
    refused(pa.concat_tables([more, nameless]), "column 'mail' of p cannot be NULL")
    assert db.epoch == 2
    assert state() == (count, total, count, total)

    commit = db.sql(f"UPDATE p SET score = score + 1 WHERE id < {3 * count // 5}").commit
    assert (commit.changes["p"].inserted.num_rows, commit.changes["p"].deleted.num_rows) == (3 * count // 5,) * 2
    assert db.sql("UPDATE p SET score = score WHERE id >= 0").commit is None
    assert state() == (count, total, count, total + 4 * (3 * count // 5))
    with db.transaction() as tx:
        tx.sql(f"DELETE FROM p WHERE id >= {2 * count // 5}")
        tx.delete_by_key("p", [5])
        assert tx.preview()["p"].deleted.num_rows == count - 2 * count // 5 + 1
    assert db.sql("SELECT count(*), max(id) FROM p").rows() == [(2 * count // 5 - 1,) * 2]
    assert db.sql("SELECT count(*) FROM p AS OF EPOCH 2").rows() == [(count,)]
