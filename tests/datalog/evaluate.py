"""Normal rules evaluated naively on small sets, to say what they mean."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from viewkeeper.datalog import program_tree as s
from viewkeeper.datalog import terms as t
from viewkeeper.datalog.normal import NormalAggregate, NormalBody, NormalRule

Rows = Mapping[str, set[tuple[Any, ...]]]
Values = dict[str, Any]

COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPUTE = {"+": operator.add, "-": operator.sub, "*": operator.mul}
CALLS = {"cat": lambda *parts: "".join(parts), "strlen": len, "min": min, "max": max}


def derive(rules: tuple[NormalRule, ...], rows: Rows) -> set[tuple[Any, ...]]:
    """What one application of the rules derives."""
    found: set[tuple[Any, ...]] = set()
    for rule in rules:
        for values, _ in solutions(rule.body, rows, {}):
            found.add(tuple(value(argument, values) for argument in rule.head.arguments))
    return found


def solutions(body: NormalBody, rows: Rows, given: Values) -> Iterator[tuple[Values, tuple[Any, ...]]]:
    """Values of the variables, with the rows that the positive atoms stand for."""
    for values, chosen in _joined(body.positive, rows, given):
        known = _settled(body, rows, dict(values))
        if known is None or any(not _holds(part, known) for part in body.constraints):
            continue
        if any(_matches(atom, row, known) for atom in body.negated for row in rows[atom.relation]):
            continue
        if all(_matches(atom, row, known) for atom, row in zip(body.positive, chosen, strict=True)):
            yield known, chosen


def _joined(atoms: tuple[s.Atom, ...], rows: Rows, given: Values) -> Iterator[tuple[Values, tuple[Any, ...]]]:
    if not atoms:
        yield given, ()
        return
    for row in rows[atoms[0].relation]:
        values = dict(given)
        pairs = list(zip(atoms[0].arguments, row, strict=True))
        if all(values.setdefault(a.name, v) == v for a, v in pairs if isinstance(a, t.Variable)):
            yield from ((found, (row, *more)) for found, more in _joined(atoms[1:], rows, values))


def _settled(body: NormalBody, rows: Rows, values: Values) -> Values | None:
    """The values with those that equations and aggregates give; nothing when an aggregate has no value."""
    size = -1
    while size < len(values):
        size = len(values)
        for aggregate in body.aggregates:
            if aggregate.result.name not in values and all(v.name in values for v in aggregate.outer):
                result = _aggregated(aggregate, rows, {v.name: values[v.name] for v in aggregate.outer})
                if result is None:
                    return None
                values[aggregate.result.name] = result
        for part in body.constraints:
            if isinstance(part, s.Comparison) and part.operator == "=":
                for target, source in ((part.left, part.right), (part.right, part.left)):
                    if isinstance(target, t.Variable) and target.name not in values:
                        try:
                            values[target.name] = value(source, values)
                        except KeyError:
                            continue
    return values


def _aggregated(aggregate: NormalAggregate, rows: Rows, outer: Values) -> Any:
    different = {(tuple(sorted(values.items())), more) for values, more in solutions(aggregate.body, rows, outer)}
    if aggregate.target is None:
        return len(different)
    targets = [value(aggregate.target, dict(values)) for values, _ in different]
    if aggregate.function == "sum":
        return sum(targets)
    if not targets:
        return None
    return {"min": min, "max": max, "mean": lambda found: sum(found) / len(found)}[aggregate.function](targets)


def _holds(part: s.Constraint, values: Values) -> bool:
    if isinstance(part, s.Truth):
        return part.holds
    left, right = value(part.left, values), value(part.right, values)
    if isinstance(part, s.Comparison):
        return bool(COMPARE[part.operator](left, right))
    assert part.name == "contains"
    return (left in right) != part.negated


def _matches(atom: s.Atom, row: tuple[Any, ...], values: Values) -> bool:
    return all(isinstance(a, t.Wildcard) or value(a, values) == v for a, v in zip(atom.arguments, row, strict=True))


def value(term: t.Term, values: Values) -> Any:
    """The value of a term; KeyError if a variable has none."""
    match term:
        case t.Variable():
            return values[term.name]
        case t.Number() | t.Real() | t.Text() | t.Boolean():
            return term.value
        case t.Unary():
            return -value(term.operand, values)
        case t.Binary():
            return COMPUTE[term.operator](value(term.left, values), value(term.right, values))
        case t.Call():
            return CALLS[term.function](*(value(argument, values) for argument in term.arguments))
        case _:
            raise AssertionError(term)
