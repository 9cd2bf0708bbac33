"""min and max of a column."""

from __future__ import annotations

from viewkeeper.algebra.expressions import Expression, Not, call, case, cast, coalesce, comparison, conjunction, integer
from viewkeeper.algebra.expressions import string as text
from viewkeeper.algebra.types import Type

_GREATEST = {"float": "3.4028234663852886E38", "double": "1.7976931348623157E308"}


def extremum(function: str, value: Expression, kind: Type) -> Expression:
    """min or max of a value, where NaN is greater than every number. Sail's group-by does not guarantee that.

    Sail also starts from the greatest finite number, and returns it for a group that holds only infinities.
    """
    if not kind.is_float:
        return call(function, value, kind=kind)
    sign = "" if function == "min" else "-"
    one, zero = integer(1), integer(0)
    start = cast(text(sign + _GREATEST[kind.name]), kind)
    is_nan = call("isnan", value)
    found = call(function, case((Not(is_nan), value)), kind=kind)
    is_there = comparison("=", call("max", case((comparison("=", value, start), one), default=zero)), one)
    infinity = cast(text(f"{sign}Infinity"), kind)
    ends = conjunction((comparison("=", found, start), Not(is_there)))
    numbers = case((ends, infinity), default=found)
    some = case((comparison("=", call("max", case((is_nan, one), default=zero)), one), cast(text("NaN"), kind)))
    return coalesce(numbers, some) if function == "min" else coalesce(some, numbers)
