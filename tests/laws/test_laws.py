"""Each law of change beside the operator it is the law of: after random transactions what is stored is what the
operator gives, and the change that was reported is exactly the difference."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import viewkeeper as vk
from tests.laws.harness import Laws
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, column
from viewkeeper.algebra.types import parse_type
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.plan.auxiliary import complete
from viewkeeper.sql.templates import templated as text

STEPS = {"sail": 9, "spark": 2}


def aggregates(laws: Laws, b: Attribute, c: Attribute) -> tuple[n.Call, ...]:
    """count, sum, min and max, which are kept by state."""
    new = laws.numbers.attribute
    return (
        n.Call(new("n", parse_type("bigint")), "count"),
        n.Call(new("total", parse_type("decimal(38,0)")), "sum", b),
        n.Call(new("low", parse_type("int")), "min", b),
        n.Call(new("high", parse_type("string")), "max", c),
    )


def operators(laws: Laws) -> dict[str, n.Node]:
    """One expression per law, over tables of their own attributes."""
    like, new = laws.numbers.like, laws.numbers.attribute
    found: dict[str, n.Node] = {}

    def tables() -> tuple[n.Scan, n.Scan, Any, Any]:
        s, ours = laws.scan("s")
        t, theirs = laws.scan("t")
        return s, t, ours, theirs

    s, t, (a, b, c), (k, d, _) = tables()
    found["select"] = n.Filter(s, text("{} > 1", a))
    s, t, (a, b, c), (k, d, _) = tables()
    found["project"] = n.Project(s, ((new("x", parse_type("int")), text("{} + 1", a, raises=True)), (c, column(c))))
    s, t, (a, b, c), (k, d, _) = tables()
    found["join"] = n.Join((s, t), (n.Equality(a, k),), (text("{} <= {}", b, d),))
    s, t, (a, b, c), (k, d, _) = tables()
    again, (other, _, _) = laws.scan("s")
    found["self_join"] = n.Join((s, t, again), (n.Equality(a, k), n.Equality(k, other)))
    s, t, (a, b, c), (k, d, _) = tables()
    found["cross"] = n.Join((s, t), (), (text("{} < {}", b, d),))
    for name, equal, more, negated in (
        ("semi", True, False, False),
        ("anti", True, False, True),
        ("anti_more", True, True, True),
        ("anti_unequal", False, True, True),
        ("semi_at_all", False, False, False),
        ("anti_at_all", False, False, True),
    ):
        s, t, (a, b, c), (k, d, _) = tables()
        equalities = (n.Equality(a, k),) if equal else ()
        conditions = (text("{} < {}", b, d),) if more else ()
        found[name] = n.Exists(s, t, equalities, conditions, negated)
    s, t, (a, b, c), (k, d, _) = tables()
    found["left_join"] = n.Outer(s, t, (n.Equality(a, k),), (), tuple((like(q), q) for q in t.outputs))
    s, t, (a, b, c), (k, d, _) = tables()
    found["left_unequal"] = n.Outer(s, t, (), (text("{} < {}", b, d),), tuple((like(q), q) for q in t.outputs))
    s, t, (a, b, c), (k, d, _) = tables()
    padded = tuple((like(q), q) for q in (*s.outputs, *t.outputs))
    found["full_join"] = n.Outer(s, t, (n.Equality(a, k),), (text("{} <= {}", b, d),), padded, full=True)
    for name, kind in (("union", n.Union), ("monus", n.Monus), ("least", n.Least)):
        s, t, _, _ = tables()
        attributes = tuple(like(q) for q in s.outputs)
        found[name] = n.Union((s, t), attributes) if kind is n.Union else kind(s, t, attributes)  # type: ignore[call-arg]
    s, t, (a, b, c), _ = tables()
    found["distinct"] = n.Distinct(n.Project(s, ((a, column(a)), (b, column(b)))))
    s, t, (a, b, c), _ = tables()
    found["group_by"] = complete(n.Aggregate(s, (a,), aggregates(laws, b, c)), laws.numbers)
    s, t, (a, b, c), _ = tables()
    found["whole"] = complete(n.Aggregate(s, (), aggregates(laws, b, c), whole=True), laws.numbers)
    s, t, (a, b, c), _ = tables()
    counted = n.Call(new("n", parse_type("bigint")), "count", None, text("count(DISTINCT {})", b))
    found["touched_groups"] = n.Aggregate(s, (a,), (counted,))
    s, t, (a, b, c), (k, d, _) = tables()
    rows = n.Call(new("n", parse_type("bigint")), "count")
    joined = n.Join((s, t), (n.Equality(a, k),))
    found["group_by_inside"] = n.Filter(n.Aggregate(joined, (a,), (rows,)), text("{} > 2", rows.output))
    s, t, (a, b, c), _ = tables()
    whole = n.Aggregate(s, (), (n.Call(new("n", parse_type("bigint")), "count"),), whole=True)
    found["whole_inside"] = n.Filter(whole, text("{} >= 0", whole.outputs[0]))
    s, t, (a, b, c), _ = tables()
    number = n.WindowCall(new("r", parse_type("int")), text("row_number()"), "", tie_break=True)
    rank = n.WindowCall(new("k", parse_type("int")), text("rank()"))
    found["window"] = n.Window(s, (a,), (n.Order(b),), (number, rank))
    s, t, (a, b, c), _ = tables()
    found["top"] = n.Top(s, (), (n.Order(b, descending=True, nulls_first=False),), 3, 1)
    s, t, (a, b, c), _ = tables()
    found["top_per_group"] = n.Top(s, (a,), (n.Order(b),), 2)
    s, t, (a, b, c), _ = tables()
    found["generate"] = n.Generate(s, text("explode(array({}, {}))", a, b), (new("g", parse_type("int")),))
    return found


def anew(db: vk.Database, node: n.Node) -> Counter[tuple[Any, ...]]:
    """An expression over the tables as they are, by the engine alone."""
    store = db._store
    state = store.refresh()
    reader = StateReader(store, state.relations.__getitem__, state.epoch, state.epoch)
    rows = store.engine.collect(Lowering(store.engine, reader).lower(node).frame).to_pylist()
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("seed", [1])
def test_laws(db: vk.Database, engine: str, seed: int) -> None:
    laws = Laws(db, seed)
    laws.views(operators(laws))
    before = {name: laws.contents(name) for name in laws.nodes}
    for _ in range(STEPS[engine]):
        commit = laws.step()
        for name, node in laws.nodes.items():
            now = laws.contents(name)
            assert now == anew(db, node), name
            change = commit.changes[name].weights() if commit is not None and name in commit.changes else {}
            both = set(now) | set(before[name])
            assert change == {row: now[row] - before[name][row] for row in both if now[row] != before[name][row]}, name
            before[name] = now
