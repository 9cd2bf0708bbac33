"""The bound variables of a normal rule. Refuses rules that leave a variable unbound.

A variable is bound by being an argument of a positive atom, by `=` with a term whose variables are bound, or by being
the result of an aggregate whose outer variables are bound. Inside an aggregate the outer variables are bound already.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.datalog.normal import NormalAggregate, NormalBody, NormalRule
from viewkeeper.datalog.program_tree import Atom, Comparison
from viewkeeper.datalog.terms import Node, Term, Variable, Wildcard
from viewkeeper.datalog.walking import names, variables, walk
from viewkeeper.datalog.wording import where, written
from viewkeeper.errors import DatalogError


def bound_variables(body: NormalBody, given: Iterable[str] = ()) -> frozenset[str]:
    """The names of the variables that a body binds, and those given."""
    bound = set(given)
    bound.update(part.name for atom in body.positive for part in atom.arguments if isinstance(part, Variable))
    size = -1
    while size < len(bound):
        size = len(bound)
        for aggregate in body.aggregates:
            if all(variable.name in bound for variable in aggregate.outer):
                bound.add(aggregate.result.name)
        for part in body.constraints:
            if isinstance(part, Comparison) and part.operator == "=":
                _bind(part.left, part.right, bound)
                _bind(part.right, part.left, bound)
    return frozenset(bound)


def _bind(target: Term, source: Term, bound: set[str]) -> None:
    if (
        isinstance(target, Variable)
        and not isinstance(source, Wildcard)
        and bound.issuperset(names(variables([source])))
    ):
        bound.add(target.name)


def check_grounded(rule: NormalRule) -> None:
    """Refuses a rule with an unbound variable, or with an underscore in place of a value."""
    for found in _wildcards([rule.head]):
        raise DatalogError(
            "Underscore in head of rule",
            detail=where(rule),
            hint="give each column a value: a constant, or a variable that the body binds",
            place=found.place,
        )
    _check_wildcards(rule.body, rule)
    _check_body(rule.body, [rule.head], frozenset(), rule)


def _check_body(body: NormalBody, around: Iterable[Node], given: frozenset[str], rule: NormalRule) -> None:
    bound = bound_variables(body, given)
    unbound = [v for v in variables([*around, *_literals(body)]) if v.name not in bound]
    if unbound:
        raise _ungrounded(_cause(unbound, body, given), body, rule)
    for aggregate in body.aggregates:
        target = () if aggregate.target is None else (aggregate.target,)
        _check_body(aggregate.body, target, frozenset(v.name for v in aggregate.outer), rule)


def _literals(body: NormalBody) -> tuple[Node, ...]:
    return (*body.positive, *body.negated, *body.constraints)


def _cause(unbound: list[Variable], body: NormalBody, given: frozenset[str]) -> Variable:
    """The first variable that would be unbound even if every aggregate had its result."""
    results = {aggregate.result.name for aggregate in body.aggregates}
    still = bound_variables(body, given | results)
    return min(unbound, key=lambda v: (v.name in results, v.name in still, v.place.line, v.place.column))


def _ungrounded(variable: Variable, body: NormalBody, rule: NormalRule) -> DatalogError:
    name = written(variable)
    if rule.clause.body is None:
        hint = f'a fact holds constants; a string is written "{name}"'
    elif any(_binds_inside(aggregate, variable.name) for aggregate in body.aggregates):
        hint = f"{name} is bound only inside an aggregate: bind it outside too, with an atom next to the aggregate"
    elif _stands_once_negated(variable, body, rule):
        hint = f"bind {name} with an atom that is not negated, or write _ if no value may be there"
    else:
        hint = f"bind {name} with an atom that is not negated, or with '=' and a term of bound variables"
    return DatalogError(f"Ungrounded variable {name}", detail=where(rule), hint=hint, place=variable.place)


def _stands_once_negated(variable: Variable, body: NormalBody, rule: NormalRule) -> bool:
    once = [v.name for v in variables([rule.head, *_literals(body)])].count(variable.name) == 1
    return once and any(argument is variable for atom in body.negated for argument in atom.arguments)


def _binds_inside(aggregate: NormalAggregate, name: str) -> bool:
    return name in bound_variables(aggregate.body)


def _wildcards(nodes: Iterable[Node]) -> Iterable[Wildcard]:
    return (part for node in nodes for part in walk(node) if isinstance(part, Wildcard))


def _check_wildcards(body: NormalBody, rule: NormalRule) -> None:
    inside = [part for atom in (*body.positive, *body.negated) for part in _expressions(atom)]
    targets = [aggregate.target for aggregate in body.aggregates if aggregate.target is not None]
    kinds: tuple[tuple[str, Iterable[Node]], ...] = (
        ("a comparison", body.constraints),
        ("an expression", inside),
        ("the target of an aggregate", targets),
    )
    for kind, nodes in kinds:
        for found in _wildcards(nodes):
            raise DatalogError(
                f"Underscore in {kind}",
                detail=where(rule),
                hint="name a variable, and bind it with an atom",
                place=found.place,
            )
    for aggregate in body.aggregates:
        _check_wildcards(aggregate.body, rule)


def _expressions(atom: Atom) -> Iterable[Term]:
    return (part for part in atom.arguments if not isinstance(part, Wildcard))
