"""Normal rules: one head and one conjunction, literals sorted by kind, aggregates lifted out of terms.

A clause becomes one normal rule per head and alternative. A new variable for its result replaces each aggregate. A
variable of an aggregate's body is shared with the rule around it if it also occurs there, outside other aggregates,
unless the aggregate's target names it too. All others belong to the aggregate, and are renamed so that one name means
one variable in the whole rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viewkeeper.datalog.alternatives import written_out
from viewkeeper.datalog.program_tree import Atom, Clause, Comparison, Constraint, Literal, Negation, StringTest, Truth
from viewkeeper.datalog.terms import Aggregate, Node, Term, Variable
from viewkeeper.datalog.walking import names, own_variables, rebuilt, renamed, variables


@dataclass(frozen=True)
class NormalBody(Node):
    """A conjunction of literals.

    A wildcard in a positive atom is any value. In a negated atom it means 'for no value': `!path(x, _)` needs the
    projection of path to its first column, and `Atom.wildcards` says which positions to leave out.
    """

    positive: tuple[Atom, ...]
    negated: tuple[Atom, ...]
    constraints: tuple[Constraint, ...]
    aggregates: tuple[NormalAggregate, ...]

    def __str__(self) -> str:
        negated = (f"!{atom}" for atom in self.negated)
        literals = [*map(str, self.positive), *negated, *map(str, self.aggregates), *map(str, self.constraints)]
        return ", ".join(literals) or "true"

    @property
    def is_empty(self) -> bool:
        """Whether it has no literals, so that it always holds."""
        return not (self.positive or self.negated or self.constraints or self.aggregates)


@dataclass(frozen=True)
class NormalAggregate(Node):
    """An aggregate: `result` is its value, for each combination of the variables in `outer`.

    It ranges over the distinct solutions of its body. A wildcard in a positive atom of the body is a variable without a
    name, so `count : { edge(x, _) }` counts the edges of x. Without a solution, count and sum are 0; min, max and mean
    have no value, and the rule does not hold.
    """

    result: Variable
    function: str
    target: Term | None
    body: NormalBody
    outer: tuple[Variable, ...]

    def __str__(self) -> str:
        target = "" if self.target is None else f" {self.target}"
        return f"{self.result} = {self.function}{target} : {{ {self.body} }}"


@dataclass(frozen=True)
class NormalRule(Node):
    """A rule in normal form; a fact has an empty body. `alternative` counts from 1 when its clause has several."""

    head: Atom
    body: NormalBody
    clause: Clause = field(compare=False, repr=False)
    alternative: int | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.head}." if self.is_fact else f"{self.head} :- {self.body}."

    @property
    def is_fact(self) -> bool:
        """Whether it has no body."""
        return self.body.is_empty


def normalize(clause: Clause) -> tuple[NormalRule, ...]:
    """The normal rules of a clause, head by head."""
    bodies = written_out(clause.body)
    return tuple(
        _Lifting(clause, (head, *literals)).rule(head, literals, number if len(bodies) > 1 else None)
        for head in clause.heads
        for number, literals in enumerate(bodies, 1)
    )


class _Lifting:
    """Lifts the aggregates out of one rule."""

    def __init__(self, clause: Clause, parts: Sequence[Node]) -> None:
        self.clause = clause
        self.taken = set(names(variables(parts)))
        self.claimed = set(names(own_variables(parts)))
        self.results = 0

    def rule(self, head: Atom, literals: Sequence[Literal], alternative: int | None) -> NormalRule:
        visible = frozenset(self.claimed)
        found: list[NormalAggregate] = []
        lifted = self._lift(head, visible, found)
        body = self._body(literals, visible, found)
        return NormalRule(lifted, body, self.clause, alternative, place=self.clause.place)

    def _body(self, literals: Iterable[Literal], visible: frozenset[str], found: list[NormalAggregate]) -> NormalBody:
        """A body in normal form; `found` holds earlier aggregates of the same scope."""
        lifted = [self._lift(literal, visible, found) for literal in literals]
        constraints = (part for part in lifted if isinstance(part, Comparison | StringTest | Truth))
        return NormalBody(
            tuple(part for part in lifted if isinstance(part, Atom)),
            tuple(replace(part.atom, place=part.place) for part in lifted if isinstance(part, Negation)),
            tuple(part for part in constraints if not (isinstance(part, Truth) and part.holds)),
            tuple(found),
            place=self.clause.place,
        )

    def _lift(self, node: Any, visible: frozenset[str], found: list[NormalAggregate]) -> Any:
        """The node with a variable in the place of each aggregate."""
        if isinstance(node, Aggregate):
            found.append(self._aggregate(node, visible))
            return found[-1].result
        return rebuilt(node, lambda part: self._lift(part, visible, found))

    def _aggregate(self, node: Aggregate, visible: frozenset[str]) -> NormalAggregate:
        in_body, in_target = names(own_variables([node.body])), names(own_variables(_target(node)))
        own = dict.fromkeys([*in_target, *in_body])
        local = [name for name in own if name not in visible or (name in in_target and name in in_body)]
        node = renamed(node, {name: self._apart(name) for name in local})
        result = Variable(self._fresh_result(), place=node.place)
        inside = visible | set(names(own_variables([*_target(node), node.body])))
        found: list[NormalAggregate] = []
        target = None if node.target is None else self._lift(node.target, inside, found)
        body = self._body(written_out(node.body)[0], inside, found)
        shared: dict[str, Variable] = {}
        for variable in variables([*_target(node), node.body]):
            if variable.name in visible:
                shared.setdefault(variable.name, variable)
        return NormalAggregate(result, node.function, target, body, tuple(shared.values()), place=node.place)

    def _apart(self, name: str) -> str:
        """The name, or one like it if the rule has another variable of that name."""
        new, number = name, 1
        while new in self.claimed or (number > 1 and new in self.taken):
            number += 1
            new = f"{name}_{number}"
        self.claimed.add(new)
        self.taken.add(new)
        return new

    def _fresh_result(self) -> str:
        while True:
            self.results += 1
            name = f"_{self.results}"
            if name not in self.taken:
                self.taken.add(name)
                self.claimed.add(name)
                return name


def _target(node: Aggregate) -> tuple[Term, ...]:
    return () if node.target is None else (node.target,)
