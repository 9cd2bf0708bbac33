"""The files that the demo loads: generated rows, the same every time."""

from __future__ import annotations

import os
from collections.abc import Iterable

CUSTOMERS = 25_000
"""The last three of them have no order."""

ORDERS = 500_000

BIKES = 600
"""Every bicycle has five parts, some of them inside others."""

REGIONS = ("Africa", "America", "Asia", "Europe")

PARTS = (("bike", "wheel"), ("wheel", "rim"), ("rim", "spoke"), ("wheel", "hub"), ("hub", "axle"))

_PRIME = 999_983


def cents(order: int) -> int:
    """The amount of an order in cents; no two orders have the same."""
    return order * 104_729 % _PRIME


LARGEST = 202_567
"""The order with the largest amount."""


def write_files(directory: str) -> dict[str, str]:
    """Writes a file per table; returns their paths by table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = {name: os.path.join(directory, name) for name in ("customers.csv", "orders.parquet", "parts.csv")}
    customers = (f"{number},{REGIONS[number % 4 - 2]}" for number in range(1, CUSTOMERS + 1))
    _write_csv(paths["customers.csv"], "customer,region", customers)
    numbers = range(1, ORDERS + 1)
    orders = {
        "id": pa.array(numbers, pa.int32()),
        "customer": pa.array([number * 7_919 % (CUSTOMERS - 3) + 1 for number in numbers], pa.int32()),
        "amount": pa.array([cents(number) / 100 for number in numbers]).cast(pa.decimal128(8, 2)),
    }
    pq.write_table(pa.table(orders), paths["orders.parquet"])
    parts = (f"{whole} {number},{part} {number}" for number in range(1, BIKES + 1) for whole, part in PARTS)
    _write_csv(paths["parts.csv"], "whole,part", parts)
    return {os.path.splitext(name)[0]: path for name, path in paths.items()}


def _write_csv(path: str, header: str, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(header + "\n")
        file.writelines(line + "\n" for line in lines)
