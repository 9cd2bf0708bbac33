"""Window functions and top-k over rows on the driver: what DuckDB computes for the same rows."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

from tests.driver.test_operators import COLUMNS, LEFT, SEEDS, D, F, K, X, rows_of, same
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Call, Literal, column, integer
from viewkeeper.algebra.rows import consolidate, expand, signed
from viewkeeper.algebra.types import parse_type
from viewkeeper.driver.arrow_windows import Buffered, buffer_positions, first_rows, window_functions
from viewkeeper.driver.numbers import LeftToEngine

ID = Attribute(90, "id", parse_type("int"))
INPUT = n.Scan("t#1", "t", (*COLUMNS, ID))
ORDERS = [n.Order(a, down, first) for a in (K, D, X, F) for down in (False, True) for first in (False, True)]
FRAMES = ("", *(f"{kind} BETWEEN {edges}" for kind, edges in (
    ("ROWS", "UNBOUNDED PRECEDING AND CURRENT ROW"),
    ("ROWS", "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
    ("ROWS", "2 PRECEDING AND 1 PRECEDING"),
    ("ROWS", "1 FOLLOWING AND 3 FOLLOWING"),
    ("RANGE", "CURRENT ROW AND UNBOUNDED FOLLOWING"),
)))  # fmt: skip
FUNCTIONS: list[tuple[str, str, tuple[object, ...]]] = [
    ("row_number", "int", ()),
    ("rank", "int", ()),
    ("dense_rank", "int", ()),
    ("percent_rank", "double", ()),
    ("cume_dist", "double", ()),
    ("ntile", "int", (integer(3),)),
    ("lag", "string", (column(K),)),
    ("lag", "int", (column(X), integer(2), integer(7))),
    ("lead", "date", (column(D), integer(1))),
    ("lead", "date", (column(D), integer(-1))),
]
FRAMED: list[tuple[str, str, tuple[object, ...]]] = [
    ("count", "bigint", (column(X),)),
    ("count", "bigint", (integer(1),)),
    ("sum", "bigint", (column(X),)),
    ("avg", "double", (column(X),)),
    ("min", "string", (column(K),)),
    ("max", "date", (column(D),)),
    ("first_value", "int", (column(X),)),
    ("last_value", "string", (column(K),)),
    ("nth_value", "int", (column(X), integer(2))),
]


def table(seed: int) -> pa.Table:
    rows = rows_of(seed, 14 * (seed > 0))
    return rows.append_column(ID.label, pa.array(range(rows.num_rows), pa.int32()))


def order_text(keys: list[n.Order]) -> str:
    ways = ((k.attribute.label, "DESC" if k.descending else "ASC", "FIRST" if k.nulls_first else "LAST") for k in keys)
    return ", ".join(f"{name} {way} NULLS {nulls}" for name, way, nulls in ways)


def text_of(name: str, arguments: tuple[object, ...]) -> str:
    parts = (str(a.value) if isinstance(a, Literal) else a.of.label for a in arguments)  # type: ignore[attr-defined]
    return f"{name}({', '.join(parts)})"


@pytest.mark.parametrize("seed", SEEDS)
def test_window_functions(seed: int) -> None:
    rows, rng = table(seed), random.Random(seed)
    for order, partition in itertools.product(rng.sample(ORDERS, 2), ((), (K,), (F, D))):
        calls, items = [], []
        over = f"PARTITION BY {', '.join(a.label for a in partition)} " if partition else ""
        chosen = [(*f, "") for f in FUNCTIONS] + [(*f, frame) for f in FRAMED for frame in rng.sample(FRAMES, 3)]
        for number, (name, kind, arguments, frame) in enumerate(chosen):
            out = Attribute(100 + number, f"x{number}", parse_type(kind))
            tied = name not in ("rank", "dense_rank", "percent_rank", "cume_dist") and rng.random() < 0.9
            steady = name in ("count", "sum", "avg", "min", "max") and not frame.startswith("ROWS")
            tie_break = tied and not steady
            if not tie_break and name in (
                "row_number",
                "ntile",
                "lag",
                "lead",
                *("first_value", "last_value", "nth_value"),
            ):
                tie_break = True
            if not tie_break and frame.startswith("ROWS"):
                tie_break = True
            calls.append(n.WindowCall(out, Call(name, arguments), frame, tie_break))  # type: ignore[arg-type]
            keys = [order, n.Order(ID)] if tie_break else [order]
            ranks = name in ("rank", "dense_rank", "percent_rank", "cume_dist", "row_number", "ntile", "lag", "lead")
            said = f"{text_of(name, arguments)} OVER ({over}ORDER BY {order_text(keys)} {'' if ranks else frame})"
            items.append(f"CAST({said} AS {kind})")
        found = window_functions(n.Window(INPUT, partition, (order,), tuple(calls)), [n.Order(ID)], rows)
        assert found.schema.types[5:] == [call.output.type.arrow for call in calls]
        same(found, f"SELECT *, {', '.join(items)} FROM t", t=rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_first_rows(seed: int) -> None:
    rows, rng = table(seed), random.Random(seed)
    for order, partition, limit, offset in itertools.product(
        rng.sample(ORDERS, 2), ((), (K,)), (None, 0, 2, 5), (0, 1)
    ):
        found = first_rows(n.Top(INPUT, partition, (order,), limit, offset), [order, n.Order(ID)], rows)
        by = f"PARTITION BY {partition[0].label} " if partition else ""
        most = "" if limit is None else f"AND r <= {offset + limit}"
        number = f"row_number() OVER ({by}ORDER BY {order_text([order, n.Order(ID)])})"
        same(found, f"SELECT * EXCLUDE r FROM (SELECT *, {number} AS r FROM t) WHERE r > {offset} {most}", t=rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_stored_buffers(seed: int) -> None:
    """A buffer that is not to be read again holds the first rows, unless rows behind its last one were missed."""
    rng = random.Random(seed)
    names = Buffered(
        *(Attribute(60 + i, f"b{i}", parse_type(k)) for i, k in enumerate(("bigint", "bigint", "boolean")))
    )
    for order, partition in itertools.product(rng.sample(ORDERS, 2), ((), (K,))):
        keys = [order, *(n.Order(a) for a in COLUMNS if a != order.attribute)]
        old = rows_of(seed + 7, rng.choice((0, 5, 15)))
        node = n.Top(LEFT, partition, (order,), 6)
        buffer = first_rows(node, keys, old)
        gone = old.take(pa.array(rng.sample(range(old.num_rows), min(old.num_rows, rng.choice((0, 1, 4)))), pa.int64()))
        change = consolidate(pa.concat_tables([signed(rows_of(seed + 9, 3), 1), signed(gone, -1)]))
        moved = buffer_positions(node, keys, names, buffer, change)
        again = {
            tuple(row.values())
            for row in moved.filter(moved[names.again.label]).select([a.label for a in partition]).to_pylist()
        }
        weights = pa.compute.subtract(moved[names.will.label], moved[names.was.label])
        kept = moved.select([a.label for a in COLUMNS]).append_column("_weight", weights)
        new = first_rows(node, keys, expand(consolidate(pa.concat_tables([signed(buffer, 1), kept]))))
        wanted = first_rows(node, keys, expand(consolidate(pa.concat_tables([signed(old, 1), change]))))
        for group in {tuple(row.values()) for row in wanted.select([a.label for a in partition]).to_pylist()} - again:
            ours, theirs = (_of_group(rows, partition, group) for rows in (new, wanted))
            assert ours == theirs[: len(ours)] if len(ours) >= 3 else ours == theirs


def _of_group(rows: pa.Table, partition: tuple[Attribute, ...], group: tuple[object, ...]) -> list[str]:
    """The rows of a partition, in order, as texts."""
    found = rows.to_pylist()
    return [repr(tuple(row.values())) for row in found if tuple(row[a.label] for a in partition) == group]


def test_what_is_left_to_the_engine() -> None:
    rows, out = table(3), Attribute(100, "x", parse_type("double"))
    for made in (Call("sum", (column(F),)), Call("max", (column(F),)), Call("stddev", (column(X),))):
        with pytest.raises(LeftToEngine):
            window_functions(n.Window(INPUT, (), (n.Order(X),), (n.WindowCall(out, made),)), [], rows)
    frame = "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW"
    with pytest.raises(LeftToEngine, match="by distance"):
        window_functions(
            n.Window(INPUT, (), (n.Order(X),), (n.WindowCall(out, Call("count", (column(X),)), frame),)), [], rows
        )
