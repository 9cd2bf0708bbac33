"""Views in the ledger and in lists: kinds, options, dependents, history, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Scan
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.serial import to_json
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Relation
from viewkeeper.catalog.state import State
from viewkeeper.errors import AlreadyExists, Conflict, NotFound, SqlError
from viewkeeper.log.ledger import Ledger
from viewkeeper.transaction.commit import commit
from viewkeeper.transaction.open_transaction import OpenTransaction

DAY = 86400.0


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING); CREATE TABLE customer (id BIGINT)")
        yield db


def definition(*below: Relation, kind: str = "materialized", **fields: Any) -> Definition:
    """What SELECT * FROM the first relation means."""
    first = below[0]
    attributes = tuple(Attribute(i, c.name, c.type, c.nullable) for i, c in enumerate(first.schema))
    query = to_json(Scan(first.id, first.name, attributes))
    names, uses = tuple(first.schema.names), tuple(relation.id for relation in below)
    return Definition(kind, f"SELECT * FROM {first.name}", names, query, query, uses=uses, **fields)


def add(db: vk.Database, name: str, *below: str, kind: str = "materialized", **fields: Any) -> Relation:
    """Enters a view over some relations, in a commit of its own."""
    tx = OpenTransaction(db._store)
    relations = [tx.relation(other) for other in below]
    made = tx.create(name, Schema(relations[0].schema.columns), definition(*relations, kind=kind, **fields))
    commit(tx)
    return db._store.refresh().relations[made.id]


def caught(action: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as found:
        action()
    return str(found.value)


def loaded(db: vk.Database) -> State:
    """The state as another process would find it."""
    state = Ledger(db._storage).load()
    assert state is not None
    return state


# the ledger -------------------------------------------------------------------------------------


def test_definitions_survive_the_ledger_and_snapshots(shop: vk.Database) -> None:
    made = add(
        shop, "v", "orders", "customer", refresh="full", on="demand", lag=300.0, keep=DAY, refreshed=2, engine="x"
    )
    found = loaded(shop).find("V")
    assert found == made
    assert found is not None
    assert (found.kind, found.kind_words) == ("materialized", "materialized view")
    body = json.loads(json.dumps(loaded(shop).to_json()))
    assert State.from_json(body).relations == loaded(shop).relations


def test_entries_are_refused_by_versions_that_do_not_know_their_format(
    shop: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loaded(shop).names() == ["customer", "orders"]
    monkeypatch.setattr("viewkeeper.log.ledger.FORMAT", 2)
    with pytest.raises(vk.errors.StorageError, match="written by a newer version"):
        loaded(shop)


def test_definitions_are_replaced_and_the_former_ones_kept_for_time_travel(shop: vk.Database) -> None:
    view = add(shop, "v", "orders", kind="view")
    assert view.definition is not None
    second = replace(view.definition, sql="SELECT id, region FROM orders")
    third = replace(view.definition, sql="SELECT id, upper(region) FROM orders")
    first_epoch = shop.epoch
    for other in (second, third):
        tx = OpenTransaction(shop._store)
        tx.defined[view.id] = other
        assert tx.relation("v").definition == other
        assert commit(tx) is not None
    state = loaded(shop)
    found = state.relations[view.id]
    assert [found.definition_at(first_epoch + i) for i in range(3)] == [view.definition, second, third]
    assert State.from_json(json.loads(json.dumps(state.to_json()))).relations == state.relations
    later = state.apply(
        {"kind": "maintenance", "number": state.number + 1, "at": 0.0, "oldest": first_epoch + 1, "hash": ""}
    )
    assert [until for until, _ in later.relations[view.id].former] == [first_epoch + 2]
    assert shop.history()[0]["changes"] == "redefined v"


def test_refreshed_holds_the_horizon_back(tmp_path: Path) -> None:
    with vk.connect(tmp_path / "lake", engine="sail", keep="0 seconds") as db:
        db.sql("CREATE TABLE t (id INT); CREATE MATERIALIZED VIEW v WITH (on = 'demand') AS SELECT id FROM t")
        made = db.epoch
        db.sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
        far = loaded(db).committed_at + 100 * DAY
        assert (db.view("v").definition.refreshed, loaded(db).horizon(far)) == (made, made)
        refreshed = db.sql("REFRESH v").commit
        assert refreshed is not None
        assert (db.view("v").definition.refreshed, loaded(db).horizon(far)) == (refreshed.epoch, refreshed.epoch)
        db.sql("INSERT INTO t VALUES (3)")
        assert loaded(db).horizon(far) == refreshed.epoch
        assert db.history()[1]["changes"].startswith("refreshed v; v: 2 rows changed (incremental: ")
        db.sql("DROP VIEW v")
        assert loaded(db).horizon(far) == db.epoch


def test_a_new_demand_view_is_true_as_of_its_creation(shop: vk.Database) -> None:
    with shop.transaction() as tx:
        tx.insert("orders", [(1, "EU")])
        tx.sql("CREATE MATERIALIZED VIEW v WITH (on = 'demand') AS SELECT id FROM orders")
        tx.insert("orders", [(2, "EU")])
    assert shop.view("v").definition.refreshed == shop.epoch
    assert sorted(shop.view("v").read().rows()) == [(1,), (2,)]
    assert shop.verify().equal


def test_dependents_and_names(shop: vk.Database) -> None:
    aux = add(shop, "_vk_sums", "orders", kind="auxiliary")
    v = add(shop, "v", "orders", hidden=(aux.id,))
    w = add(shop, "w", "v", "customer", kind="view")
    state = loaded(shop)
    orders = state.find("orders")
    assert orders is not None
    assert state.dependents(orders.id) == [aux, v]
    assert state.dependents(aux.id) == [v]
    assert state.dependents(v.id) == [w]
    assert state.names() == ["customer", "orders", "v", "w"]
    assert state.find("_VK_SUMS") == aux
    tx = OpenTransaction(shop._store)
    assert tx.names() == state.names()
    assert tx.dependents(v.id) == [w]
    tx.drop(tx.relation("w"))
    assert tx.dependents(v.id) == []
    assert [table.name for table in OpenTransaction(shop._store).tables_below(w)] == ["orders", "customer"]


def test_a_view_made_in_between_is_a_conflict(shop: vk.Database) -> None:
    with vk.connect(shop.path, engine="sail") as other:
        changing = shop.transaction()
        changing.insert("orders", [(1, "EU")])
        add(other, "v", "orders")
        assert "has created, replaced or dropped the view 'v'" in caught(changing.commit, Conflict)
        creating = OpenTransaction(other._store)
        below = creating.relation("customer")
        creating.create("w", below.schema, definition(below))
        shop.sql("DROP TABLE customer")
        assert "has dropped the table 'customer'" in caught(lambda: commit(creating), Conflict)


# what a user sees -------------------------------------------------------------------------------


def test_views_are_not_changed_by_hand(shop: vk.Database, tmp_path: Path) -> None:
    add(shop, "v", "orders", "customer")
    add(shop, "w", "v", kind="view")
    (tmp_path / "rows.csv").write_text("id,region\n1,EU\n")
    message = """w is a view: its rows come from orders, customer
at line 1, column {}:
  {}
  {}^
hint: change those tables instead"""
    for text in (
        "INSERT INTO w VALUES (1, 'EU')",
        "UPDATE w SET id = 2",
        "DELETE FROM w WHERE id = 1",
        "TRUNCATE TABLE w",
        "MERGE INTO w USING orders AS o ON w.id = o.id WHEN MATCHED THEN DELETE",
        "EXPLAIN DELETE FROM w",
    ):
        at = text.index("w ") if "w " in text else text.index("w", 10)
        assert caught(lambda text=text: shop.sql(text), SqlError) == message.format(at + 1, text, " " * at)  # type: ignore[misc]
    plain = "v is a view: its rows come from orders, customer\nhint: change those tables instead"
    tx = shop.transaction()
    for action in (
        lambda: tx.insert("v", [(1, "EU")]),
        lambda: tx.delete("v", [(1, "EU")]),
        lambda: tx.delete_by_key("v", [1]),
        lambda: tx.upsert("v", [(1, "EU")]),
        lambda: tx.load("v", str(tmp_path / "rows.csv")),
        lambda: tx.load("v", str(tmp_path / "rows.csv"), create=True),
    ):
        assert caught(action, SqlError) == plain
    tx.rollback()


def test_taken_names_say_what_is_there(shop: vk.Database) -> None:
    add(shop, "v", "orders")
    add(shop, "w", "orders", kind="view")
    taken = "there is already a materialized view named 'v'\nhint: DROP MATERIALIZED VIEW v"
    assert caught(lambda: shop.sql("CREATE TABLE v (a INT)"), AlreadyExists) == taken
    assert caught(lambda: shop.sql("CREATE TABLE IF NOT EXISTS v (a INT)"), AlreadyExists) == taken
    assert caught(lambda: shop.sql("CREATE TABLE v AS SELECT 1 AS a"), AlreadyExists) == taken
    again = f"{taken}, or CREATE OR REPLACE MATERIALIZED VIEW v"
    assert caught(lambda: add(shop, "v", "orders"), AlreadyExists) == again
    table = "there is already a table named 'orders'\nhint: DROP TABLE orders"
    assert caught(lambda: add(shop, "orders", "customer"), AlreadyExists) == table
    wrong = "w is a view\nat line 1, column 12:\n  DROP TABLE w\n             ^\nhint: DROP VIEW w"
    assert caught(lambda: shop.sql("DROP TABLE w"), SqlError) == wrong


def test_tables_and_views_by_name(shop: vk.Database) -> None:
    add(shop, "v", "orders", refresh="full", on="demand", lag=300.0, refreshed=2)
    view = shop.view("V")
    assert (view.kind, view.sql) == ("materialized", "SELECT * FROM orders")
    assert view.options == {"refresh": "full", "on": "demand", "lag": 300.0}
    assert view.describe()["column"].to_pylist() == ["id", "region"]
    assert view.read().rows() == []
    assert list(view.changes()) == []
    assert (shop.table("orders").kind, type(shop.table("orders"))) == ("table", vk.Table)
    assert caught(lambda: shop.table("v"), NotFound) == "v is a materialized view, not a table\nhint: use db.view('v')"
    assert (
        caught(lambda: shop.view("orders"), NotFound) == "orders is a table, not a view\nhint: use db.table('orders')"
    )
    assert caught(lambda: shop.view("nowhere"), NotFound) == "there is no view named 'nowhere'\nhint: the views are v"
    assert "no format 'yaml'" in caught(lambda: shop.explain("v", format="yaml"), SqlError)


def test_lists(shop: vk.Database) -> None:
    aux = add(shop, "_vk_sums", "orders", kind="auxiliary")
    add(shop, "v", "orders", on="demand", lag=300.0, hidden=(aux.id,), refreshed=3)
    add(shop, "w", "v", kind="view")
    assert [(row["name"], row["kind"]) for row in shop.ls()] == [
        ("customer", "table"),
        ("orders", "table"),
        ("v", "materialized view"),
        ("w", "view"),
    ]
    assert {row["name"] for row in shop.ls(hidden=True)} - {row["name"] for row in shop.ls()} == {
        "auxiliary 1 of v (orders)"
    }
    assert shop.sql("SHOW TABLES").rows() == [("customer", "table", 1), ("orders", "table", 2)]
    assert shop.sql("SHOW VIEWS").rows() == [
        ("v", "materialized view", 2, "refresh = 'auto', on = 'demand', lag = '300 seconds'"),
        ("w", "view", 2, ""),
    ]
    assert shop.sql("DESCRIBE w").rows() == [("id", "BIGINT", False, ""), ("region", "STRING", True, "")]
    assert shop.sql("SHOW COMMITS").rows()[2][2] == ""
    assert shop.sql("SHOW COMMITS").rows()[0][2] == "created w"


def test_explain_statements(shop: vk.Database) -> None:
    add(shop, "v", "orders")
    add(shop, "w", "v", kind="view")
    add(shop, "late", "orders", on="demand", refreshed=2)
    shop.sql("CREATE TABLE alone (id INT)")

    def lines(text: str) -> list[str]:
        return [line for (line,) in shop.sql(text).rows()]

    assert lines("EXPLAIN DELETE FROM orders WHERE id = 1") == [
        "DELETE changes orders: its rows",
        "  reaches late, a materialized view maintained by its next REFRESH",
        "  reaches v, a materialized view maintained by the commit; only deletes reach it",
        "  reaches w through v, a view that stores nothing; only deletes reach it",
    ]
    assert lines("EXPLAIN INSERT INTO alone VALUES (1)") == ["INSERT changes alone: its rows", "  reaches no view"]
    assert lines("EXPLAIN SELECT * FROM w JOIN late ON w.id = late.id") == [
        f"reads, at epoch {shop.epoch}:",
        "  w: a view, computed from",
        "    v: a materialized view, 0 stored rows in 0 files",
        "  late: a materialized view, 0 stored rows in 0 files, up to date as of epoch 2",
        "runs through the algebra of views",
    ]
    assert lines("EXPLAIN SELECT 1") == [
        "reads no table",
        "runs as it is written: one table or none, with nothing but columns, WHERE, ORDER BY and LIMIT",
    ]
    assert "no table named 'nowhere'" in caught(lambda: shop.sql("EXPLAIN SELECT * FROM nowhere"), NotFound)
    with shop.transaction() as tx:
        tx.sql("CREATE TABLE mine (id INT)")
        assert tx.sql("EXPLAIN DELETE FROM mine").rows() == [("DELETE changes mine: its rows",), ("  reaches no view",)]


def test_an_update_of_columns_a_view_does_not_read_passes_it_by(shop: vk.Database) -> None:
    tx = OpenTransaction(shop._store)
    orders = tx.relation("orders")
    query = to_json(Scan(orders.id, "orders", (Attribute(0, "id", orders.schema.column("id").type, False),)))
    only = Definition("materialized", "SELECT id FROM orders", ("id",), query, query, uses=(orders.id,))
    tx.create("ids", orders.schema.subset(["id"]), only)
    commit(tx)
    assert shop.sql("EXPLAIN UPDATE orders SET region = 'x'").rows() == [
        ("UPDATE changes orders: only region of its rows",),
        ("  does not reach ids, which does not read region",),
    ]
    assert "  reaches ids, a materialized view maintained by the commit" in [
        line for (line,) in shop.sql("EXPLAIN UPDATE orders SET id = id + 1").rows()
    ]
