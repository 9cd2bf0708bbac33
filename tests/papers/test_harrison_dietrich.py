"""Harrison & Dietrich 1994: the worked example of Figures 2 and 3, Proposition 3, bound queries, negation."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.maintain import recursions as recursive
from viewkeeper.recursion.net import Net, Trace

CLOSURE = """
    .decl edge(x:symbol, y:symbol)
    .input edge
    .decl tc(x:symbol, y:symbol)
    .output tc
    tc(X, Y) :- edge(X, Y).
    tc(X, Y) :- tc(X, W), edge(W, Y).
"""
E = [f"e{i}" for i in range(1, 6)]
FIGURE_2 = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), *(("d", e) for e in E)]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Trace]:
    """The traces of all recursions that are kept true."""
    found: list[Trace] = []
    original = recursive.Maintenance.work

    def work(self: Any, remove: Any) -> Net:
        net = original(self, remove)
        found.append(net.trace)
        return net

    monkeypatch.setattr(recursive.Maintenance, "work", work)
    return found


def rows(part: Any) -> set[tuple[Any, ...]]:
    return {tuple(row.values()) for row in part.table.to_pylist()}


def made(db: vk.Database, program: str, edges: list[tuple[str, str]]) -> None:
    db.datalog(program)
    with db.transaction() as tx:
        tx.insert("edge", edges)


def test_the_trace_of_figure_3(db: vk.Database, traces: list[Trace]) -> None:
    made(db, CLOSURE, FIGURE_2)
    traces.clear()
    commit = db.sql("DELETE FROM edge WHERE x = 'b' AND y = 'd'").commit
    assert commit.changes["tc"].weights() == {("b", "d"): -1, **{("b", e): -1 for e in E}}
    (trace,) = traces
    proposed = set().union(*(rows(f.approximation) for f in trace.filtrations))
    disqualified = set().union(*(rows(f.disqualified) for f in trace.filtrations))
    actual = set().union(*(rows(f.actual) for f in trace.filtrations))
    assert proposed == {("b", "d"), ("a", "d"), *(("b", e) for e in E)}
    assert disqualified == {("a", "d")}
    assert actual == {("b", "d"), *(("b", e) for e in E)}
    assert not any(row[0] == "a" and row[1] in E for row in proposed), "nothing of the form tc(a, e_i)"
    assert "epf" in commit.report["tc"].reason


@pytest.mark.spark_long
def test_no_row_is_filtered_twice(db: vk.Database, traces: list[Trace]) -> None:
    """Proposition 3, on a graph with cycles and many ways from one node to another."""
    nodes = [f"n{i}" for i in range(8)]
    edges = [(a, b) for i, a in enumerate(nodes) for b in (nodes[(i + 1) % 8], nodes[(i + 3) % 8])]
    made(db, CLOSURE, edges)
    traces.clear()
    with db.transaction() as tx:
        tx.delete("edge", [("n0", "n1"), ("n0", "n3"), ("n5", "n6")])
    (trace,) = traces
    filtered = [row for f in trace.filtrations for row in rows(f.approximation)]
    assert len(filtered) == len(set(filtered)) == trace.filtered["tc"]
    assert db.verify().equal


@pytest.mark.spark_long
def test_only_the_component_is_looked_at(db: vk.Database, traces: list[Trace]) -> None:
    edges = [(f"{c}{i}", f"{c}{i + 1}") for c in "abcdefgh" for i in range(4)]
    made(db, CLOSURE, edges)
    traces.clear()
    db.sql("DELETE FROM edge WHERE x = 'c1'")
    (trace,) = traces
    seen = {value for f in trace.filtrations for row in rows(f.approximation) for value in row}
    assert seen <= {f"c{i}" for i in range(5)}
    assert trace.proposed["tc"] < 10


@pytest.mark.spark_long
def test_non_linear_closure_asks_no_unbound_query(db: vk.Database, traces: list[Trace]) -> None:
    program = CLOSURE.replace("tc(X, W), edge(W, Y)", "tc(X, W), tc(W, Y)")
    made(db, program, FIGURE_2)
    traces.clear()
    commit = db.sql("DELETE FROM edge WHERE x = 'b' AND y = 'd'").commit
    assert commit.changes["tc"].weights() == {("b", "d"): -1, **{("b", e): -1 for e in E}}
    (trace,) = traces
    assert trace.unbound == 0
    assert trace.adornments
    assert db.verify().equal


@pytest.mark.spark_long
def test_negation_turns_the_kind_of_change(db: vk.Database) -> None:
    """Figure 4: what comes to a negated relation goes from the one above it."""
    db.datalog(CLOSURE + ".decl far(x:symbol, y:symbol)\n.output far\nfar(x, y) :- tc(x, y), !edge(x, y).")
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c")])
    assert db.sql("SELECT * FROM far").rows() == [("a", "c")]
    assert db.sql("INSERT INTO edge VALUES ('a', 'c')").commit.changes["far"].weights() == {("a", "c"): -1}
    assert db.sql("DELETE FROM edge WHERE y = 'c' AND x = 'a'").commit.changes["far"].weights() == {("a", "c"): 1}


@pytest.mark.parametrize("how", ["epf", "dred"])
def test_both_strategies_agree(db: vk.Database, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(recursive, "strategy_for", lambda *_: recursive.Strategy(how, "for the test"))
    made(db, CLOSURE, [*FIGURE_2, ("e1", "a")])
    commit = db.sql("DELETE FROM edge WHERE x = 'a' AND y = 'b'").commit
    assert how in commit.report["tc"].reason
    gone = {row for row, weight in commit.changes["tc"].weights().items() if weight < 0}
    nodes = ["a", "b", "c", "d", *E]
    assert gone == {(x, "b") for x in ("a", "b", "c", "d", "e1")}, (nodes, gone)
    assert db.verify().equal
