"""SUBSCRIBE and EXPLAIN SUBSCRIBE as statements."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from viewkeeper.errors import ViewkeeperError


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    db.sql("CREATE TABLE customers (id BIGINT PRIMARY KEY, region STRING)")
    db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, n INT)")
    joined = "orders o JOIN customers c ON o.customer = c.id"
    db.sql(f"CREATE VIEW v AS SELECT region, sum(n) AS n FROM {joined} GROUP BY region")
    db.sql("INSERT INTO customers VALUES (1, 'EU'), (2, 'US')")
    db.sql("INSERT INTO orders VALUES (1, 1, 5), (2, 2, 7)")
    return db


def test_rows_with_their_epochs(shop: vk.Database) -> None:
    assert sorted(shop.sql("SUBSCRIBE TO v UP TO EPOCH 5").rows(), key=str) == [
        (5, False, 1, "EU", 5), (5, False, 1, "US", 7), (5, True, None, None, None),
    ]  # fmt: skip
    query = "(SELECT region FROM v WHERE n > 6)"
    result = shop.sql(f"SUBSCRIBE {query} WITH (SNAPSHOT = false) AS OF EPOCH 3 UP TO EPOCH 5")
    assert result.columns == ["_epoch", "_progressed", "_diff", "region"]
    assert result.rows() == [(5, False, 1, "US"), (5, True, None, None)]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_without_an_end_it_is_a_stream(shop: vk.Database) -> None:
    result = shop.sql("SUBSCRIBE orders WHERE customer = 1 WITH (SNAPSHOT = false)")
    with pytest.raises(ViewkeeperError, match="a subscription has no last row"):
        result.rows()
    assert result.stream is not None
    first = next(result.stream)
    assert first.to_pylist() == [
        {"_epoch": 5, "_progressed": True, "_diff": None, "id": None, "customer": None, "n": None}
    ]
    shop.sql("INSERT INTO orders VALUES (3, 1, 1), (4, 2, 1)")
    assert next(result.stream).to_pylist() == [
        {"_epoch": 6, "_progressed": False, "_diff": 1, "id": 3, "customer": 1, "n": 1}
    ]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_explain(shop: vk.Database) -> None:
    lines = [line for (line,) in shop.sql("EXPLAIN SUBSCRIBE TO v WHERE region = 'EU'").rows()]
    assert lines[0] == "follows v: a view"
    assert "bound by region = 'EU': shares its derivation with all that are bound by region" in lines
    assert "  customers, rows with region IN ('EU') only" in lines
    assert any("σ[region IN ('EU')](customers@old)" in line for line in lines)
    table = [line for (line,) in shop.sql("EXPLAIN SUBSCRIBE orders WITH (EVERY = '5 seconds')").rows()]
    assert table == [
        "follows orders: a table",
        "a snapshot, then every 5 seconds the net change of that time",
        "each frame is read from the files of its epoch; nothing is derived",
    ]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "message", "marked"),
    [
        ("SUBSCRIBE TO nothing", "there is no table named 'nothing'", "nothing"),
        ("SUBSCRIBE TO", "expected the name of a table or view, or a query in brackets at the end", None),
        ("SUBSCRIBE TO v WITH (SPEED = 1)", "a subscription has no option 'speed'", "SPEED"),
        ("SUBSCRIBE TO v WITH (EVERY = '1 s', EVERY = '2 s')", "the option 'every' is given twice", "EVERY"),
        ("SUBSCRIBE TO v WITH (SNAPSHOT = perhaps)", "'snapshot' cannot be 'perhaps'", "perhaps"),
        ("SUBSCRIBE TO v WITH (PRECISION = 'rough')", "'precision' cannot be 'rough'", "'rough'"),
        ("SUBSCRIBE TO v WITH (EVERY = 'soon')", "'soon' is not a duration", None),
        ("SUBSCRIBE TO v AS OF EPOCH soon", "EPOCH needs a number", "soon"),
        ("SUBSCRIBE TO v AS OF EPOCH 99", "there is no epoch 99 yet", None),
        ("SUBSCRIBE TO (SELECT x FROM v)", "there is no column 'x'", "x"),
        ("SUBSCRIBE TO v WHERE x = 1", "v has no column 'x'", None),
        ("SUBSCRIBE TO v, orders", "',' is not expected here", ","),
        ("BEGIN; SUBSCRIBE TO v", "SUBSCRIBE shows committed changes, so it cannot stand in a transaction", "v"),
        (
            "SUBSCRIBE TO (SELECT n FROM v) WITH (PRECISION = 'nervous')",
            "a nervous subscription needs rows without duplicates, and the query may have some",
            None,
        ),
    ],
)
def test_mistakes(shop: vk.Database, statement: str, message: str, marked: str | None) -> None:
    with pytest.raises(ViewkeeperError) as caught:
        shop.sql(statement)
    assert caught.value.message == message
    place = caught.value.place
    if marked is not None:
        assert place is not None
        line = place.text.splitlines()[place.line - 1]
        assert line[place.column - 1 : place.column - 1 + place.length] == marked
