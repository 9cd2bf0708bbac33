"""Operators over rows on the driver: what DuckDB computes for the same rows."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    BIGINT,
    DOUBLE,
    STRING,
    Arithmetic,
    Attribute,
    Call,
    Cast,
    Expression,
    Lambda,
    Variable,
    case,
    column,
    comparison,
    integer,
)
from viewkeeper.algebra.rows import signed
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.types import parse_type
from viewkeeper.driver import arrow_operators as operators
from viewkeeper.driver.numbers import LeftToEngine

TYPES = ("string", "date", "int", "double")
COLUMNS = tuple(Attribute(i + 1, f"a{i}", parse_type(kind)) for i, kind in enumerate(TYPES))
OTHERS = tuple(Attribute(i + 11, f"b{i}", parse_type(kind)) for i, kind in enumerate(TYPES))
THIRD = tuple(Attribute(i + 21, f"o{i}", parse_type(kind)) for i, kind in enumerate(TYPES))
K, D, X, F = COLUMNS
LEFT, RIGHT = n.Scan("l#1", "l", COLUMNS), n.Scan("r#1", "r", OTHERS)
SEEDS = range(8)
MOST = 10_000


def rows_of(seed: int, count: int, columns: tuple[Attribute, ...] = COLUMNS) -> pa.Table:
    rng = random.Random(seed)
    choices: list[list[Any]] = [
        ["a", "b", None],
        [None, dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
        [None, 2147483647, -3, 0],
        [None, 0.0, float("nan"), 1.5],
    ]
    values = [[rng.choice(each) for _ in range(count)] for each in choices]
    arrays = [pa.array(each, a.type.arrow) for each, a in zip(values, columns, strict=True)]
    return pa.table(arrays, [a.label for a in columns])


def bag(table: pa.Table) -> list[str]:
    """The rows as texts, in which NaN equals NaN."""
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def same(found: pa.Table, query: str, **tables: pa.Table) -> None:
    """Whether DuckDB has the same rows."""
    with duckdb.connect() as other:
        for name, table in tables.items():
            other.register(name, table)
        assert bag(found) == bag(other.query(query).to_arrow_table())


@pytest.mark.parametrize("seed", SEEDS)
def test_groups(seed: int) -> None:
    t = rows_of(seed, 12 * (seed > 0))
    calls = (
        n.Call(Attribute(31, "n", parse_type("bigint")), "count"),
        n.Call(Attribute(32, "m", parse_type("bigint")), "count", X),
        n.Call(Attribute(33, "s", parse_type("decimal(38,0)")), "sum", X),
        n.Call(Attribute(34, "least", parse_type("int")), "min", X),
        n.Call(Attribute(35, "most", parse_type("date")), "max", D),
    )
    node = n.Aggregate(LEFT, (K, F), calls)
    found = operators.aggregated(node, t)
    assert found.schema.types == [a.type.arrow for a in node.outputs]
    query = "SELECT c1, c4, count(*), count(c3), sum(c3)::DECIMAL(38,0), min(c3), max(c2) FROM t GROUP BY ALL"
    same(found, query, t=t)


def sorted_sum(value: Expression) -> Expression:
    """The sum of the sorted values, as the text of a sum of floats has it."""
    listed = Call("array_sort", (Call("collect_list", (Cast(value, DOUBLE),)),))
    added = Lambda(("a", "b"), Arithmetic("+", Variable("a"), Variable("b")))
    some = comparison(">", Call("count", (value,), BIGINT), integer(0))
    return case((some, Call("aggregate", (listed, Cast(integer(0), DOUBLE), added))))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("groups", [(), (K,), (K, F)])
def test_aggregates_with_a_text(seed: int, groups: tuple[Attribute, ...]) -> None:
    t = rows_of(seed, 15 * (seed > 0))
    texts: list[tuple[str, Expression, str]] = [
        (
            "bigint",
            Call("count", (column(K), column(X)), distinct=True),
            "count(DISTINCT (c1, c3)) FILTER (c1 IS NOT NULL AND c3 IS NOT NULL)",
        ),
        ("bigint", Call("sum", (column(X),), distinct=True), "sum(DISTINCT c3)::BIGINT"),
        ("double", sorted_sum(column(F)), "sum(c4)"),
        (
            "string",
            case(
                (
                    comparison("=", Call("count", (column(K),), BIGINT), Call("count", (integer(1),), BIGINT)),
                    Call("min", (column(K),), STRING),
                )
            ),
            "CASE WHEN count(c1) = count(*) THEN min(c1) END",
        ),
    ]
    calls = [
        n.Call(Attribute(40 + i, f"x{i}", parse_type(kind)), "text", text=text)
        for i, (kind, text, _) in enumerate(texts)
    ]
    calls += [n.Call(Attribute(50 + i, f"y{i}", F.type), how, F) for i, how in enumerate(("min", "max"))]
    calls.append(n.Call(Attribute(60, "s", parse_type("decimal(38,0)")), "sum", X))
    shares = (n.Share("0.5", discrete=True), n.Share("0.9", descending=True, discrete=True), n.Share("0.5"))
    text = Call("percentile", (column(F),))
    calls += [n.Call(Attribute(70 + i, f"p{i}", DOUBLE), "percentile", F, text, each) for i, each in enumerate(shares)]
    found = operators.aggregated(n.Aggregate(LEFT, groups, tuple(calls), whole=not groups), t)
    keys = [a.label for a in groups]
    items = [*keys, *(text for _, _, text in texts), "min(c4)", "max(c4)", "sum(c3)::DECIMAL(38,0)"]
    values = "list_{}(list(c4) FILTER (WHERE c4 IS NOT NULL))[{}]"
    items.append(values.format("sort", "ceil(count(c4) * 0.5)::INT"))
    items.append(values.format("reverse_sort", "ceil(count(c4) * 0.9)::INT"))
    middle = [values.format("sort", f"{end}((count(c4) + 1) / 2)::INT") for end in ("floor", "ceil")]
    items.append(f"0.5 * {middle[0]} + 0.5 * {middle[1]}")
    same(found, f"SELECT {', '.join(items)} FROM t {'GROUP BY ' if keys else ''}{', '.join(keys)}", t=t)


@pytest.mark.parametrize("count", [0, 5])
def test_all_rows_as_one_group(count: int) -> None:
    t = rows_of(1, count)
    calls = (
        n.Call(Attribute(31, "n", parse_type("bigint")), "count"),
        n.Call(Attribute(32, "m", parse_type("bigint")), "count", X),
        n.Call(Attribute(33, "s", parse_type("decimal(38,0)")), "sum", X),
    )
    for chosen in (calls, calls[:1]):
        found = operators.aggregated(n.Aggregate(LEFT, (), chosen, whole=True), t)
        items = ", ".join(("count(*)", "count(c3)", "sum(c3)::DECIMAL(38,0)")[: len(chosen)])
        same(found, f"SELECT {items} FROM t", t=t)


def test_what_is_left_to_the_engine() -> None:
    t = rows_of(1, 5)
    s = Attribute(31, "s", parse_type("double"))
    for call in (n.Call(s, "sum", F), n.Call(s, "stddev", text=Call("stddev", (column(X),)))):
        with pytest.raises(LeftToEngine):
            operators.aggregated(n.Aggregate(LEFT, (K,), (call,)), t)
    with pytest.raises(LeftToEngine):
        operators.inner_joined(t, rows_of(2, 5, OTHERS), [], COLUMNS, 24)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("null_safe", [False, True])
def test_joins(seed: int, null_safe: bool) -> None:
    left, right = rows_of(seed, 9 * (seed > 0)), rows_of(seed + 100, 7 * (seed != 1), OTHERS)
    on = tuple(n.Equality(COLUMNS[i], OTHERS[i], null_safe) for i in (0, 3))
    sign = "IS NOT DISTINCT FROM" if null_safe else "="
    tables = {"l": left, "r": right}
    condition = f"l.c1 {sign} r.c11 AND l.c4 {sign} r.c14"
    found = operators.inner_joined(left, right, on, COLUMNS, MOST)
    same(found, f"SELECT l.*, r.* FROM l JOIN r ON {condition}", **tables)
    more = comparison("<", X, OTHERS[2])
    both = f"{condition} AND l.c3 < r.c13"
    for negated in (False, True):
        node = n.Exists(LEFT, RIGHT, on, (more,), negated=negated)
        there = f"{'NOT' if negated else ''} EXISTS (FROM r WHERE {both})"
        same(operators.existing(node, left, right, MOST), f"SELECT * FROM l WHERE {there}", **tables)
    for full in (False, True):
        padded = tuple(zip(THIRD, OTHERS, strict=True))
        outer = n.Outer(LEFT, RIGHT, on, (more,), padded, full)
        kind = "FULL" if full else "LEFT"
        query = f"SELECT l.*, r.* FROM l {kind} JOIN r ON {both}"
        same(operators.outer_joined(outer, left, right, MOST), query, **tables)


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_go_with_their_rows(seed: int) -> None:
    left, right = signed(rows_of(seed, 6), -2), rows_of(seed + 100, 7, OTHERS)
    on = [n.Equality(K, OTHERS[0])]
    for found in (
        operators.inner_joined(left, right, on, COLUMNS, MOST),
        operators.outer_joined(
            n.Outer(LEFT, RIGHT, tuple(on), (), tuple(zip(THIRD, OTHERS, strict=True))), left, right, MOST
        ),
        operators.existing(n.Exists(LEFT, RIGHT, tuple(on)), left, right, MOST),
    ):
        assert found.column_names[-1] == WEIGHT
        assert set(found[WEIGHT].to_pylist()) <= {-2}
    assert operators.opposite(left)[WEIGHT].to_pylist() == [2] * 6


@pytest.mark.parametrize("seed", SEEDS)
def test_by_row(seed: int) -> None:
    left, right = rows_of(seed, 20 * (seed > 0)), rows_of(seed + 100, 15 * (seed != 1), OTHERS)
    tables = {"l": left, "r": right}
    same(operators.distinct(COLUMNS, left), "SELECT DISTINCT * FROM l", **tables)
    monus, least = n.Monus(LEFT, RIGHT, THIRD), n.Least(LEFT, RIGHT, THIRD)
    same(operators.counted(monus, left, right), "FROM l EXCEPT ALL FROM r", **tables)
    same(operators.counted(least, left, right), "FROM l INTERSECT ALL FROM r", **tables)
    same(operators.united([left, right], [LEFT, RIGHT], THIRD, False), "FROM l UNION ALL FROM r", **tables)
    there = " AND ".join(f"l.c{i} IS NOT DISTINCT FROM r.c{i + 10}" for i in (1, 2))
    restricted = operators.restricted(left, right, [(K, OTHERS[0]), (D, OTHERS[1])])
    same(restricted, f"SELECT * FROM l WHERE EXISTS (FROM r WHERE {there})", **tables)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_states(seed: int) -> None:
    old, more = rows_of(seed, 5 * (seed % 3)), rows_of(seed + 50, 4 * (seed % 2))
    gone = old.slice(0, 2)
    change = pa.concat_tables([signed(more, 2), signed(gone, -1)])
    node = n.Both(LEFT, LEFT, Attribute(41, "state", parse_type("int")))
    found = operators.both_states(node, old, change)
    query = (
        "SELECT *, 0 FROM old UNION ALL (SELECT *, 1 FROM (FROM old UNION ALL FROM more UNION ALL FROM more "
        "EXCEPT ALL FROM gone))"
    )
    same(found, query, old=old, more=more, gone=gone)
    assert WEIGHT not in found.column_names
    back = operators.net(COLUMNS, operators.as_change(n.Signed(node, node.state), found))
    wanted = operators.net(COLUMNS, change)
    assert bag(back) == bag(wanted)
