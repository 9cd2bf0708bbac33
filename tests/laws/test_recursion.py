"""δ(μ), a recursion that is not stored: re-derived on demand; of a bag, (μ@new − μ@old) as a whole."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import viewkeeper as vk
from tests.laws.specification import bag, changed, law_holds, minus, new, table
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import column
from viewkeeper.delta.compile import differentiate
from viewkeeper.sql.templates import templated as text


def upwards(*, bag: bool) -> n.Fixpoint:
    """r(x) :- s(x, _).   r(y + 1) :- r(y), y < 3."""
    s, _, _ = table("s")
    first, second, step, head = new("x"), new("y"), new("z"), new("r")
    rules = (
        Rule("r", (column(first),), (Literal(0, (first, second)),)),
        Rule("r", (text("{} + 1", step),), (Literal("r", (step,)),), conditions=(text("{} < 3", step),)),
    )
    return n.Fixpoint((s,), (Predicate("r", (head,)),), rules, "r", (head,), bag=bag)


def test_law_of_a_bag() -> None:
    law_holds(upwards(bag=True))


def test_a_bag_loses_one_derivation_of_each_row() -> None:
    found = changed(upwards(bag=True), {"s": bag((1, 0), (2, 0))}, {"s": minus((2, 0))})
    assert found == {(2,): -1, (3,): -1}


def test_a_set_is_rederived_from_what_changed() -> None:
    node = upwards(bag=False)
    assert differentiate(node, {"s", "t"}) == n.Rederived(node, ("s", "t"))
    assert differentiate(node, {"t"}) is None


REACHES = """
    CREATE TABLE edge (x INT, y INT);
    CREATE VIEW reaches AS WITH RECURSIVE r(x, y) AS
        (SELECT x, y FROM edge UNION SELECT r.x, e.y FROM r JOIN edge e ON r.y = e.x) SELECT * FROM r
"""


@pytest.mark.spark_long
def test_law_of_a_set(db: vk.Database, engine: str) -> None:
    """Cycles, duplicates and NULLs come and go: the change that is re-derived is exactly the difference."""
    db.sql(REACHES)
    rng = random.Random(3)
    edges: Counter[tuple[int | None, int | None]] = Counter()
    for _ in range(6):
        gone = rng.sample(list(edges.elements()), min(edges.total(), rng.randint(0, 3)))
        come = [(rng.choice((None, 1, 2, 3)), rng.choice((None, 1, 2, 3))) for _ in range(rng.randint(1, 3))]
        before = closure(edges)
        edges = edges - Counter(gone) + Counter(come)
        after = closure(edges)
        with db.transaction() as tx:
            if gone:
                tx.delete("edge", gone)
            tx.insert("edge", come)
            preview = tx.preview()
        found = preview["reaches"].weights() if "reaches" in preview else {}
        assert found == {**dict.fromkeys(after - before, 1), **dict.fromkeys(before - after, -1)}


def closure(edges: Counter[tuple[int | None, int | None]]) -> set[tuple[int | None, int | None]]:
    """The pairs that a path leads between; no path leads through NULL."""
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in edges if b == c and b is not None} - found:
        found |= more
    return found
