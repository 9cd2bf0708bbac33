"""Shapes of relations, and what is known of them: rows of an epoch, net changes between epochs.

A handle names a shape: which relation, as it is defined now, which part of it, and the epoch from which on its changes
are known. An offset is an epoch that a client's copy has. When the relation is redefined, or the changes after an
offset are no longer kept, the client gets another handle and begins again.
"""

from __future__ import annotations

import collections
import hashlib
import json
import secrets
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.types import Type, quote
from viewkeeper.analysis.dependencies import keys_of
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.catalog.state import State
from viewkeeper.errors import Gone, NotFound, SqlError
from viewkeeper.feed.bound_rows import literal_text
from viewkeeper.feed.followed import Followed
from viewkeeper.log.open_log import Held
from viewkeeper.maintain.declared_keys import current_keys
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.row_conditions import bound, read_condition
from viewkeeper.server.shape_conditions import read_order, read_postgres_condition
from viewkeeper.server.shape_messages import Form
from viewkeeper.server.shape_requests import ShapeRequest, Subset
from viewkeeper.store.store import Store

MOST_PARTS = 1_000
"""Conditions that are remembered."""


@dataclass(frozen=True)
class Readable:
    """What a caller may read: a relation, the condition (in Spark SQL) that binds its rows, and who else gets the same.

    `private`: the answer depends on who asks, so shared caches must not keep it.
    """

    table: str
    binding: str | None = None
    private: bool = False


@dataclass(frozen=True)
class Part:
    """Rows of a relation: all, or those for which a condition holds."""

    where: str | None
    followed: Followed


class Shape:
    """A part of a relation as it is defined in one state, which is held."""

    def __init__(self, store: Store, held: Held, relation: Relation, part: Part, asked: ShapeRequest) -> None:
        chosen = _chosen(relation, asked.columns)
        self.store = store
        self.held = held
        self.relation = relation
        self.form = Form(relation.name, relation.schema, chosen, row_key(held.state, relation), asked.full)
        self.where = part.where
        self.followed = part.followed

    @property
    def epoch(self) -> int:
        """The newest epoch of the state."""
        return self.held.state.epoch

    # its name ------------------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """The same for the same part of the same relation under the same definition, also after a restart."""
        relation, form = self.relation, self.form
        definition = relation.definition.sql if isinstance(relation, Derived) else ""
        parts: list[Any] = [relation.id, relation.name, definition, relation.schema.to_json()]
        parts += [self.where, form.chosen, form.key, form.full]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()

    @property
    def first(self) -> int:
        """The epoch from which on its changes are known under the definition it has."""
        former = self.relation.former if isinstance(self.relation, Derived) else ()
        return max(self.held.state.oldest_of(self.relation), self.relation.created, *(until for until, _ in former), 0)

    def handle(self, instead_of: str = "") -> str:
        """A handle for clients that begin now; another one than that of a client that has to begin again."""
        found = f"{self.identity}-{self.first}"
        return f"{found}-{secrets.token_hex(4)}" if found == instead_of else found

    def continues(self, handle: str, since: int) -> bool:
        """Whether a client with a handle can go on after an epoch."""
        if handle.partition("-")[0] != self.identity or not self.first <= since <= self.epoch:
            return False
        try:
            self.followed.check_kept(self.held.state, since)
        except Gone:
            return False
        return True

    # its contents --------------------------------------------------------------------------------

    def rows(self) -> list[bytes]:
        """The rows of the newest epoch as messages."""
        return self.form.inserts(self.followed.snapshot(self.held, self.epoch).rows)

    def changes(self, since: int, until: int) -> list[bytes]:
        """The net change after one epoch, up to another, as messages."""
        if since >= until:
            return []
        return self.messages(self.followed.change(self.held, since, until).rows, since, until)

    def messages(self, rows: pa.Table, since: int, until: int) -> list[bytes]:
        """Signed rows, which are the net change after one epoch up to another, as messages."""
        return self.form.changes(rows, lambda plain: self._counts(plain, until), since, until)

    def subset(self, subset: Subset, epoch: int, mark: int) -> list[bytes]:
        """The rows of a part at an epoch, as messages."""
        name, schema = self.relation.name, self.relation.schema
        if (subset.limit is not None or subset.offset) and subset.order_by is None:
            raise SqlError("a subset with a limit needs an order", hint="send order_by")
        followed = self.followed
        if subset.where is not None:
            followed = followed.where(read_postgres_condition(subset.where, subset.params, name, schema))
        if subset.limit is not None or subset.offset:
            source = f"({followed.text})" if followed.text else quote(name)
            text = f"SELECT * FROM {source} ORDER BY {read_order(subset.order_by or '', name, schema)}"
            text += "" if subset.limit is None else f" LIMIT {subset.limit}"
            text += f" OFFSET {subset.offset}" if subset.offset else ""
            followed = Followed(self.store, name, text=text)
        return self.form.inserts(followed.snapshot(self.held, epoch).rows, snapshot_mark=mark)

    def _counts(self, plain: pa.Table, epoch: int) -> Sequence[int]:
        """How often each of some rows occurs at an epoch. Few rows are looked up, for more all rows are read."""
        followed = self.followed
        compared = [column for column in self.relation.schema if _is_comparable(column.type)]
        if compared and plain.num_rows <= self.store.tuning.literal_keys:
            columns = [plain[column.name].to_pylist() for column in compared]
            names = [column.name for column in compared]
            rows = dict.fromkeys(zip(*columns, strict=True))
            followed = followed.where(" OR ".join(f"({_equals(names, row)})" for row in rows))
        found = followed.snapshot(self.held, epoch).weights()
        return [found.get(row, 0) for row in row_tuples(plain)]


class OpenShapes:
    """Opens shapes. The conditions that were read last are remembered, since clients ask again and again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._parts: collections.OrderedDict[Hashable, Part] = collections.OrderedDict()
        self._lock = threading.Lock()

    def open(self, asked: ShapeRequest, readable: Readable) -> Shape:
        """The shape that is asked for, in the newest state; raises NotFound if there is no such relation."""
        held = self.store.hold()
        relation = held.state.find(readable.table)
        if relation is None or relation.is_hidden:
            if readable.private:
                raise NotFound(f"there is no table named '{readable.table}'")  # without the names of others
            raise no_such_table(readable.table, held.state.names(), None)
        key = (relation.id, relation.schema, asked.where, tuple(sorted(asked.params.items())), readable.binding)
        with self._lock:
            part = self._parts.get(key)
        if part is None:
            part = self._read(held, relation, asked, readable)
            with self._lock:
                self._parts[key] = part
                if len(self._parts) > MOST_PARTS:
                    self._parts.popitem(last=False)
        return Shape(self.store, held, relation, part, asked)

    def _read(self, held: Held, relation: Relation, asked: ShapeRequest, readable: Readable) -> Part:
        name, schema = relation.name, relation.schema
        wanted = None
        if asked.where is not None:
            wanted = read_postgres_condition(asked.where, asked.params, name, schema)
        where = bound(_binding(relation, readable), wanted)
        followed = Followed(self.store, name, relation.id)
        if where is not None:
            followed = followed.where(where)
            followed.schema(held.state)
        return Part(where, followed)


def _binding(relation: Relation, readable: Readable) -> str | None:
    if readable.binding is None:
        return None
    try:
        return read_condition(readable.binding, relation.name, relation.schema)
    except (SqlError, NotFound, Problem):  # the relation was redefined since the binding was made
        raise Problem("not-granted", f"the rows of {relation.name} that the token is bound to cannot be told") from None


def row_key(state: State, relation: Relation) -> tuple[str, ...] | None:
    """The columns of the smallest known key of a relation, those of a primary key first; None without a key."""
    if isinstance(relation, Derived):
        definition = relation.definition
        found = keys_of(definition.as_written, definition.names, current_keys(state.relations.get))
        return found[0] if found else None
    schema = relation.schema
    if schema.primary_key is not None:
        return schema.primary_key.columns
    whole = [key.columns for key in schema.keys if not any(schema.column(name).nullable for name in key.columns)]
    return whole[0] if whole else None


def _chosen(relation: Relation, columns: tuple[str, ...] | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(relation.schema.names)
    found = []
    for name in columns:
        column = relation.schema.find(name)
        if column is None:
            hint = f"its columns are {', '.join(relation.schema.names)}"
            raise SqlError(f"{relation.name} has no column '{name}'", hint=hint)
        found.append(column.name)
    return tuple(name for name in relation.schema.names if name in found)


def _is_comparable(kind: Type) -> bool:
    return kind.is_integer or kind.name == "string"


def _equals(names: Sequence[str], row: tuple[Any, ...]) -> str:
    parts = []
    for name, value in zip(names, row, strict=True):
        parts.append(f"{quote(name)} IS NULL" if value is None else f"{quote(name)} = {literal_text(value)}")
    return " AND ".join(parts)
