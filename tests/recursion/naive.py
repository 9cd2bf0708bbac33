"""Datalog from its definition: every rule of a stratum is applied to everything known until nothing new comes out.

Relations are sets of tuples. NULL is None, a value like any other in joins, negation and `=`, where it equals itself
only. `!=`, `<`, `<=`, `>` and `>=` are not satisfied if a side is NULL, and arithmetic with NULL is NULL.

An aggregate is taken once for each binding of its outer variables: those that also occur in the rule's head, in a body
literal outside of any aggregate, or as the result of an aggregate. All other variables of its body are inner and known
in that aggregate only. What is aggregated is the set of distinct assignments of ALL inner variables that satisfy the
body, where each wildcard of a positive atom counts as an inner variable of its own (a wildcard under a negation does
not: it is "for no value"). The target has one value per assignment, so equal values of different assignments all
count. `count` is the number of assignments. The others leave out targets that are NULL; of the rest `sum` is 0 if there
is none, and `min`, `max` and `mean` then have no result: the literal fails. An aggregate whose result is bound
elsewhere is a test.
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = int | str | float | None
Row: TypeAlias = tuple[Value, ...]
Relations: TypeAlias = dict[str, set[Row]]
Binding: TypeAlias = dict[str, Value]

ROUNDS = 500
"""A stratum that is not done after so many rounds is taken to be endless."""


class Unsafe(Exception):
    """A variable of the rule gets its values from nowhere."""


class NotStratified(Exception):
    """A predicate depends on its own negation or aggregate."""


@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Const:
    value: Value


@dataclass(frozen=True)
class Wild:
    """`_`: some value, never mind which."""


@dataclass(frozen=True)
class Arith:
    """`left op right`, where op is one of + - *; in heads, comparisons and aggregate targets."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True)
class Atom:
    pred: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Not:
    atom: Atom


@dataclass(frozen=True)
class Compare:
    """`left op right`; with `=` and a variable on one side that nothing else binds, an assignment."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True)
class Agg:
    """`result = kind target : { body }`; only count has no target."""

    kind: str
    target: Term | None
    body: tuple[Atom | Not | Compare, ...]
    result: Var


@dataclass(frozen=True)
class Rule:
    """A rule; without a body, a fact."""

    head: Atom
    body: tuple[Literal, ...] = ()


Term: TypeAlias = Var | Const | Wild | Arith
Literal: TypeAlias = Atom | Not | Compare | Agg

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(rules: Iterable[Rule], facts: dict[str, set[Row]]) -> dict[str, set[Row]]:
    """The rows of every predicate that has facts or occurs in a rule, base relations included."""
    rules = list(rules)
    relations = {pred: set(rows) for pred, rows in facts.items()}
    for rule in rules:
        check_safe(rule)
        for pred in (rule.head.pred, *uses(rule)):
            relations.setdefault(pred, set())
    for stratum in strata(rules):
        to_fixpoint(stratum, relations)
    return relations


def to_fixpoint(rules: Sequence[Rule], relations: Relations) -> None:
    """Adds to the relations what the rules derive, round after round."""
    for _ in range(ROUNDS):
        derived = [(rule.head.pred, consequences(rule, relations)) for rule in rules]
        if all(rows <= relations[pred] for pred, rows in derived):
            return
        for pred, rows in derived:
            relations[pred] |= rows
    raise RuntimeError(f"no end after {ROUNDS} rounds: {sorted({rule.head.pred for rule in rules})}")


def consequences(rule: Rule, relations: Relations) -> set[Row]:
    """The rows a rule derives in one step."""
    found = solutions(rule.body, [{}], outer_variables(rule), relations)
    return {tuple(value_of(term, binding) for term in rule.head.terms) for binding in found}


# strata ----------------------------------------------------------------------------------------------


def uses(rule: Rule) -> dict[str, bool]:
    """The predicates of a rule's body, and whether any use needs them complete (negated or aggregated)."""
    found: dict[str, bool] = {}
    for literal in rule.body:
        match literal:
            case Atom(pred):
                found[pred] = found.get(pred, False)
            case Not(atom):
                found[atom.pred] = True
            case Agg(body=body):
                found.update(dict.fromkeys((pred for part in body for pred in predicates(part)), True))
    return found


def predicates(literal: Atom | Not | Compare) -> tuple[str, ...]:
    """The predicate of a literal inside an aggregate, if it has one."""
    match literal:
        case Atom(pred) | Not(Atom(pred)):
            return (pred,)
    return ()


def levels(rules: Iterable[Rule]) -> dict[str, int]:
    """The stratum of each predicate: at least that of what it uses, above what it negates or aggregates."""
    rules = list(rules)
    level = {pred: 0 for rule in rules for pred in (rule.head.pred, *uses(rule))}
    moved = True
    while moved:
        moved = False
        for rule in rules:
            least = max((level[pred] + complete for pred, complete in uses(rule).items()), default=0)
            if least > level[rule.head.pred]:
                level[rule.head.pred] = least
                moved = True
            if least >= len(level):
                raise NotStratified(rule.head.pred)
    return level


def strata(rules: Iterable[Rule]) -> list[list[Rule]]:
    """The rules by stratum, lowest first."""
    rules = list(rules)
    level = levels(rules)
    return [[rule for rule in rules if level[rule.head.pred] == n] for n in range(max(level.values(), default=-1) + 1)]


# safety ----------------------------------------------------------------------------------------------


def variables(part: Term | Literal | None) -> set[str]:
    """The names of all variables in a term or literal, an aggregate's inner ones included."""
    match part:
        case Var(name):
            return {name}
        case Arith(_, left, right) | Compare(_, left, right):
            return variables(left) | variables(right)
        case Atom(_, terms) | Not(Atom(_, terms)):
            return {name for term in terms for name in variables(term)}
        case Agg(_, target, body, result):
            return variables(target).union(variables(result), *map(variables, body))
    return set()


def outer_variables(rule: Rule) -> set[str]:
    """The names that mean the same everywhere in the rule."""
    plain = [literal.result if isinstance(literal, Agg) else literal for literal in rule.body]
    return variables(rule.head).union(*map(variables, plain))


def needed(agg: Agg, outer: set[str]) -> set[str]:
    """The outer variables that an aggregate's target and body read."""
    return outer & variables(agg.target).union(*map(variables, agg.body))


def is_ready(literal: Literal, bound: set[str], outer: set[str]) -> bool:
    """Whether a literal can be solved once these variables have values."""
    match literal:
        case Atom():
            return True
        case Agg():
            return needed(literal, outer) <= bound
        case Compare("=", left, right):
            missing = variables(literal) - bound
            assigned = any(
                isinstance(one, Var) and missing == {one.name} and not variables(other) & missing
                for one, other in ((left, right), (right, left))
            )
            return assigned or not missing
    return variables(literal) <= bound


def in_order(body: Iterable[Literal], bound: Iterable[str], outer: set[str]) -> list[Literal]:
    """The literals in an order in which each is ready; tests and assignments as early as can be."""
    waiting, done, known = list(body), [], set(bound)
    while waiting:
        ready = [literal for literal in waiting if is_ready(literal, known, outer)]
        if not ready:
            raise Unsafe(", ".join(sorted({name for literal in waiting for name in variables(literal) - known})))
        literal = min(ready, key=lambda literal: isinstance(literal, Atom))
        waiting.remove(literal)
        done.append(literal)
        known |= variables(literal.result if isinstance(literal, Agg) else literal)
    return done


def check_safe(rule: Rule) -> None:
    """Raises Unsafe if a variable of the rule is not bound, ValueError if the rule is not well formed."""
    outer = outer_variables(rule)
    known = {name for literal in in_order(rule.body, (), outer) for name in variables(literal)} & outer
    if not variables(rule.head) <= known:
        raise Unsafe(", ".join(sorted(variables(rule.head) - known)))
    for literal in rule.body:
        if isinstance(literal, Agg):
            inner = {name for part in in_order(literal.body, needed(literal, outer), outer) for name in variables(part)}
            if not variables(literal.target) <= inner | outer:
                raise Unsafe(", ".join(sorted(variables(literal.target) - inner - outer)))
    check_form(rule)


def check_form(rule: Rule) -> None:
    """Raises ValueError for a term or literal where none of its kind may be."""
    aggregates = [literal for literal in rule.body if isinstance(literal, Agg)]
    body = [*rule.body, *(part for agg in aggregates for part in agg.body)]
    atoms = [part.atom if isinstance(part, Not) else part for part in body if isinstance(part, Atom | Not)]
    values = [*rule.head.terms, *(agg.target for agg in aggregates)]
    values += [side for part in body if isinstance(part, Compare) for side in (part.left, part.right)]
    if any(has_wildcard(term) for term in values):
        raise ValueError("a wildcard has no value to use")
    if any(isinstance(term, Arith) for atom in atoms for term in atom.terms):
        raise ValueError("arithmetic in an atom of the body")
    if any(isinstance(part, Agg) for agg in aggregates for part in agg.body):
        raise ValueError("an aggregate in an aggregate")
    if any((agg.kind == "count") != (agg.target is None) for agg in aggregates):
        raise ValueError("count has no target, every other aggregate has one")


def has_wildcard(term: Term | None) -> bool:
    match term:
        case Arith(_, left, right):
            return has_wildcard(left) or has_wildcard(right)
    return isinstance(term, Wild)


# solving ---------------------------------------------------------------------------------------------


def value_of(term: Term, binding: Binding) -> Value:
    """A term's value, all of its variables being bound."""
    match term:
        case Var(name):
            return binding[name]
        case Const(value):
            return value
        case Arith(op, left, right):
            sides = value_of(left, binding), value_of(right, binding)
            return None if None in sides else ARITHMETIC[op](*sides)
    raise ValueError(f"no value: {term}")


def holds(op: str, left: Value, right: Value) -> bool:
    """Whether two values compare so."""
    if op == "=":
        return left == right
    return left is not None and right is not None and COMPARISONS[op](left, right)


def solutions(body: Iterable[Literal], start: list[Binding], outer: set[str], relations: Relations) -> list[Binding]:
    """The bindings that extend the given ones and satisfy the body: one for each choice of rows for its atoms."""
    found = start
    for literal in in_order(body, start[0], outer):
        if not found:
            return []
        match literal:
            case Atom():
                found = joined(literal, found, relations)
            case Not(atom):
                rows = matching(atom, set(found[0]), relations)
                found = [binding for binding in found if not rows(binding)]
            case Compare():
                found = [new for binding in found for new in compared(literal, binding)]
            case Agg():
                found = with_aggregate(literal, found, outer, relations)
    return found


def matching(atom: Atom, bound: set[str], relations: Relations) -> Callable[[Binding], list[Row]]:
    """Looks up the rows that agree with an atom's constants and bound variables."""
    keys = [
        (n, term)
        for n, term in enumerate(atom.terms)
        if isinstance(term, Const) or (isinstance(term, Var) and term.name in bound)
    ]
    index: dict[Row, list[Row]] = defaultdict(list)
    for row in relations[atom.pred]:
        if len(row) != len(atom.terms):
            raise ValueError(f"{atom.pred} has rows of {len(row)} values, not {len(atom.terms)}")
        index[tuple(row[n] for n, _ in keys)].append(row)
    return lambda binding: index.get(tuple(value_of(term, binding) for _, term in keys), [])


def joined(atom: Atom, bindings: list[Binding], relations: Relations) -> list[Binding]:
    """The bindings extended by each row that fits the atom."""
    rows = matching(atom, set(bindings[0]), relations)
    found = []
    for binding in bindings:
        for row in rows(binding):
            new = dict(binding)
            pairs = [(term.name, value) for term, value in zip(atom.terms, row, strict=True) if isinstance(term, Var)]
            if all(new.setdefault(name, value) == value for name, value in pairs):
                found.append(new)
    return found


def compared(compare: Compare, binding: Binding) -> list[Binding]:
    """The binding if the comparison holds, with the variable that it assigns."""
    for variable, other in ((compare.left, compare.right), (compare.right, compare.left)):
        if isinstance(variable, Var) and variable.name not in binding:
            return [{**binding, variable.name: value_of(other, binding)}]
    return [binding] if holds(compare.op, value_of(compare.left, binding), value_of(compare.right, binding)) else []


def with_aggregate(agg: Agg, bindings: list[Binding], outer: set[str], relations: Relations) -> list[Binding]:
    """The bindings with the aggregate's result.

    Every row of a relation is there once, so `solutions` gives each assignment of variables and wildcards once.
    """
    names = sorted(needed(agg, outer))
    results: dict[Row, list[Value]] = {}
    found = []
    for binding in bindings:
        group = tuple(binding[name] for name in names)
        if group not in results:
            inner = solutions(agg.body, [dict(zip(names, group, strict=True))], outer, relations)
            targets = [None if agg.target is None else value_of(agg.target, assignment) for assignment in inner]
            results[group] = aggregated(agg.kind, targets)
        for result in results[group]:
            if binding.get(agg.result.name, result) == result:
                found.append({**binding, agg.result.name: result})
    return found


def aggregated(kind: str, targets: list[Value]) -> list[Value]:
    """The aggregate of one value per assignment, or nothing where it has no result."""
    if kind == "count":
        return [len(targets)]
    values: list[Any] = [value for value in targets if value is not None]
    if kind == "sum":
        return [total(values)]
    if not values:
        return []
    match kind:
        case "min":
            return [min(values)]
        case "max":
            return [max(values)]
        case "mean":
            return [total(values) / len(values)]
    raise ValueError(f"no aggregate {kind}")


def total(values: list[Any]) -> Any:
    """The sum, not depending on the order."""
    return math.fsum(values) if any(isinstance(value, float) for value in values) else sum(values)
