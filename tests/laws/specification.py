"""The laws of change as executable specifications: δ(E) = E@new − E@old, on bags of few values and many duplicates."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.laws.bag_semantics import Row, States, Weights, net
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.types import Type
from viewkeeper.delta.compile import differentiate

ROUNDS = 120
_TABLES = {"s": "ab", "t": "cd", "u": "ef"}
_numbers = Numbers()
INT, BIGINT = Type("int"), Type("bigint")

like = _numbers.like


def new(name: str, kind: Type = INT) -> Attribute:
    """A new column."""
    return _numbers.attribute(name, kind)


def table(name: str) -> tuple[n.Scan, Attribute, Attribute]:
    """One of s(a, b), t(c, d) and u(e, f) and its columns, with attributes of their own."""
    first, second = (new(column) for column in _TABLES[name])
    return n.Scan(name, name, (first, second)), first, second


def bag(*rows: Row) -> Weights:
    """Rows, each as often as it is given."""
    return net([(row, 1) for row in rows])


def minus(*rows: Row) -> Weights:
    """Rows that are deleted."""
    return net([(row, -1) for row in rows])


Change = Callable[[Iterable[str]], n.Node | None]


def changed(node: n.Node, before: Mapping[str, Weights], changes: Mapping[str, Weights]) -> Weights:
    """δ(node) by its law. That it is node@new − node@old is checked."""
    return changed_to(node, node, lambda names: differentiate(node, names), before, changes)


def law_holds(node: n.Node, seed: int = 1) -> None:
    """δ(node) = node@new − node@old, whatever changes at once."""
    becomes(node, node, lambda names: differentiate(node, names), seed)


def becomes(before: n.Node, after: n.Node, change: Change, seed: int = 1) -> None:
    """change = after@new − before@old, for random bags and changes, empty ones included."""
    rng = random.Random(seed)
    names = sorted({scan.relation for part in (before, after) for scan in n.scans(part)})
    seen = 0
    for _ in range(ROUNDS):
        old = {name: bag(*(random_row(rng) for _ in range(rng.choice((0, 1, 3, 6))))) for name in names}
        touched = rng.sample(names, rng.randint(1, len(names)))
        found = changed_to(before, after, change, old, {name: net_change(rng, old[name]) for name in touched})
        seen += bool(found)
    assert seen > ROUNDS // 8, "hardly anything ever changed"


def changed_to(
    before: n.Node, after: n.Node, change: Change, old: Mapping[str, Weights], changes: Mapping[str, Weights]
) -> Weights:
    """The change from one expression to another. That it is after@new − before@old is checked."""
    states = States(old, changes)
    difference = net(
        [
            *states.rows(n.at(after, n.NEW)),
            *((row, -weight) for row, weight in states.rows(n.at(before, n.OLD))),
        ]
    )
    law = change(changes)
    found = {} if law is None else net(states.rows(law))
    assert found == difference, (old, changes)
    return found


def random_row(rng: random.Random) -> Row:
    """A row of few values, NULL among them."""
    return (rng.choice((None, 1, 2)), rng.choice((None, 0, 1)))


def net_change(rng: random.Random, old: Weights) -> Weights:
    """A net change: nothing is deleted that is not there. Sometimes all is, sometimes it is empty."""
    rows = [row for row, count in old.items() for _ in range(count)]
    gone = rows if rng.random() < 0.1 else rng.sample(rows, rng.randint(0, min(len(rows), 3)))
    added: list[Any] = [random_row(rng) for _ in range(rng.randint(0, 3))]
    return net([*((row, -1) for row in gone), *((row, 1) for row in added)])
