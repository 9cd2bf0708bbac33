"""Operators on rows that are on the driver: what the engine would compute, or nothing."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.rows import signed
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.types import parse_type
from viewkeeper.engine.lowered import Lowered, aggregated, in_both_states, semi_joined

K = Attribute(1, "k", parse_type("string"))
D = Attribute(2, "d", parse_type("date"))
X = Attribute(3, "x", parse_type("int"))
COLUMNS = (K, D, X)


def rows_of(seed: int, count: int) -> pa.Table:
    rng = random.Random(seed)
    rows = [
        (rng.choice(["a", "b", None]), rng.choice([None, dt.date(2026, 1, rng.randint(1, 2))]),
         rng.choice([None, 2147483647, -3, 0]))
        for _ in range(count)
    ]  # fmt: skip
    return pa.table([pa.array([row[i] for row in rows], a.type.arrow) for i, a in enumerate(COLUMNS)], labels(COLUMNS))


def labels(attributes: tuple[Attribute, ...]) -> list[str]:
    return [a.label for a in attributes]


def lowered(rows: pa.Table, *, weighted: bool = False) -> Lowered:
    frame: Any = None
    return Lowered(frame, COLUMNS, weighted, empty=not rows.num_rows, rows=rows)


def bag(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.mark.parametrize("seed", range(6))
def test_groups(seed: int) -> None:
    t = rows_of(seed, 12 * (seed > 0))
    count = n.Call(Attribute(4, "n", parse_type("bigint")), "count")
    there = n.Call(Attribute(5, "m", parse_type("bigint")), "count", X)
    total = n.Call(Attribute(6, "s", parse_type("decimal(38,0)")), "sum", X)
    node = n.Aggregate(n.Scan("t", COLUMNS, n.NEW), (K, D), (count, there, total))
    found = aggregated(t, node)
    assert found is not None
    assert found.schema.types == [a.type.arrow for a in node.outputs]
    query = "SELECT c1, c2, count(*), count(c3), sum(c3)::DECIMAL(38,0) FROM t GROUP BY ALL"
    assert bag(found) == bag(duckdb.query(query).to_arrow_table())


def test_other_aggregates_are_left_to_the_engine() -> None:
    scan = n.Scan("t", COLUMNS, n.NEW)
    least = n.Call(Attribute(4, "least", parse_type("int")), "min", X)
    assert aggregated(rows_of(1, 5), n.Aggregate(scan, (K,), (least,))) is None
    x = Attribute(9, "x", parse_type("double"))
    assert aggregated(rows_of(1, 5), n.Aggregate(scan, (x,), ())) is None


@pytest.mark.parametrize("seed", range(6))
def test_semi_join(seed: int) -> None:
    left, right = rows_of(seed, 9), rows_of(seed + 100, 2)
    found = semi_joined(lowered(left), lowered(right), [(K, K), (D, D)])
    assert found is not None
    there = 'EXISTS (FROM "right" r WHERE r.c1 IS NOT DISTINCT FROM l.c1 AND r.c2 IS NOT DISTINCT FROM l.c2)'
    assert bag(found) == bag(duckdb.query(f'FROM "left" l SELECT * WHERE {there}').to_arrow_table())


@pytest.mark.parametrize("seed", range(6))
def test_both_states(seed: int) -> None:
    old, more = rows_of(seed, 5 * (seed % 3)), rows_of(seed + 50, 4 * (seed % 2))
    gone = old.slice(0, 2)
    change = pa.concat_tables([signed(more, 2), signed(gone, -1)])
    state = Attribute(7, "state", parse_type("int"))
    found = in_both_states(lowered(old), lowered(change, weighted=True), state, 100)
    assert found is not None
    query = (
        "SELECT *, 0 FROM old UNION ALL (SELECT *, 1 FROM (FROM old UNION ALL FROM more UNION ALL FROM more "
        "EXCEPT ALL FROM gone))"
    )
    assert bag(found) == bag(duckdb.query(query).to_arrow_table())
    assert in_both_states(lowered(old), lowered(change, weighted=True), state, old.num_rows) is None or not len(change)
    assert WEIGHT not in found.column_names
