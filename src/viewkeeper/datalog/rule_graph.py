"""The dependency graph of rules: which relations each relation depends on, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from viewkeeper.datalog.normal import NormalBody, NormalRule
from viewkeeper.datalog.program_tree import Atom
from viewkeeper.errors import Place


class Sign(Enum):
    """How a relation occurs in a body."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    AGGREGATED = "aggregated"


@dataclass(frozen=True)
class Arc:
    """A relation `source` in the body of a rule for `target`; `function` is that of the aggregate around it."""

    source: str
    target: str
    sign: Sign
    rule: NormalRule = field(compare=False, repr=False)
    place: Place = field(compare=False, repr=False)
    function: str = ""

    def __str__(self) -> str:
        match self.sign:
            case Sign.NEGATIVE:
                return f"!{self.source}"
            case Sign.AGGREGATED:
                return f"{self.function} : {{ {self.source} }}"
            case _:
                return self.source


@dataclass(frozen=True)
class Graph:
    """Relations in the order in which they are first named, and arcs in the order of the rules."""

    relations: tuple[str, ...]
    arcs: tuple[Arc, ...]


def dependency_graph(rules: Iterable[NormalRule]) -> Graph:
    """The graph of some rules."""
    relations: dict[str, None] = {}
    arcs: list[Arc] = []
    for rule in rules:
        relations[rule.head.relation] = None
        for atom, sign, function in _uses(rule.body):
            relations[atom.relation] = None
            arcs.append(Arc(atom.relation, rule.head.relation, sign, rule, atom.place, function))
    return Graph(tuple(relations), tuple(arcs))


def _uses(body: NormalBody, function: str = "") -> Iterator[tuple[Atom, Sign, str]]:
    """The atoms of a body with their signs. Every atom in an aggregate is aggregated, negated or not."""
    for atom in body.positive:
        yield atom, Sign.AGGREGATED if function else Sign.POSITIVE, function
    for atom in body.negated:
        yield atom, Sign.AGGREGATED if function else Sign.NEGATIVE, function
    for aggregate in body.aggregates:
        yield from _uses(aggregate.body, aggregate.function)


def components(nodes: Sequence[str], successors: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """The strongly connected components, each after those it reaches (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[tuple[str, ...]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(successors.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(successors.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(tuple(stack[at:]))
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
    return found
