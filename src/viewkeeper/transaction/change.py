"""Net changes as users see them: inserted and deleted rows of one relation in one epoch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.rows import consolidate, expand, part_with_sign, row_tuples
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.maintain.report import Report


class Change:
    """A net change. Its rows are fetched when first asked for, so a bulk load costs nothing to report."""

    def __init__(self, schema: Schema, fetch: Callable[[], pa.Table], held: object = None) -> None:
        """`held` is referenced until the rows are fetched, so that the files they are read from are not vacuumed."""
        self.schema = schema
        self._fetch = fetch
        self._held = held
        self._rows: pa.Table | None = None

    @property
    def rows(self) -> pa.Table:
        """The signed rows, consolidated: every row once, with its weight."""
        if self._rows is None:
            self._rows = consolidate(self._fetch())
            self._held = None
        return self._rows

    def part(self, rows: pa.Table) -> Change:
        """Some of its rows as a change: they are net already."""
        made = Change(self.schema, lambda: rows)
        made._rows = rows
        return made

    @property
    def inserted(self) -> pa.Table:
        """Δ: the inserted rows, duplicates repeated."""
        return expand(part_with_sign(self.rows, 1))

    @property
    def deleted(self) -> pa.Table:
        """∇: the deleted rows, duplicates repeated."""
        return expand(part_with_sign(self.rows, -1))

    def weights(self) -> dict[tuple[Any, ...], int]:
        """Row tuples and their weights; nested values are tuples."""
        rows = row_tuples(self.rows.drop_columns([WEIGHT]))
        return dict(zip(rows, self.rows[WEIGHT].to_pylist(), strict=True))

    def __repr__(self) -> str:
        if self._rows is None:
            return "Change(not fetched)"
        weights = self._rows[WEIGHT].to_pylist()
        plus = sum(weight for weight in weights if weight > 0)
        return f"Change(+{plus}, -{plus - sum(weights)})"


@dataclass(frozen=True)
class Commit:
    """A committed transaction.

    `warnings` are the assertions it violates that only warn; `rules` are the names of the rules that fired inside it,
    in their order.
    """

    epoch: int
    committed_at: dt.datetime
    changes: dict[str, Change] = field(default_factory=dict)
    report: dict[str, Report] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
