"""The graph of relations: who reads whom, down to the tables and up to the last view, and the levels of a change."""

from __future__ import annotations

import random

import pytest

import viewkeeper as vk
from viewkeeper.algebra.schema import Schema
from viewkeeper.catalog.definition import AUXILIARY, MATERIALIZED, VIEW, Definition
from viewkeeper.catalog.graph import Graph, depending, reading
from viewkeeper.catalog.relations import Relation, as_derived, new_relation

#        t     s        tables
#        | \   |
#        |   a |        a reads t
#        |  / \|
#        b     c        b reads t and a, c reads a and s
#         \   /
#           d
DIAMOND = Graph({"a": ["t"], "b": ["t", "a"], "c": ["a", "s"], "d": ["b", "c"]})


def view(key: str, kind: str, uses: tuple[str, ...], hidden: tuple[str, ...] = ()) -> Relation:
    return new_relation(key, key, Schema(()), 1, Definition(kind, "", (), {}, uses=uses, hidden=hidden))


def table(key: str) -> Relation:
    return new_relation(key, key, Schema(()), 1)


def test_dependents_are_those_that_read_a_relation() -> None:
    assert DIAMOND.dependents("t") == ["a", "b"]
    assert DIAMOND.dependents("s") == ["c"]
    assert DIAMOND.dependents("d") == DIAMOND.dependents("unknown") == []


def test_all_dependents_are_there_once_each() -> None:
    assert sorted(DIAMOND.all_dependents(["t"])) == ["a", "b", "c", "d"]
    assert DIAMOND.all_dependents(["s"]) == ["c", "d"]
    assert sorted(DIAMOND.all_dependents(["s", "b"])) == ["c", "d"]
    assert DIAMOND.all_dependents([]) == []


def test_what_is_read_comes_in_the_order_of_its_names() -> None:
    assert DIAMOND.all_read(["d"]) == ["b", "t", "a", "c", "s"]
    assert DIAMOND.all_read(["c"]) == ["a", "t", "s"]
    assert DIAMOND.all_read(["t"]) == []


def test_a_relation_that_would_read_itself() -> None:
    assert DIAMOND.reads_itself("a", ["t", "a"])
    assert DIAMOND.reads_itself("a", ["d"])
    assert not DIAMOND.reads_itself("d", ["a", "s"])


def test_levels_of_a_change() -> None:
    assert DIAMOND.levels(["t"]) == [["a"], ["b", "c"], ["d"]]
    assert DIAMOND.levels(["s"]) == [["c"], ["d"]]
    assert DIAMOND.levels(["b"]) == [["b"], ["d"]]
    assert DIAMOND.levels(["a", "s"]) == [["a"], ["b", "c"], ["d"]]
    assert DIAMOND.levels(["other"]) == DIAMOND.levels([]) == []


def test_a_relation_may_read_its_own_rows() -> None:
    assert Graph({"a": ["t", "a"], "b": ["a"]}).levels(["t"]) == [["a"], ["b"]]


def test_relations_that_read_each_other_have_no_levels() -> None:
    with pytest.raises(vk.errors.InternalError, match=r"relations read each other: [ab] -> [ab] -> [ab]"):
        Graph({"a": ["t", "b"], "b": ["a"]}).levels(["t"])


@pytest.mark.parametrize("seed", range(50))
def test_levels_of_random_graphs(seed: int) -> None:
    """Each level holds just those all of whose changing inputs are in levels before, one of them in the last."""
    chance = random.Random(seed)
    reads: dict[str, list[str]] = {}
    for number in range(20):
        earlier = [f"t{i}" for i in range(4)] + [f"v{i}" for i in range(number)]
        reads[f"v{number}"] = chance.sample(earlier, chance.randint(1, 3))
    shuffled = dict(chance.sample(sorted(reads.items()), len(reads)))
    changed = set(chance.sample(["t0", "t1", "t2", "t3", "v3", "v7"], 2))
    expected: dict[str, int] = {}
    for key, read in reads.items():  # in the order in which they were made
        if key in changed or changed.intersection(read) or any(below in expected for below in read):
            expected[key] = 1 + max((expected[below] for below in read if below in expected), default=-1)
    found = Graph(shuffled).levels(changed)
    assert {key: number for number, level in enumerate(found) for key in level} == expected
    assert all(level == [key for key in shuffled if key in level] for level in found)


def test_what_views_name_and_what_is_kept_beside_them() -> None:
    there = [
        table("t"),
        view("low", VIEW, ("t",)),
        view("kept", AUXILIARY, ("t",)),
        view("top", MATERIALIZED, ("low",), ("kept",)),
    ]
    assert reading(there).all_read(["top"]) == ["low", "t"]
    assert depending(there).all_read(["top"]) == ["low", "t", "kept"]
    assert reading(there).dependents("kept") == []
    assert depending(there).dependents("kept") == ["top"]


def test_what_a_view_named_at_an_epoch() -> None:
    first = as_derived(view("v", VIEW, ("s",)))
    now = first.redefined(Definition(VIEW, "", (), {}, uses=("t",)), 5)
    assert reading([now]).all_read(["v"]) == ["t"]
    assert reading([now], 4).all_read(["v"]) == ["s"]
    assert reading([now], 5).all_read(["v"]) == ["t"]
