"""A process that changes the shop of the consistency test: python -m tests.server.consistency_writer.

It opens the directory itself, or asks the server, or takes turns; a line is printed for every commit.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import viewkeeper as vk
from viewkeeper.client.http_calls import Unreachable
from viewkeeper.errors import Conflict, ConstraintViolation

REGIONS = ("EU", "US", "ASIA", "it's", "")
CUSTOMERS = 30
NODES = 12

Run = Callable[[str], Any]


def statement(rng: random.Random, number: int) -> str:
    """A random transaction; `number` is unique among all writers."""
    kind = rng.randrange(10)
    customer = rng.randrange(CUSTOMERS)
    if kind < 4:
        rows = (
            f"({number * 10 + n}, {rng.randrange(CUSTOMERS)}, {rng.randrange(5)})" for n in range(rng.randint(1, 5))
        )
        return f"INSERT INTO orders VALUES {', '.join(rows)}"
    if kind == 4:
        return f"UPDATE orders SET amount = amount + 1 WHERE customer = {customer}"
    if kind == 5:
        return f"DELETE FROM orders WHERE customer = {customer} AND amount > 2"
    if kind == 6:
        region = rng.choice(REGIONS).replace("'", "\\'")
        return f"UPDATE customers SET region = '{region}' WHERE id = {customer}"
    if kind == 7:
        return f"DELETE FROM edges WHERE a = {rng.randrange(NODES)} AND b < {rng.randrange(NODES)}"
    a, b = rng.randrange(NODES), rng.randrange(NODES)
    insert = f"INSERT INTO edges VALUES ({a}, {b})"
    if kind == 8:
        return insert
    order = f"INSERT INTO orders VALUES ({number * 10}, {customer}, 1)"
    return f"BEGIN; {insert}; {order}; DELETE FROM edges WHERE b = {a}; COMMIT"


def main(path: str, engine: str, url: str, way: str, seed: int, count: int, pause: float) -> None:
    """Makes `count` transactions; `way` is direct, server or both."""
    rng = random.Random(seed)
    runs: list[Run] = []
    if way != "server":
        runs.append(vk.connect(path, engine=engine).sql)
    if way != "direct":
        runs.append(vk.client.connect(url, timeout=120).sql)
    number = made = 0
    while made < count:
        number += 1
        if commits(rng.choice(runs), statement(rng, seed * 100_000 + number)):
            made += 1
            print(made, flush=True)
            time.sleep(rng.uniform(0, 2 * pause))


def commits(run: Run, text: str) -> bool:
    """Runs one transaction, however often the server dies or another writer is first; whether it changed anything."""
    while True:
        try:
            return run(text).commit is not None
        except (Conflict, Unreachable):
            time.sleep(0.2)
        except ConstraintViolation:
            return True  # the server was killed after it had committed, before it could answer


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0], given[1], given[2], given[3], int(given[4]), int(given[5]), float(given[6]))
