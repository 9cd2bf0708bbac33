"""Measures assertions and active rules: `python benchmarks/rules.py --engine sail --engine spark`.

Assertions: the time of a small transaction (an order with three lines, and the stock of its products) while none, one
and 80 assertions are checked; beside it DuckDB, which inserts the same rows and runs the 80 queries in full.

Rules: the time of a transaction that triggers a rule with a parameter, activated once and 10,000 times; beside it
DuckDB, which compares the query of all activations before and after.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import viewkeeper as vk
from shop_assertions import SINGLE, TABLES, assertions, order_rows, rows
from viewkeeper.algebra.rows import signed
from viewkeeper.transaction.row_changes import apply_rows

MOST = 3.0
"""How many times as long as with one assertion a small transaction may take with 80."""

MOST_ACTIVATED = 1.5
"""How many times as long as with one activation a transaction may take with 10,000."""

WATCHED = "SELECT id, total FROM orders WHERE customer = {} AND total > 500"
"""What the rule watches, for one customer."""


class Shop:
    """A loaded shop, and transactions that change it."""

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.rng = random.Random(7)
        self.next = 10 * scale

    def order(self) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
        """A new order."""
        head, lines = order_rows(self.next, self.scale, self.rng)
        self.next += 1
        return (*head[:4], "open", head[5]), lines


class Viewkeeper(Shop):
    """The shop in a Viewkeeper database."""

    def __init__(self, engine: str, where: Path, scale: int, data: dict[str, pa.Table]) -> None:
        super().__init__(scale)
        self.db = vk.connect(where, engine=engine)
        for table, columns in TABLES.items():
            self.db.sql(f"CREATE TABLE {table} ({columns})")
            with self.db.transaction() as tx:
                tx.insert(table, data[table])
        self.db.compact()

    def transaction(self) -> float:
        """The seconds of one small transaction."""
        head, lines = self.order()
        products = ", ".join(str(line[2]) for line in lines)
        began = time.perf_counter()
        with self.db.transaction() as tx:
            tx.insert("orders", [head])
            tx.insert("lines", lines)
            tx.sql(f"UPDATE stock SET reserved = reserved + 1 WHERE product IN ({products})")
        return time.perf_counter() - began

    def order_of(self, customer: int) -> float:
        """The seconds of a transaction with one order of a customer."""
        head, _ = self.order()
        began = time.perf_counter()
        with self.db.transaction() as tx:
            tx.insert("orders", [(head[0], customer, head[2], 1000, *head[4:])])
        return time.perf_counter() - began


class DuckDB(Shop):
    """The shop in DuckDB, in memory."""

    def __init__(self, scale: int, data: dict[str, pa.Table]) -> None:
        super().__init__(scale)
        self.db = duckdb.connect()
        for table, columns in TABLES.items():
            self.db.sql(f"CREATE TABLE {table} ({columns})")
            self.db.register("given", data[table])
            self.db.sql(f"INSERT INTO {table} SELECT * FROM given")
            self.db.unregister("given")

    def transaction(self) -> float:
        """The seconds of one small transaction with all queries in full."""
        head, lines = self.order()
        began = time.perf_counter()
        self.db.begin()
        self.db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", head)
        self.db.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", lines)
        for line in lines:
            self.db.execute("UPDATE stock SET reserved = reserved + 1 WHERE product = ?", [line[2]])
        for name, query in assertions().items():
            assert not self.db.execute(query.replace("DATE'", "DATE '")).fetchall(), name
        self.db.commit()
        return time.perf_counter() - began

    def order_of(self, customer: int) -> float:
        """The seconds of a transaction with one order, comparing what all activations watch before and after."""
        head, _ = self.order()
        watched = (
            "SELECT a.customer, q.id, q.total FROM activations a JOIN orders q USING (customer) WHERE q.total > 500"
        )
        began = time.perf_counter()
        self.db.begin()
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE before AS {watched}")
        self.db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", (head[0], customer, head[2], 1000, *head[4:]))
        assert len(self.db.execute(f"{watched} EXCEPT SELECT * FROM before").fetchall()) == 1
        self.db.commit()
        return time.perf_counter() - began


def median(work: Callable[[], float], rounds: int) -> float:
    """The median of some rounds in ms, after one that does not count."""
    work()
    return statistics.median(work() for _ in range(rounds)) * 1000


def create(shop: Viewkeeper, names: list[str]) -> None:
    """Creates some of the assertions, in one transaction."""
    every = assertions()
    with shop.db.transaction() as tx:
        for name in names:
            tx.sql(f"CREATE ASSERTION a_{name} CHECK (NOT EXISTS ({every[name]}))")


def drop(shop: Viewkeeper, names: list[str]) -> None:
    """Drops some of the assertions, in one transaction."""
    with shop.db.transaction() as tx:
        for name in names:
            tx.sql(f"DROP ASSERTION a_{name}")


def measure_assertions(shop: Viewkeeper, engine: str, rounds: int) -> dict[str, float]:
    """A small transaction with no assertion, with one of each kind, and with all."""
    found = {"none": median(shop.transaction, rounds)}
    print(f"  {engine:6} no assertion                 {found['none']:8,.0f} ms", flush=True)
    for kind, name in SINGLE.items():
        create(shop, [name])
        found[kind] = median(shop.transaction, rounds)
        drop(shop, [name])
        print(f"  {engine:6} one assertion, {kind:13} {found[kind]:8,.0f} ms", flush=True)
    create(shop, list(assertions()))
    found["all"] = median(shop.transaction, rounds)
    drop(shop, list(assertions()))
    one = statistics.median(found[kind] for kind in SINGLE)
    found["times"] = found["all"] / one
    print(
        f"  {engine:6} {len(assertions())} assertions                {found['all']:8,.0f} ms   "
        f"{found['times']:4.1f} times one (aim: below {MOST:g} on Sail)",
        flush=True,
    )
    return found


def activate(db: vk.Database, customers: list[int]) -> None:
    """Activates the rule for some customers: one ACTIVATE, and the rows that as many more would write."""
    first, rest = customers[0], customers[1:]
    with db.transaction() as tx:
        tx.sql(f"ACTIVATE RULE big ({first})")
        (rule,) = tx._tx.active_rules()
        table = tx._tx.by_id(rule.activations)
        apply_rows(tx._tx, table, signed(pa.table([pa.array(rest, pa.int64())], names=table.schema.names), 1))


def measure_activations(shop: Viewkeeper, engine: str, rounds: int, activations: int) -> dict[str, float]:
    """A transaction that triggers a rule, activated once and many times."""
    db = shop.db
    db.sql("CREATE TABLE alerts (customer BIGINT, id BIGINT, total BIGINT)")
    db.sql(
        f"CREATE RULE big (c BIGINT) ON ({WATCHED.format(':c')}) WHEN INSERTED "
        "DO INSERT INTO alerts SELECT :c, id, total FROM inserted"
    )
    found: dict[str, float] = {}
    active = 0
    for count in (1, activations):
        activate(db, list(range(active, count)))
        active = count
        found[str(count)] = median(lambda count=count: shop.order_of(shop.rng.randrange(count)), rounds)
        print(f"  {engine:6} {count:6,} activations           {found[str(count)]:8,.0f} ms", flush=True)
    fired = db.sql("SELECT count(*) FROM alerts").rows()[0][0]
    assert fired == 2 * (rounds + 1), f"the rule fired {fired} times"
    found["times"] = found[str(activations)] / found["1"]
    print(
        f"  {engine:6} {activations:6,} activations take {found['times']:.2f} times as long as one "
        f"(aim: at most {MOST_ACTIVATED:g})",
        flush=True,
    )
    return found


def measure_duckdb(scale: int, data: dict[str, pa.Table], rounds: int, activations: int) -> dict[str, float]:
    """The same transactions with everything computed in full."""
    shop = DuckDB(scale, data)
    found = {"all": median(shop.transaction, rounds)}
    print(f"  duckdb {len(assertions())} queries in full          {found['all']:8,.0f} ms", flush=True)
    for count in (1, activations):
        shop.db.execute(f"CREATE OR REPLACE TABLE activations AS SELECT range AS customer FROM range({count})")
        found[str(count)] = median(lambda count=count: shop.order_of(shop.rng.randrange(count)), rounds)
        print(f"  duckdb {count:6,} activations in full   {found[str(count)]:8,.0f} ms", flush=True)
    return found


def loaded(scale: int) -> dict[str, pa.Table]:
    """The rows of every table as Arrow."""
    found: dict[str, pa.Table] = {}
    for table, given in rows(scale).items():
        names = [part.split()[0] for part in TABLES[table].split(", ") if not part.startswith(("PRIMARY", "position)"))]
        found[table] = pa.table([list(column) for column in zip(*given, strict=True)], names=names)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=["sail", "spark"])
    parser.add_argument("--scale", type=int, default=10_000, help="customers; there are ten times as many orders")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--activations", type=int, default=10_000)
    parser.add_argument("--only", choices=["assertions", "rules"], help="leave out the other part")
    parser.add_argument("--json", type=Path, default=None, help="also write the numbers there")
    options = parser.parse_args()
    print(f"{options.scale:,} customers, {10 * options.scale:,} orders, {platform.machine()}", flush=True)
    data = loaded(options.scale)
    results: dict[str, Any] = {"duckdb": measure_duckdb(options.scale, data, options.rounds, options.activations)}
    for engine in options.engine or ["sail", "spark"]:
        with tempfile.TemporaryDirectory(prefix="viewkeeper-bench-") as place:
            shop = Viewkeeper(engine, Path(place) / "lake", options.scale, data)
            found: dict[str, Any] = {}
            if options.only != "rules":
                found["assertions"] = measure_assertions(shop, engine, options.rounds)
            if options.only != "assertions":
                found["activations"] = measure_activations(shop, engine, options.rounds, options.activations)
            shop.db.close()
            results[engine] = found
    if options.json:
        options.json.write_text(json.dumps({"scale": options.scale, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
