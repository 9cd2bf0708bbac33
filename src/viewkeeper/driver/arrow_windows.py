"""Window functions and top-k over small tables on the driver. What is not here stops with `LeftToEngine`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.rows import canonical_array
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.algebra.types import Type
from viewkeeper.driver.arrow_values import evaluate, kind_of, why_not
from viewkeeper.driver.matching import codes, one_chunk
from viewkeeper.driver.numbers import LeftToEngine, decimals, digits_of
from viewkeeper.driver.row_order import Integers, Sorted, ranks, sorted_rows

_STEPS = 1_000_000
"""Most values that the extrema of sliding frames look at."""

_EXACT = 1 << 53
"""DOUBLE has every whole number up to this one."""


def window_functions(node: n.Window, ties: Sequence[n.Order], table: pa.Table) -> pa.Table:
    """The rows with their window functions. `ties` are the keys that break ties where a function wants that."""
    for call in node.calls:
        keys = [*node.order, *(ties if call.tie_break else ())]
        rows = sorted_rows(table, node.partition, keys)
        values = _computed(_Window(table, rows, call, bool(keys)))
        back = np.empty(len(rows.order), dtype=np.int64)
        back[rows.order] = rows.at
        try:
            found = values.take(pa.array(back)).cast(call.output.type.arrow)
        except pa.ArrowInvalid as problem:
            raise LeftToEngine(str(problem)) from problem
        table = table.append_column(call.output.label, found)
    return table


def first_rows(node: n.Top, keys: Sequence[n.Order], table: pa.Table) -> pa.Table:
    """The rows of ORDER BY ... LIMIT ... OFFSET per partition."""
    rows = sorted_rows(table, node.partition, keys)
    kept = rows.number > node.offset
    if node.limit is not None:
        kept &= rows.number <= node.offset + node.limit
    return table.take(pa.array(rows.order[kept]))


@dataclass(frozen=True)
class _Window:
    """One window function: its call, the rows, and whether they are ordered."""

    table: pa.Table
    rows: Sorted
    made: n.WindowCall
    ordered: bool

    @property
    def call(self) -> e.Call:
        """The function; aggregates with DISTINCT or FILTER are no simple calls."""
        text = self.made.text
        if not isinstance(text, e.Call) or text.distinct or text.where is not None:
            raise LeftToEngine(f"{text} OVER is left to the engine")
        return text

    def value(self, place: int) -> Any:
        """The values of an argument, in the order of the rows."""
        node = self.call.arguments[place]
        why = why_not(node)
        if why is not None:
            raise LeftToEngine(why)
        return evaluate(node, self.table).take(pa.array(self.rows.order))

    def kind(self, place: int) -> Type | None:
        """The type of an argument."""
        return kind_of(self.call.arguments[place])

    def constant(self, place: int, default: int) -> int:
        """An argument that is a whole number."""
        if len(self.call.arguments) <= place:
            return default
        found = self.call.arguments[place]
        if not isinstance(found, e.Literal) or not isinstance(found.value, int) or isinstance(found.value, bool):
            raise LeftToEngine(f"{self.call.name}() of other than constants is left to the engine")
        return found.value

    def frame(self) -> tuple[Integers, Integers]:
        """The first place of each row's frame, and the place after it."""
        rows, text = self.rows, self.made.frame
        if not text:
            return rows.start, rows.after if self.ordered else rows.end
        found = _FRAME.fullmatch(text)
        if found is None:
            raise LeftToEngine(f"a frame {text} is left to the engine")
        by_rows = found["kind"] == "ROWS"
        low, high = self._edge(found["low"], by_rows, 0), self._edge(found["high"], by_rows, 1)
        low = np.clip(low, rows.start, rows.end)
        return low, np.maximum(np.clip(high, rows.start, rows.end), low)

    def _edge(self, text: str, by_rows: bool, side: int) -> Integers:
        """One edge of the frames; the place after it for side 1."""
        rows = self.rows
        if text.startswith("UNBOUNDED"):
            return rows.start if text.endswith("PRECEDING") else rows.end
        if text == "CURRENT ROW":
            return rows.at + side if by_rows else (rows.first, rows.after)[side]
        if not by_rows:
            raise LeftToEngine("a frame by distance is left to the engine")
        number = int(text.split()[0])
        return rows.at + side + (-number if text.endswith("PRECEDING") else number)


_EDGE = r"UNBOUNDED (?:PRECEDING|FOLLOWING)|CURRENT ROW|[0-9]+ (?:PRECEDING|FOLLOWING)"
_FRAME = re.compile(rf"(?P<kind>ROWS|RANGE) BETWEEN (?P<low>{_EDGE}) AND (?P<high>{_EDGE})")


def _computed(window: _Window) -> Any:
    """The values of a window function, in the order of its rows."""
    function = _FUNCTIONS.get(window.call.name)
    if function is None:
        raise LeftToEngine(f"{window.call.name}() OVER is left to the engine")
    return function(window)


# numbers and ranks --------------------------------------------------------------------------------


def _numbers(found: Any) -> Any:
    return pa.array(found.astype(np.int64))


def _rank(rows: Sorted) -> Integers:
    return rows.first - rows.start + 1


def _dense_rank(window: _Window) -> Any:
    begins = np.concatenate(([0], np.cumsum(window.rows.first == window.rows.at)))
    return _numbers(begins[window.rows.at + 1] - begins[window.rows.start])


def _percent_rank(window: _Window) -> Any:
    others = window.rows.end - window.rows.start - 1
    return pa.array(np.where(others > 0, (_rank(window.rows) - 1) / np.maximum(others, 1), 0.0))


def _cume_dist(window: _Window) -> Any:
    rows = window.rows
    return pa.array((rows.after - rows.start) / np.maximum(rows.end - rows.start, 1))


def _ntile(window: _Window) -> Any:
    """The first buckets have one row more than the others, if the rows are not a multiple of them."""
    buckets, rows = window.constant(0, 1), window.rows
    if buckets < 1:
        raise LeftToEngine("ntile of no buckets")
    size, more = np.divmod(rows.end - rows.start, buckets)
    place, large = rows.at - rows.start, more * (size + 1)
    later = more + (place - large) // np.maximum(size, 1)
    return _numbers(np.where(place < large, place // (size + 1), later) + 1)


# other rows ---------------------------------------------------------------------------------------


def _at(values: Any, places: Any, there: Any) -> Any:
    """Values by place; NULL where there is no such row."""
    return values.take(pa.array(np.where(there, places, 0), mask=~there))


def _shifted(sign: int) -> Callable[[_Window], Any]:
    def compute(window: _Window) -> Any:
        rows, values = window.rows, window.value(0)
        places = rows.at + sign * window.constant(1, 1)
        there = (places >= rows.start) & (places < rows.end)
        found = _at(values, places, there)
        if len(window.call.arguments) < 3:
            return found
        default, kinds = window.value(2), (window.kind(0), window.kind(2))
        if default.type != values.type and not all(kind is not None and kind.is_integer for kind in kinds):
            raise LeftToEngine("a default of another type")
        return pc.if_else(pa.array(there), found, default.cast(values.type))

    return compute


def _edge_value(last: bool) -> Callable[[_Window], Any]:
    def compute(window: _Window) -> Any:
        if len(window.call.arguments) != 1:
            raise LeftToEngine(f"{window.call.name}() that skips NULLs is left to the engine")
        low, high = window.frame()
        return _at(window.value(0), high - 1 if last else low, high > low)

    return compute


def _nth(window: _Window) -> Any:
    low, high = window.frame()
    number = window.constant(1, 0)
    if number < 1:
        raise LeftToEngine("nth_value of no row")
    return _at(window.value(0), low + number - 1, low + number <= high)


# aggregates over frames ---------------------------------------------------------------------------


def _count(window: _Window) -> Any:
    low, high = window.frame()
    return _numbers(_counts(window.value(0), low, high))


def _counts(values: Any, low: Integers, high: Integers) -> Integers:
    """The number of values in each frame that are not NULL."""
    so_far = np.concatenate(([0], np.cumsum(values.is_valid().to_numpy(zero_copy_only=False))))
    found: Integers = so_far[high] - so_far[low]
    return found


def _sums(window: _Window) -> tuple[Integers, list[int]]:
    """The number of values in each frame, and their exact sums as all their digits."""
    values, kind = window.value(0), window.kind(0)
    if kind is None or not (kind.is_integer or kind.name == "decimal"):
        raise LeftToEngine("a sum of floats is left to the engine")
    low, high = window.frame()
    so_far = [0]
    for value in digits_of(values):
        so_far.append(so_far[-1] + (value or 0))
    return _counts(values, low, high), [so_far[b] - so_far[a] for a, b in zip(low.tolist(), high.tolist(), strict=True)]


def _sum(window: _Window) -> Any:
    counts, sums = _sums(window)
    result, kind = window.made.output.type, window.kind(0)
    assert kind is not None
    found = [value if count else None for value, count in zip(sums, counts, strict=True)]
    if result.name == "decimal" and result.scale == kind.scale:
        if any(value is not None and abs(value) >= 10**result.precision for value in found):
            raise LeftToEngine(f"a sum has more than {result.precision} digits")
        return decimals(found, result)
    if result.name != "bigint" or not kind.is_integer:
        raise LeftToEngine("a sum of another type is left to the engine")
    if any(value is not None and not -(1 << 63) <= value < 1 << 63 for value in found):
        raise LeftToEngine("a sum beyond BIGINT")
    return pa.array(found, pa.int64())


def _average(window: _Window) -> Any:
    """The average of integers that DOUBLE adds without rounding."""
    kind = window.kind(0)
    if kind is None or not kind.is_integer or kind.name == "bigint" or window.made.output.type != e.DOUBLE:
        raise LeftToEngine("an average of these values is left to the engine")
    counts, sums = _sums(window)
    if window.table.num_rows * (1 << 31) > _EXACT:
        raise LeftToEngine("an average of many rows")
    found = [total / count if count else None for total, count in zip(sums, counts.tolist(), strict=True)]
    return pa.array(found, pa.float64())


def _extremum(greatest: bool) -> Callable[[_Window], Any]:
    def compute(window: _Window) -> Any:
        values, argument = window.value(0), window.call.arguments[0]
        kind = kind_of(argument)
        if kind is None or kind.is_float:
            raise LeftToEngine("an extremum of floats is left to the engine")
        low, high = window.frame()
        if int((high - low).sum()) > _STEPS and len(np.unique(low)) > 1:
            raise LeftToEngine("extrema of long frames are left to the engine")
        given = Attribute(0, "value", kind)
        places = ranks(pa.table({given.label: values}), n.Order(given, greatest, nulls_first=False))
        best = [
            a + int(np.argmin(places[a:b])) if b > a else -1 for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        chosen = np.array(best, dtype=np.int64)
        return _at(values, chosen, chosen >= 0)

    return compute


_FUNCTIONS: dict[str, Callable[[_Window], Any]] = {
    "row_number": lambda window: _numbers(window.rows.number),
    "rank": lambda window: _numbers(_rank(window.rows)),
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
    "lag": _shifted(-1),
    "lead": _shifted(1),
    **dict.fromkeys(("first", "first_value", "any_value"), _edge_value(False)),
    **dict.fromkeys(("last", "last_value"), _edge_value(True)),
    "nth_value": _nth,
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "min": _extremum(False),
    "max": _extremum(True),
}
"""The window functions by name."""

WINDOW_FUNCTIONS = tuple(_FUNCTIONS)


# stored buffers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Buffered:
    """The columns of a stored top-k buffer beside those of its rows: old and new copies, and whether to read again."""

    was: Attribute
    will: Attribute
    again: Attribute


def buffer_positions(
    node: n.Top, keys: Sequence[n.Order], names: Buffered, before: pa.Table, change: pa.Table
) -> pa.Table:
    """Every row of a stored buffer or of the change of its input whose number of copies in the buffer changes.

    `before` has plain rows. A partition that had enough rows and has too few left is to be read again.
    """
    assert node.limit is not None
    rows = _copies(node, before, change)
    found = sorted_rows(rows, node.partition, keys)
    old, new = (np.array(rows.column(name).to_pylist(), dtype=np.int64)[found.order] for name in (_OLD, _NEW))
    will, again = np.zeros(len(old), dtype=np.int64), np.zeros(len(old), dtype=bool)
    for start in np.unique(found.start).tolist():
        end = int(found.end[start])
        will[start:end], again[start:end] = _kept(old[start:end], new[start:end], node.limit)
    wanted = np.flatnonzero((old != will) | again)
    made = rows.take(pa.array(found.order[wanted])).drop_columns([_OLD, _NEW])
    made = made.append_column(names.was.label, pa.array(old[wanted]))
    made = made.append_column(names.will.label, pa.array(will[wanted]))
    return made.append_column(names.again.label, pa.array(again[wanted]))


_OLD, _NEW = "_vk_so", "_vk_sn"


def _copies(node: n.Top, before: pa.Table, change: pa.Table) -> pa.Table:
    """The distinct rows with their copies in the buffer, and with the change added."""
    labels = [a.label for a in node.outputs]
    weights = one_chunk(change.column(WEIGHT)).to_numpy()
    moved = change.select(labels).cast(before.select(labels).schema)
    stacked = pa.concat_tables([before.select(labels), moved])
    both = pa.table([canonical_array(stacked.column(a.label), a.type) for a in node.outputs], labels)
    numbers = codes([(one_chunk(both.column(a.label)), a.type) for a in node.outputs])
    count = before.num_rows
    places, first = np.unique(numbers, return_index=True)
    old = np.bincount(numbers[:count], minlength=len(places)).astype(np.int64)
    new = old.copy()
    np.add.at(new, numbers[count:], weights)
    rows = both.take(pa.array(first))
    return rows.append_column(_OLD, pa.array(old)).append_column(_NEW, pa.array(new))


def _kept(old: Integers, new: Integers, most: int) -> tuple[Integers, bool]:
    """The new copies of the rows of one partition, in order, and whether too few are left of enough."""
    enough, held = most // 2, int(old.sum())
    last = int(np.flatnonzero(old > 0)[-1]) if held else -1
    stays = np.maximum(new, 0)
    if held >= enough:
        stays[last + 1 :] = 0  # rows after the last one of the buffer: others of the partition may come before them
    left = int(stays.sum())
    before = np.cumsum(stays) - stays
    return np.clip(most - before, 0, stays), held >= enough > left
