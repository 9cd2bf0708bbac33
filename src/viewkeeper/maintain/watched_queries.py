"""The changes of queries that are not stored: those of assertions, and of virtual views that active rules watch.

Queries that the transaction cannot reach are left out on the driver (`reach`). The rest share what they read and the
changes of joins that they have in common, so that each is derived once for all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import integer
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.catalog.relations import Derived
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import Engine, Frame
from viewkeeper.engine.lowered import Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.running import side_by_side
from viewkeeper.maintain.common_changes import CommonChanges
from viewkeeper.maintain.fetched_rows import Fetched
from viewkeeper.maintain.once import OnceEach
from viewkeeper.maintain.planning import pending_rows
from viewkeeper.maintain.reach import reaching
from viewkeeper.maintain.recursions import Recursions
from viewkeeper.maintain.situation import Situation
from viewkeeper.maintain.state_reader import StateReader

BRANCHES = 64
"""Most queries that are asked together whether they have rows."""


@dataclass(frozen=True)
class WatchedQuery:
    """A query under some name, and the kinds of change that somebody waits for.

    `whole`: all its rows in the new state are wanted, because it was not watched before.
    """

    name: str
    node: n.Node
    wanted: Kinds = Kinds.BOTH
    whole: bool = False


@dataclass(frozen=True)
class Shared:
    """What the views and watched queries of a transaction share, so that each thing is read or derived once."""

    fetched: Fetched
    common: CommonChanges
    recursions: Recursions

    @staticmethod
    def among(tx: Situation, queries: Sequence[WatchedQuery]) -> Shared:
        """What some queries share that are derived by themselves."""
        common = CommonChanges((query.name, query.node) for query in queries if not query.whole)
        return Shared(Fetched([], tx.looked_up), common, Recursions(OnceEach()))

    def reader(self, tx: Situation) -> StateReader:
        """A reader of what a transaction sees that shares its reads."""
        reader = StateReader.of(tx)
        reader.fetched, reader.common, reader.recursions = self.fetched, self.common, self.recursions
        return reader

    def release(self, views: Collection[Derived], queries: Collection[WatchedQuery]) -> None:
        """Drops what only views read that the wave front has passed; some views and queries are still to come."""
        nodes = [*(view.definition.maintained for view in views), *(query.node for query in queries)]
        read = {scan.relation for node in nodes for scan in n.scans(node)}
        self.fetched.release(read | {view.id for view in views})
        self.common.release({view.id for view in views} | {query.name for query in queries})


class WatchedChanges:
    """The changes that a transaction makes to some queries, as frames that have not been run."""

    def __init__(
        self,
        tx: Situation,
        queries: Sequence[WatchedQuery],
        changed: Collection[str],
        shared: Shared | None = None,
        *,
        net: bool = True,
    ) -> None:
        """`net`: rows that cancel are left out by the engine."""
        self._tx = tx
        self._shared = shared or Shared.among(tx, queries)
        self._net = net
        known = self._shared.reader(tx).known_change
        self._by = {
            query.name: frozenset(changed) if query.whole else reaching(query.node, changed, query.wanted, known)
            for query in queries
        }
        self.reached = [query for query in queries if query.whole or self._by[query.name]]
        for query in self.reached:
            self._shared.fetched.reads(query.node)
        rows = functools.partial(pending_rows, tx.pending)
        self._shared.common.select(set(changed), rows, tx.store.tuning.shared_rows)

    def lowered(self) -> list[tuple[WatchedQuery, Lowered]]:
        """The change of every query that the transaction reaches, or all its rows; those without rows left out."""
        if len(self.reached) < 2:
            done = [self._lowered(query) for query in self.reached]
        else:
            done = side_by_side(self._lowered, self.reached, self._tx.store.tuning.view_threads)
        found = zip(self.reached, done, strict=True)
        return [(query, lowered) for query, lowered in found if lowered is not None and not lowered.empty]

    def _lowered(self, query: WatchedQuery) -> Lowered | None:
        reader = self._shared.reader(self._tx)
        lowering = Lowering(self._tx.store.engine, reader)
        if query.whole:
            return lowering.lower(n.at(query.node, n.NEW))
        common, changed = self._shared.common, self._by[query.name]
        if common.wanted:
            change = common.sharing.change(query.node, changed, common.wanted)
        else:
            change = differentiate(query.node, changed, reader.grown(changed))
        if change is None:
            return None
        return lowering.lower(n.Net(change) if self._net else change)


def with_rows(engine: Engine, frames: Mapping[str, Frame]) -> list[str]:
    """The names of the frames that have rows, found by as few queries as plans of a bounded size allow."""
    names = list(frames)
    found: set[int] = set()
    for start in range(0, len(names), BRANCHES):
        chosen = names[start : start + BRANCHES]
        tagged = [
            frames[name].limit(1).select(*listed((integer(start + i), "_vk_tag"))) for i, name in enumerate(chosen)
        ]
        found.update(engine.fetch(engine.union(tagged))["_vk_tag"].to_pylist())
    return [name for number, name in enumerate(names) if number in found]
