"""The tables of TPC-H with their keys, and made-up orders to insert."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

ORDER = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]

KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}

COLUMNS = {
    "region": "r_regionkey BIGINT, r_name STRING, r_comment STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING",
    "supplier": "s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING, "
    "s_acctbal DECIMAL(15,2), s_comment STRING",
    "customer": "c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING, "
    "c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING",
    "part": "p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, "
    "p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2), ps_comment STRING",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), "
    "o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2), "
    "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, "
    "l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, "
    "l_shipmode STRING, l_comment STRING",
}


REFERENCES = {
    "nation": ["n_regionkey -> region"],
    "supplier": ["s_nationkey -> nation"],
    "customer": ["c_nationkey -> nation"],
    "partsupp": ["ps_partkey -> part", "ps_suppkey -> supplier"],
    "orders": ["o_custkey -> customer"],
    "lineitem": ["l_orderkey -> orders", "l_partkey, l_suppkey -> partsupp"],
}


def create_statement(table: str, *, foreign_keys: bool = False) -> str:
    """CREATE TABLE with the table's primary key, and its foreign keys if wanted."""
    pairs = [reference.split(" -> ") for reference in REFERENCES.get(table, ()) if foreign_keys]
    more = "".join(f", FOREIGN KEY ({columns}) REFERENCES {parent}" for columns, parent in pairs)
    return f"CREATE TABLE {table} ({COLUMNS[table]}, PRIMARY KEY ({KEYS[table]}){more})"


def order_rows(keys: list[int], rng: random.Random) -> tuple[list[Any], list[Any]]:
    """Orders with these keys, and 1 to 7 lineitems each."""
    orders: list[Any] = []
    lines: list[Any] = []
    for key in keys:
        day = dt.date(1992, 1, 1) + dt.timedelta(days=rng.randrange(2400))
        orders.append(
            (
                key,
                rng.randrange(1, 150000),
                "O",
                rng.randrange(100, 5000000) / 100,
                day,
                "3-MEDIUM",
                "Clerk#1",
                0,
                "new",
            )
        )
        for number in range(1, rng.randrange(2, 9)):
            part, supplier = rng.randrange(1, 200000), rng.randrange(1, 10000)
            amounts = (rng.randrange(1, 50), rng.randrange(100, 100000) / 100, 0.05, 0.02)
            dates = (day, day + dt.timedelta(days=30), day + dt.timedelta(days=10))
            lines.append((key, part, supplier, number, *amounts, "N", "O", *dates, "NONE", "MAIL", "new"))
    return orders, lines
