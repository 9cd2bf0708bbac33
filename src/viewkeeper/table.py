"""A table as a user holds it: its rows at any kept epoch, its definition, its feed of changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.algebra.schema import EPOCH
from viewkeeper.algebra.types import quote
from viewkeeper.errors import NotFound
from viewkeeper.store.batch import stored_frame
from viewkeeper.store.state import Relation, State
from viewkeeper.store.store import Held, Store
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.result import Result
from viewkeeper.transaction.transaction import change_of_files, no_such_table

if TYPE_CHECKING:
    from viewkeeper.database import Database


class Table:
    """A table of a database."""

    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self.name = name

    def _relation(self, state: State, epoch: int | None = None) -> Relation:
        relation = state.find(self.name, epoch)
        if relation is None:
            raise no_such_table(self.name, state.names(), None)
        return relation

    def read(self, as_of: int | None = None) -> Result:
        """The rows, now or at an epoch."""
        suffix = "" if as_of is None else f" AS OF EPOCH {int(as_of)}"
        return self._db.sql(f"SELECT * FROM {quote(self.name)}{suffix}")

    def describe(self) -> pa.Table:
        """Columns, types and keys."""
        state = self._db._store.refresh()
        schema = self._relation(state).schema
        keys = {
            column.name: ", ".join(
                "PRIMARY KEY" if key.primary else "UNIQUE" for key in schema.keys if column.name in key.columns
            )
            for column in schema
        }
        return pa.table(
            {
                "column": pa.array(schema.names, pa.string()),
                "type": pa.array([str(column.type) for column in schema], pa.string()),
                "nullable": pa.array([column.nullable for column in schema], pa.bool_()),
                "key": pa.array([keys[column.name] for column in schema], pa.string()),
            }
        )

    def changes(self, since: int = 0) -> Iterator[tuple[int, Change]]:
        """The net changes after an epoch, one per epoch in which the table changed, in order."""
        store = self._db._store
        held = store.hold()
        state = held.state
        if since < state.oldest and state.oldest > 0:
            raise NotFound(
                f"the changes since epoch {since} are no longer kept", hint=f"the oldest kept epoch is {state.oldest}"
            )
        relation = self._relation(state)
        plain = {file.first_epoch for file in relation.files if not file.merged}
        merged = [file for file in relation.files if file.merged and file.last_epoch > since]
        if merged:
            frame = stored_frame(store.engine, store.storage, merged, relation.schema)
            plain |= set(store.engine.collect(frame.select(EPOCH).distinct())[EPOCH].to_pylist())
        for epoch in sorted(number for number in plain if number > since):
            yield epoch, self._change_at(store, held, relation, epoch)

    @staticmethod
    def _change_at(store: Store, held: Held, relation: Relation, epoch: int) -> Change:
        files = tuple(f for f in relation.files if f.first_epoch <= epoch <= f.last_epoch)
        if not any(file.merged for file in files):
            return change_of_files(store, relation.schema, files, held)
        return change_of_files(store, relation.schema, files, held, epoch)
