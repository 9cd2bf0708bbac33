"""A database that an earlier version has written opens, reads at all its epochs, and goes on.

`earlier_database.zip` was written on Sail by the version before each kind of relation had a type of its own, with a
snapshot after every ten entries, and is never written again: it has tables with keys and a foreign key, virtual and
materialized views with and without auxiliary relations, views that were redefined, one that is refreshed on demand, one
that is suspended, one with its own `keep`, a recursion of Datalog rules, a table that was dropped, and merged files.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.catalog.relations import Auxiliary, MaterializedView, Relation, Table, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.log.audit import audit_ledger
from viewkeeper.log.ledger import Ledger, unpack
from viewkeeper.log.storage import LocalStorage

EARLIER = Path(__file__).with_name("earlier_database.zip")

NORTH, SOUTH = ("north", 2, Decimal("30.50")), ("south", 2, Decimal("12.00"))

READ = {
    ("gone", 4): [(1,), (2,)],
    ("gone", 15): [(1,), (2,)],
    ("large", 7): [(1, Decimal("10.50")), (2, Decimal("20.00"))],
    ("large", 17): [(1, Decimal("10.50")), (2, Decimal("20.00")), (5, Decimal("100.00"))],
    ("large", 18): [(2, Decimal("20.00")), (5, Decimal("100.00"))],
    ("large", 28): [(2, Decimal("21.00")), (5, Decimal("100.00"))],
    ("how_many", 17): [(3, Decimal("10.50"))],
    ("how_many", 18): [(2, Decimal("20.00"))],
    ("by_region", 8): [NORTH, SOUTH],
    ("by_region", 17): [NORTH, SOUTH, (None, 1, Decimal("100.00"))],
    ("by_region", 28): [
        ("north", 3, Decimal("31.50")),
        ("south", 1, Decimal("7.00")),
        (None, 1, Decimal("100.00")),
    ],
    ("above", 17): [("north",), ("south",), (None,)],
    ("above", 28): [("north",), (None,)],
    ("busiest", 15): [(1, 2), (2, 2)],
    ("busiest", 28): [(1, 3), (2, 1), (3, 1)],
    ("first_two", 17): [(2, Decimal("20.00")), (5, Decimal("100.00"))],
    ("first_two", 19): [(1, Decimal("10.50")), (2, Decimal("20.00")), (5, Decimal("100.00"))],
    ("on_request", 25): [(1, Decimal("20.00")), (2, Decimal("7.00"))],
    ("on_request", 28): [(1, Decimal("21.00")), (2, Decimal("7.00")), (3, Decimal("100.00"))],
    ("path", 20): [("a", "b"), ("a", "c"), ("b", "c")],
    ("path", 21): [("a", "a"), ("a", "b"), ("a", "c"), ("b", "b"), ("b", "c")],
    ("ends", 21): [("c",)],
    ("ends", 28): [("d",)],
    ("kept", 13): [("north",), ("south",), (None,)],
    ("kept", 28): [("north",), ("south",), ("west",), (None,)],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with zipfile.ZipFile(EARLIER) as packed:
        packed.extractall(tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def earlier(place: Path, connect: Callable[..., vk.Database]) -> vk.Database:
    return connect(place.name)


def rows(db: vk.Database, query: str) -> list[tuple[Any, ...]]:
    return sorted(db.sql(query).rows(), key=str)


@pytest.mark.spark_long
def test_views_read_as_they_did_at_every_epoch(earlier: vk.Database) -> None:
    assert earlier.epoch == 28
    found = {(name, at): rows(earlier, f"SELECT * FROM {name} AS OF EPOCH {at}") for name, at in READ}
    assert found == READ
    with pytest.raises(vk.errors.NotFound):
        earlier.sql("SELECT * FROM gone")
    assert "it is suspended since epoch 22" in earlier.sql("SELECT * FROM shares").remarks[0]
    changes = {epoch: change.weights() for epoch, change in earlier.view("large").changes(since=16)}
    assert changes == {
        17: {(5, Decimal("100.00")): 1},
        18: {(1, Decimal("10.50")): -1},
        24: {(2, Decimal("20.00")): -1, (2, Decimal("21.00")): 1},
    }


def test_it_goes_on(earlier: vk.Database) -> None:
    assert earlier.verify().equal
    with earlier.transaction() as tx:
        tx.insert("orders", [(7, 4, Decimal("50.00"), None)])
        tx.sql("DELETE FROM orders WHERE id = 6")
        tx.sql("INSERT INTO edge VALUES ('d', 'e')")
    assert tx.commit_info is not None
    assert tx.commit_info.changes["by_region"].weights() == {
        ("west", 1, Decimal("50.00")): 1,
        ("north", 3, Decimal("31.50")): -1,
        ("north", 2, Decimal("31.50")): 1,
    }
    assert tx.commit_info.changes["path"].weights() == {
        ("d", "d"): 1,
        **{(name, "e"): 1 for name in "abcd"},
    }
    earlier.sql("REFRESH MATERIALIZED VIEW shares; REFRESH MATERIALIZED VIEW on_request")
    earlier.sql("ALTER VIEW large AS SELECT id, amount FROM orders WHERE amount >= 50")
    joined = "orders o JOIN customer c ON c.id = o.customer WHERE o.amount > 10"
    earlier.sql(
        "ALTER MATERIALIZED VIEW by_region AS "
        f"SELECT c.region, count(*) AS orders, sum(o.amount) AS total FROM {joined} GROUP BY c.region"
    )
    earlier.datalog("- path(x, x) :- edge(x, _).")
    assert rows(earlier, "SELECT * FROM how_many") == [(2, Decimal("50.00"))]
    assert rows(earlier, "SELECT orders FROM by_region") == [(1,), (1,), (2,)]
    assert rows(earlier, "SELECT * FROM ends") == [("e",)]
    certificate = earlier.verify()
    assert certificate.equal
    assert certificate.remarks == []
    with pytest.raises(vk.errors.SqlError, match="cannot be dropped: "):
        earlier.sql("DROP TABLE edge")
    earlier.sql("DROP TABLE edge CASCADE")
    assert not {"path", "ends"} & {row["name"] for row in earlier.ls()}


def test_state_that_is_stored_twice_stays_so_until_the_view_is_replaced(earlier: vk.Database) -> None:
    """The auxiliary relation of a view whose rows would be the state today is maintained until an ALTER drops it."""
    query = "SELECT count(*) AS n, min(amount) AS least FROM large"
    assert len(earlier.view("how_many").definition.hidden) == 1
    for statement in (
        "INSERT INTO orders (id, customer, amount) VALUES (90, 2, 15)",
        f"ALTER MATERIALIZED VIEW how_many AS {query}",
        "INSERT INTO orders (id, customer, amount) VALUES (91, 2, 17)",
        "DELETE FROM orders WHERE id = 90",
    ):
        earlier.sql(statement)
        assert rows(earlier, "SELECT * FROM how_many") == rows(earlier, query)
    assert not earlier.view("how_many").definition.hidden
    assert earlier.verify("how_many").equal


def kinds(state: State, kind: type[Relation]) -> list[str]:
    return sorted(relation.name for relation in state.relations.values() if isinstance(relation, kind))


def test_snapshots_are_read_and_written_as_they_were(place: Path) -> None:
    """So that each version opens what the other has written."""
    ledger = Ledger(LocalStorage(str(place), "process"))
    assert list(audit_ledger(ledger.storage)) == []
    _, snapshots = ledger.numbers()
    assert snapshots == {10, 20, 30}
    for number in snapshots:
        path = ledger.snapshot_path(number)
        body = unpack(ledger.storage.read(path) or b"", path)
        again = State.from_json(body).to_json()
        assert again == {key: value for key, value in body.items() if key in again}
        assert body.keys() - again.keys() <= {"format", "hash"}


def test_relations_have_the_types_of_their_kinds(place: Path) -> None:
    state = Ledger(LocalStorage(str(place), "process")).load()
    assert state is not None
    assert kinds(state, Table) == ["customer", "edge", "gone", "orders"]
    assert kinds(state, VirtualView) == ["above", "busiest", "ends", "large"]
    views = ["by_region", "first_two", "how_many", "kept", "on_request", "path", "shares"]
    assert kinds(state, MaterializedView) == views
    hidden = {key for name in [*views, "busiest"] for key in view_of(state, name).definition.hidden}
    assert {r.id for r in state.alive() if isinstance(r, Auxiliary)} == hidden
    assert len(hidden) > 3
    assert [until for until, _ in view_of(state, "large").former] == [18]
    assert view_of(state, "large").definition_at(17).sql.endswith("amount >= 10")
    assert view_of(state, "shares").definition.suspended == 22
    assert view_of(state, "on_request").definition.refreshed == 26


def view_of(state: State, name: str) -> Any:
    found = state.find(name)
    assert found is not None
    return as_derived(found)
