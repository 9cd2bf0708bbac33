"""A shop that changes in small transactions, with ten views of different classes, and DuckDB beside it.

The number of orders stays about the same, so that whatever grows with the number of transactions is a leak.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import viewkeeper as vk
from tests.oracle import Oracle

CUSTOMERS = 60
ORDERS = 600

TABLES = (
    "CREATE TABLE customers (id BIGINT PRIMARY KEY, nation INT, name STRING)",
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(10, 2), day INT)",
)

VIEWS = {
    "large": "SELECT id, amount, day FROM orders WHERE amount >= 50",
    "named": "SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON o.customer = c.id",
    "daily": "SELECT day, count(*) AS n, sum(amount) AS total FROM orders GROUP BY day",
    "extrema": "SELECT customer, min(amount) AS low, max(amount) AS high FROM orders GROUP BY customer",
    "by_nation": (
        "SELECT c.nation, count(o.id) AS n, sum(o.amount) AS total "
        "FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.nation"
    ),
    "idle": "SELECT id, name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
    "buyers": "SELECT DISTINCT customer, day FROM orders WHERE amount IS NOT NULL",
    "top": "SELECT id, amount FROM orders WHERE amount IS NOT NULL ORDER BY amount DESC, id LIMIT 10",
    "placed": (
        "SELECT id, day, row_number() OVER (PARTITION BY day ORDER BY amount DESC NULLS LAST, id) AS place FROM orders"
    ),
    "busy": "SELECT day, n FROM daily WHERE n > 5",
}
"""The last one is over another view."""

Order = tuple[int, int | None, Decimal | None, int]


class ChangingShop:
    """Runs random transactions on a database and on DuckDB."""

    def __init__(self, db: vk.Database, seed: int) -> None:
        self.db = db
        self.random = random.Random(seed)
        self.oracle = Oracle()
        self.orders: dict[int, Order] = {}
        self.next = 0
        for text in TABLES:
            db.sql(text)
            self.oracle.create_table(text)
        for name, text in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
            self.oracle.create_view(name, text)
        customers = [self._customer(number) for number in range(CUSTOMERS)]
        orders = [self._order() for _ in range(ORDERS)]
        with db.transaction() as tx:
            tx.insert("customers", customers)
            tx.insert("orders", orders)
        self.oracle.connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", customers)
        self._replace([], orders)

    def _customer(self, number: int) -> tuple[int, int | None, str]:
        return number, self.random.choice([None, *range(5)]), f"name {self.random.randrange(1000)}"

    def _order(self, number: int | None = None) -> Order:
        if number is None:
            number, self.next = self.next, self.next + 1
        customer = self.random.choice([None, *range(CUSTOMERS)])
        amount = self.random.choice([None, Decimal(self.random.randrange(10_000)) / 100])
        return number, customer, amount, self.random.randrange(40)

    def _replace(self, gone: list[int], there: list[Order]) -> None:
        """The same change of orders in DuckDB and in memory."""
        for number in [*gone, *(order[0] for order in there)]:
            if self.orders.pop(number, None) is not None:
                self.oracle.connection.execute("DELETE FROM orders WHERE id = ?", [number])
        for order in there:
            self.orders[order[0]] = order
        if there:
            self.oracle.connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", there)

    def step(self) -> None:
        """One transaction: orders come, go and change, and now and then a customer changes too."""
        known = list(self.orders)
        more = len(known) <= ORDERS
        new = [self._order() for _ in range(self.random.randint(1, 4) if more else self.random.randint(0, 1))]
        count = self.random.randint(0, 1) if more else self.random.randint(1, 4)
        touched = self.random.sample(known, count + self.random.randint(0, 2))
        gone, changed = touched[:count], [self._order(number) for number in touched[count:]]
        customer = self._customer(self.random.randrange(CUSTOMERS)) if self.random.random() < 0.1 else None
        with self.db.transaction() as tx:
            if new:
                tx.insert("orders", new)
            if gone:
                tx.delete_by_key("orders", [(number,) for number in gone])
            if changed:
                tx.upsert("orders", changed)
            if customer is not None:
                tx.upsert("customers", [customer])
        self._replace(gone, [*new, *changed])
        if customer is not None:
            self.oracle.connection.execute("DELETE FROM customers WHERE id = ?", [customer[0]])
            self.oracle.connection.execute("INSERT INTO customers VALUES (?, ?, ?)", customer)

    def check(self) -> None:
        """Every table and view is what DuckDB computes."""
        for name in ("customers", "orders", *VIEWS):
            found: Counter[tuple[Any, ...]] = Counter(tuple(row) for row in self.db.sql(f"SELECT * FROM {name}").rows())
            assert found == self.oracle.bag(name), name

    def files(self) -> tuple[int, int]:
        """How many files the ledger names, and how many data files are on disk."""
        named = sum(row["files"] for row in self.db.ls(hidden=True))
        return named, sum(1 for _ in Path(self.db.path, "relations").rglob("*.parquet"))


def anonymous_megabytes() -> float:
    """Memory of this process that is no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("RssAnon:"))
