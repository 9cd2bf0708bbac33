"""What lowering returns and needs: frames with facts about their keys, bindings, and the reader of stored relations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Equality, Fixpoint, Rederived, Scan
from viewkeeper.algebra.rows import FEW, comparable_array, filter_rows, row_tuples, take
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.driver.row_index import ByKey, Columns, Row
from viewkeeper.engine.engine import Frame


@dataclass(frozen=True)
class Lowered:
    """A frame: one column per output, named by its label, and `_weight` if it is a change.

    `source` is the frame, or what makes it where rows on the driver are all that most readers need. `known` are tables
    on the driver with columns named by labels: every row of the frame equals, on those columns, some row of the table.
    `narrow`: the frame comes from a change, so it is worth passing its keys on. `rows` has the frame's rows, weights
    included, if they are on the driver; `count` is their number, if it is already computed. `derived`: an operator made
    these rows on the driver, where a query would have been needed else.
    """

    source: Frame | partial[Frame]
    outputs: tuple[Attribute, ...]
    weighted: bool = False
    known: tuple[pa.Table, ...] = ()
    narrow: bool = False
    empty: bool = False
    wide: tuple[pa.Table, ...] = ()
    rows: pa.Table | None = None
    count: int = 0
    derived: bool = False

    @cached_property
    def frame(self) -> Frame:
        """The rows as a frame of the engine."""
        return self.source() if isinstance(self.source, partial) else self.source

    @property
    def keys(self) -> tuple[pa.Table, ...]:
        """The known tables that other relations are read by.

        Filters make `known` smaller, but not these: so all views of a transaction read by the same keys, and the rows
        are fetched once.
        """
        return self.wide or self.known

    @property
    def weights(self) -> list[str]:
        """The name of the weight, if it has one."""
        return [WEIGHT] if self.weighted else []

    @property
    def columns(self) -> list[str]:
        """All column names, the weight last."""
        return [*(attribute.label for attribute in self.outputs), *self.weights]


@dataclass(frozen=True)
class Binding:
    """Key values that restrict what is read: `table` has one column per attribute, named by its label."""

    columns: tuple[Attribute, ...]
    table: pa.Table

    def reduced(self, pairs: Sequence[tuple[Attribute, Attribute]]) -> Binding | None:
        """The binding on other attributes: each pair is an attribute of this one and the one with its value below."""
        chosen = {below: ours for ours, below in reversed(pairs) if ours in self.columns}
        kept = [(ours, below) for below, ours in chosen.items()]
        if not kept:
            return None
        table = self.table.select([ours.label for ours, _ in kept])
        if len(kept) < len(self.columns):
            table = distinct_rows(table)
        return Binding(tuple(below for _, below in kept), table.rename_columns([below.label for _, below in kept]))

    def kept(self, attributes: Sequence[Attribute]) -> Binding | None:
        """The binding on some of its attributes only."""
        return self.reduced([(attribute, attribute) for attribute in attributes])


class Keyed(Protocol):
    """The rows of a stored relation in one state."""

    def find(self, columns: Columns, keys: Collection[object]) -> ByKey | None:
        """The distinct rows with some values of some columns, by position; None if they have to be looked up."""

    def set_change(self) -> tuple[list[Row], list[Row]] | None:
        """The rows that were not there in the old state, and those that no longer are; None if that is not known."""


class Reader(Protocol):
    """Reads stored relations, and recursive ones, in the states that a plan asks for."""

    @property
    def lane(self) -> str:
        """'auto', or 'engine' if no operator is to be computed on the driver."""

    @property
    def queries(self) -> int:
        """How many queries it has run so far."""

    def apart(self) -> Reader:
        """The same reader with a count of its own, from 0; what it reads counts for this one too."""

    def scan(self, scan: Scan, binding: Binding | None) -> Lowered:
        """The rows of a relation in a state: at least those that match the binding. A change has weights."""

    def keyed(self, scan: Scan) -> Keyed | None:
        """The rows of a relation in a state by key, if they are kept on the driver."""

    def step(self) -> None:
        """Notes a step of a recursion on the driver."""

    def size(self, scan: Scan) -> int:
        """How many signed rows are stored of it."""

    def keep(self, lowered: Lowered, *, large: bool = False) -> Lowered:
        """The same rows, computed once: on the driver if few, in scratch files if many. `large`: many are expected."""

    def fixpoint(self, node: Fixpoint, binding: Binding | None) -> Lowered:
        """The rows that a recursion returns: at least those that match the binding."""

    def rederived(self, node: Rederived) -> Lowered:
        """The change of a recursion that is not stored."""

    def local(
        self,
        table: pa.Table,
        outputs: tuple[Attribute, ...],
        *,
        weighted: bool = False,
        derived: bool = False,
        wide: tuple[pa.Table, ...] = (),
    ) -> Lowered:
        """Rows on the driver as a frame."""


def distinct_rows(table: pa.Table) -> pa.Table:
    """The distinct rows of a table of keys."""
    if table.num_rows < 2 or any(pa.types.is_nested(field.type) for field in table.schema):
        return table
    if table.num_rows <= FEW:
        first = {row: index for index, row in reversed(list(enumerate(row_tuples(table))))}
        return table if len(first) == table.num_rows else take(table, sorted(first.values()))
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def binding_of(lowered: Lowered, pairs: Sequence[tuple[Attribute, Attribute]]) -> Binding | None:
    """A binding from the known keys of a frame: each pair is an attribute of it and the one to bind."""
    found = keys_of(lowered, [ours for ours, _ in pairs])
    if found is None:
        return None
    return Binding(tuple(found[0]), found[1]).reduced(pairs)


def has_keys(lowered: Lowered, attributes: Sequence[Attribute]) -> bool:
    """Whether a known table has one of some attributes."""
    return any(a.label in table.column_names for table in lowered.keys for a in attributes)


def keys_of(lowered: Lowered, attributes: Sequence[Attribute]) -> tuple[list[Attribute], pa.Table] | None:
    """As many of some attributes as one known table has, and their values."""
    best: tuple[list[Attribute], pa.Table] | None = None
    for table in lowered.keys:
        there = [a for a in dict.fromkeys(attributes) if a.label in table.column_names]
        if there and (best is None or len(there) > len(best[0])):
            best = (there, table)
    if best is None:
        return None
    return best[0], distinct_rows(best[1].select([attribute.label for attribute in best[0]]))


Tables = tuple[pa.Table, ...]


def meet(left: Tables, right: Tables, equalities: Sequence[Equality]) -> tuple[Tables, Tables] | None:
    """The known tables of both sides of an inner join without rows that cannot match; None if no row can.

    Known tables are supersets: a key that no known row of the other side has finds no partner.
    """
    ours, theirs = list(left), list(right)
    for equality in equalities:
        for mine, yours in ((equality.left, equality.right), (equality.right, equality.left)):
            for i, one in enumerate(ours):
                for j, other in enumerate(theirs):
                    if mine.label not in one.column_names or yours.label not in other.column_names:
                        continue
                    a, b = one.column(mine.label), other.column(yours.label)
                    if a.type != b.type or pa.types.is_nested(a.type) or pa.types.is_floating(a.type):
                        continue
                    ours[i] = one.filter(pc.is_in(a, value_set=b.unique(), skip_nulls=not equality.null_safe))
                    theirs[j] = other.filter(pc.is_in(b, value_set=a.unique(), skip_nulls=not equality.null_safe))
                    one = ours[i]
                    if not ours[i].num_rows or not theirs[j].num_rows:
                        return None
    return tuple(ours), tuple(theirs)


def paired(left: Tables, right: Tables, equalities: Sequence[Equality], most: int) -> pa.Table | None:
    """Known rows of both sides of an inner join that may match, side by side; None if they are not known or too many.

    Every row of the join equals one of these on its columns.
    """
    ours = max(left, key=lambda table: table.num_columns, default=None)
    theirs = max(right, key=lambda table: table.num_columns, default=None)
    if ours is None or theirs is None or ours.num_rows * theirs.num_rows > most:
        return None
    pairs = [(a, b) for e in equalities for a, b in ((e.left, e.right), (e.right, e.left))]
    keys = [
        (a, b)
        for a, b in pairs
        if a.label in ours.column_names and b.label in theirs.column_names and a.type == b.type and _is_exact(a)
    ]
    if not keys:
        return None
    one = _values(ours, [mine for mine, _ in keys])
    other = _values(theirs, [yours for _, yours in keys])
    found = [(i, j) for i, values in enumerate(one) for j, others in enumerate(other) if values == others]
    beside = take(theirs, [j for _, j in found])
    rows = take(ours, [i for i, _ in found])
    for name in beside.column_names:
        if name not in rows.column_names:
            rows = rows.append_column(name, beside.column(name))
    return rows


def without_partner(left: Lowered, right: Lowered, equalities: Sequence[Equality]) -> Tables:
    """The known rows of the left side of an anti join without those that have a partner on the right."""
    if right.rows is None or not equalities or not all(_is_exact(e.left) for e in equalities):
        return left.known
    if any(e.left.type != e.right.type for e in equalities):
        return left.known
    there = set(_values(right.rows, [e.right for e in equalities]))
    there = {values for values in there if None not in values}
    found = []
    for table in left.known:
        keys = [e.left for e in equalities]
        if {key.label for key in keys} <= set(table.column_names):
            table = filter_rows(table, (values not in there for values in _values(table, keys)))
        found.append(table)
    return tuple(found)


def _is_exact(attribute: Attribute) -> bool:
    """Whether values of an attribute are equal on the driver if they are on the engine."""
    return attribute.type.is_integer or attribute.type.name in ("string", "boolean", "date")


def _values(table: pa.Table, attributes: Sequence[Attribute]) -> list[tuple[Any, ...]]:
    """The values of some columns, row by row, in a form in which they are compared."""
    columns = [comparable_array(table.column(a.label), a.type) for a in attributes]
    return row_tuples(pa.table(columns, [a.label for a in attributes]))


def renamed(table: pa.Table, pairs: list[tuple[Attribute, Attribute]]) -> pa.Table | None:
    """A known table under new labels: each pair is the new attribute and the one it has its values from."""
    kept = [(new, old) for new, old in pairs if old.label in table.column_names]
    if not kept:
        return None
    return pa.table([table.column(old.label) for _, old in kept], names=[new.label for new, _ in kept])


def all_renamed(tables: tuple[pa.Table, ...], pairs: list[tuple[Attribute, Attribute]]) -> tuple[pa.Table, ...]:
    """Known tables under new labels, without those that have none of these columns."""
    return tuple(found for found in (renamed(table, pairs) for table in tables) if found is not None)


def spread(table: pa.Table, equalities: Sequence[Equality]) -> pa.Table:
    """A known table, with the columns added that an inner join makes equal to one of its own."""
    for equality in equalities:
        for mine, other in ((equality.left, equality.right), (equality.right, equality.left)):
            if mine.label in table.column_names and other.label not in table.column_names and mine.type == other.type:
                table = table.append_column(other.label, table.column(mine.label))
    return table


def not_dominated(tables: Sequence[pa.Table]) -> Tables:
    """Known tables without those whose columns another one has too that has no more rows."""
    kept: list[tuple[set[str], pa.Table]] = []
    for table in sorted(tables, key=lambda one: (one.num_rows, -one.num_columns)):
        names = set(table.column_names)
        if not any(names <= others for others, _ in kept):
            kept.append((names, table))
    return tuple(table for _, table in kept)


def common(parts: Sequence[Lowered], outputs: Sequence[Attribute]) -> tuple[pa.Table, ...]:
    """The known tables of the union of some frames, whose columns stand for `outputs` by position."""
    there = [part for part in parts if not part.empty]
    if not there:
        return ()
    named = [all_renamed(part.known, list(zip(outputs, part.outputs, strict=False))) for part in there]
    found = named[0]
    for others in named[1:]:
        found = not_dominated([both for both in (_stacked(table, others) for table in found) if both is not None])
    return found


def _stacked(table: pa.Table, others: Sequence[pa.Table]) -> pa.Table | None:
    """A known table and the one of some others that has most columns with it: the rows of both, on these columns."""
    best: list[str] = []
    chosen = table
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    for other in others:
        theirs = zip(other.schema.names, other.schema.types, strict=True)
        names = [name for name, kind in theirs if types.get(name) == kind]
        if len(names) > len(best):
            best, chosen = names, other
    return distinct_rows(pa.concat_tables([table.select(best), chosen.select(best)])) if best else None


def padded(right: Lowered, tables: Tables, pairs: list[tuple[Attribute, Attribute]]) -> Tables:
    """Known tables of the side of an outer join that may be missing: its known rows, and one of NULLs.

    Each pair is an output and the attribute of that side which it carries.
    """
    if right.empty:
        return (pa.table([pa.nulls(1, new.type.arrow) for new, _ in pairs], names=[new.label for new, _ in pairs]),)
    return tuple(pa.concat_tables([table, _row_of_nulls(table)]) for table in all_renamed(tables, pairs))


def _row_of_nulls(table: pa.Table) -> pa.Table:
    return pa.table([pa.nulls(1, field.type) for field in table.schema], names=table.column_names)


def matched_or_missing(
    left: Lowered, equalities: Sequence[Equality], pairs: list[tuple[Attribute, Attribute]]
) -> Tables:
    """A known table of the keys of a left join: those of the right side equal those of the left side, or are NULL."""
    outer = {inner: outer for outer, inner in pairs}
    usable = [e for e in equalities if e.left.type == e.right.type and e.right in outer]
    found = keys_of(left, [e.left for e in usable])
    if found is None:
        return ()
    table = matched = missing = found[1]
    for e in usable:
        label = outer[e.right].label
        if e.left in found[0] and label not in matched.column_names:
            matched = matched.append_column(label, table.column(e.left.label))
            missing = missing.append_column(label, pa.nulls(table.num_rows, e.right.type.arrow))
    return (pa.concat_tables([matched, missing]),)


def without_nulls(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows of a table without those that have a NULL in one of some columns, as far as it has them."""
    for name in names:
        if name in table.column_names and table.column(name).null_count:
            table = table.filter(pc.is_valid(table.column(name)))
    return table
