"""Deleted rows by over-deletion and re-derivation (DRed; the rules D, R and E2 of Staudt & Jarke).

p_del :- body[q := q_del, others @old]
p_red :- p_del, body @new                with q@new = (q@old − q_del) ∪ q_red
∇p     = p_del − p_red
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import Numbers
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.bodies import made_equal, unused_ids
from viewkeeper.recursion.evaluation import Evaluation
from viewkeeper.recursion.maintenance import Maintenance
from viewkeeper.recursion.row_sets import Growing, Rows
from viewkeeper.recursion.steps import Step


def remove(work: Maintenance, steps: list[Step]) -> None:
    """Deletes all rows that any lost derivation led to, then puts back those that can be derived."""
    deleted = {name: Growing(work.space, p.attributes) for name, p in work.predicates.items()}
    while steps:
        lost: dict[str, Rows] = {}
        for name in work.predicates:
            found = work.propose(work.in_old, steps, name)
            if found is not None and (fresh := deleted[name].new_among(found)).count:
                lost[name] = fresh
        for name, rows in lost.items():
            deleted[name].add(rows)
        steps = work.following(work.before.rules, lost)
    if not any(rows.count for rows in deleted.values()):
        return
    derived = _derived_again(work, deleted)
    for name in work.predicates:
        work.trace.note(work.trace.filtered, name, deleted[name].count)
        for rows in deleted[name].parts():
            work.removed[name].add(derived[name].new_among(rows))


def _derived_again(work: Maintenance, deleted: dict[str, Growing]) -> dict[str, Growing]:
    """p_red of every relation."""

    def outside(lowering: Lowering, literal: Literal) -> n.Node:
        if not isinstance(literal.source, str):
            return work.outside_after(lowering, literal)
        kind, name = literal.source.split(":", 1)
        if kind == "del":
            return deleted[name].node(lowering, literal.attributes)
        return work.less(lowering, replace(literal, source=name), deleted[name])

    evaluation = Evaluation(work.space, outside)
    for name, predicate in work.predicates.items():
        evaluation.declare(Predicate(f"red:{name}", predicate.attributes))
    numbers = unused_ids(work.after.predicates, work.after.rules)
    for rule in work.after.rules:
        if deleted[rule.head].count:
            evaluation.define(_rules(rule, work.predicates[rule.head], numbers))
    evaluation.run()
    return {name: evaluation.known[f"red:{name}"] for name in work.predicates}


def _rules(rule: Rule, head: Predicate, numbers: Numbers) -> Iterator[Rule]:
    """(R), with every recursive literal once as the rows that stayed and once as the re-derived ones."""
    given = tuple(numbers.like(a) for a in head.attributes)
    equalities, conditions = made_equal(zip(given, rule.columns, strict=True))
    guard = Literal(f"del:{head.name}", given)
    choices = [("kept", "red") if literal.is_recursive else ("",) for literal in rule.body]
    for chosen in itertools.product(*choices):
        literals = tuple(
            replace(literal, source=f"{kind}:{literal.source}") if kind else literal
            for literal, kind in zip(rule.body, chosen, strict=True)
        )
        yield replace(
            rule,
            head=f"red:{head.name}",
            body=(guard, *literals),
            equalities=(*rule.equalities, *equalities),
            conditions=(*rule.conditions, *conditions),
        )
