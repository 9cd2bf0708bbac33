"""Rows of large relations that several views of a transaction look up by key: read once."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.rows import consolidate, is_among, rows_among
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.types import quote
from viewkeeper.catalog.relations import Auxiliary, MaterializedView, Relation, as_derived
from viewkeeper.engine.connect_columns import listed
from viewkeeper.store.bounds import Keys
from viewkeeper.store.known_rows import KnownRows
from viewkeeper.store.lookups import Found
from viewkeeper.store.scans import Scan, pick, signed_frame

if TYPE_CHECKING:
    from viewkeeper.maintain.state_reader import StateReader


FutureRows: TypeAlias = "concurrent.futures.Future[Found | None]"


class Fetched:
    """Rows of large relations by a few keys, read once for all views that a transaction reaches.

    The rows are those before the transaction; its changes are on the driver anyway.
    """

    def __init__(
        self,
        views: Iterable[tuple[Relation, n.Node]],
        looked_up: KnownRows,
    ) -> None:
        """`views` are all those views with their expressions, which determine the columns to read.

        `looked_up` is what the transaction has read before, of the state before its own changes.
        """
        self._looked_up = looked_up
        self._columns: dict[str, list[str]] = {}
        for relation, node in views:
            if _reads_itself(relation):
                self._columns[relation.id] = list(relation.schema.names)  # it reads its own groups as well
            self.reads(node)
        self._tables: dict[tuple[Any, ...], list[tuple[pa.Table, FutureRows]]] = {}
        self.changes: dict[tuple[str, tuple[str, ...]], pa.Table] = {}  # net, of the columns that some view reads
        self._lock = threading.Lock()

    def reads(self, node: n.Node) -> None:
        """Records the columns that an expression reads."""
        for scan in n.scans(node):
            known = self._columns.setdefault(scan.relation, [])
            known += [name for name in scan.stored_names if name not in known]

    def release(self, still: Set[str]) -> None:
        """Drops the rows of relations that nothing reads any more."""
        with self._lock:
            self._tables = {name: rows for name, rows in self._tables.items() if name[0] in still}
        self.changes = {name: rows for name, rows in self.changes.items() if name[0] in still}

    def rows(self, reader: StateReader, scan: n.Scan, relation: Relation, picked: Scan) -> Found | None:
        """The net signed rows with some keys, with the columns of the scan; None if they are too many."""
        keys = picked.keys
        assert keys is not None
        wanted = self._columns.setdefault(relation.id, [])
        columns = [name for name in relation.schema.names if name in wanted or name in scan.stored_names]
        left, parts = self._known(relation, keys.table, is_own=relation.id in reader.own)
        read = 0
        if left.num_rows:
            picked = (
                picked
                if left.num_rows == len(keys)
                else pick(picked.source, Keys(left, keys.schema, reader.engine.tuning))
            )
            found = self._read(reader, relation, picked, columns, left)
            if found is None:
                return None
            parts.append(found.rows)
            read = found.looked_at
        names = [*scan.stored_names, WEIGHT]
        if not parts:
            return Found(relation.schema.subset(scan.stored_names).signed_arrow.empty_table(), read)
        return Found(pa.concat_tables([part.select(names) for part in parts]), read)

    def _known(self, relation: Relation, keys: pa.Table, *, is_own: bool) -> tuple[pa.Table, list[pa.Table]]:
        """Those of some keys that the transaction has not looked up, and the rows with the others.

        A group's key is that of some input row: without such a row there is no group. `is_own`: the relation is the one
        that is maintained, so that its groups are those of the old state of its input.
        """
        if isinstance(relation, Auxiliary) or (is_own and _reads_itself(relation)):
            node = as_derived(relation).definition.maintained
            columns = dict(zip(relation.schema.names, node.outputs, strict=True))
            origin = origin_of(node, [columns[name] for name in keys.column_names])
            if origin is not None:
                keys = self._looked_up.without_absent(*origin, keys)
        return self._looked_up.split(relation.id, keys)

    def _read(
        self, reader: StateReader, relation: Relation, picked: Scan, columns: list[str], keys: pa.Table
    ) -> Found | None:
        """The rows with some keys, read by the first view that asks for them; None if they are too many."""
        name = (relation.id, tuple(keys.column_names), tuple(columns))
        with self._lock:
            earlier = self._tables.setdefault(name, [])
            future = next((future for had, future in earlier if is_among(keys, had).all()), None)
            mine = future is None
            if future is None:
                future = concurrent.futures.Future()
                earlier.append((keys, future))
        if mine:
            try:
                future.set_result(self._fetch(reader, relation, picked, columns))
            except BaseException as problem:
                future.set_exception(problem)
        found = future.result()
        if found is None or mine:
            return found
        return Found(rows_among(found.rows, keys.column_names, keys), found.looked_at)

    @staticmethod
    def _fetch(reader: StateReader, relation: Relation, picked: Scan, columns: list[str]) -> Found | None:
        found = reader.store.rows_by_key(picked, columns)
        if found is not None:
            return found
        reader.work.query()
        stored = replace(picked, rows=None)
        schema = relation.schema.subset(columns)
        frame = signed_frame(reader.engine, reader.store.storage, stored)
        frame = frame.select(*listed(*[quote(name) for name in columns], WEIGHT))
        small = reader.engine.collect_small(frame)
        return None if small is None else Found(consolidate(conform(small, schema, signed=True)), picked.file_rows)


def _reads_itself(relation: Relation) -> bool:
    """Whether a relation is maintained from its own groups or first rows."""
    is_folded = isinstance(relation, MaterializedView) and relation.definition.group_state is not None
    return is_folded or isinstance(relation, Auxiliary)


def origin_of(node: n.Node, columns: Sequence[Attribute]) -> tuple[str, tuple[str, ...]] | None:
    """The stored relation and columns from one row of which every row of an expression takes some of its columns."""
    match node:
        case n.Scan():
            names = dict(zip(node.outputs, node.stored_names, strict=True))
            return node.relation, tuple(names[column] for column in columns)
        case n.Project():
            below = [dict(node.columns)[column].attribute for column in columns]
            return origin_of(node.input, below) if all(below) else None  # type: ignore[arg-type]
        case n.Filter():
            return origin_of(node.input, columns)
        case n.Aggregate():
            return origin_of(node.input, columns) if set(columns) <= set(node.groups) else None
        case n.Join():
            for part in node.inputs:
                if set(columns) <= set(part.outputs):
                    return origin_of(part, columns)
            return None
        case _:
            return None
