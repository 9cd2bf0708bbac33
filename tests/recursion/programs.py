"""Datalog programs with their facts, and their text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.recursion.naive import (
    Agg,
    Arith,
    Atom,
    Compare,
    Const,
    Literal,
    Not,
    Row,
    Rule,
    Term,
    Var,
    Wild,
)

NUMBER, WIDE, SYMBOL, FLOAT = "number", "wide", "symbol", "float"
NUMBERS = range(6)
WORDS = ("a", "b", "c", "d")
ACCEPTS = {NUMBER: (NUMBER,), WIDE: (NUMBER, WIDE), SYMBOL: (SYMBOL,), FLOAT: (FLOAT,)}
"""The kinds of variable that a head column of a kind may take."""
JOINS = {NUMBER: (NUMBER, WIDE), WIDE: (NUMBER, WIDE), SYMBOL: (SYMBOL,), FLOAT: (FLOAT,)}
"""The kinds of variable that a column of a kind may be joined with."""

Facts: TypeAlias = dict[str, set[Row]]
Transaction: TypeAlias = dict[str, tuple[set[Row], set[Row]]]
"""Per base relation the rows inserted, none of them there before, and the rows deleted, all of them there."""


@dataclass(frozen=True)
class Relation:
    """A declared relation: a base table, or derived and either stored or virtual."""

    name: str
    kinds: tuple[str, ...]
    base: bool = False
    stored: bool = True


BASE = {
    name: Relation(name, kinds, base=True)
    for name, kinds in {
        "node": (NUMBER,),
        "flag": (NUMBER,),
        "word": (SYMBOL,),
        "edge": (NUMBER, NUMBER),
        "link": (NUMBER, NUMBER),
        "parent": (NUMBER, NUMBER),
        "follows": (SYMBOL, SYMBOL),
        "label": (NUMBER, SYMBOL),
        "road": (NUMBER, NUMBER, NUMBER),
        "ride": (NUMBER, SYMBOL, NUMBER),
    }.items()
}
"""All base relations that programs choose from; the kinds of their columns are known by name."""


@dataclass(frozen=True)
class Program:
    """Declared relations, rules, and first facts of the base relations."""

    relations: tuple[Relation, ...]
    rules: tuple[Rule, ...]
    facts: Facts

    @property
    def base(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation.base)

    @property
    def derived(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if not relation.base)


def to_text(program: Program) -> str:
    """The program as Souffle reads it; a virtual relation is only declared."""
    lines = []
    for relation in program.relations:
        kinds = ("number" if kind == WIDE else kind for kind in relation.kinds)
        lines.append(f".decl {relation.name}({', '.join(f'c{n}:{kind}' for n, kind in enumerate(kinds))})")
        if relation.base or relation.stored:
            lines.append(f"{'.input' if relation.base else '.output'} {relation.name}")
    return "\n".join([*lines, *map(rule_text, program.rules), ""])


def rule_text(rule: Rule) -> str:
    """A rule as one line of Souffle."""
    body = ", ".join(map(literal_text, rule.body))
    return f"{literal_text(rule.head)} :- {body}." if body else f"{literal_text(rule.head)}."


def literal_text(literal: Literal) -> str:
    match literal:
        case Atom(pred, terms):
            return f"{pred}({', '.join(map(term_text, terms))})"
        case Not(atom):
            return f"!{literal_text(atom)}"
        case Compare(op, left, right):
            return f"{term_text(left)} {op} {term_text(right)}"
        case Agg(kind, target, body, result):
            what = kind if target is None else f"{kind} {term_text(target)}"
            return f"{result.name} = {what} : {{ {', '.join(map(literal_text, body))} }}"


def term_text(term: Term) -> str:
    match term:
        case Var(name):
            return name
        case Wild():
            return "_"
        case Arith(op, left, right):
            sides = (f"({term_text(side)})" if isinstance(side, Arith) else term_text(side) for side in (left, right))
            return f" {op} ".join(sides)
        case Const(None):
            raise ValueError("NULL has no text")
        case Const(str(value)):
            return f'"{value}"'
        case Const(value):
            return str(value)
