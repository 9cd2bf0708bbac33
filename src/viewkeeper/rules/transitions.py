"""Transition tables: what a rule sees of the change that triggered it.

A row that is deleted and one with the same key that is inserted are an update: they stand in `old` and `new`, and in
neither of `deleted` and `inserted`. Without a key there are no updates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.rows import (
    consolidate,
    expand,
    filter_rows,
    part_with_sign,
    row_order,
    row_tuples,
    signed,
    take,
)
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.catalog.active_rules import DELETED, INSERTED, UPDATED
from viewkeeper.sql.rule_effects import TRANSITION_TABLES
from viewkeeper.transaction.change import Change

TABLES = TRANSITION_TABLES
"""The names of the transition tables."""


@dataclass(frozen=True)
class Transition:
    """The four transition tables of a relation; `old` and `new` have the rows of an update at the same position."""

    schema: Schema
    inserted: pa.Table
    deleted: pa.Table
    old: pa.Table
    new: pa.Table

    @property
    def rows(self) -> int:
        """How many rows were inserted, deleted or updated."""
        return int(self.inserted.num_rows + self.deleted.num_rows + self.new.num_rows)

    def triggers(self, events: Sequence[str]) -> bool:
        """Whether one of some events has happened."""
        happened = {INSERTED: self.inserted, DELETED: self.deleted, UPDATED: self.new}
        return any(happened[event].num_rows for event in events)

    def tables(self) -> dict[str, pa.Table]:
        """The transition tables by name."""
        return {name: getattr(self, name) for name in TABLES}

    def only(self, events: Sequence[str]) -> Transition:
        """The transition without the events that a rule does not name."""
        return Transition(
            self.schema,
            self.inserted if INSERTED in events else self.inserted.slice(0, 0),
            self.deleted if DELETED in events else self.deleted.slice(0, 0),
            self.old if UPDATED in events else self.old.slice(0, 0),
            self.new if UPDATED in events else self.new.slice(0, 0),
        )

    def each_row(self) -> Iterator[Transition]:
        """One transition for each row: deleted ones first, then updated and inserted ones, each in a fixed order."""
        none = self.inserted.slice(0, 0)
        for index in in_order(self.deleted):
            yield Transition(self.schema, none, self.deleted.slice(index, 1), none, none)
        for index in in_order(self.new):
            yield Transition(self.schema, none, none, self.old.slice(index, 1), self.new.slice(index, 1))
        for index in in_order(self.inserted):
            yield Transition(self.schema, self.inserted.slice(index, 1), none, none, none)

    def without(self, names: Sequence[str], values: Collection[tuple[Any, ...]]) -> Transition:
        """The transition without rows that have some values in some columns."""

        def rest(rows: pa.Table) -> pa.Table:
            return filter_rows(rows, (found not in values for found in row_tuples(rows.select(list(names)))))

        return Transition(self.schema, *(rest(getattr(self, table)) for table in TABLES))

    def by_columns(self, names: Sequence[str]) -> list[tuple[tuple[Any, ...], Transition]]:
        """The transition split by the values of some columns, which are left out of the parts."""
        rest = [name for name in self.schema.names if name not in names]
        found: dict[tuple[Any, ...], dict[str, list[int]]] = {}
        for table in TABLES:
            rows = getattr(self, table)
            for index, values in enumerate(row_tuples(rows.select(list(names)))):
                found.setdefault(values, {}).setdefault(table, []).append(index)
        schema = self.schema.subset(rest)

        def part(table: str, indices: dict[str, list[int]]) -> pa.Table:
            return take(getattr(self, table).select(rest), indices.get(table, []))

        return [
            (values, Transition(schema, *(part(table, found[values]) for table in TABLES)))
            for values in sorted(found, key=row_order)
        ]


def transition_of(schema: Schema, rows: pa.Table, key: Sequence[str] | None) -> Transition:
    """The transition of a net change; with a key, rows that have it on both sides are updates."""
    rows = rows.rename_columns([*schema.names, WEIGHT])
    inserted, deleted = expand(part_with_sign(rows, 1)), expand(part_with_sign(rows, -1))
    none = inserted.slice(0, 0)
    if key is None or not inserted.num_rows or not deleted.num_rows:
        return Transition(schema, inserted, deleted, none, none)
    after, before = _by_key(inserted, key), _by_key(deleted, key)
    both = sorted(before.keys() & after.keys(), key=row_order)
    updated, gone = {after[values] for values in both}, {before[values] for values in both}
    return Transition(
        schema,
        filter_rows(inserted, (index not in updated for index in range(inserted.num_rows))),
        filter_rows(deleted, (index not in gone for index in range(deleted.num_rows))),
        take(deleted, [before[values] for values in both]),
        take(inserted, [after[values] for values in both]),
    )


def _by_key(rows: pa.Table, key: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """The positions of rows by their keys; the key of a single row may have no columns."""
    values = row_tuples(rows.select(list(key))) if key else [()] * rows.num_rows
    return {each: index for index, each in enumerate(values)}


class RuleChange(Change):
    """The change that a Python action is given: inserted and deleted rows, and the old and new rows of updates.

    `epoch` and `key` are those of a detached rule's firing, and None inside a transaction. The key is the same at every
    attempt, so that what the action does elsewhere can be done once.
    """

    def __init__(self, transition: Transition, epoch: int | None = None, key: str | None = None) -> None:
        super().__init__(transition.schema, lambda: signed_rows(transition))
        self.transition = transition
        self.epoch = epoch
        self.key = key

    @property
    def inserted(self) -> pa.Table:
        """The inserted rows that are no updates."""
        return self.transition.inserted

    @property
    def deleted(self) -> pa.Table:
        """The deleted rows that are no updates."""
        return self.transition.deleted

    @property
    def old(self) -> pa.Table:
        """The updated rows as they were."""
        return self.transition.old

    @property
    def new(self) -> pa.Table:
        """The updated rows as they are, in the order of `old`."""
        return self.transition.new


def signed_rows(transition: Transition) -> pa.Table:
    """The net change that a transition stands for."""
    parts = [(transition.inserted, 1), (transition.new, 1), (transition.deleted, -1), (transition.old, -1)]
    return consolidate(pa.concat_tables([signed(table, weight) for table, weight in parts]))


def in_order(table: pa.Table) -> list[int]:
    """The positions of rows in an order that depends on their values alone."""
    rows = row_tuples(table)
    return sorted(range(len(rows)), key=lambda index: row_order(rows[index]))
