"""The changes of joins that several views of a transaction share: each is derived once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import cached_property
from typing import TYPE_CHECKING

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.lowered import Lowered, all_renamed
from viewkeeper.engine.lowering import Lowering
from viewkeeper.maintain.once import OnceEach
from viewkeeper.plan.sharing import Common, Sharing

if TYPE_CHECKING:
    from viewkeeper.maintain.state_reader import StateReader


class CommonChanges:
    """The changes of joins that views of a transaction share, each derived by the first view that asks."""

    def __init__(self, views: Iterable[tuple[str, n.Node]]) -> None:
        self._views = list(views)
        self.wanted: dict[str, frozenset[str]] = {}  # selected joins, with their changed relations
        self._once = OnceEach()

    def select(self, changed: Set[str], rows: Callable[[str], int], most: int) -> None:
        """Selects the joins whose change costs more to derive than to store; `rows` counts changed rows.

        Up to `most` changed rows the join runs on the driver, and storing its result would be one more query.
        """
        if sum(map(rows, changed)) <= most:
            return
        for common in self.sharing.commons.values():
            mine = common.relations & changed
            if common.id not in self.wanted and sum(map(rows, mine)) > most:
                self.wanted[common.id] = frozenset(mine)

    @cached_property
    def sharing(self) -> Sharing:
        """The shared subexpressions of the views; searched only when many rows change."""
        return Sharing(self._views)

    def release(self, users: Set[str]) -> None:
        """Drops the changes of joins that none of some users has."""
        for key in self.wanted:
            if not self.sharing.commons[key].users & users:
                self._once.drop(key)

    def of(self, view: str) -> list[Common]:
        """The selected joins of a view."""
        return [self.sharing.commons[key] for key in self.wanted if view in self.sharing.commons[key].users]

    def scan(self, reader: StateReader, scan: n.Scan) -> Lowered:
        """The change of a shared join, under the scan's columns."""
        common = self.sharing.commons[scan.relation]

        def work() -> Lowered:
            change = differentiate(common.node, self.wanted[common.id])
            assert change is not None
            return reader.keep(Lowering(reader.engine, reader).lower(change))

        found = self._once.get(common.id, work)
        columns = dict(zip(common.names, found.outputs, strict=True))
        pairs = [(a, columns[name]) for a, name in zip(scan.outputs, scan.stored_names, strict=True)]
        items = [(theirs.label, ours.label) for ours, theirs in pairs]
        frame = found.frame.select(*listed(*items, WEIGHT))
        known = all_renamed(found.known, pairs)
        return Lowered(frame, scan.outputs, True, known, found.narrow, found.empty)
