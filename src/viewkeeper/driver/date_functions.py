"""Functions of dates as Apache Spark has them, over Arrow arrays. A result beyond the years 1 to 9999 is left to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import expressions as e
from viewkeeper.driver.numbers import LeftToEngine, as_values

_FIRST, _LAST = (day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max))


def _days(found: Any) -> Any:
    """Dates as numbers of days since 1970-01-01."""
    return found.cast(pa.int32()).cast(pa.int64())


def _dates(days: Any) -> Any:
    """Numbers of days as dates."""
    outside = pc.or_(pc.less(days, _FIRST), pc.greater(days, _LAST))
    if pc.any(_array(outside)).as_py():
        raise LeftToEngine("a date beyond the years 1 to 9999")
    return days.cast(pa.int32()).cast(pa.date32())


def _array(found: Any) -> Any:
    return pa.array([found.as_py()]) if isinstance(found, pa.Scalar) else found


def later(date: Any, days: Any) -> Any:
    """Dates so many days later."""
    return _dates(pc.add(_days(date), days.cast(pa.int64())))


def earlier(date: Any, days: Any) -> Any:
    """Dates so many days earlier."""
    return _dates(pc.subtract(_days(date), days.cast(pa.int64())))


def days_between(end: Any, start: Any) -> Any:
    """The number of days from one date to another."""
    return pc.subtract(_days(end), _days(start)).cast(pa.int32())


def _by_months(date: Any, change: Callable[..., Any], *more: Any) -> Any:
    """Dates from their months (since 1970) and days (from 0), as arrays of NumPy."""
    count = max((len(one) for one in (date, *more) if not isinstance(one, pa.Scalar)), default=1)
    columns = [as_values(one, count) for one in (date, *more)]
    missing = np.zeros(count, dtype=bool)
    for column in columns:
        missing |= column.is_null().to_numpy(zero_copy_only=False)
    days, *others = (pc.fill_null(column.cast(pa.int32()), 0).to_numpy().astype(np.int64) for column in columns)
    months = days.astype("M8[D]").astype("M8[M]")
    of_month = days - months.astype("M8[D]").astype(np.int64)
    found = change(months.astype(np.int64), of_month, *others)
    return _dates(pa.array(np.where(missing, 0, found), pa.int64(), mask=missing))


def _first_day(months: Any) -> Any:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def months_later(date: Any, count: Any) -> Any:
    """Dates so many months later; the last day of the month where it has no such day."""

    def moved(months: Any, day: Any, more: Any) -> Any:
        months = np.clip(months + more, -(12 * 4_000), 12 * 10_000)  # what is cut off is beyond the years that are left
        return np.minimum(_first_day(months) + day, _first_day(months + 1) - 1)

    return _by_months(date, moved, count)


def last_day(date: Any) -> Any:
    """The last days of the months of dates."""
    return _by_months(date, lambda months, day: _first_day(months + 1) - 1)


_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), 12),
    "quarter": 3,
    **dict.fromkeys(("month", "mon", "mm"), 1),
}
"""The numbers of months of the units that dates are truncated to."""


def can_truncate(node: e.Call) -> bool:
    """Whether trunc(date, unit) is on the list: the unit is a constant."""
    unit = node.arguments[1]
    return isinstance(unit, e.Literal) and str(unit.value).lower() in {*_UNITS, "week"}


def truncated(rows: Any, node: e.Call) -> Any:
    """The first days of the units that dates are in."""
    unit = node.arguments[1]
    assert isinstance(unit, e.Literal)
    date = rows.of(node.arguments[0])
    if str(unit.value).lower() == "week":
        return earlier(date, pc.day_of_week(date))
    size = _UNITS[str(unit.value).lower()]
    return _by_months(date, lambda months, day: _first_day(months - months % size))


def made(year: int, month: int, day: int) -> dt.date:
    """The date of a year, month and day; where there is none, it raises."""
    try:
        return dt.date(year, month, day)
    except ValueError as problem:
        raise LeftToEngine("no such date") from problem
