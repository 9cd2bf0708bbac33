"""What lowering gives and needs: frames with what is known of them, bindings, and the reader of stored relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Scan
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.engine.engine import Frame


@dataclass(frozen=True)
class Lowered:
    """A frame: one column per output, named by its label, and `_weight` if it is a change.

    `known` are tables held on the driver with columns named by labels: every row of the frame equals, on those
    columns, some row of the table. `narrow` says that the frame follows a change, so it is worth passing its keys on.
    """

    frame: Frame
    outputs: tuple[Attribute, ...]
    weighted: bool = False
    known: tuple[pa.Table, ...] = ()
    narrow: bool = False
    empty: bool = False

    @property
    def columns(self) -> list[str]:
        """All column names, the weight last."""
        labels = [attribute.label for attribute in self.outputs]
        return [*labels, WEIGHT] if self.weighted else labels


@dataclass(frozen=True)
class Binding:
    """Key values that restrict what is read: `table` has one column per attribute, named by its label."""

    columns: tuple[Attribute, ...]
    table: pa.Table

    def reduced(self, pairs: Sequence[tuple[Attribute, Attribute]]) -> Binding | None:
        """The binding on other attributes: each pair is one of ours and the one that carries its value below."""
        chosen = {below: ours for ours, below in reversed(pairs) if ours in self.columns}
        kept = [(ours, below) for below, ours in chosen.items()]
        if not kept:
            return None
        table = self.table.select([ours.label for ours, _ in kept])
        if len(kept) < len(self.columns):
            table = distinct_rows(table)
        return Binding(tuple(below for _, below in kept), table.rename_columns([below.label for _, below in kept]))

    def kept(self, attributes: Sequence[Attribute]) -> Binding | None:
        """The part of the binding that is about some attributes."""
        return self.reduced([(attribute, attribute) for attribute in attributes])


class Reader(Protocol):
    """Reads stored relations in the states that a plan asks for."""

    def scan(self, scan: Scan, binding: Binding | None) -> Lowered:
        """The rows of a relation in a state: at least those that the binding asks for. A change is weighted."""

    def size(self, scan: Scan) -> int:
        """How many signed rows are stored of it."""

    def keep(self, lowered: Lowered) -> Lowered:
        """The same rows computed once: on the driver if few, in scratch files if many."""


def distinct_rows(table: pa.Table) -> pa.Table:
    """The different rows of a table of keys."""
    if table.num_rows == 0 or any(pa.types.is_nested(field.type) for field in table.schema):
        return table
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def binding_of(lowered: Lowered, pairs: Sequence[tuple[Attribute, Attribute]]) -> Binding | None:
    """A binding from what is known of a frame: each pair is one of its attributes and the one to be bound by it."""
    found = keys_of(lowered, [ours for ours, _ in pairs])
    if found is None:
        return None
    return Binding(tuple(found[0]), found[1]).reduced(pairs)


def keys_of(lowered: Lowered, attributes: Sequence[Attribute]) -> tuple[list[Attribute], pa.Table] | None:
    """The driver's values of as many of some attributes as one known table has, and those attributes."""
    best: tuple[list[Attribute], pa.Table] | None = None
    for table in lowered.known:
        there = [a for a in dict.fromkeys(attributes) if a.label in table.column_names]
        if there and (best is None or len(there) > len(best[0])):
            best = (there, table)
    if best is None:
        return None
    return best[0], distinct_rows(best[1].select([attribute.label for attribute in best[0]]))
