"""Rules that may trigger each other, and rules whose order matters."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.analysis.triggering_graph import Reaction, Watch, Write, warnings

GIVEN_UP = "a cascade without end is given up, and nothing is changed"


def rule(
    name: str,
    watches: dict[str, Kinds],
    *writes: Write,
    reads: tuple[str, ...] = (),
    priority: int = 0,
    coupling: str = "deferred",
) -> Reaction:
    """A rule that reads all columns of what it watches."""
    watched = {table: Watch(kinds) for table, kinds in watches.items()}
    return Reaction(name, priority, coupling, watched, frozenset(reads), writes)


def said(*rules: Reaction) -> list[str]:
    """What is said of the last one."""
    return warnings(rules, rules[-1].name, str)


def test_a_rule_that_triggers_itself() -> None:
    one = rule("a", {"t": Kinds.ADDITIONS}, Write("t", "INSERT"))
    assert said(one) == [f"the rule a may trigger itself: it writes t, which it watches; {GIVEN_UP}"]
    assert said(rule("a", {"t": Kinds.ADDITIONS}, Write("t", "DELETE"), Write("u", "INSERT"))) == []


def test_an_update_of_columns_that_are_not_read() -> None:
    watched = {"t": Watch(Kinds.BOTH, frozenset({"a", "b"}))}
    assert said(Reaction("a", 0, "deferred", watched, writes=(Write("t", "UPDATE", frozenset("c")),))) == []
    assert said(Reaction("a", 0, "deferred", watched, writes=(Write("t", "UPDATE", frozenset("cb")),))) != []


def test_a_rule_for_updates_alone_is_not_triggered_by_inserts() -> None:
    watched = {"t": Watch(Kinds.BOTH)}
    assert said(Reaction("a", 0, "deferred", watched, writes=(Write("t", "INSERT"),), only_updates=True)) == []
    assert said(Reaction("a", 0, "deferred", watched, writes=(Write("t", "MERGE"),), only_updates=True)) != []


def test_the_shortest_cycle_is_named_once() -> None:
    a = rule("a", {"t": Kinds.ADDITIONS}, Write("u", "INSERT"), priority=1)
    b = rule("b", {"u": Kinds.ADDITIONS}, Write("v", "DELETE"), priority=2)
    c = rule("c", {"v": Kinds.REMOVALS}, Write("t", "UPDATE"), Write("u", "DELETE"), priority=3)
    assert said(a, b) == []
    assert said(a, b, c) == [
        f"the rules c, a and b may trigger each other: c writes t, a writes u, b writes v; {GIVEN_UP}"
    ]


def test_no_limit_ends_a_cycle_with_a_detached_rule() -> None:
    a = rule("a", {"t": Kinds.ADDITIONS}, Write("u", "INSERT"))
    b = rule("b", {"u": Kinds.ADDITIONS}, Write("t", "INSERT"), coupling="detached")
    assert said(a, b) == [
        "the rules b and a may trigger each other: b writes t, a writes u; "
        "b is detached, each round is a transaction of its own, and no limit ends them"
    ]


def order_of(*rules: Reaction) -> list[str]:
    return [text for text in said(*rules) if "same priority" in text]


def test_one_writes_what_the_other_reads() -> None:
    a = rule("a", {"t": Kinds.ADDITIONS}, Write("u", "INSERT"))
    b = rule("b", {"v": Kinds.ADDITIONS}, Write("w", "INSERT"), reads=("u",))
    text = (
        "the rules a and b have the same priority, and a writes u, which b reads: a, the older one, goes first; "
        "PRIORITY can say otherwise"
    )
    assert order_of(a, b) == [text]
    assert order_of(a, rule("b", {"v": Kinds.ADDITIONS}, reads=("u",), priority=1)) == []
    assert order_of(a, rule("b", {"v": Kinds.ADDITIONS}, reads=("u",), coupling="immediate")) == []
    assert "a writes u, which b reads" in order_of(a, rule("b", {"u": Kinds.REMOVALS}))[0]


def test_operations_that_do_not_commute() -> None:
    a = rule("a", {"t": Kinds.ADDITIONS}, Write("u", "INSERT"))
    assert order_of(a, rule("b", {"v": Kinds.ADDITIONS}, Write("u", "INSERT"))) == []
    assert "both write u" in order_of(a, rule("b", {"v": Kinds.ADDITIONS}, Write("u", "DELETE")))[0]
    update = rule("c", {"x": Kinds.ADDITIONS}, Write("u", "UPDATE", frozenset("c")))
    assert "both write u" in order_of(update, rule("d", {"v": Kinds.ADDITIONS}, Write("u", "UPDATE")))[0]


# CREATE RULE ----------------------------------------------------------------------------------------------


@pytest.mark.spark_long
def test_create_rule_warns(db: vk.Database) -> None:
    db.sql("CREATE TABLE item (id INT PRIMARY KEY, q INT, note STRING); CREATE TABLE orders (item INT, q INT)")
    db.sql("CREATE MATERIALIZED VIEW low AS SELECT id, q FROM item WHERE q < 5")
    db.sql("CREATE VIEW idle AS SELECT l.id FROM low l WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.item = l.id)")
    order = "CREATE RULE buy ON idle WHEN INSERTED DO INSERT INTO orders SELECT id, 9 FROM inserted"
    assert db.sql(order).remarks == []
    note = "CREATE RULE note PRIORITY 1 ON low WHEN INSERTED DO UPDATE item SET note = 'low'"
    assert db.sql(note).remarks == []
    fill = (
        "CREATE RULE fill PRIORITY 2 ON orders WHEN INSERTED IF (EXISTS (SELECT * FROM low)) "
        "DO BEGIN UPDATE item SET q = 9 WHERE id IN (SELECT item FROM inserted); DELETE FROM orders; END"
    )
    assert db.sql(fill).remarks == [
        f"the rules fill and buy may trigger each other: fill writes item and orders, buy writes orders; {GIVEN_UP}"
    ]
    assert db.sql(fill.replace("RULE fill PRIORITY 2", "OR REPLACE RULE fill PRIORITY 1")).remarks[1:] == [
        "the rules note and fill have the same priority, and note writes item, which fill reads: note, the older one, "
        "goes first; PRIORITY can say otherwise"
    ]
    db.sql("ALTER RULE buy DISABLE")
    assert db.sql(fill.replace("CREATE RULE fill", "CREATE OR REPLACE RULE fill")).remarks == []
    assert [row[0] for row in db.sql("SHOW RULES").rows()] == ["buy", "note", "fill"]


@pytest.mark.spark_long
def test_a_rule_in_python_warns_as_create_rule_does(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (a INT); CREATE TABLE u (a INT)")
    db.sql("CREATE RULE copy ON t DO INSERT INTO u SELECT a FROM inserted")
    seen: list[int] = []

    def note(change: vk.Change, tx: vk.Transaction) -> None:
        seen.extend(change.inserted["a"].to_pylist())

    told = (
        "the rules copy and note have the same priority, and copy writes u, which note reads: copy, the older one, "
        "goes first; PRIORITY can say otherwise"
    )
    with pytest.warns(UserWarning, match="the same priority") as caught:
        db.rule(on="u")(note)
    assert [str(warning.message) for warning in caught] == [told]
    assert caught[0].filename == __file__
    db.rule(on="u")(note)  # the rule is there already: nothing is said again
    db.sql("INSERT INTO t VALUES (1)")
    assert seen == [1]
    db.rule(on="u", priority=1)(note)
    assert "  which tables it changes is not known: warnings" in db.explain_rule("note")
    assert "is not known" not in db.explain_rule("copy")
