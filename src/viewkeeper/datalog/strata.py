"""Strata: relations that depend on each other, in an order in which each needs only itself and those before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from viewkeeper.datalog.graph import Arc, Sign, components, dependency_graph
from viewkeeper.datalog.normal import NormalRule
from viewkeeper.datalog.wording import where
from viewkeeper.errors import DatalogError


@dataclass(frozen=True)
class Stratum:
    """Relations that depend on each other, with their rules; one without rules is a table or a view outside."""

    relations: tuple[str, ...]
    rules: tuple[NormalRule, ...] = field(repr=False)
    is_recursive: bool


def stratify(rules: Iterable[NormalRule], together: Iterable[Sequence[str]] = ()) -> tuple[Stratum, ...]:
    """The strata of some rules, lowest first. Negation and aggregates must not stand in a cycle.

    Relations that are to stay `together` are one recursion even if they do not depend on each other.
    """
    listed = tuple(rules)
    groups = list(together)
    graph = dependency_graph(listed)
    relations = tuple(dict.fromkeys((*graph.relations, *(name for group in groups for name in group))))
    sources: dict[str, list[str]] = {name: [] for name in relations}
    for arc in graph.arcs:
        sources[arc.target].append(arc.source)
    for group in groups:
        for name, following in zip(group, (*group[1:], group[0]), strict=True):
            sources[following].append(name)
    order = {name: number for number, name in enumerate(relations)}
    found = [tuple(sorted(part, key=order.__getitem__)) for part in components(relations, sources)]
    level = {name: number for number, part in enumerate(found) for name in part}
    inside = [arc for arc in graph.arcs if level[arc.source] == level[arc.target]]
    for arc in inside:
        if arc.sign is not Sign.POSITIVE:
            raise _unstratified(arc, inside, found[level[arc.source]])
    recursive = {level[arc.target] for arc in inside} | {level[name] for group in groups for name in group}
    by_level: list[list[NormalRule]] = [[] for _ in found]
    for rule in listed:
        by_level[level[rule.head.relation]].append(rule)
    return tuple(Stratum(part, tuple(by_level[number]), number in recursive) for number, part in enumerate(found))


def stratify_like(rules: Iterable[NormalRule], before: Iterable[Sequence[str]]) -> tuple[Stratum, ...]:
    """The strata of some rules; relations that were one recursion `before` stay one, as far as that is possible."""
    listed = tuple(rules)
    alone = stratify(listed)
    kept: list[Sequence[str]] = []
    for group in before:
        if len(group) > 1 and any(set(group) <= set(stratum.relations) for stratum in alone):
            continue  # they still depend on each other
        try:
            tried = stratify(listed, [*kept, group])
        except DatalogError:
            continue  # one negates another now
        if any(set(stratum.relations) == set(group) for stratum in tried):
            kept.append(group)
    return stratify(listed, kept) if kept else alone


def _unstratified(arc: Arc, inside: list[Arc], part: tuple[str, ...]) -> DatalogError:
    cycle = " -> ".join([arc.target, str(arc), *map(str, _way_back(arc, inside))])
    kind, verb = ("negation", "negate") if arc.sign is Sign.NEGATIVE else ("aggregate", "aggregate over")
    return DatalogError(
        f"Unable to stratify relation(s) {{{', '.join(part)}}}: {arc.target} depends on its own {kind}, {cycle}",
        detail=where(arc.rule),
        hint=f"{verb} a relation that is made without {arc.target}",
        place=arc.place,
    )


def _way_back(arc: Arc, inside: list[Arc]) -> list[Arc]:
    """The shortest way from an arc's source to its target, each step from a relation to one that it is made from."""
    ways: dict[str, list[Arc]] = {arc.source: []}
    queue = deque([arc.source])
    while arc.target not in ways:
        relation = queue.popleft()
        for step in inside:
            if step.target == relation and step.source not in ways:
                ways[step.source] = [*ways[relation], step]
                queue.append(step.source)
    return ways[arc.target]
