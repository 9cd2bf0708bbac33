"""The error of an assertion names it, the first violating rows, and the changed rows that led to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import viewkeeper as vk
from viewkeeper.transaction import causes

SMALL = "SELECT o.id, t.total FROM eu o JOIN totals t ON o.id = t.order_id WHERE t.total > 10"
WITHOUT = "SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)"


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    with db.transaction() as tx:
        tx.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING)")
        tx.sql("CREATE TABLE lines (order_id BIGINT, product STRING, quantity INT)")
        tx.sql(
            "CREATE MATERIALIZED VIEW totals AS SELECT order_id, sum(quantity) AS total FROM lines GROUP BY order_id"
        )
        tx.sql("CREATE VIEW eu AS SELECT * FROM orders WHERE region = 'EU'")
        tx.sql(f"CREATE ASSERTION small CHECK (NOT EXISTS ({SMALL}))")
        tx.sql(f"CREATE ASSERTION has_lines CHECK (NOT EXISTS ({WITHOUT}))")
        tx.sql("CREATE ASSERTION few CHECK ((SELECT count(*) FROM orders) < 4)")
        tx.sql("INSERT INTO orders VALUES (1, 'EU'), (2, 'US')")
        tx.sql("INSERT INTO lines VALUES (1, 'a', 4), (1, 'b', 3), (2, 'a', 70)")
    return db


def refused(db: vk.Database, *statements: str) -> str:
    tx = db.transaction()
    for statement in statements:
        tx.sql(statement)
    with pytest.raises(vk.errors.AssertionViolated) as caught:
        tx.commit()
    return str(caught.value)


def text(name: str, detail: str) -> str:
    return (
        f"the assertion {name} is violated\ndetail: {detail}\n"
        f"hint: nothing was changed; EXPLAIN ASSERTION {name} says which changes can violate it"
    )


CASES: list[tuple[str, Sequence[str], str, str]] = [
    (
        "a table below a materialized view",
        ["INSERT INTO lines VALUES (1, 'c', 5), (2, 'd', 5), (1, 'e', 1)"],
        "small",
        "by (id = 1, total = 13); led to by lines: inserted (order_id = 1, product = 'c', quantity = 5), "
        "(order_id = 1, product = 'e', quantity = 1)",
    ),
    (
        "an update of the table below a virtual view",
        ["UPDATE orders SET region = 'EU' WHERE id = 2"],
        "small",
        "by (id = 2, total = 70); led to by orders: inserted (id = 2, region = 'EU')",
    ),
    (
        "deleted rows",
        ["DELETE FROM lines WHERE order_id = 1"],
        "has_lines",
        "by (id = 1); led to by lines: deleted (order_id = 1, product = 'a', quantity = 4), "
        "(order_id = 1, product = 'b', quantity = 3)",
    ),
    (
        "two tables",
        ["INSERT INTO orders VALUES (3, 'EU')", "DELETE FROM lines WHERE order_id = 2"],
        "has_lines",
        "by (id = 2), (id = 3); led to by lines: deleted (order_id = 2, product = 'a', quantity = 70), "
        "and by orders: inserted (id = 3, region = 'EU')",
    ),
    (
        "a condition over an aggregate",
        ["INSERT INTO orders VALUES (3, 'EU'), (4, 'EU')", "INSERT INTO lines VALUES (3, 'c', 5), (4, 'd', 5)"],
        "few",
        "because (SELECT count(*) FROM orders) < 4 is false: count(*) is 4; led to by orders: "
        "inserted (id = 3, region = 'EU'), (id = 4, region = 'EU')",
    ),
    (
        "more rows than are shown",
        ["INSERT INTO orders VALUES (3, 'EU'), (4, 'EU'), (5, 'EU'), (6, 'EU'), (7, 'EU')"],
        "has_lines",
        "by (id = 3), (id = 4), (id = 5) and more; led to by orders: inserted (id = 3, region = 'EU'), "
        "(id = 4, region = 'EU'), (id = 5, region = 'EU') and more",
    ),
]


ON_SPARK = ("two tables", "a condition over an aggregate")
"""The cases that the normal run tries on Apache Spark too."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case[0], marks=() if case[0] in ON_SPARK else pytest.mark.spark_long) for case in CASES],
)
def test_the_error_says_what_led_to_it(shop: vk.Database, case: tuple[str, Sequence[str], str, str]) -> None:
    _, statements, name, detail = case
    epoch = shop.epoch
    found = refused(shop, *statements)
    if "and more" in detail:  # which of them are shown is the engine's choice
        assert found.count(" and more") == 2
        assert found.startswith("the assertion has_lines is violated\ndetail: by (id = ")
        assert "; led to by orders: inserted (id = " in found
    else:
        assert found == text(name, detail)
    assert shop.epoch == epoch


@pytest.mark.spark_long
def test_the_rows_of_a_large_change_are_not_searched(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MOST_ROWS", 2)
    found = refused(shop, "INSERT INTO lines VALUES (1, 'c', 5), (2, 'd', 5), (1, 'e', 1)")
    assert found == text("small", "by (id = 1, total = 13); led to by lines: many changed rows")


@pytest.mark.spark_long
def test_the_search_ends(shop: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MOST_QUERIES", 1)
    found = refused(shop, "INSERT INTO lines VALUES (1, 'c', 9)")
    assert "led to by lines: inserted (order_id = 1, product = 'c', quantity = 9)" in found


@pytest.mark.spark_long
def test_rows_that_are_not_on_the_driver(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=vk.Tuning(small_rows=1))
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("CREATE ASSERTION low CHECK (NOT EXISTS (SELECT a FROM t WHERE b > 10))")
    found = refused(db, "INSERT INTO t VALUES (1, 5), (2, 20), (3, 4)")
    assert found == text("low", "by (a = 2); led to by t: many changed rows")


def test_a_recursion(db: vk.Database) -> None:
    db.datalog(
        ".decl edge(x:number, y:number)\n.input edge\n.decl path(x:number, y:number)\n.output path\n"
        "path(x, y) :- edge(x, y).\npath(x, y) :- path(x, z), edge(z, y).\n"
    )
    db.sql("CREATE ASSERTION no_cycle CHECK (NOT EXISTS (SELECT x FROM path WHERE x = y))")
    db.sql("INSERT INTO edge VALUES (1, 2), (2, 3)")
    found = refused(db, "INSERT INTO edge VALUES (3, 1), (7, 8)")
    assert found == text("no_cycle", "by (x = 1), (x = 2), (x = 3); led to by edge: inserted (x = 3, y = 1)")
