"""A shop's tables, their rows, and 80 assertions over them: value ranges, references, joins, sums and exclusions."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

TABLES = {
    "customers": "id BIGINT PRIMARY KEY, name STRING NOT NULL, region STRING, since DATE, credit BIGINT, status STRING",
    "suppliers": "id BIGINT PRIMARY KEY, name STRING NOT NULL, region STRING, rating INT",
    "products": "id BIGINT PRIMARY KEY, supplier BIGINT, name STRING, price BIGINT, weight INT, status STRING",
    "stock": "product BIGINT PRIMARY KEY, quantity BIGINT, reserved BIGINT, minimum BIGINT",
    "orders": "id BIGINT PRIMARY KEY, customer BIGINT, placed DATE, total BIGINT, status STRING, positions INT",
    "lines": "order_id BIGINT, position INT, product BIGINT, quantity BIGINT, price BIGINT, discount INT, "
    "PRIMARY KEY (order_id, position)",
    "payments": "id BIGINT PRIMARY KEY, order_id BIGINT, amount BIGINT, paid DATE, method STRING",
    "shipments": "id BIGINT PRIMARY KEY, order_id BIGINT, shipped DATE, carrier STRING, parcels INT",
}
"""Columns by table."""

_RANGES = {
    "customers": [
        "credit < 0", "credit > 100000", "region IS NULL", "status NOT IN ('new', 'good', 'closed')",
        "since < DATE'1990-01-01'", "name = ''",
    ],
    "suppliers": ["rating < 1", "rating > 5", "region IS NULL", "name = ''"],
    "products": [
        "price <= 0", "price > 100000", "weight < 0", "status NOT IN ('sold', 'ended')", "supplier IS NULL",
        "name IS NULL",
    ],
    "stock": ["quantity < 0", "reserved < 0", "reserved > quantity", "minimum < 0"],
    "orders": [
        "total < 0", "total > 10000000", "placed IS NULL", "status NOT IN ('open', 'paid', 'sent', 'void')",
        "positions < 1", "positions > 50",
    ],
    "lines": [
        "quantity < 1", "quantity > 1000", "price < 0", "discount < 0", "discount > 50", "position < 1",
        "price * quantity > 5000000",
    ],
    "payments": ["amount <= 0", "method NOT IN ('card', 'bank')", "paid IS NULL", "amount > 10000000"],
    "shipments": ["parcels < 1", "parcels > 20", "carrier IS NULL", "shipped IS NULL"],
}  # fmt: skip

_REFERENCES = [
    ("products", "supplier", "suppliers", "id"),
    ("stock", "product", "products", "id"),
    ("orders", "customer", "customers", "id"),
    ("lines", "order_id", "orders", "id"),
    ("lines", "product", "products", "id"),
    ("lines", "product", "stock", "product"),
    ("payments", "order_id", "orders", "id"),
    ("shipments", "order_id", "orders", "id"),
]

_JOINS = [
    "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id WHERE o.placed < c.since",
    "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id WHERE c.status = 'closed' AND o.status = 'open'",
    "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id WHERE o.total > 100 * c.credit + 9000000",
    "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id WHERE c.status = 'new' AND o.total > 5000000",
    "SELECT l.order_id, l.position FROM lines l JOIN products p ON l.product = p.id WHERE p.status = 'ended'",
    "SELECT l.order_id, l.position FROM lines l JOIN products p ON l.product = p.id WHERE l.price > 2 * p.price",
    "SELECT l.order_id, l.position FROM lines l JOIN products p ON l.product = p.id "
    "WHERE l.quantity * p.weight > 90000",
    "SELECT l.order_id, l.position FROM lines l JOIN stock s ON l.product = s.product WHERE l.quantity > s.quantity",
    "SELECT l.order_id, l.position FROM lines l JOIN orders o ON l.order_id = o.id WHERE l.position > o.positions",
    "SELECT l.order_id, l.position FROM lines l JOIN orders o ON l.order_id = o.id WHERE l.price > o.total",
    "SELECT l.order_id, l.position FROM lines l JOIN orders o ON l.order_id = o.id WHERE o.status = 'void' "
    "AND l.quantity > 500",
    "SELECT l.order_id, l.position FROM lines l JOIN products p ON l.product = p.id JOIN suppliers s "
    "ON p.supplier = s.id WHERE s.rating = 1 AND l.discount = 0",
    "SELECT l.order_id FROM lines l JOIN orders o ON l.order_id = o.id JOIN customers c ON o.customer = c.id "
    "WHERE c.status = 'new' AND l.discount > 30",
    "SELECT p.id FROM payments p JOIN orders o ON p.order_id = o.id WHERE p.paid < o.placed",
    "SELECT p.id FROM payments p JOIN orders o ON p.order_id = o.id WHERE p.amount > o.total",
    "SELECT p.id FROM payments p JOIN orders o ON p.order_id = o.id WHERE o.status = 'void'",
    "SELECT s.id FROM shipments s JOIN orders o ON s.order_id = o.id WHERE s.shipped < o.placed",
    "SELECT s.id FROM shipments s JOIN orders o ON s.order_id = o.id WHERE o.status IN ('open', 'void')",
    "SELECT s.id FROM shipments s JOIN orders o ON s.order_id = o.id WHERE s.parcels > o.positions",
    "SELECT p.id FROM products p JOIN stock s ON p.id = s.product WHERE p.status = 'ended' AND s.quantity > 10000",
]

_NEGATIONS = [
    "SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)",
    "SELECT id FROM orders o WHERE status = 'sent' AND NOT EXISTS (SELECT 1 FROM shipments s WHERE s.order_id = o.id)",
    "SELECT id FROM orders o WHERE status = 'paid' AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.id)",
    "SELECT id FROM products p WHERE NOT EXISTS (SELECT 1 FROM stock s WHERE s.product = p.id)",
]

_GROUPS = [
    "SELECT order_id FROM lines GROUP BY order_id HAVING count(*) > 40",
    "SELECT order_id FROM lines GROUP BY order_id HAVING sum(price * quantity) > 9000000",
    "SELECT order_id, product FROM lines GROUP BY order_id, product HAVING count(*) > 5",
    "SELECT order_id FROM payments GROUP BY order_id HAVING count(*) > 3",
    "SELECT order_id FROM shipments GROUP BY order_id HAVING sum(parcels) > 30",
    "SELECT customer, placed FROM orders GROUP BY customer, placed HAVING count(*) > 100",
    "SELECT supplier FROM products GROUP BY supplier HAVING count(*) > 500",
]


def assertions() -> dict[str, str]:
    """The 80 queries that must stay empty, by name."""
    ranges = {
        f"{table}_{number}": f"SELECT * FROM {table} WHERE {condition}"
        for table, conditions in _RANGES.items()
        for number, condition in enumerate(conditions)
    }
    references = {
        f"{child}_{column}_{parent}": f"SELECT {column} FROM {child} WHERE {column} IS NOT NULL AND NOT EXISTS "
        f"(SELECT 1 FROM {parent} WHERE {parent}.{key} = {child}.{column})"
        for child, column, parent, key in _REFERENCES
    }
    named = {
        f"{kind}_{number}": query
        for kind, queries in (("join", _JOINS), ("negation", _NEGATIONS), ("group", _GROUPS))
        for number, query in enumerate(queries)
    }
    return {**ranges, **references, **named}


SINGLE = {"value range": "lines_6", "reference": "lines_order_id_orders", "join": "join_4", "group": "group_0"}
"""One assertion of each kind, which are measured alone."""

DAY = dt.date(2026, 1, 1)


def rows(scale: int) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of every table that violate nothing: `scale` customers and ten times as many orders."""
    rng = random.Random(5)
    found: dict[str, list[tuple[Any, ...]]] = {
        "customers": [(i, f"customer {i}", "EU", DAY - dt.timedelta(900), 1000, "good") for i in range(scale)],
        "suppliers": [(i, f"supplier {i}", "EU", 3) for i in range(100)],
        "products": [(i, i % 100, f"product {i}", 100 + i % 900, 10, "sold") for i in range(scale // 2)],
        "stock": [(i, 100_000, 10, 5) for i in range(scale // 2)],
        "orders": [], "lines": [], "payments": [], "shipments": [],
    }  # fmt: skip
    for order in range(10 * scale):
        head, lines = order_rows(order, scale, rng)
        found["orders"].append(head)
        found["lines"] += lines
        found["payments"].append((order, order, 1, DAY, "card"))
        found["shipments"].append((order, order, DAY, "post", 1))
    return found


def order_rows(order: int, scale: int, rng: random.Random) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """An order with three lines."""
    lines = [
        (order, position, rng.randrange(scale // 2), rng.randrange(1, 10), 100 + rng.randrange(80), rng.randrange(10))
        for position in (1, 2, 3)
    ]
    total = sum(line[3] * line[4] for line in lines)
    return (order, rng.randrange(scale), DAY - dt.timedelta(rng.randrange(400)), total, "sent", 3), lines
