"""Views over many joins: what a plan takes grows with the view, not with the number of paths through its change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.algebra import nodes as n
from viewkeeper.engine.lowering import Lowering


def chain(kind: str, tables: int) -> str:
    """Joins of a table with itself, in a row."""
    joins = "".join(f" {kind} JOIN t AS a{i} ON a{i - 1}.v = a{i}.k" for i in range(1, tables))
    return f"SELECT {', '.join(f'a{i}.v AS v{i}' for i in range(tables))} FROM t AS a0{joins}"


def nested(depth: int) -> str:
    """Subqueries in FROM, each in the other."""
    text = "SELECT k, v FROM t"
    for number in range(depth):
        text = f"SELECT k, v + 1 AS v FROM ({text}) WHERE v > {number - 100}"
    return text


WIDE = {
    "inner": (chain("INNER", 32), 1_500),
    "left": (chain("LEFT", 16), 1_500),
    "full": (chain("FULL", 10), 2_500),
    "union": (" UNION ALL ".join(f"SELECT k, v + {i} AS v FROM t WHERE k % 64 = {i}" for i in range(64)), 600),
    "terms": (f"SELECT k, {' + '.join(f'v * {i}' for i in range(100))} AS s FROM t", 100),
    "nested": (nested(28), 300),
}
"""Views, each with the most operators that a commit may lower for it."""


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that were lowered."""
    found: list[str] = []
    lower: Callable[..., Any] = Lowering.lower

    def noted(self: Lowering, node: n.Node, *arguments: Any) -> Any:
        found.append(type(node).__name__)
        return lower(self, node, *arguments)

    monkeypatch.setattr(Lowering, "lower", noted)
    return found


@pytest.mark.spark_long
@pytest.mark.parametrize("name", WIDE)
def test_a_wide_view_is_planned_once(db: vk.Database, lowered: list[str], name: str) -> None:
    text, most = WIDE[name]
    db.sql("CREATE TABLE t (k INT, v INT)")
    db.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id + 1 AS INT) FROM range(20)")
    db.sql(f"CREATE MATERIALIZED VIEW w WITH (refresh = 'incremental') AS {text}")
    lowered.clear()
    db.sql("INSERT INTO t VALUES (50, 3)")
    db.sql("DELETE FROM t WHERE k = 7")
    assert len(lowered) <= 2 * most
    assert len(db.explain("w")) < 60_000
    assert db.verify().equal
