"""Recursive bags (UNION ALL): a row occurs as often as it can be derived. Evaluated and maintained round by round.

    T = T0 ⊎ T1 ⊎ ...      T0 = start, T(i+1) = step(Ti)
    δT = Δ0 ⊎ Δ1 ⊎ ...     Δ0 = δstart ⊎ δ(step)[T@old], Δ(i+1) = step@new[Δi]

Steps read T once, so they are linear in it, and negative weights pass through them like positive ones.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Rule
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.lowered import Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.bodies import body
from viewkeeper.recursion.endless import Rounds, growth_of
from viewkeeper.recursion.evaluation import outside_of
from viewkeeper.recursion.row_sets import Workspace, renamed


def evaluate_bag(space: Workspace, node: n.Fixpoint) -> list[Lowered]:
    """The rows of a recursive bag, round by round."""
    return list(_rounds(space, node, _start(space, node)))


def _start(space: Workspace, node: n.Fixpoint) -> Lowered:
    lowering = Lowering(space.engine, space.reader)
    outside = outside_of(node)
    parts = [
        body(rule, node.predicates[0], lambda _, literal: outside(lowering, literal))
        for rule in node.rules
        if not _reads_itself(rule)
    ]
    return lowering.lower(_all(parts, node))


def change_bag(space: Workspace, node: n.Fixpoint, stored: n.Node, changed: Collection[str]) -> list[Lowered]:
    """The change of a recursive bag, in parts whose rows may cancel."""
    lowering = Lowering(space.engine, space.reader)
    outside = outside_of(node)

    def source(_: int, literal: Literal) -> n.Node:
        if literal.is_recursive:
            return renamed(stored, literal.attributes)
        return outside(lowering, literal)

    parts = [body(rule, node.predicates[0], source) for rule in node.rules]
    changes = [change for change in (differentiate(part, changed) for part in parts) if change is not None]
    if not changes:
        return []
    after = n.at(node, n.NEW)
    assert isinstance(after, n.Fixpoint)
    return list(_rounds(space, after, lowering.lower(_all(changes, node))))


def _rounds(space: Workspace, node: n.Fixpoint, first: Lowered) -> Iterator[Lowered]:
    steps = [rule for rule in node.rules if _reads_itself(rule)]
    outside = outside_of(node)
    current = first
    total = 0
    rounds = Rounds(growth_of(node.predicates, node.rules, bag=True), space.engine.limits)
    while True:
        current = space.reader.keep(current)
        if current.empty:
            return
        rounds.begin([(node.predicates[0].name, functools.partial(_on_driver, current))])
        total += current.count
        rounds.check_rows(total)
        yield current
        if not steps:
            return
        lowering = Lowering(space.engine, space.reader)
        given = lowering.given(current)

        def source(_: int, literal: Literal, given: n.Node = given, lowering: Lowering = lowering) -> n.Node:
            return renamed(given, literal.attributes) if literal.is_recursive else outside(lowering, literal)

        parts = [body(rule, node.predicates[0], source, _own_place(rule)) for rule in steps]
        current = lowering.lower(_all(parts, node))


def _on_driver(kept: Lowered) -> list[tuple[Any, ...]] | None:
    if kept.rows is None:
        return None
    weights = [WEIGHT] if WEIGHT in kept.rows.column_names else []
    return row_tuples(kept.rows.drop_columns(weights))


def _all(parts: list[n.Node], node: n.Fixpoint) -> n.Node:
    return parts[0] if len(parts) == 1 else n.Union(tuple(parts), node.predicates[0].attributes)


def _reads_itself(rule: Rule) -> bool:
    return any(literal.is_recursive for literal in rule.body)


def _own_place(rule: Rule) -> int:
    return next(i for i, literal in enumerate(rule.body) if literal.is_recursive)
