"""A table as a user holds it: its rows at any kept epoch, its definition, its feed of changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.algebra.types import quote
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import Relation, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.errors import NotFound
from viewkeeper.log.listing import describe
from viewkeeper.query.result import Result
from viewkeeper.query.virtual_views import virtual_changes
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.open_transaction import change_at, changed_epochs
from viewkeeper.transaction.suspension import stale_remarks

if TYPE_CHECKING:
    from viewkeeper.api.database import Database


class Readable:
    """What tables and views share: rows, columns, and a feed of changes."""

    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self.name = name

    def _relation(self, state: State, epoch: int | None = None) -> Relation:
        relation = state.find(self.name, epoch)
        if relation is None:
            raise no_such_table(self.name, state.names(), None)
        return relation

    @property
    def kind(self) -> str:
        """'table', 'view' (virtual), 'materialized', or 'auxiliary'."""
        return self._relation(self._db._store.refresh()).kind

    def read(self, as_of: int | None = None) -> Result:
        """The rows, now or at an epoch."""
        suffix = "" if as_of is None else f" AS OF EPOCH {int(as_of)}"
        return self._db.sql(f"SELECT * FROM {quote(self.name)}{suffix}")

    def describe(self) -> pa.Table:
        """Columns, types and keys."""
        return describe(self._relation(self._db._store.refresh()))

    def changes(self, since: int = 0) -> Iterator[tuple[int, Change]]:
        """The net changes after an epoch, one per epoch in which there was one, in order.

        Warns if it is suspended or reads a suspended view: newer changes appear when that view is refreshed.
        """
        store = self._db._store
        held = store.hold()
        state = held.state
        relation = self._relation(state)
        oldest = state.oldest_feed(relation, since)
        if since < oldest and oldest > 0:
            raise NotFound(
                f"the changes since epoch {since} are no longer kept", hint=f"the oldest kept epoch is {oldest}"
            )
        for remark in stale_remarks(state, [relation], state.epoch):
            warnings.warn(remark, stacklevel=2)
        if isinstance(relation, VirtualView):
            store.bring_functions_of(relation)
            yield from virtual_changes(store, held, relation, since)
            return
        for epoch in changed_epochs(store, relation, since):
            yield epoch, change_at(store, held, relation, epoch)


class Table(Readable):
    """A table of a database."""
