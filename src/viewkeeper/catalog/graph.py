"""The graph of relations: what each one reads, who reads it, and the order in which a change passes through.

There are three ways to look at it. `reading` has what the queries of views name: it says where rows come from for a
user, through virtual views. `depending` has also what is kept beside a view: it says what cannot go while something
else stays. `maintaining` has what is read to maintain stored relations, where queries of virtual views stand in those
over them: it says in which order they are brought up to date.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.errors import InternalError


class Graph:
    """Relations by id, and the ids of those that each one reads; one that reads nothing may be left out."""

    def __init__(self, reads: Mapping[str, Iterable[str]]) -> None:
        self._reads = {key: tuple(dict.fromkeys(read)) for key, read in reads.items()}
        self._readers: dict[str, list[str]] = {}
        for key, read in self._reads.items():
            for below in read:
                self._readers.setdefault(below, []).append(key)

    def dependents(self, key: str) -> list[str]:
        """Those that read a relation themselves."""
        return list(self._readers.get(key, ()))

    def all_dependents(self, keys: Iterable[str]) -> list[str]:
        """Those that read one of some relations, also through others."""
        return _followed(keys, lambda key: self._readers.get(key, ()))

    def all_read(self, keys: Iterable[str]) -> list[str]:
        """What some relations read, also through others, in the order in which they name it."""
        return _followed(keys, lambda key: self._reads.get(key, ()))

    def reads_itself(self, key: str, reading: Iterable[str]) -> bool:
        """Whether a relation would read itself, also through others, if it read these."""
        start = tuple(reading)
        return key in start or key in self.all_read(start)

    def levels(self, changed: Iterable[str]) -> list[list[str]]:
        """The relations that a change of some may reach, level by level: each after all that it reads of these.

        Those that are in the graph and have changed themselves are among them.
        """
        start = set(changed)
        reached = {*(key for key in self._reads if key in start), *self.all_dependents(start)}
        place = {key: number for number, key in enumerate(self._reads)}
        sorter = graphlib.TopologicalSorter(
            {key: reached.intersection(self._reads[key]) - {key} for key in place if key in reached}
        )
        try:
            sorter.prepare()
        except graphlib.CycleError as problem:
            raise InternalError(f"relations read each other: {' -> '.join(problem.args[1])}") from problem
        order: list[list[str]] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready(), key=place.__getitem__)
            order.append(ready)
            sorter.done(*ready)
        return order


def _followed(keys: Iterable[str], step: Callable[[str], Iterable[str]]) -> list[str]:
    """What some relations lead to, step by step, each once: what the first leads to, then what the next does."""
    found: dict[str, None] = {}
    waiting: list[Iterator[str]] = [iter(step(key)) for key in keys][::-1]
    while waiting:
        for key in waiting[-1]:
            if key not in found:
                found[key] = None
                waiting.append(iter(step(key)))
                break
        else:
            waiting.pop()
    return list(found)


def reading(relations: Iterable[Relation], epoch: int | None = None) -> Graph:
    """What the queries of views name, now or at an epoch."""
    views = [relation for relation in relations if isinstance(relation, Derived)]
    now = {view.id: view.definition if epoch is None else view.definition_at(epoch) for view in views}
    return Graph({key: definition.uses for key, definition in now.items()})


def depending(relations: Iterable[Relation]) -> Graph:
    """What the queries of views name, and the auxiliary relations that are kept for them."""
    return Graph({relation.id: relation.needs for relation in relations if isinstance(relation, Derived)})


def maintaining(relations: Iterable[Derived]) -> Graph:
    """What is read to maintain stored relations."""
    return Graph({r.id: (scan.relation for scan in n.scans(r.definition.maintained)) for r in relations})
