"""Strata: groups of mutually dependent relations, ordered so that each depends only on itself and earlier ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from viewkeeper.datalog.normal import NormalRule
from viewkeeper.datalog.rule_graph import Arc, Sign, components, dependency_graph
from viewkeeper.datalog.wording import where
from viewkeeper.errors import DatalogError


@dataclass(frozen=True)
class Stratum:
    """Mutually dependent relations with their rules; one without rules is a table or view outside the program."""

    relations: tuple[str, ...]
    rules: tuple[NormalRule, ...] = field(repr=False)
    is_recursive: bool


def stratify(rules: Iterable[NormalRule]) -> tuple[Stratum, ...]:
    """The strata of some rules, lowest first. Refuses negation and aggregates in a cycle."""
    found = _layered(tuple(rules), ())
    for arc in found.turned:
        raise _unstratified(arc, found.inside, found.part_of(arc))
    return found.strata


def stratify_like(rules: Iterable[NormalRule], before: Iterable[Sequence[str]]) -> tuple[Stratum, ...]:
    """The strata of some rules; relations that were one recursion `before` stay one where that is possible."""
    listed = tuple(rules)
    alone = stratify(listed)
    kept: list[Sequence[str]] = []
    for group in before:
        if len(group) > 1 and any(set(group) <= set(stratum.relations) for stratum in alone):
            continue  # they still depend on each other
        tried = _layered(listed, [*kept, group])
        if not tried.turned and any(set(stratum.relations) == set(group) for stratum in tried.strata):
            kept.append(group)
    return _layered(listed, kept).strata if kept else alone


@dataclass(frozen=True)
class _Layers:
    """Strata, and the dependencies inside them; `turned` are those through negation or an aggregate."""

    strata: tuple[Stratum, ...]
    inside: list[Arc]
    turned: list[Arc]

    def part_of(self, arc: Arc) -> tuple[str, ...]:
        return next(stratum.relations for stratum in self.strata if arc.source in stratum.relations)


def _layered(rules: tuple[NormalRule, ...], together: Sequence[Sequence[str]]) -> _Layers:
    """The strata of some rules; each group of relations in `together` is made one recursion."""
    graph = dependency_graph(rules)
    relations = tuple(dict.fromkeys((*graph.relations, *(name for group in together for name in group))))
    sources: dict[str, list[str]] = {name: [] for name in relations}
    for arc in graph.arcs:
        sources[arc.target].append(arc.source)
    for group in together:
        for name, following in zip(group, (*group[1:], group[0]), strict=True):
            sources[following].append(name)
    order = {name: number for number, name in enumerate(relations)}
    found = [tuple(sorted(part, key=order.__getitem__)) for part in components(relations, sources)]
    level = {name: number for number, part in enumerate(found) for name in part}
    inside = [arc for arc in graph.arcs if level[arc.source] == level[arc.target]]
    recursive = {level[arc.target] for arc in inside} | {level[name] for group in together for name in group}
    by_level: list[list[NormalRule]] = [[] for _ in found]
    for rule in rules:
        by_level[level[rule.head.relation]].append(rule)
    strata = tuple(Stratum(part, tuple(by_level[number]), number in recursive) for number, part in enumerate(found))
    return _Layers(strata, inside, [arc for arc in inside if arc.sign is not Sign.POSITIVE])


def _unstratified(arc: Arc, inside: list[Arc], part: tuple[str, ...]) -> DatalogError:
    cycle = " -> ".join([arc.target, str(arc), *map(str, _path_back(arc, inside))])
    kind, verb = ("negation", "negate") if arc.sign is Sign.NEGATIVE else ("aggregate", "aggregate over")
    return DatalogError(
        f"Unable to stratify relation(s) {{{', '.join(part)}}}: {arc.target} depends on its own {kind}, {cycle}",
        detail=where(arc.rule),
        hint=f"{verb} a relation that does not depend on {arc.target}",
        place=arc.place,
    )


def _path_back(arc: Arc, inside: list[Arc]) -> list[Arc]:
    """The shortest path from an arc's source to its target, each step from a relation to one it depends on."""
    paths: dict[str, list[Arc]] = {arc.source: []}
    queue = deque([arc.source])
    while arc.target not in paths:
        relation = queue.popleft()
        for step in inside:
            if step.target == relation and step.source not in paths:
                paths[step.source] = [*paths[relation], step]
                queue.append(step.source)
    return paths[arc.target]
