"""Kinds of change that cannot trigger a rule are not derived, and nothing that triggers one is lost by that."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.analysis.polarity import Kinds, Polarity
from viewkeeper.delta.positive import needed_kinds
from viewkeeper.maintain.reach import reaching


@pytest.fixture
def alerts(db: vk.Database) -> Callable[[], list[int]]:
    """The items without an order, for which a rule has written an alert."""
    db.sql("CREATE TABLE item (id INT PRIMARY KEY); CREATE TABLE orders (item INT); CREATE TABLE alert (id INT)")
    db.sql("INSERT INTO item VALUES (1), (2); INSERT INTO orders VALUES (1), (2)")
    db.sql("CREATE VIEW idle AS SELECT i.id FROM item i WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.item = i.id)")
    db.sql("CREATE RULE notice ON idle WHEN INSERTED DO INSERT INTO alert SELECT id FROM inserted")
    return lambda: sorted(row[0] for row in db.sql("SELECT id FROM alert").rows())


@pytest.mark.spark_long
def test_only_the_turned_kind_triggers(db: vk.Database, alerts: Callable[[], list[int]]) -> None:
    db.sql("DELETE FROM orders WHERE item = 1")
    assert alerts() == [1]
    db.sql("INSERT INTO orders VALUES (1)")
    db.sql("DELETE FROM item WHERE id = 2")
    assert alerts() == [1]
    db.sql("INSERT INTO item VALUES (3)")
    assert alerts() == [1, 3]


@pytest.mark.spark_long
def test_what_was_deleted_before_a_point_comes_back(db: vk.Database, alerts: Callable[[], list[int]]) -> None:
    """At CHECK nothing wanted has happened. Since then a row has come that the transaction as a whole has not added."""
    db.sql("DELETE FROM orders WHERE item = 1")
    with db.transaction() as tx:
        tx.sql("INSERT INTO orders VALUES (1)")
        tx.check()
        tx.sql("DELETE FROM orders WHERE item = 1")
    assert alerts() == [1, 1]


@pytest.mark.spark_long
def test_an_action_that_brings_the_wanted_kind(db: vk.Database, alerts: Callable[[], list[int]]) -> None:
    """In the first round there are only inserts into orders; the action of another rule deletes some."""
    db.sql("CREATE RULE refuse PRIORITY -1 ON orders WHEN INSERTED DO DELETE FROM orders WHERE item = 2")
    db.sql("INSERT INTO orders VALUES (3)")
    assert alerts() == [2]


def test_needed_kinds_of_a_nervous_rule() -> None:
    s, t = n.Scan("s", "s", ()), n.Scan("t", "t", ())
    assert needed_kinds(n.Join((s, n.Distinct(t)))) == {"s": Kinds.ADDITIONS, "t": Kinds.ADDITIONS}
    assert needed_kinds(n.Union((s, n.Monus(s, t, ())), ())) == {"s": Kinds.BOTH, "t": Kinds.BOTH}


def test_what_reaches_a_query() -> None:
    """By the weights of the changes: s has rows that t has no partner for."""
    s, t = n.Scan("s", "s", ()), n.Scan("t", "t", ())
    anti = n.Exists(s, t, (), negated=True)

    def reached(**weights: list[int]) -> set[str]:
        changes = {name: pa.table({WEIGHT: pa.array(given, pa.int64())}) for name, given in weights.items()}
        return set(reaching(anti, weights, Kinds.ADDITIONS, lambda scan: changes[scan.relation]))

    assert reached(s=[1]) == {"s"}
    assert reached(s=[-1], t=[2]) == set()
    assert reached(s=[-1], t=[1, -1]) == {"s", "t"}, "a query is left out as a whole, or not at all"
    assert reached(s=[]) == set()


def test_polarities_one_after_the_other() -> None:
    even, odd, both = Polarity.EVEN, Polarity.ODD, Polarity.BOTH
    assert [even.followed_by(odd), odd.followed_by(odd), odd.followed_by(even)] == [odd, even, odd]
    assert both.followed_by(odd) is odd.followed_by(both) is both
