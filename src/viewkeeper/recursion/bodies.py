"""The body of a Datalog rule as an expression, over given rows for each of its literals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import (
    Attribute,
    Equality,
    Expression,
    Numbers,
    column,
    comparison,
    conjunction,
    same,
)

Source = Callable[[int, Literal], n.Node]
"""Returns the rows of a literal, under its attributes. The number is its position in the body."""


def body(rule: Rule, head: Predicate, source: Source, first: int | None = None) -> n.Node:
    """The rows that a rule derives. `first` is the literal that the join begins with, because its rows are new and few.

    A negated literal that is first is joined like any other: its rows are its change.
    """
    joined = [i for i, literal in enumerate(rule.body) if i == first or not literal.negated]
    if first is not None:
        joined.sort(key=lambda i: i != first)
    there = {a for i in joined for a in rule.body[i].attributes}
    equalities = tuple(e for e in rule.equalities if e.left in there and e.right in there)
    computed = dict(rule.computed)
    node: n.Node = n.Rows((), ((),))
    if joined:
        tests = tuple(condition for condition in rule.conditions if not condition.raises)
        node = n.Join(tuple(source(i, rule.body[i]) for i in joined), equalities, tests)
    if rule.computed:
        node = n.Project(node, (*((a, column(a)) for a in node.outputs), *rule.computed))
    for i, literal in enumerate(rule.body):
        if i not in joined:
            node = n.Exists(
                node, source(i, literal), _towards(rule, there | computed.keys(), literal.attributes), negated=True
            )
    filters = tuple(condition for condition in rule.conditions if condition.raises or not joined)
    for equality in rule.equalities:
        for value, attribute in ((equality.left, equality.right), (equality.right, equality.left)):
            if value in computed and attribute in there:
                filters = (*filters, same(value, attribute, null_safe=True))
    if filters:
        node = n.Filter(node, conjunction(filters))
    return n.Project(node, tuple(zip(head.attributes, rule.columns, strict=True)))


def _towards(rule: Rule, there: set[Attribute], right: Sequence[Attribute]) -> tuple[Equality, ...]:
    """The equalities between the joined literals and a negated one, whose attribute is on the right."""
    found = []
    for equality in rule.equalities:
        if equality.left in there and equality.right in right:
            found.append(equality)
        elif equality.right in there and equality.left in right:
            found.append(Equality(equality.right, equality.left, equality.null_safe))
    return tuple(found)


def unused_ids(predicates: Iterable[Predicate], rules: Iterable[Rule]) -> Numbers:
    """Column ids that do not occur in some rules."""
    there = [a.number for predicate in predicates for a in predicate.attributes]
    for rule in rules:
        there += [a.number for literal in rule.body for a in literal.attributes]
        there += [a.number for a, _ in rule.computed]
    return Numbers(max(there, default=0) + 1)


def made_equal(pairs: Iterable[tuple[Attribute, Expression]]) -> tuple[list[Equality], list[Expression]]:
    """What makes attributes equal to a head's columns: equalities where a column is an attribute, else conditions."""
    equalities: list[Equality] = []
    conditions: list[Expression] = []
    for attribute, value in pairs:
        if value.attribute is not None:
            equalities.append(Equality(attribute, value.attribute, null_safe=True))
        else:
            conditions.append(comparison("<=>", attribute, value, fallible=True))
    return equalities, conditions
