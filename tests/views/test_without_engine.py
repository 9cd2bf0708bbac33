"""Small commits ask no engine, so none is started for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk
from viewkeeper.engine.engine import Engine

pytestmark = pytest.mark.driver_lane

VIEWS = {
    "named": "SELECT o.id, o.x, r.name FROM orders o JOIN regions r ON o.region = r.id WHERE o.x > 3",
    "totals": "SELECT r.name, count(*) AS n, sum(o.x) AS x, min(o.x) AS low FROM orders o LEFT JOIN regions r "
    "ON o.region = r.id GROUP BY r.name",
    "idle": "SELECT * FROM regions r WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.region = r.id)",
    "last": "SELECT id, x FROM orders ORDER BY x DESC, id LIMIT 2",
    "ranked": "SELECT id, rank() OVER (PARTITION BY region ORDER BY x) AS place FROM orders",
    "either": "SELECT region FROM orders UNION SELECT id FROM regions",
}


def test_a_small_commit_asks_no_engine(connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch) -> None:
    db = connect()
    db.sql("CREATE TABLE regions (id INT PRIMARY KEY, name STRING)")
    db.sql("CREATE TABLE orders (id INT PRIMARY KEY, region INT NOT NULL, x DECIMAL(12,2))")
    db.sql("INSERT INTO regions VALUES (1, 'Asia'), (2, 'Europe'), (3, NULL)")
    for name, text in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    db.datalog(
        ".decl reach(a:number, b:number)\n.decl next(a:number, b:number)\n.input next\n.output reach\n"
        "reach(a, b) :- next(a, b).\nreach(a, c) :- reach(a, b), next(b, c)."
    )
    db.close()

    def refused(_: Engine) -> None:
        raise AssertionError("the engine is asked")

    again = connect()
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "session", property(refused))
        with again.transaction() as tx:
            tx.insert("orders", [(1, 1, 5), (2, 1, 2), (3, 2, None)])
            tx.insert("next", [(1, 2), (2, 3)])
        with again.transaction() as tx:
            tx.upsert("orders", [(1, 2, 7)])
            tx.delete_by_key("orders", [(2,)])
            tx.delete("next", [(1, 2)])
            tx.insert("orders", [(4, 3, 1)])
        report = tx.commit_info.report
        assert {name: report[name].lane for name in (*VIEWS, "reach")} == dict.fromkeys((*VIEWS, "reach"), "driver")
    assert again.verify().equal
