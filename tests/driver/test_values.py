"""Expressions on the driver: on random and nasty values they give what the engine gives."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from tests.driver.forms import COLUMNS, LEFT_ON_SAIL, forms, rows
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Expression, In, case, column, integer
from viewkeeper.driver.arrow_values import evaluate, why_not
from viewkeeper.driver.numbers import LeftToEngine
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.operator_parts import meant
from viewkeeper.errors import ViewkeeperError
from viewkeeper.maintain.state_reader import schema_of

TOGETHER = 40
"""Expressions of one query."""


def bound(db: vk.Database, texts: Sequence[str]) -> Iterable[tuple[str, Expression, n.Scan]]:
    """Expressions as a view has them; without those that the engine does not have."""
    name = f"v{len(db.store.state.relations)}"
    items = ", ".join(f"{text} AS x{index}" for index, text in enumerate(texts))
    try:
        db.sql(f"CREATE VIEW {name} AS SELECT id, {items} FROM t")
    except ViewkeeperError:
        if len(texts) > 1:
            middle = len(texts) // 2
            yield from bound(db, texts[:middle])
            yield from bound(db, texts[middle:])
        return
    node = db.view(name).definition.as_written
    (scan,) = n.scans(node)
    assert isinstance(node, n.Project)
    for text, (_, value) in zip(texts, node.columns[1:], strict=True):
        below = node.input
        while isinstance(below, n.Project):
            value = value.substitute(dict(below.columns))
            below = below.input
        yield text, value, scan


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and type(one) is type(other)


def computed(value: Expression, table: pa.Table) -> tuple[list[int], list[Any], list[int]]:
    """The rows for which the driver has a value, the values, and the rows that it leaves to the engine."""
    there, values, left = [], [], []
    for index in range(table.num_rows):
        try:
            values.append(evaluate(value, table.slice(index, 1))[0].as_py())
            there.append(index)
        except LeftToEngine:
            left.append(index)
    return there, values, left


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_the_driver_computes_what_the_engine_computes(
    connect: Callable[..., vk.Database], engine: str, seed: int
) -> None:
    db = connect(durability="process")
    db.sql(f"CREATE TABLE t (id BIGINT, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())})")
    texts = [text for _, text in forms()]
    data, rng = rows(40, seed), random.Random(seed)
    everything = [found for at in range(0, len(texts), TOGETHER) for found in bound(db, texts[at : at + TOGETHER])]
    here = [found for found in everything if why_not(found[1]) is None]
    left = {text for text, value, _ in everything if why_not(value) is not None}
    assert left <= (LEFT_ON_SAIL if engine == "sail" else set())
    assert len(everything) > 0.99 * len(texts), "more expressions are refused on this engine than it lacks"
    wrong: list[str] = []
    for _, found in itertools.groupby(here, key=lambda one: one[2]):
        wrong += compared(db, list(found), data)
    assert not wrong
    raising = [found for found in here if any(sign in found[0] for sign in (" % ", " div ", "i * i"))]
    for _, value, scan in rng.sample(raising, 8):
        table = table_of(scan, data)
        _, _, left = computed(value, table)
        for index in left[:1]:
            with pytest.raises(
                ViewkeeperError,
                match=r"ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|NUMERIC_VALUE_OUT_OF_RANGE",
            ):
                asked(db, [value], scan, table.slice(index, 1))


def table_of(scan: n.Scan, data: dict[str, list[Any]]) -> pa.Table:
    pairs = zip(scan.stored_names, scan.outputs, strict=True)
    return pa.table({attribute.label: pa.array(data[name], attribute.type.arrow) for name, attribute in pairs})


def asked(db: vk.Database, values: Sequence[Expression], scan: n.Scan, table: pa.Table) -> pa.Table:
    """What the engine computes."""
    engine = db.store.engine
    items = [(meant(value, engine.kind), f"x{index}") for index, value in enumerate(values)]
    return engine.fetch(engine.arrow(table, schema_of(scan.outputs)).select(*listed(*items)))


def compared(db: vk.Database, found: Sequence[tuple[str, Expression, n.Scan]], data: dict[str, list[Any]]) -> list[str]:
    """What differs from the engine, over the rows that the driver computes."""
    wrong, values, wanted = [], [], []
    scan = found[0][2]
    table = table_of(scan, data)
    identifier = next(a for name, a in zip(scan.stored_names, scan.outputs, strict=True) if name == "id")
    for text, value, _ in found:
        there, alone, left = computed(value, table)
        if not there:
            continue
        together = evaluate(value, table.take(there))
        if not all(map(same, together.to_pylist(), alone)):
            wrong.append(f"{text}: other values for many rows than for one")
        reached = case((In(column(identifier), tuple(integer(index) for index in there)), value)) if left else value
        values.append(reached)
        wanted.append((text, there, alone))
    try:
        columns = asked(db, values, scan, table).columns
    except ViewkeeperError as problem:
        if len(found) == 1:
            return [*wrong, f"{found[0][0]}: the engine raises {problem}"]
        return wrong + [one for each in found for one in compared(db, [each], data)]
    for array, (text, there, alone) in zip(columns, wanted, strict=True):
        got = array.take(there).to_pylist()
        wrong += [
            f"{text}: the engine has {theirs!r}, the driver {ours!r} for row {index}"
            for index, theirs, ours in zip(there, got, alone, strict=True)
            if not same(theirs, ours)
        ][:1]
    return wrong
