"""viewkeeper demo --serve: transactions stream through a shop and a network of flights, and a page shows it."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from typing import TYPE_CHECKING

from viewkeeper.cli.output import note
from viewkeeper.errors import Conflict

if TYPE_CHECKING:
    from viewkeeper.api.database import Database

PAUSE = 1.0
"""Seconds between two transactions."""

MOST_ORDERS = 60
"""From so many orders on, old ones are closed and deleted."""

CITIES = ("Oslo", "Rome", "Lima", "Cairo", "Tokyo", "Delhi", "Quito", "Perth", "Accra", "Turin")

REGIONS = ("Europe", "America", "Asia", "Africa")

TABLES = """
CREATE TABLE customers (id INT PRIMARY KEY, name STRING NOT NULL, region STRING NOT NULL);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL REFERENCES customers, amount DECIMAL(8,2) NOT NULL,
  status STRING NOT NULL);
CREATE TABLE flights (origin STRING, destination STRING, PRIMARY KEY (origin, destination));
CREATE TABLE alerts (customer INT, total DECIMAL(18,2));
"""

VIEWS = """
CREATE MATERIALIZED VIEW revenue AS
  SELECT c.region, count(*) AS orders, sum(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id
  GROUP BY c.region;
CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
CREATE VIEW open_orders AS
  SELECT o.id, c.name, c.region, o.amount FROM orders o JOIN customers c ON o.customer = c.id WHERE o.status = 'open';
CREATE MATERIALIZED VIEW largest AS SELECT id, customer, amount FROM orders ORDER BY amount DESC LIMIT 5;
CREATE VIEW without_orders AS
  SELECT id, name FROM customers c WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.customer = c.id);
CREATE VIEW connections AS
  WITH RECURSIVE r(origin, destination) AS (
    SELECT origin, destination FROM flights
    UNION SELECT r.origin, f.destination FROM r JOIN flights f ON r.destination = f.origin)
  SELECT origin, destination FROM r;
CREATE RULE good_customer ON (SELECT customer, total FROM totals WHERE total > 1500) WHEN INSERTED
  DO INSERT INTO alerts SELECT customer, total FROM inserted;
CREATE ASSERTION amounts_are_positive CHECK (NOT EXISTS (SELECT id, amount FROM orders WHERE amount <= 0));
"""


def stream(engine: str | None, port: int) -> None:
    """Makes the database, changes it all the time, and serves it until Ctrl-C."""
    from viewkeeper.api.database import connect
    from viewkeeper.server.running_server import serve
    from viewkeeper.server.server_settings import ServerSettings

    with (
        tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as directory,
        connect(os.path.join(directory, "lake"), engine or "sail", keep="1 hour") as db,
    ):
        shop = Shop(db, random.Random(7))
        shop.create()
        ended = threading.Event()
        writer = threading.Thread(target=shop.run, args=(ended,), name="viewkeeper-demo", daemon=True)
        writer.start()
        note(f"open http://127.0.0.1:{port}/ in a browser; Ctrl-C ends it")
        note(f"or follow a view here: viewkeeper subscribe revenue --url http://127.0.0.1:{port}")
        try:
            serve(db, ServerSettings(port=port))
        finally:
            ended.set()
            writer.join()


class Shop:
    """The database of the demo, and transactions that change it."""

    def __init__(self, db: Database, rng: random.Random) -> None:
        self.db = db
        self.rng = rng
        self.orders: list[int] = []
        self.next = 1
        self.flights: set[tuple[str, str]] = set()

    def create(self) -> None:
        """Tables, first rows and views."""
        self.db.sql(TABLES)
        rows = [(n, f"{self.rng.choice('ABCDEFGHKLMNPRSTVW')}. {n}", self.rng.choice(REGIONS)) for n in range(1, 31)]
        with self.db.transaction() as tx:
            tx.insert("customers", rows)
            for _ in range(12):
                tx.sql(self._flight())
        self.db.sql(VIEWS)

    def run(self, ended: threading.Event) -> None:
        """Transactions until it is told to end."""
        while not ended.wait(PAUSE):
            try:
                self.change()
            except Conflict as problem:  # somebody tries out SQL on the page
                note(f"a transaction was left out: {problem.message}")

    def change(self) -> None:
        """One transaction: new orders, others paid or deleted, now and then a flight, at once."""
        with self.db.transaction() as tx:
            for _ in range(self.rng.randint(1, 4)):
                amount = round(self.rng.uniform(5, 400), 2)
                customer = self.rng.randint(1, 25)
                tx.sql(f"INSERT INTO orders VALUES ({self.next}, {customer}, {amount}, 'open')")
                self.orders.append(self.next)
                self.next += 1
            paid = self.rng.sample(self.orders, min(2, len(self.orders)))
            tx.sql(f"UPDATE orders SET status = 'paid' WHERE id IN ({', '.join(map(str, paid))})")
            if len(self.orders) > MOST_ORDERS:
                old, self.orders = self.orders[:3], self.orders[3:]
                tx.sql(f"DELETE FROM orders WHERE id IN ({', '.join(map(str, old))})")
            if self.rng.random() < 0.4:
                tx.sql(self._flight())

    def _flight(self) -> str:
        """A new flight, or one that is no longer flown."""
        if len(self.flights) > 13:
            origin, destination = self.rng.choice(sorted(self.flights))
            self.flights.remove((origin, destination))
            return f"DELETE FROM flights WHERE origin = '{origin}' AND destination = '{destination}'"
        made = None
        while made is None or made in self.flights:
            origin, destination = self.rng.sample(CITIES, 2)
            made = (origin, destination)
        self.flights.add(made)
        return f"INSERT INTO flights VALUES ('{made[0]}', '{made[1]}')"
