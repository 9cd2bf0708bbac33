"""The dependency graph: what each relation reads, which relations read it, and the order in which a change propagates.

There are three graphs. `reading` has the relations that the queries of views name: it shows where rows come from,
through virtual views. `depending` adds the auxiliary relations: it shows what cannot be dropped. `maintaining` has what
is read to maintain stored relations, with virtual views expanded: it gives the order of maintenance.
"""

from __future__ import annotations

import functools
import graphlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.errors import InternalError


class Graph:
    """The ids of relations, and those that each one reads; a relation that reads nothing may be left out."""

    def __init__(self, reads: Mapping[str, Iterable[str]]) -> None:
        self._reads = {key: tuple(dict.fromkeys(read)) for key, read in reads.items()}
        self._position = {key: number for number, key in enumerate(self._reads)}
        self._readers: dict[str, list[str]] = {}
        for key, read in self._reads.items():
            for below in read:
                self._readers.setdefault(below, []).append(key)

    def dependents(self, key: str) -> list[str]:
        """The relations that read a relation directly."""
        return list(self._readers.get(key, ()))

    def all_dependents(self, keys: Iterable[str]) -> list[str]:
        """The relations that read one of some relations, directly or through others."""
        return _closure(keys, lambda key: self._readers.get(key, ()))

    def all_read(self, keys: Iterable[str]) -> list[str]:
        """The relations that some relations read, directly or through others, in the order in which they name them."""
        return _closure(keys, lambda key: self._reads.get(key, ()))

    def reads_itself(self, key: str, reading: Iterable[str]) -> bool:
        """Whether a relation would read itself, directly or through others, if it read these."""
        start = tuple(reading)
        return key in start or key in self.all_read(start)

    def levels(self, changed: Iterable[str]) -> list[list[str]]:
        """The relations that a change of some may reach, in levels: each after all reached relations that it reads.

        Changed relations that are in the graph themselves are among them.
        """
        start = set(changed)
        position = self._position
        reached = {*(start & position.keys()), *self.all_dependents(start)}
        sorter = graphlib.TopologicalSorter(
            {key: reached.intersection(self._reads[key]) - {key} for key in sorted(reached, key=position.__getitem__)}
        )
        try:
            sorter.prepare()
        except graphlib.CycleError as problem:
            raise InternalError(f"relations read each other: {' -> '.join(problem.args[1])}") from problem
        order: list[list[str]] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready(), key=position.__getitem__)
            order.append(ready)
            sorter.done(*ready)
        return order


def _closure(keys: Iterable[str], step: Callable[[str], Iterable[str]]) -> list[str]:
    """What can be reached from some relations by steps, each once, depth first."""
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


@functools.lru_cache(maxsize=16)
def _graph(reads: tuple[tuple[str, Collection[str]], ...]) -> Graph:
    """The graph of some relations; commits that change no definition share it."""
    return Graph(dict(reads))


def reading(relations: Iterable[Relation], epoch: int | None = None) -> Graph:
    """The graph of the relations that the queries of views name, now or at an epoch."""
    views = [relation for relation in relations if isinstance(relation, Derived)]
    now = [(view.id, view.definition if epoch is None else view.definition_at(epoch)) for view in views]
    return _graph(tuple((key, definition.uses) for key, definition in now))


def depending(relations: Iterable[Relation]) -> Graph:
    """The graph of the relations that the queries of views name, and of their auxiliary relations."""
    return _graph(tuple((relation.id, relation.needs) for relation in relations if isinstance(relation, Derived)))


def maintaining(relations: Iterable[Derived]) -> Graph:
    """The graph of the relations that are read to maintain stored relations."""
    return _graph(tuple((relation.id, relation.definition.read) for relation in relations))
