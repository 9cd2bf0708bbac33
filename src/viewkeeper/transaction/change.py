"""Net changes as users see them: inserted and deleted rows of one relation in one epoch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.result_rows import rows_of_arrow
from viewkeeper.algebra.rows import consolidate, expand, part_with_sign, row_tuples, take
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.text_tables import FIRST, html_table, signed_lines
from viewkeeper.maintain.report import Report

SHOWN = 10_000
"""A change of at most so many stored rows is read in order to show its first ones."""


class Change:
    """A net change. Its rows are fetched when first asked for, so a bulk load costs nothing to report."""

    def __init__(self, schema: Schema, fetch: Callable[[], pa.Table], held: object = None, stored: int = 0) -> None:
        """`held` is referenced until the rows are fetched, so that the files they are read from are not vacuumed.

        `stored`: how many rows these files have.
        """
        self.schema = schema
        self.stored = stored
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

    @property
    def is_shown(self) -> bool:
        """Whether its first rows can be shown without reading many from files."""
        return self._rows is not None or self.stored <= SHOWN

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows it inserts and deletes, duplicates counted."""
        weights = self.rows[WEIGHT]
        total = int(pc.sum(weights).as_py() or 0)
        plus = int(pc.sum(pc.filter(weights, pc.greater(weights, 0))).as_py() or 0)
        return plus, plus - total

    @property
    def in_order(self) -> pa.Table:
        """Its signed rows, deleted ones first."""
        return take(self.rows, pc.sort_indices(pc.greater(self.rows[WEIGHT], 0)).to_numpy())

    def first(self, count: int) -> tuple[list[tuple[Any, ...]], list[int]]:
        """Its first rows, at most so many, and their weights; deleted rows come first."""
        some = self.in_order.slice(0, count)
        return rows_of_arrow(some.drop_columns([WEIGHT])), some[WEIGHT].to_pylist()

    def __repr__(self) -> str:
        if not self.is_shown:
            return f"Change(about {self.stored:,} rows, which are read when they are asked for)"
        return "\n".join([self._counted(), *(f"  {line}" for line in signed_lines(*self.first(FIRST))), *self._more()])

    def _repr_html_(self) -> str | None:
        if not self.is_shown:
            return None
        rows, weights = self.first(FIRST)
        return html_table(self.schema.names, rows, "".join(self._more()).strip(), weights)

    def _counted(self) -> str:
        inserted, deleted = self.counts
        return f"Change(+{inserted}, −{deleted})"

    def _more(self) -> list[str]:
        left = self.rows.num_rows - FIRST
        return [f"  ... and {left:,} more"] if left > 0 else []


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
