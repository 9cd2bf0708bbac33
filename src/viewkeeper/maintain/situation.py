"""The protocol through which maintenance sees a transaction: its relations, and the changes gathered so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from viewkeeper.algebra.nodes import Node
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.catalog.state import State
from viewkeeper.store.known_rows import KnownRows
from viewkeeper.store.store import Store


@dataclass
class Pending:
    """The change a transaction makes to one relation."""

    relation: Relation
    rows: pa.Table
    staged: list[DataFile] = field(default_factory=list)
    files_read: int = 0
    files_total: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no change."""
        return self.rows.num_rows == 0 and not self.staged


class Situation(Protocol):
    """A transaction, as far as maintenance sees it and writes to it."""

    store: Store
    state: State
    pending: dict[str, Pending]
    created: dict[str, Relation]
    defined: dict[str, Definition]
    to_load: set[str]
    redefined: set[str]
    refreshing: set[str]
    derived: set[str]
    refreshed: dict[str, int]
    formerly: dict[str, Node]
    looked_up: KnownRows
    most_queries: int | None
    watched: set[str]
    wanted: dict[str, Kinds]
    seen: dict[str, pa.Table]

    @property
    def changed(self) -> set[str]:
        """The ids of the relations it has changed so far."""

    def alive(self) -> list[Relation]:
        """The relations it sees, of all kinds."""

    def by_id(self, key: str) -> Relation:
        """The relation with an id, as it sees it."""

    def dependents(self, key: str) -> list[Derived]:
        """The relations it sees that read the one with this id, or have it as an auxiliary relation."""

    def pending_of(self, relation: Relation) -> Pending:
        """The change gathered for a relation."""

    def add_rows(self, relation: Relation, change: pa.Table) -> None:
        """Adds a net change on the driver to the one gathered."""

    def add_files(self, relation: Relation, files: Iterable[DataFile]) -> None:
        """Adds a change in files to the one gathered."""

    def settle(self) -> None:
        """Makes every gathered change net."""

    def drop_derived(self) -> None:
        """Discards the changes of views, so that they can be derived again."""
