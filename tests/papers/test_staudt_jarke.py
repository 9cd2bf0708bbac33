"""Staudt & Jarke 1996: the closure of section 2.2 with the sets of Example 2, and the module views of section 5."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeeper as vk
from tests.marks import spark_long
from viewkeeper.maintain import recursions as recursive

CLOSURE = """
    .decl edge(x:symbol, y:symbol)
    .input edge
    .decl closure(x:symbol, y:symbol)
    .output closure
    closure(x, y) :- edge(x, y).
    closure(x, y) :- edge(x, z), closure(z, y).
"""
EDGES = [("f", "e"), ("e", "d"), ("e", "a"), ("a", "b"), ("d", "c"), ("b", "c"), ("c", "g")]
APART = [(f"u{i}", f"u{i + 1}") for i in range(6)]  # the subgraph that no update touches
MINUS = {("a", "c"), ("a", "g"), ("b", "c"), ("b", "g")}
PLUS = {("h", "d"), ("h", "c"), ("h", "g")}


@pytest.fixture(params=["epf", *spark_long("dred")])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(recursive, "strategy_for", lambda *_: recursive.Strategy(request.param, "for the test"))
    return str(request.param)


@pytest.fixture
def nets(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    original = recursive.Maintenance.work

    def work(self: Any, remove: Any) -> Any:
        found.append(original(self, remove))
        return found[-1]

    monkeypatch.setattr(recursive.Maintenance, "work", work)
    return found


def test_the_updates_of_section_2(db: vk.Database, how: str, nets: list[Any]) -> None:
    db.datalog(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", EDGES + APART)
    nets.clear()
    with db.transaction() as tx:
        tx.delete("edge", [("b", "c")])
        tx.insert("edge", [("h", "d")])
    assert tx.commit_info is not None
    assert tx.commit_info.changes["closure"].weights() == {**dict.fromkeys(MINUS, -1), **dict.fromkeys(PLUS, 1)}
    (net,) = nets
    if how == "dred":  # Example 2: closure_del, of which (e,c), (e,g), (f,c), (f,g) are derived again
        assert net.trace.filtered["closure"] == 8
    assert net.trace.proposed["closure"] < 30, "nothing of the subgraph apart is looked at"
    assert db.verify().equal


MODULES = """
    .decl module(m:symbol)
    .decl procedure(p:symbol)
    .decl op_sys(o:symbol)
    .decl import(m:symbol, p:symbol)
    .decl defined_in(p:symbol, m:symbol)
    .decl depend_on(p:symbol, o:symbol)
    .input module, procedure, op_sys, import, defined_in, depend_on
    .decl mod_dep(x:symbol, y:symbol)
    .output mod_dep
    mod_dep(x, y) :- module(x), module(y), procedure(p), import(x, p), defined_in(p, y).
    mod_dep(x, y) :- mod_dep(x, z), mod_dep(z, y).
    .decl ill_os(x:symbol, y:symbol, z:symbol)
    .output ill_os
    ill_os(x, y, z) :- mod_dep(x, y), mod_dep(x, z), op_sys(o1), op_sys(o2), procedure(p1), procedure(p2), o1 != o2,
                       defined_in(p1, y), defined_in(p2, z), depend_on(p1, o1), depend_on(p2, o2).
"""


@pytest.mark.spark_long
def test_the_views_of_section_5(db: vk.Database, how: str) -> None:
    db.datalog(MODULES)
    with db.transaction() as tx:
        tx.insert("module", [(m,) for m in "ABCE"])
        tx.insert("procedure", [("directory",), ("time",), ("list",)])
        tx.insert("op_sys", [("unix",), ("dos",)])
        tx.insert("defined_in", [("directory", "C"), ("time", "E"), ("list", "B")])
        tx.insert("import", [("A", "list"), ("B", "directory")])
        tx.insert("depend_on", [("directory", "unix"), ("time", "dos")])
    assert set(db.sql("SELECT * FROM mod_dep").rows()) == {("A", "B"), ("B", "C"), ("A", "C")}
    assert db.sql("SELECT * FROM ill_os").rows() == []

    # a module that is checked in brings an import of A: A is now based on E, in conflict with C
    first = db.sql("INSERT INTO import VALUES ('A', 'time')").commit
    assert first.changes["mod_dep"].weights() == {("A", "E"): 1}
    assert first.changes["ill_os"].weights() == {("A", "C", "E"): 1, ("A", "E", "C"): 1}

    # a new module D imports diff from A: it is based on all that A is based on
    with db.transaction() as tx:
        tx.insert("module", [("D",)])
        tx.insert("procedure", [("diff",)])
        tx.insert("defined_in", [("diff", "A")])
        tx.insert("import", [("D", "diff")])
    second = tx.commit_info
    assert second is not None
    assert second.changes["mod_dep"].weights() == {("D", m): 1 for m in "ABCE"}
    assert second.changes["ill_os"].weights() == {("D", "C", "E"): 1, ("D", "E", "C"): 1}
    assert db.verify().equal


FIGURE_3 = """
(D) closure_del(x, y) :- edge_del(x, y).
(D) closure_del(x, y) :- edge_del(x, z), closure^bf(z, y).
(D) closure_del(x, y) :- closure_del(z, y), edge(x, z).
(D) m_closure^bf(x) :- edge_del(_, x).
(D) sup_2(x, y, z) :- closure_del(y, x), edge_new(y, z).
(R) closure_red(x, y) :- closure_del(x, y), edge_new(x, y).
(R) closure_red(x, y) :- sup_2(y, x, z), closure_new(z, y).
(I) closure_ins(x, y) :- edge_ins(x, y).
(I) closure_ins(x, y) :- edge_ins(x, z), closure_new(z, y).
(I) closure_ins(x, y) :- closure_ins(z, y), edge_new(x, z).
(I) m_closure^bf(x) :- edge_ins(_, x).
(N) closure_new(x, y) :- closure^bb(x, y), !closure_del(x, y).
(N) closure_new(x, y) :- closure^bf(x, y), !closure_del(x, y).
(N) closure_new(x, y) :- closure_red(x, y).
(N) closure_new(x, y) :- closure_ins(x, y).
(E1) closure_plus(x, y) :- closure_ins(x, y), !closure(x, y).
(E1) m_closure^bb(x, y) :- closure_ins(x, y).
(E2) closure_minus(x, y) :- closure_del(x, y), !closure_ins(x, y), !closure_red(x, y).
(query) closure^bf(x, y) :- m_closure^bf(x), edge(x, y).
(query) closure^bf(x, y) :- sup_1(x, z), closure^bf(z, y).
(query) m_closure^bf(x) :- sup_1(_, x).
(query) sup_1(x, y) :- m_closure^bf(x), edge(x, y).
(query) closure^bb(x, y) :- m_closure^bb(x, y), edge(x, y).
(query) closure^bb(x, y) :- sup_3(y, x, z), closure^bb(z, y).
(query) m_closure^bb(x, y) :- sup_3(y, _, x).
(query) m_closure^bb(x, y) :- sup_2(y, _, x).
(query) sup_3(x, y, z) :- m_closure^bb(y, x), edge(y, z).
"""
"""Figure 3 with the rule (R) of R1 as the errata have it, and the query rules that all of it leads to."""


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_the_rules_of_figure_3(db: vk.Database) -> None:
    db.datalog(CLOSURE.replace(".output closure", ""))
    told = [line.strip() for line in db.explain("closure").splitlines() if line.startswith("  (")]
    assert told == FIGURE_3.strip().splitlines()


def test_nothing_stored_and_nothing_apart_derived(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 4: the feed of the view that is not stored, and how much of it was derived for that."""
    works: list[Any] = []
    original = recursive.Rederivation.work

    def work(self: Any, changed: Any) -> Any:
        works.append(self)
        return original(self, changed)

    monkeypatch.setattr(recursive.Rederivation, "work", work)
    db.datalog(CLOSURE.replace(".output closure", ""))
    with db.transaction() as tx:
        tx.insert("edge", EDGES + APART)
    since = db.epoch
    with db.transaction() as tx:
        tx.delete("edge", [("b", "c")])
        tx.insert("edge", [("h", "d")])
    ((_, change),) = db.view("closure").changes(since=since)
    assert change.weights() == {**dict.fromkeys(MINUS, -1), **dict.fromkeys(PLUS, 1)}
    known = works[-1].evaluation.known
    assert known["del:closure"].count == 8
    assert known["red:closure"].count == 4
    derived = {row for name, rows in known.items() if name.startswith("closure^") for row in rows.index or ()}
    assert derived
    assert not any(node.startswith("u") for row in derived for node in row)
