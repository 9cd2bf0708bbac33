"""Constants pushed into rules (partial evaluation).

A recursion whose columns are partly fixed derives only what those values lead to, and changes that do not concern them
are dropped at once. The rules are rewritten for the adornment, with the constants as the only call. If that call leads
to no others, as with a column that every rule passes on, the constants are inlined into the rules:

    reach(y) :- path("a", y).    path^bf("a", y) :- edge("a", y).    path^bf("a", z) :- path^bf("a", y), edge(y, z).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Rule
from viewkeeper.algebra.expressions import Attribute, Equality, Expression, Literal, Numbers, same, string
from viewkeeper.algebra.types import Type
from viewkeeper.analysis.relevance import fixed_values
from viewkeeper.recursion.printed_rules import rule_text, short
from viewkeeper.recursion.rewriting import Rewriting, Written, adorned, calls_of

MARK = "·"
"""Marks the names of relations whose rules were rewritten."""

Constants = Mapping[Attribute, Expression]


def with_constants(node: n.Node) -> n.Node:
    """An expression whose recursions derive only what conditions above them, column = constant, need.

    New rules have column ids that occur nowhere else in the expression.
    """
    return _pushed(node, {}, Numbers(n.highest(node) + 1))


def _pushed(node: n.Node, constants: Constants, numbers: Numbers) -> n.Node:
    match node:
        case n.Fixpoint():
            below = node.with_inputs(tuple(_pushed(part, {}, numbers) for part in node.inputs))
            return below if node.bag else _specialized(below, constants, numbers)
        case n.Filter():
            more = _fixed(node.condition)
            return node.with_inputs((_pushed(node.input, {**constants, **more}, numbers),))
        case n.Project():
            passed = {e.attribute: constants[a] for a, e in node.columns if e.attribute and a in constants}
            return node.with_inputs((_pushed(node.input, passed, numbers),))
        case n.Join():
            known = dict(constants)
            for condition in node.conditions:
                known.update(_fixed(condition))
            return node.with_inputs(
                tuple(_pushed(part, _spread(known, node.equalities), numbers) for part in node.inputs)
            )
        case n.Exists():
            return node.with_inputs((_pushed(node.left, constants, numbers), _pushed(node.right, {}, numbers)))
        case n.Distinct() | n.Generate():
            return node.with_inputs((_pushed(node.input, constants, numbers),))
        case n.Aggregate():
            kept = {a: constants[a] for a in node.groups if a in constants}
            return node.with_inputs((_pushed(node.input, kept, numbers),))
        case n.Union():
            places = {i: constants[a] for i, a in enumerate(node.outputs) if a in constants}
            parts = (_pushed(part, {part.outputs[i]: e for i, e in places.items()}, numbers) for part in node.inputs)
            return node.with_inputs(tuple(parts))
        case _:
            return node.with_inputs(tuple(_pushed(part, {}, numbers) for part in node.inputs))


def _fixed(condition: Expression) -> dict[Attribute, Expression]:
    """The attributes that a condition fixes to one value, with its literal."""
    written = {a: _literal(value, a.type) for a, value in fixed_values(condition).items()}
    return {a: literal for a, literal in written.items() if literal is not None}


def _literal(value: Any, kind: Type) -> Expression | None:
    """A value as text for the engine."""
    if kind.is_integer:
        return Literal(value, kind)
    if kind.name == "string" and isinstance(value, str) and not set(value) & set("\\'"):
        return string(value)
    if kind.name == "date":
        return Literal(str(dt.date(1970, 1, 1) + dt.timedelta(days=value)), kind)
    return None


def _spread(constants: Constants, equalities: tuple[Equality, ...]) -> Constants:
    """The constants, also for columns that equalities make equal to theirs."""
    found = dict(constants)
    while True:
        more = {
            one: found[other]
            for e in equalities
            for one, other in ((e.left, e.right), (e.right, e.left))
            if other in found and one not in found and one.type == other.type
        }
        if not more:
            return found
        found.update(more)


def _specialized(node: n.Fixpoint, constants: Constants, numbers: Numbers) -> n.Fixpoint:
    """The recursion, rewritten for constants in some columns of the relation that it returns."""
    bound = tuple(i for i, a in enumerate(node.outputs) if a in constants)
    if not bound or MARK in node.shown:
        return node
    written = Written()
    rewriting = Rewriting(node.predicates, node.rules, written, supplements=False, numbers=numbers)
    rewriting.make(node.shown, bound)
    if rewriting.unbound:
        return node  # some rule needs all of a relation anyway
    width = len(node.outputs)
    values = tuple(constants[node.outputs[i]] for i in bound)
    call = calls_of(node.shown, bound, width)
    if any(rule.head == call for rule in written.rules):
        written.rules.append(Rule(call, values, ()))
    else:
        written.rules = [_inlined(rule, call, values) for rule in written.rules]
        del written.known[call]
    inputs = [short(part) for part in node.inputs]
    rules = [_called(rule) for rule in written.rules]
    return replace(
        node,
        predicates=tuple(replace(predicate, name=_name(name)) for name, predicate in written.known.items()),
        rules=tuple(replace(rule, text=rule_text(rule, inputs)) for rule in rules),
        shown=_name(adorned(node.shown, bound, width)),
    )


def _called(rule: Rule) -> Rule:
    body = (replace(one, source=_name(one.source)) if isinstance(one.source, str) else one for one in rule.body)
    return replace(rule, head=_name(rule.head), body=tuple(body))


def _name(name: str) -> str:
    """A name for people, of a relation of calls or of answers."""
    asked = f"asked{MARK}" if name.startswith("m:") else ""
    return f"{asked}{name.removeprefix('m:')}".replace("^", MARK)


def _inlined(rule: Rule, call: str, values: tuple[Expression, ...]) -> Rule:
    """A rule with the constants of the only call instead of its literal."""
    calls = [literal for literal in rule.body if literal.source == call]
    fixed = {a: value for literal in calls for a, value in zip(literal.attributes, values, strict=True)}
    if not fixed:
        return rule
    body = tuple(literal for literal in rule.body if literal.source != call)
    there = {a for literal in body if not literal.negated for a in literal.attributes}
    equalities: list[Equality] = []
    conditions = [condition.substitute(fixed) for condition in rule.conditions]
    computed = [(a, value.substitute(fixed)) for a, value in rule.computed]
    for equality in rule.equalities:
        match equality.left in fixed, equality.right in fixed:
            case False, False:
                equalities.append(equality)
            case True, True:
                conditions.append(same(fixed[equality.left], fixed[equality.right], null_safe=True))
            case left_is_fixed, _:
                value, other = equality.left, equality.right
                if not left_is_fixed:
                    value, other = other, value
                if other in there:
                    conditions.append(same(other, fixed[value], null_safe=True))
                else:  # of a negated literal
                    computed.append((value, fixed[value]))
                    equalities.append(equality)
    columns = tuple(value.substitute(fixed) for value in rule.columns)
    return replace(
        rule,
        columns=columns,
        body=body,
        equalities=tuple(equalities),
        conditions=tuple(conditions),
        computed=tuple(dict.fromkeys(computed)),
    )
