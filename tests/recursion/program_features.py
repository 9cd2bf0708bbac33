"""What is in a Datalog program, to tell that random ones have everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.recursion.naive import (
    Agg,
    Arith,
    Atom,
    Compare,
    Const,
    Not,
    Rule,
    Var,
    Wild,
    levels,
    uses,
)
from tests.recursion.programs import (
    Program,
)


def reach(rules: Iterable[Rule]) -> dict[str, set[str]]:
    """The predicates that each derived predicate depends on, directly or not."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        found.setdefault(rule.head.pred, set()).update(uses(rule))
    for middle in found:
        for below in found.values():
            if middle in below:
                below |= found[middle]
    return found


def features(program: Program) -> Counter[str]:
    """How often the program has what; to tell that random ones have everything."""
    below = reach(program.rules)
    level = levels(program.rules)
    found: Counter[str] = Counter()
    recursive = {pred for pred, under in below.items() if pred in under}
    for pred in recursive:
        ring = sum(pred in below.get(other, ()) and other in below[pred] for other in recursive)
        found[f"mutual {ring}" if ring > 1 else "recursive alone"] += 1
    found["above recursion"] = sum(bool(under & recursive) for pred, under in below.items() if pred not in recursive)
    found["recursion above recursion"] = sum(
        any(other in under and pred not in below[other] for other in recursive)
        for pred, under in below.items()
        if pred in recursive
    )
    found["strata"] = max((level[pred] for pred in below), default=0) + 1
    found["virtual"] = sum(not relation.stored for relation in program.derived)
    found["NULL"] = sum(None in row for rows in program.facts.values() for row in rows)
    for rule in program.rules:
        atoms = [part for part in rule.body if isinstance(part, Atom)]
        own = [n for n, atom in enumerate(atoms) if rule.head.pred in below.get(atom.pred, ())]
        if len(own) > 1:
            found["non-linear"] += 1
        elif own and len(atoms) > 1:
            found["left-linear" if own[0] == 0 else "right-linear" if own[0] == len(atoms) - 1 else "middle"] += 1
        found.update(rule_features(rule, bool(own)))
    return +found


def rule_features(rule: Rule, recursive: bool) -> Iterable[str]:
    """What a rule has, once for each use."""
    where = "recursive rule" if recursive else "rule"
    if not rule.body:
        yield "fact"
    if any(isinstance(term, Arith) for term in rule.head.terms):
        yield "arithmetic in head"
    for literal in rule.body:
        match literal:
            case Atom(_, terms):
                names = [term.name for term in terms if isinstance(term, Var)]
                yield from ["repeated variable"] * (len(set(names)) < len(names))
                yield from ["constant"] * any(isinstance(term, Const) for term in terms)
                yield from ["wildcard"] * (Wild() in terms)
            case Not(Atom(_, terms)):
                yield f"negation in {where}"
                yield from ["negation with wildcard"] * (Wild() in terms)
            case Compare(op, left, right):
                computed = isinstance(left, Arith) or isinstance(right, Arith)
                yield f"arithmetic in {where}" if computed else f"compare {op}"
            case Agg(kind, _, body, _):
                yield kind
                yield f"aggregate in {where}"
                yield from ["aggregate of a join or test"] * (len(body) > 1)
