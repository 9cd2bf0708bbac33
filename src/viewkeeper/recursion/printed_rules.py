"""The rules that derive the change of a recursion that is not stored, printed for people.

p_del, p_red and p_ins are the potentially deleted, re-derived and inserted rows of p; p_new is p in the new state; m_p
are the calls of p, b marking the bound columns; sup are supplementary relations, the joins before a call.
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Rule
from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.printing import formula
from viewkeeper.algebra.spark_text import printed
from viewkeeper.recursion.net import ADDED, REMOVED
from viewkeeper.recursion.rod import Rederivation

_LETTERS = "xyzuvwst"


def maintenance_rules(work: Rederivation) -> dict[str, list[str]]:
    """The rules by their kinds: D, R, I, N, E1, E2, and those that answer queries about the old state."""
    node = work.node
    changes = [(number, sign) for number in range(len(node.inputs)) for sign in (ADDED, REMOVED)]
    work.deletions(changes)
    work.insertions(changes)
    for name in work.predicates:
        work.magic.prepare(name)
    inputs = [short(part) for part in node.inputs]
    found: dict[str, list[str]] = {kind: [] for kind in ("D", "R", "I", "N", "E1", "E2", "query")}
    for rule in work.evaluation.rules():
        if any(str(literal.source).startswith(("red:", "ins:")) for literal in rule.body[1:]):
            continue  # alternatives for p_new, which N has
        found[_kind(rule)].append(rule_text(rule, inputs))
    for name, predicate in work.predicates.items():
        columns = ", ".join(_LETTERS[: len(predicate.attributes)])
        bound = "b" * len(predicate.attributes)
        found["N"] += [f"{name}_new({columns}) :- {name}_{kind}({columns})." for kind in ("red", "ins")]
        found["E1"] += [
            f"{name}_plus({columns}) :- {name}_ins({columns}), !{name}({columns}).",
            f"m_{name}^{bound}({columns}) :- {name}_ins({columns}).",
        ]
        found["E2"].append(
            f"{name}_minus({columns}) :- {name}_del({columns}), !{name}_ins({columns}), !{name}_red({columns})."
        )
    return {kind: list(dict.fromkeys(rules)) for kind, rules in found.items()}


def short(node: n.Node) -> str:
    """An expression outside of the recursion: a relation by its name."""
    while isinstance(node, (n.Project, n.Distinct)):
        node = node.input
    return formula(node).replace("@new", "")


def _kind(rule: Rule) -> str:
    for kind, mark in (("del:", "D"), ("red:", "R"), ("ins:", "I"), ("kept:", "N")):
        if rule.head.startswith(kind):
            return mark
    guards = {str(literal.source).split(":", 1)[0] for literal in rule.body[:1]}
    if rule.head.startswith(("m:", "sup:")) and guards & {"del", "ins"}:
        return "D" if "del" in guards else "I"
    return "query"


def rule_text(rule: Rule, inputs: list[str]) -> str:
    """A rule as text, its variables named in order of occurrence."""
    names = _Names(rule)
    literals = [
        f"{'!' if literal.negated else ''}{_relation(literal, inputs)}({_listed(literal, names)})"
        for literal in rule.body
    ]
    tests = [names.expression(condition) for condition in rule.conditions]
    head = f"{_called(rule.head)}({', '.join(names.expression(value) for value in rule.columns)})"
    body = ", ".join([*literals, *tests])
    return f"{head} :- {body}." if body else f"{head}."


def _listed(literal: Literal, names: _Names) -> str:
    return ", ".join(names.of(attribute) for attribute in literal.attributes)


def _relation(literal: Literal, inputs: list[str]) -> str:
    source = literal.source
    if isinstance(source, int):
        return inputs[source]
    for kind, mark in (("new:", "_new"), ("ins:#", "_ins"), ("del:#", "_del")):
        if source.startswith(kind):
            return inputs[int(source.removeprefix(kind))] + mark
    return _called(source)


def _called(name: str) -> str:
    kind, _, rest = name.rpartition(":")
    match kind:
        case "del" | "red" | "ins":
            return f"{rest}_{kind}"
        case "kept":
            return f"{rest.split('^')[0]}_new"
        case "m":
            return f"m_{rest}"
        case "sup":
            return f"sup_{rest}"
        case _:
            return name


class _Names:
    """Letters for the variables of a rule; equal attributes share one, one that occurs once is _."""

    def __init__(self, rule: Rule) -> None:
        self.same: dict[Attribute, Attribute] = {}
        for equality in rule.equalities:
            self.same[self._first(equality.left)] = self._first(equality.right)
        self.letters: dict[Attribute, str] = {}
        listed = [a for value in rule.columns for a in value.attributes]
        listed += [a for literal in rule.body for a in literal.attributes]
        listed += [a for condition in rule.conditions for a in condition.attributes]
        used = [self._first(a) for a in listed]
        for attribute in dict.fromkeys(used):
            if used.count(attribute) > 1:
                number = len(self.letters)
                self.letters[attribute] = _LETTERS[number] if number < len(_LETTERS) else f"x{number}"

    def _first(self, attribute: Attribute) -> Attribute:
        while attribute in self.same and self.same[attribute] != attribute:
            attribute = self.same[attribute]
        return attribute

    def of(self, attribute: Attribute) -> str:
        return self.letters.get(self._first(attribute), "_")

    def expression(self, value: Expression) -> str:
        return printed(value, self.of)
