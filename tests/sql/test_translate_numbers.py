"""Sums and averages are exact, and do not depend on the order of rows, on both engines."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest

from tests.sql.translate_oracle import Oracle, PlainReader, Tables
from viewkeeper.engine.engine import open_engine
from viewkeeper.engine.lowering import Lowering


def rows_of(oracle: Oracle, text: str) -> list[tuple[Any, ...]]:
    """The rows as they are, nothing rounded."""
    lowered = Lowering(oracle.engine, PlainReader(oracle.engine, oracle.tables)).lower(oracle.translated(text).node)
    table = oracle.engine.collect(lowered.frame)
    return sorted(zip(*[column.to_pylist() for column in table.columns], strict=True))


Row = tuple[int, Decimal | None, int]


def decimals(seed: int, precision: int, scale: int) -> list[Row]:
    """Groups of decimals, each with how many copies there are of it."""
    rng = random.Random(seed)
    made: list[Row] = []
    for group in range(40):
        for _ in range(rng.randint(1, 9)):
            digits = rng.randint(-(10 ** rng.randint(1, precision)) + 1, 10 ** rng.randint(1, precision) - 1)
            made.append((group, None if rng.random() < 0.1 else Decimal(digits).scaleb(-scale), rng.choice((1, 1, 7))))
    # halves of the last place, where rounding twice or cutting off shows
    made += [(100, Decimal(1).scaleb(-scale), 1), (100, Decimal(0), 19_999)]
    made += [(101, Decimal(-1).scaleb(-scale), 1), (101, Decimal(0), 19_999)]
    made += [(102, Decimal(2).scaleb(-scale), 1), (102, Decimal(0), 2)]
    return made


def average(values: list[Decimal], scale: int) -> Decimal | None:
    if not values:
        return None
    with localcontext() as context:
        context.prec = 80
        exact = sum(values, Decimal(0)) / len(values)
        return exact.quantize(Decimal(1).scaleb(-(scale + 4)), rounding=ROUND_HALF_UP)


@pytest.mark.parametrize(("precision", "scale"), [(12, 2), (15, 2), (5, 0), (18, 6), (19, 10), (19, 19)])
def test_an_average_of_decimals_is_rounded_exactly(engine: str, precision: int, scale: int) -> None:
    tables = Tables()
    rows = decimals(precision, precision, scale)
    tables.add("n", f"g INT; d DECIMAL({precision},{scale}); copies INT", rows)
    oracle = Oracle(open_engine(engine, None, {}, {}), tables)
    found = rows_of(oracle, "SELECT g, avg(d) AS x FROM n LATERAL VIEW explode(sequence(1, copies)) e GROUP BY g")
    groups: dict[int, list[Decimal]] = {}
    for group, value, copies in rows:
        groups.setdefault(group, []).extend([value] * copies if value is not None else [])
    assert found == sorted((group, average(values, scale)) for group, values in groups.items())


def test_a_sum_of_floats_does_not_depend_on_the_order(engine: str) -> None:
    rng = random.Random(5)
    values = [rng.choice((1e16, -1e16, 0.1, 1 / 3, 7.25)) * rng.random() for _ in range(500)]
    answers = set()
    for _ in range(3):
        rng.shuffle(values)
        tables = Tables()
        tables.add("n", "x DOUBLE", [(value,) for value in values])
        oracle = Oracle(open_engine(engine, None, {}, {}), tables)
        answers.add(rows_of(oracle, "SELECT sum(x) AS s, avg(x) AS a, sum(DISTINCT x) AS d FROM n")[0])
    assert len(answers) == 1


def test_a_sum_beyond_bigint_raises(engine: str) -> None:
    tables = Tables()
    tables.add("n", "x BIGINT", [(2**63 - 1,), (1,)])
    oracle = Oracle(open_engine(engine, None, {}, {}), tables)
    assert rows_of(oracle, "SELECT avg(x) AS a FROM n") == [(2.0**62,)]
    with pytest.raises(Exception, match=r"(?i)overflow|range|cast"):
        rows_of(oracle, "SELECT sum(x) AS s FROM n")
