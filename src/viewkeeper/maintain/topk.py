"""Top-k: ORDER BY ... LIMIT with stored state: a buffer of the first rows of each partition, with slack.

A stored buffer T of S holds between m/2 and m rows of a partition, or all of them. Its last row is the boundary: every
row of S before it is in T. So

    T@new = the first m rows of those of T@old ⊎ δS that do not lie behind the boundary of T@old

and a partition is read again only when fewer than m/2 rows are left of it and T did not hold all of it. T may hold
fewer copies of its last row than S has: deleted copies are taken from T first, which at worst shortens the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    BIGINT,
    Attribute,
    Cast,
    Expression,
    Name,
    Numbers,
    Over,
    call,
    case,
    column,
    comparison,
    conjunction,
    disjunction,
    integer,
    plain,
)
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.types import Type
from viewkeeper.catalog.relations import Derived
from viewkeeper.delta.laws import once
from viewkeeper.driver.arrow_windows import Buffered, buffer_positions
from viewkeeper.engine.bags import grouped_sums
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Frame
from viewkeeper.engine.lowered import Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.operator_parts import NONE, ONE, ROW_NUMBER, ROWS_SO_FAR, whole_row, windowed
from viewkeeper.maintain.differentiate import formula_of
from viewkeeper.maintain.fold import picked_by
from viewkeeper.maintain.net_changes import join_rows
from viewkeeper.maintain.strategy import NOT_REACHED, Task, stored_rows
from viewkeeper.plan.choice import Choice
from viewkeeper.plan.strategy_names import TOPK

PASSES = 5
"""On the engine, changed rows are grouped once and sorted four times, each with rows of the buffer."""


@dataclass(frozen=True)
class BufferChange:
    """The change of a stored buffer: signed rows, and how many partitions had to be read again."""

    table: pa.Table
    reread: int


def change_buffer(
    lowering: Lowering, node: n.Top, stored: n.Scan, source: n.Node, change: n.Node
) -> BufferChange | None:
    """The change of the buffer `node`, whose rows are `stored`, when its input changes by `change`; None if empty.

    `source` is the input after the change, for partitions that have to be read again.
    """
    below = lowering.lower(change)
    if below.empty:
        return None
    pairs = tuple((a, a) for a in node.partition)
    before = lowering.lower(n.Restrict(stored, change, pairs) if pairs else stored)
    layout = _Layout(node)
    keys = [*node.order, *whole_row(node.outputs, node.partition, node.order)]
    placed = partial(buffer_positions, node, keys, Buffered(layout.was, layout.will, layout.again))
    here = lowering.on_driver([before, below], layout.outputs, placed)
    kept = lowering.reader.keep(here or Lowered(_positions(lowering, node, layout, before, below), layout.outputs))
    table = kept.known[0] if kept.known else lowering.engine.fetch(kept.frame)
    if table.num_rows == 0:
        return None
    return _as_change(lowering, node, layout, table, source)


class _Layout:
    """A row of the buffer or the change: its old and new number of copies, and whether its partition is read again."""

    def __init__(self, node: n.Top) -> None:
        numbers = Numbers(60_000_000)
        self.columns = node.outputs
        self.was, self.will = (numbers.attribute(name, Type("bigint")) for name in ("was", "will"))
        self.again = numbers.attribute("again", Type("boolean"))

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        return (*self.columns, self.was, self.will, self.again)


def _positions(lowering: Lowering, node: n.Top, layout: _Layout, before: Lowered, change: Lowered) -> Frame:
    """Every row of T@old and δS whose number of copies changes, or whose partition is read again."""
    assert node.limit is not None
    most, least = node.limit, node.limit // 2
    labels = [a.label for a in node.outputs]
    frames = [change.frame.select(*listed(*labels, (NONE, "_vk_o"), (WEIGHT, "_vk_n")))]
    if not before.empty:
        frames.append(before.frame.select(*listed(*labels, (ONE, "_vk_o"), (ONE, "_vk_n"))))
    schema = Schema(tuple(Column(a.label, a.type) for a in node.outputs))
    rows = grouped_sums(lowering.engine.union(frames), schema, ("_vk_o", "_vk_n"))
    keys = [*node.order, *whole_row(node.outputs, node.partition, node.order)]
    old, new, at, last, held = (Name(f"_vk_{name}") for name in ("so", "sn", "at", "last", "held"))
    value, upto, left = (Name(f"_vk_{name}") for name in ("v", "upto", "left"))
    zero, enough = integer(0), integer(least)

    def in_partition(function: Expression) -> Expression:
        return windowed(function, node.partition, [], "", lowering.engine.kind)

    number = windowed(ROW_NUMBER, node.partition, keys, ROWS_SO_FAR, lowering.engine.kind)
    placed = rows.select(*listed(*labels, old.name, new.name, (number, at.name)))
    bounded = placed.select(
        *listed(
            *labels,
            *(old.name, new.name, at.name),
            (in_partition(call("max", case((comparison(">", old, zero), at)))), last.name),
            (in_partition(call("sum", old)), held.name),
        )
    )
    valid = disjunction((comparison("<", held, enough), comparison("<=", at, last)))
    stays = case((conjunction((valid, comparison(">", new, zero))), new), default=NONE)
    counted = bounded.select(*listed(*labels, old.name, at.name, held.name, (stays, value.name)))
    running = Over(call("sum", value), tuple(map(column, node.partition)), ((at, False, True),), ROWS_SO_FAR)
    summed = counted.select(
        *listed(
            *labels,
            *(old.name, value.name, held.name),
            (running, upto.name),
            (in_partition(call("sum", value)), left.name),
        )
    )
    room = plain("-", integer(most), plain("-", upto, value))
    full, short = comparison("<=", room, zero), comparison("<", room, value)
    final = summed.select(
        *listed(
            *labels,
            (old, layout.was.label),
            (case((full, NONE), (short, Cast(room, BIGINT)), default=value), layout.will.label),
            (conjunction((comparison(">=", held, enough), comparison("<", left, enough))), layout.again.label),
        )
    )
    return final.filter(parsed(disjunction((comparison("<>", layout.was, layout.will), column(layout.again)))))


def _as_change(lowering: Lowering, node: n.Top, layout: _Layout, table: pa.Table, source: n.Node) -> BufferChange:
    """The inserted and deleted rows; partitions with too few rows left are read again."""
    labels = [a.label for a in node.outputs]
    again = pc.fill_null(table[layout.again.label], False)
    was, will = table[layout.was.label], table[layout.will.label]
    weight = pc.subtract(pc.if_else(again, pa.scalar(0, pa.int64()), will), was)
    parts = [table.select(labels).append_column(pa.field(WEIGHT, pa.int64()), weight)]
    lost = table.filter(again)
    if lost.num_rows:
        keys = lowering.reader.local(lost, layout.outputs)
        pairs = tuple((a, a) for a in node.partition)
        rows = n.Restrict(source, lowering.given(keys), pairs) if pairs else source
        filled = lowering.reader.keep(lowering.lower(replace(node, input=rows)))
        plain = filled.known[0] if filled.known else lowering.engine.fetch(filled.frame)
        ones = pa.array([1] * plain.num_rows, pa.int64())
        parts.append(plain.select(labels).append_column(pa.field(WEIGHT, pa.int64()), ones))
    partitions = lost.select([a.label for a in node.partition]).group_by([a.label for a in node.partition])
    count = partitions.aggregate([]).num_rows if node.partition and lost.num_rows else int(lost.num_rows > 0)
    return BufferChange(pa.concat_tables(parts), count)


class TopK:
    """Stored top-k buffers."""

    name = TOPK
    passes = PASSES

    def maintain(self, task: Task, choice: Choice) -> Choice:
        """Changes the buffers of the touched partitions."""
        node, change = task.input_change(n.Top)
        if change is None:
            return NOT_REACHED
        found = change_buffer(task.lowering, node, task.stored, n.at(node.input, n.NEW), once(change))
        if found is None:
            return NOT_REACHED
        join_rows(task.tx, task.relation, found.table)
        one = found.reread == 1
        again = f"{found.reread} top-k buffer{'' if one else 's'} ran short and {'was' if one else 'were'} read again"
        return replace(choice, note=again if found.reread else "")

    def computed(self, relation: Derived, node: n.Top, key: str, follows: bool) -> tuple[n.Node, ...]:
        """The stored buffers of the touched partitions. Refills of short buffers are not foreseen."""
        return picked_by(stored_rows(relation, node), node, node.partition, key, ())

    def again(self, relation: Derived, node: n.Top, key: str) -> tuple[n.Node, ...]:
        """Nothing."""
        return ()

    def formula(self, node: n.Top, key: str) -> tuple[str, list[str]]:
        """The first rows of the stored buffer and the change, less the stored buffer."""
        text = formula_of(node.input, key)
        return f"first(T@old⋉K ⊎ {text}) − T@old⋉K", ["partitions whose buffer ran short, by partition"]
