"""Both lanes side by side: two views of one query over the same tables, one of them `lane = 'engine'`.

They must have the same rows, and the same feeds, after every transaction: random views and transactions, and views of
everything that has an order of its own over values where engines and drivers might disagree.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import viewkeeper as vk
from tests.driver.forms import COLUMNS
from tests.inventory import MIXED
from tests.marks import long
from tests.property.view_cases import Maker

pytestmark = pytest.mark.driver_lane

VIEWS, TRANSACTIONS = 14, 7


class Twins:
    """Views in both lanes, and how often each lane computed the change of one."""

    def __init__(self, db: vk.Database) -> None:
        self.db = db
        self.names: list[str] = []
        self.lanes: Counter[str] = Counter()
        self.others: Counter[str] = Counter()

    def create(self, name: str, query: str) -> None:
        for lane, twin in (("auto", name), ("engine", f"{name}_e")):
            self.db.sql(f"CREATE MATERIALIZED VIEW {twin} WITH (lane = '{lane}') AS {query}")
        self.names.append(name)

    def apply(self, statements: Sequence[str]) -> None:
        with self.db.transaction() as tx:
            for statement in statements:
                tx.sql(statement)
        commit = tx.commit_info
        for name in self.names if commit is not None else ():
            ours, theirs = (commit.changes.get(twin) for twin in (name, f"{name}_e"))
            assert weights(ours) == weights(theirs), f"{name}: {self.db.view(name).sql}\n{statements}"
            if name in commit.report:
                self.lanes[commit.report[name].lane] += 1
                self.others[commit.report[f"{name}_e"].lane] += 1

    def check(self) -> None:
        """The contents, and all changes since the beginning."""
        for name in self.names:
            ours, theirs = (self.db.view(twin) for twin in (name, f"{name}_e"))
            assert bag(ours.read().rows()) == bag(theirs.read().rows()), name
            feeds = [
                [weights(change) for _, change in view.changes(since=0)][-TRANSACTIONS:] for view in (ours, theirs)
            ]
            assert feeds[0][1:] == feeds[1][1:], name


def plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return (type(value).__name__, str(value)) if isinstance(value, float) else value


def bag(rows: Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(plain, row)) for row in rows)


def weights(change: Any) -> dict[tuple[Any, ...], int]:
    if change is None:
        return {}
    return {tuple(map(plain, row)): weight for row, weight in change.weights().items()}


def check_lanes(twins: Twins) -> None:
    """Most views are maintained in the lane that is theirs; work without any query counts as the driver's."""
    assert twins.lanes["driver"] > twins.lanes["engine"], twins.lanes
    assert twins.others["engine"] > 3 * twins.others["driver"], twins.others


def side_by_side(db: vk.Database, seed: int, views: int, transactions: int) -> Twins:
    """A random case in both lanes."""
    case, twins = Maker(seed, views=views, transactions=transactions).case(), Twins(db)
    db.sql("; ".join(["BEGIN", *(table.ddl for table in case.tables), "COMMIT"]))
    for statement in case.first:
        db.sql(statement.text)
    for view in case.views:
        twins.create(view.name, view.query.text)
    for statements in case.transactions:
        twins.apply([statement.text for statement in statements])
    twins.check()
    return twins


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(*range(2, 12))])
def test_random_views(connect: Callable[..., vk.Database], seed: int) -> None:
    twins = side_by_side(connect(durability="process", tuning=MIXED), seed, VIEWS, TRANSACTIONS)
    check_lanes(twins)


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("seed", [51, *long(*range(52, 56))])
def test_random_views_on_spark(connect: Callable[..., vk.Database], seed: int) -> None:
    twins = side_by_side(connect(durability="process", tuning=MIXED), seed, 4, 3)
    check_lanes(twins)


# nasty values -------------------------------------------------------------------------------------

ORDERS = [f"{name} {way}" for name in COLUMNS for way in ("", "DESC", "NULLS LAST", "DESC NULLS FIRST")]
FRAMES = [
    "",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
]
RANKS = ("row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)")
SHIFTED = ("lag({})", "lead({}, 2)", "lag({}, 3)", "first_value({})", "last_value({})", "nth_value({}, 2)")
AGGREGATES = ("count({})", "min({})", "max({})")
NUMBERS = ("ti", "i", "j", "m", "k")


def window_views(rng: random.Random) -> list[str]:
    """Each window function, over partitions, orders and frames of all kinds of values."""
    found = []
    for order in ORDERS:
        partition = rng.choice(("", "PARTITION BY y ", "PARTITION BY t ", "PARTITION BY d, y "))
        over = f"OVER ({partition}ORDER BY {order}"
        items = [f"{call} {over})" for call in rng.sample(RANKS, 3)]
        frame = rng.choice(FRAMES)
        value = rng.choice(tuple(COLUMNS))
        edges = [call for call in SHIFTED[3:] if frame.startswith("ROWS")]
        items += [f"{call.format(value)} {over})" for call in rng.sample(SHIFTED[:3], 1)]
        items += [f"{call.format(value)} {over} {frame})" for call in rng.sample(edges, min(1, len(edges)))]
        given = value if value not in ("f", "d", "g") else "i"
        exact = "ROWS" not in frame or given not in ("f", "d", "g")
        items += [f"{call.format(given)} {over} {frame})" for call in AGGREGATES if exact]
        items.append(f"sum({rng.choice(NUMBERS)}) {over} {frame})")
        items.append(f"avg({rng.choice(('ti', 'i', 'j'))}) {over})")
        found.append("SELECT id, " + ", ".join(f"{item} AS x{index}" for index, item in enumerate(items)) + " FROM t")
    return found


def other_views(rng: random.Random) -> list[str]:
    found = []
    for order in ORDERS:
        more = rng.choice(("", ", id DESC", f", {rng.choice(ORDERS)}"))
        found.append(f"SELECT id, {order.split()[0]} FROM t ORDER BY {order}{more} LIMIT {rng.choice((1, 3, 5))}")
    for name in COLUMNS:
        group = rng.choice(("y", "t", "j", "e"))
        kind = COLUMNS[name][0]
        items = [f"{call}({name})" for call in ("count", "min", "max", "count_if")[: 4 if kind == "BOOLEAN" else 3]]
        items.append(f"count(DISTINCT {name})")
        if kind == "BOOLEAN":
            items += [f"{call}({name})" for call in ("bool_and", "bool_or", "every", "some")]
        if name in NUMBERS:
            items += [f"sum({name})", f"avg({name})"]
        listed = ", ".join(f"{item} AS x{index}" for index, item in enumerate(items))
        found.append(f"SELECT {group}, {listed} FROM t GROUP BY {group}")
    return found


def insert(db: vk.Database, rows: list[dict[str, Any]]) -> None:
    with db.transaction() as tx:
        tx.insert("t", rows)


MIXED_FORMS = (
    *(
        f"SELECT y, sum({name}) AS a, avg({name}) AS b, min({name}) AS c, max({name}) AS d FROM t GROUP BY y"
        for name in "fdg"
    ),
    "SELECT j, any_value(s) AS a, sum(DISTINCT ti) AS b, count(DISTINCT s, i) AS c FROM t GROUP BY j",
    "SELECT id, word FROM t JOIN (VALUES (1, 'one'), (NULL, 'none'), (7, 'seven')) AS v (number, word) ON i <=> number",
    "SELECT id, upper(t) AS a, length(u) + 1 AS b, e + INTERVAL 1 MONTH AS c FROM t WHERE left(u, 1) <> 'a'",
)
"""Sums of floats, aggregates inside expressions, VALUES, and functions."""


def nasty(db: vk.Database, seed: int, count: int) -> Twins:
    """Random views over nasty values, in both lanes, through transactions of a few rows each."""
    rng, twins = random.Random(seed), Twins(db)
    db.sql(f"CREATE TABLE t (id BIGINT, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())})")

    def rows(first: int, number: int) -> list[dict[str, Any]]:
        values = COLUMNS.items()
        return [{"id": first + i, **{name: rng.choice(some) for name, (_, some) in values}} for i in range(number)]

    insert(db, rows(0, 12))
    chosen = [*MIXED_FORMS, *rng.sample(window_views(rng), count), *rng.sample(other_views(rng), count)]
    for number, query in enumerate(chosen):
        twins.create(f"v{number}", query)
    for number in range(4):
        insert(db, rows(100 * (number + 1), 3))
        twins.apply([f"DELETE FROM t WHERE id % 5 = {number}", f"UPDATE t SET i = j, t = s WHERE id % 7 = {number}"])
    twins.check()
    return twins


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(*range(2, 12))])
def test_nasty_values(connect: Callable[..., vk.Database], seed: int) -> None:
    twins = nasty(connect(durability="process"), seed, 5)
    check_lanes(twins)


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("seed", [1, *long(2, 3)])
def test_nasty_values_on_spark(connect: Callable[..., vk.Database], seed: int) -> None:
    twins = nasty(connect(durability="process"), seed, 1)
    check_lanes(twins)
