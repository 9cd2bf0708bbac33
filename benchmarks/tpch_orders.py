"""TPC-H files, and changes made of real TPC-H orders: some under new keys to insert, loaded ones to delete.

TPC-H gives no customer a single order: one in three has none, the others about 15. So that a change can give a customer
its first order or take its last, one order in a hundred belongs here to a customer who has no other, in the loaded
table and among those inserted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parent

ALONE = 100
"""One order in so many belongs to a customer who has no other order."""

TEMPLATES = 20_000
"""Orders to take copies of."""

DELETABLE = 60_000
"""Loaded orders to delete, at most."""


def data_directory(scale: float) -> Path:
    """Where the files of a scale factor are, unless an option says otherwise."""
    return ROOT.parent / "tpch-data" / f"sf{scale:g}"


def generate(scale: float, data: Path) -> None:
    """TPC-H files by tpchgen-cli, unless they are there."""
    if (data / "lineitem.parquet").exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    tool = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([str(tool), "parquet", "-s", f"{scale:g}", "--output-dir", str(data)], check=True)


def connected() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory that prints no progress."""
    db = duckdb.connect()
    db.execute("SET enable_progress_bar = false")
    return db


def with_single_orders(data: Path) -> Path:
    """The orders, one in a hundred of them of a customer who has no other, as a file beside the others."""
    path = data / "orders_alone.parquet"
    if not path.exists():
        connected().execute(f"""
            COPY (
              SELECT * EXCLUDE (number) REPLACE (
                CASE WHEN number % {ALONE} = 0 THEN 3 * (number // {ALONE}) ELSE o_custkey END AS o_custkey)
              FROM (SELECT *, row_number() OVER (ORDER BY o_orderkey) AS number FROM '{data}/orders.parquet')
              ORDER BY o_orderkey
            ) TO '{path}' (FORMAT parquet)""")
    return path


@dataclass(frozen=True)
class Change:
    """One transaction: orders with their lineitems to insert, and keys of orders and lineitems to delete."""

    orders: pa.Table
    lines: pa.Table
    gone: pa.Table
    gone_lines: pa.Table


class OrderChanges:
    """Draws changes that reach Q3, Q5, Q1, the customers without orders and the totals per nation, each of them."""

    def __init__(self, data: Path, seed: int = 11) -> None:
        self.random = np.random.default_rng(seed)
        db = connected()
        orders = f"'{with_single_orders(data)}'"
        files = {name: f"'{data}/{name}.parquet'" for name in ("customer", "lineitem", "supplier", "nation", "region")}
        db.sql(f"""
            CREATE TABLE about AS
            SELECT o_orderkey AS key, o_custkey % 3 = 0 AS alone, lines,
              c_mktsegment = 'BUILDING' AND o_orderdate < DATE'1995-03-15' AND last > DATE'1995-03-15' AS q3,
              o_orderdate >= DATE'1994-01-01' AND o_orderdate < DATE'1995-01-01' AND home AS q5
            FROM {orders} JOIN {files["customer"]} ON c_custkey = o_custkey
            JOIN (
              SELECT l_orderkey, count(*) AS lines, max(l_shipdate) AS last, bool_or(n_regionkey IS NOT NULL) AS home
              FROM {files["lineitem"]} JOIN {orders} ON o_orderkey = l_orderkey
              JOIN {files["customer"]} ON c_custkey = o_custkey JOIN {files["supplier"]} ON s_suppkey = l_suppkey
              LEFT JOIN (
                SELECT n_nationkey, n_regionkey FROM {files["nation"]} JOIN {files["region"]}
                ON n_regionkey = r_regionkey AND r_name = 'ASIA')
              ON n_nationkey = s_nationkey AND s_nationkey = c_nationkey
              GROUP BY l_orderkey) ON l_orderkey = o_orderkey""")
        about = db.sql("SELECT * FROM about ORDER BY hash(key), key").to_arrow_table()
        copied, rest = about.slice(0, TEMPLATES), about.slice(min(TEMPLATES, about.num_rows // 3))
        self._copied = {name: _where(copied, name) for name in ("q3", "q5")}
        self._any = np.arange(copied.num_rows)
        keys = copied.column("key").combine_chunks()
        db.register("chosen", copied.select(["key"]).append_column("place", pa.array(self._any)))
        chosen = f"FROM {orders} JOIN chosen ON o_orderkey = key ORDER BY place"
        self._orders = db.sql(f"SELECT * EXCLUDE (key, place) {chosen}").to_arrow_table()
        assert self._orders.column("o_orderkey").combine_chunks().equals(keys)
        lines = f"FROM {files['lineitem']} JOIN chosen ON l_orderkey = key ORDER BY place, l_linenumber"
        self._lines = db.sql(f"SELECT * EXCLUDE (key, place) {lines}").to_arrow_table()
        ends = np.cumsum(copied.column("lines").to_numpy())
        self._spans = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
        rest = rest.slice(0, DELETABLE)
        self._gone = rest
        self._leaving = {name: iter(_where(rest, name).tolist()) for name in ("q3", "q5", "alone")}
        self._left = set(range(rest.num_rows))
        highest, customers = db.execute(
            f"SELECT max(o_orderkey), (SELECT max(c_custkey) FROM {files['customer']}) FROM {orders}"
        ).fetchone()
        first = db.execute(f"SELECT max(o_custkey) FROM {orders} WHERE o_custkey % 3 = 0").fetchone()[0] + 3
        self._without_orders = iter(range(first, customers + 1, 3))
        blocks = self.random.permutation(highest // 32)
        self._keys = (int(block) * 32 + place for place in range(8, 32) for block in blocks)
        db.close()

    def draw(self, arriving: int, leaving: int) -> Change:
        """A change of so many orders, inserted and deleted."""
        orders, lines = self._arriving(arriving)
        gone = self._gone.take(pa.array(self._leaving_places(leaving), pa.int64()))
        keys = gone.column("key").to_pylist()
        pairs = [
            (key, line) for key, n in zip(keys, gone.column("lines").to_pylist(), strict=True) for line in range(n)
        ]
        return Change(
            orders,
            lines,
            pa.table({"o_orderkey": pa.array(keys, pa.int64())}),
            pa.table(
                {
                    "l_orderkey": pa.array([key for key, _ in pairs], pa.int64()),
                    "l_linenumber": pa.array([line + 1 for _, line in pairs], pa.int32()),
                }
            ),
        )

    def _arriving(self, count: int) -> tuple[pa.Table, pa.Table]:
        some = max(1, count // ALONE) if count else 0
        reached = [self.random.choice(self._copied[name], some) for name in ("q3", "q5")]
        places = np.concatenate([*reached, self.random.choice(self._any, max(0, count - 2 * some))]).astype(int)
        keys = [_next(self._keys) for _ in places]
        orders = self._orders.take(pa.array(places, pa.int64()))
        customers = orders.column("o_custkey").to_pylist()
        for place in range(len(customers) - some, len(customers)):
            customers[place] = _next(self._without_orders)
        orders = _replaced(orders, o_orderkey=keys, o_custkey=customers)
        spans = [self._spans[place] for place in places]
        rows = [row for begin, end in spans for row in range(begin, end)]
        again = [key for key, (begin, end) in zip(keys, spans, strict=True) for _ in range(begin, end)]
        return orders, _replaced(self._lines.take(pa.array(rows, pa.int64())), l_orderkey=again)

    def _leaving_places(self, count: int) -> list[int]:
        places: list[int] = []
        for each in self._leaving.values() if count else ():
            taken = 0
            while taken < max(1, count // ALONE):
                place = _next(each)
                if place in self._left:
                    self._left.remove(place)
                    places.append(place)
                    taken += 1
        while len(places) < count:
            if not self._left:
                raise SystemExit("too few orders for so many deletions: use a larger --scale")
            places.append(self._left.pop())
        return places


def _where(table: pa.Table, name: str) -> np.ndarray:
    return np.flatnonzero(pc.fill_null(table.column(name), False).to_numpy(zero_copy_only=False))


def _next(values: Iterator[int]) -> int:
    try:
        return next(values)
    except StopIteration:
        raise SystemExit("too few orders for so many changes: use a larger --scale") from None


def _replaced(table: pa.Table, **columns: list[int]) -> pa.Table:
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values, table.schema.field(place).type))
    return table
