"""Rows and net changes as messages of a shape: insert, update and delete of rows that are named by a key.

A row is named by the values of the view's key. Without a key it is named by a hash of all its values and the number of
its copy: of n equal rows the copies are 1 to n, whichever epochs they came in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.server.row_encoding import json_bytes
from viewkeeper.server.shape_values import schema_header, texts

MOST_TXIDS = 100
"""At most so many epochs are named as the origin of one change."""

Counts = Callable[[pa.Table], Sequence[int]]
"""How often each of some rows occurs after a change."""


@dataclass(frozen=True)
class Form:
    """What messages tell of a row.

    `key` is None where rows have no key. `full`: updates and deletes have all values.
    """

    name: str
    schema: Schema
    chosen: tuple[str, ...]
    key: tuple[str, ...] | None
    full: bool = False

    @property
    def header(self) -> str:
        """The types of the chosen columns."""
        return schema_header(self.schema, self.chosen, self.key or ())

    # messages ------------------------------------------------------------------------------------

    def inserts(self, rows: pa.Table, **headers: Any) -> list[bytes]:
        """Signed rows with positive weights as inserts, one for each copy."""
        values = self._values(rows)
        names = self._names(rows, values)
        about = {"operation": "insert", "relation": ["public", self.name], **headers}
        found = []
        for index, weight in enumerate(rows[WEIGHT].to_pylist()):
            row = {name: values[name][index] for name in self.chosen}
            for name in self._copies(names[index], 1, weight):
                found.append(json_bytes({"key": name, "value": row, "headers": about}))
        return found

    def changes(self, rows: pa.Table, counts: Counts, since: int, until: int) -> list[bytes]:
        """The net change after one epoch, up to another, as messages: deletes, updates, inserts."""
        found = list(self._operations(rows, counts))
        made = []
        for position, (operation, key, body) in enumerate(found):
            headers: dict[str, Any] = {
                "operation": operation,
                "relation": ["public", self.name],
                "lsn": str(until),
                "op_position": position,
                "txids": [until],
            }
            if position == len(found) - 1:
                headers["last"] = True
                headers["txids"] = list(range(max(since, until - MOST_TXIDS) + 1, until + 1))
            made.append(json_bytes({"key": key, **body, "headers": headers}))
        return made

    def _operations(self, rows: pa.Table, counts: Counts) -> Iterator[tuple[str, str, dict[str, Any]]]:
        values = self._values(rows)
        names = self._names(rows, values)
        weights = rows[WEIGHT].to_pylist()
        if self.key is None:
            after = counts(rows.drop_columns([WEIGHT])) if rows.num_rows else ()
            yield from self._of_copies(values, names, weights, after)
            return
        deleted = {names[index]: index for index, weight in enumerate(weights) if weight < 0}
        inserted = {names[index]: index for index, weight in enumerate(weights) if weight > 0}
        for name, index in deleted.items():
            if name not in inserted:
                yield "delete", name, {"value": self._rest(values, index)}
        for name, new in inserted.items():
            if name in deleted:
                old = deleted[name]
                changed = [column for column in self.chosen if values[column][old] != values[column][new]]
                if changed:
                    yield "update", name, self._update(values, old, new, changed)
        for name, index in inserted.items():
            if name not in deleted:
                yield "insert", name, {"value": {column: values[column][index] for column in self.chosen}}

    def _of_copies(
        self, values: dict[str, list[str | None]], names: list[str], weights: list[int], after: Sequence[int]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for operation, sign in (("delete", -1), ("insert", 1)):
            for index, weight in enumerate(weights):
                if weight * sign > 0:
                    last = after[index] if weight > 0 else after[index] - weight
                    row = {column: values[column][index] for column in self.chosen}
                    for name in self._copies(names[index], last - abs(weight) + 1, last):
                        yield operation, name, {"value": row}

    def _rest(self, values: dict[str, list[str | None]], index: int) -> dict[str, str | None]:
        """What is told of a deleted row."""
        return {name: values[name][index] for name in self.chosen if self.full or name in (self.key or ())}

    def _update(
        self, values: dict[str, list[str | None]], old: int, new: int, changed: list[str]
    ) -> dict[str, dict[str, str | None]]:
        if self.full:
            return {
                "value": {name: values[name][new] for name in self.chosen},
                "old_value": {name: values[name][old] for name in changed},
            }
        told = {*changed, *(self.key or ())}
        return {"value": {name: values[name][new] for name in self.chosen if name in told}}

    # rows ----------------------------------------------------------------------------------------

    def _values(self, rows: pa.Table) -> dict[str, list[str | None]]:
        """The texts of the columns that are told or that name the rows."""
        wanted = self.schema.names if self.key is None else {*self.chosen, *self.key}
        return {name: texts(rows[name], self.schema.column(name).type) for name in wanted}

    def _names(self, rows: pa.Table, values: dict[str, list[str | None]]) -> list[str]:
        """The keys of the messages of rows; where rows have no key, without the number of the copy."""
        table = f'"public"."{self.name}"'
        if self.key is None:
            columns = [values[name] for name in self.schema.names]
            return [f'{table}/"{_hash(row)}"' for row in zip(*columns, strict=True)]
        if not self.key:
            return [table] * rows.num_rows
        return ["/".join((table, *map(_part, row))) for row in zip(*(values[name] for name in self.key), strict=True)]

    def _copies(self, name: str, first: int, last: int) -> Iterator[str]:
        """The keys of copies of a row."""
        if self.key is not None:
            yield name
            return
        for number in range(first, last + 1):
            yield f'{name}/"{number}"'


def _part(text: str | None) -> str:
    return "_" if text is None else '"' + text.replace("/", "//") + '"'


def _hash(row: tuple[str | None, ...]) -> str:
    return hashlib.blake2b(json.dumps(row).encode(), digest_size=16).hexdigest()


def up_to_date(epoch: int) -> bytes:
    """The message that says that nothing else is known of epochs up to this one."""
    return json_bytes({"headers": {"control": "up-to-date", "global_last_seen_lsn": str(epoch)}})


MUST_REFETCH = json_bytes([{"headers": {"control": "must-refetch"}}])
"""The body that says that a client's copy cannot be continued."""


def joined(messages: Sequence[bytes]) -> bytes:
    """Messages as the body of an answer."""
    return b"[" + b",\n".join(messages) + b"]"
