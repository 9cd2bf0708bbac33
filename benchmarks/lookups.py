"""Times look-ups by key on the driver beside the engine: `python benchmarks/lookups.py [--engine sail] [--rows N]`.

A table of 100 files with a primary key of two columns. Random keys are looked up three ways, each by the driver and by
the engine: with nothing cached, with page bounds and indexes cached but no pages of the wanted columns, and again with
everything cached. Medians in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import viewkeeper as vk
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.rows import consolidate
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.store.bounds import Keys
from viewkeeper.store.lookups import BOUNDS, LAYOUT, Lookups
from viewkeeper.store.scans import Scan, Source, pick, signed_frame
from viewkeeper.store.store import Store

FILES, PER_KEY, ROUNDS = 100, 4, 7
COLUMNS = {
    "k": "BIGINT NOT NULL",
    "l": "INT NOT NULL",
    "part": "BIGINT",
    "quantity": "DECIMAL(12,2)",
    "price": "DECIMAL(15,2)",
    "flag": "STRING",
    "day": "DATE",
    "mode": "STRING",
    "comment": "STRING",
}


def rows(first: int, count: int) -> pa.Table:
    draw = np.random.default_rng(first)
    numbers = np.arange(first, first + count)
    days = pa.array(draw.integers(8_000, 10_500, count), pa.int32()).cast(pa.date32())
    words = draw.integers(0, 10**7, count)
    return pa.table(
        {
            "k": numbers // PER_KEY,
            "l": pa.array(numbers % PER_KEY, pa.int32()),
            "part": draw.integers(0, 200_000, count),
            "quantity": pa.array(draw.integers(1, 50, count), pa.int32()).cast(pa.decimal128(12, 2)),
            "price": pa.array(draw.integers(1, 10**5, count), pa.int32()).cast(pa.decimal128(15, 2)),
            "flag": np.array(["A", "N", "R"])[draw.integers(0, 3, count)],
            "day": days,
            "mode": np.array(["AIR", "MAIL", "SHIP", "TRUCK"])[draw.integers(0, 4, count)],
            "comment": [f"furiously {word} deposits {word * 7919 % 10_007}" for word in words],
        }
    )


def load(engine: str, where: Path, total: int) -> vk.Database:
    tuning = vk.Tuning(file_rows=total // FILES, small_rows=total)
    db = vk.connect(where, engine=engine, durability="process", tuning=tuning)
    db.sql(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())}, PRIMARY KEY (k, l))")
    step = total // 10
    for first in range(0, total, step):
        with db.transaction() as tx:
            tx.insert("t", rows(first, step))
    return db


def milliseconds(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return (time.perf_counter() - began) * 1e3, found


def by_engine(store: Store, scan: Scan, columns: list[str]) -> pa.Table:
    frame = signed_frame(store.engine, store.storage, scan).select(*columns, WEIGHT)
    found = store.engine.collect_small(frame)
    assert found is not None
    return consolidate(conform(found, scan.source.schema.subset(columns), signed=True))


def compare(store: Store, name: str, values: range, count: int, columns: list[str], draw: random.Random) -> str:
    relation = store.refresh().find("t")
    assert relation is not None
    times: dict[str, list[float]] = {"cold": [], "pages": [], "cached": [], "engine": []}
    files = 0
    for _ in range(ROUNDS):
        keys = pa.table([pa.array(draw.sample(values, count), pa.int64())], [name])
        source = Source(relation.schema, relation.files, store.state.epoch)
        scan = pick(source, Keys(keys, relation.schema.subset([name]), store.tuning))
        looking = Lookups(store.storage, store.engine, store.small)
        took, found = milliseconds(lambda looking=looking, scan=scan: looking.net_rows(scan, columns))
        slow, expected = milliseconds(lambda scan=scan: by_engine(store, scan, columns))
        times["engine"].append(slow)
        if found is None:
            continue
        assert sorted(found.rows.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
        times["cold"].append(took)
        times["cached"].append(milliseconds(lambda looking=looking, scan=scan: looking.net_rows(scan, columns))[0])
        warm = [key for key in looking.cache._parts if isinstance(key[1], str) and key[1] not in (LAYOUT, BOUNDS)]
        for path, part in warm:
            looking.cache.put(path, part, None, looking.cache.most + 1)  # too large: dropped
        times["pages"].append(milliseconds(lambda looking=looking, scan=scan: looking.net_rows(scan, columns))[0])
        files += len(scan.files)
    shown = "  ".join(
        f"{way} {statistics.median(found):7.1f}" if found else f"{way}       -" for way, found in times.items()
    )
    return f"{count:5} keys of {name:4}  {len(columns)} columns  {files / ROUNDS:5.1f} files   {shown}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sail")
    parser.add_argument("--rows", type=int, default=6_000_000)
    given = parser.parse_args()
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as directory, load(given.engine, Path(directory), given.rows) as db:
        store = db._store
        print(f"{given.engine}: {given.rows:,} rows in {FILES} files; ms: cold, no pages, cached, by the engine")
        for count in (1, 10, 100):
            for columns in (["k", "l", "price"], list(COLUMNS)):
                print(compare(store, "k", range(given.rows // PER_KEY), count, columns, draw), flush=True)
        print(compare(store, "part", range(200_000), 1, ["k", "price"], draw), flush=True)


if __name__ == "__main__":
    main()
