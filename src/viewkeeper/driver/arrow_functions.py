"""Functions that the driver computes as the engines do. Names and types decide; a few look at the values too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import expressions as e
from viewkeeper.driver import date_functions as dates
from viewkeeper.driver import string_functions as strings
from viewkeeper.driver.numbers import (
    LeftToEngine,
    as_values,
    positive_remainder,
    remainder,
    signs,
    whole_numbers,
    with_sign,
)


@dataclass(frozen=True)
class Function:
    """One function: how it is computed from the rows and the call, and which calls are not computed.

    The types of its arguments are those in `algebra/function_types.py`.
    """

    compute: Callable[[Any, e.Call], Any]
    takes: Callable[[e.Call], bool] = lambda node: True


def _of(function: Callable[..., Any]) -> Function:
    """A function of arrays."""
    return Function(lambda rows, node: function(*(rows.of(argument) for argument in node.arguments)))


def _each(function: Callable[..., Any]) -> Function:
    """A function of single values that are not NULL; NULL where one is."""

    def compute(rows: Any, node: e.Call) -> Any:
        columns = [as_values(rows.of(argument), rows.count).to_pylist() for argument in node.arguments]
        found = [None if None in values else function(*values) for values in zip(*columns, strict=True)]
        return pa.array(found, rows.kind(node).arrow)

    return Function(compute)


def _coalesced(rows: Any, node: e.Call) -> Any:
    found = as_values(rows.of(node.arguments[0]), rows.count)
    for argument in node.arguments[1:]:
        more = rows.if_reached(pc.is_null(found), argument)
        if pa.types.is_null(found.type):
            found = as_values(more, rows.count)
        elif not pa.types.is_null(more.type):
            found = pc.coalesce(found, more)
    return found


def _extreme(function: Callable[..., Any]) -> Function:
    def compute(rows: Any, node: e.Call) -> Any:
        values = [rows.of(argument) for argument in node.arguments]
        return function(*[value for value in values if not pa.types.is_null(value.type)], skip_nulls=True)

    return Function(compute)


def _ascii(function: Callable[[Any], Any]) -> Function:
    """A function of strings in which engines agree for ASCII only."""
    return Function(lambda rows, node: function(_only_ascii(rows, node.arguments[0])))


def _only_ascii(rows: Any, node: e.Expression) -> Any:
    found = as_values(rows.of(node), rows.count)
    if not pc.all(pc.string_is_ascii(found), min_count=0).as_py():
        raise LeftToEngine("letters beyond ASCII")
    return found


def _joined(rows: Any, node: e.Call) -> Any:
    values = [rows.of(argument) for argument in node.arguments]
    return pc.binary_join_element_wise(*values, pa.scalar(""), null_handling="emit_null")


def _joined_by(rows: Any, node: e.Call) -> Any:
    columns = [as_values(rows.of(argument), rows.count).to_pylist() for argument in node.arguments]
    found = (
        None if separator is None else separator.join(value for value in values if value is not None)
        for separator, *values in zip(*columns, strict=True)
    )
    return pa.array(found, pa.string())


def _substring(rows: Any, node: e.Call) -> Any:
    """Engines have different results where a position or length is NULL."""
    for argument in node.arguments[1:]:
        if as_values(rows.of(argument), rows.count).null_count:
            raise LeftToEngine("a substring from NULL")
    return _each(strings.substring).compute(rows, node)


def _chosen(rows: Any, node: e.Call) -> Any:
    test, one, other = node.arguments
    return rows.case(e.Case(((test, one),), other))


def _by_null(rows: Any, node: e.Call) -> Any:
    value, one, other = node.arguments
    return rows.case(e.Case(((e.IsNull(value, negated=True), one),), other))


def _null_if(rows: Any, node: e.Call) -> Any:
    value, other = node.arguments
    return rows.case(e.Case(((e.Comparison("=", value, other), e.NULL),), value))


def _pattern_is_plain(node: e.Call) -> bool:
    pattern = node.arguments[1]
    return isinstance(pattern, e.Literal) and "\\" not in str(pattern.value)


def _like(rows: Any, node: e.Call) -> Any:
    pattern = node.arguments[1]
    assert isinstance(pattern, e.Literal)
    return pc.match_like(as_values(rows.of(node.arguments[0]), rows.count), pattern=str(pattern.value))


def _like_in_any_case(rows: Any, node: e.Call) -> Any:
    pattern = node.arguments[1]
    assert isinstance(pattern, e.Literal)
    return pc.match_like(pc.utf8_lower(_only_ascii(rows, node.arguments[0])), pattern=str(pattern.value).lower())


def _is_plain_and_ascii(node: e.Call) -> bool:
    pattern = node.arguments[1]
    return _pattern_is_plain(node) and isinstance(pattern, e.Literal) and str(pattern.value).isascii()


def _date_part(function: Callable[[Any], Any]) -> Function:
    return Function(lambda rows, node: function(rows.of(node.arguments[0])).cast(pa.int32()))


_CHOICE = Function(_coalesced)
_LENGTH = _of(lambda found: pc.utf8_length(found).cast(pa.int32()))
_UPPER, _LOWER = _ascii(pc.utf8_upper), _ascii(pc.utf8_lower)
_SUBSTRING, _CEILING = Function(_substring), _of(lambda found: whole_numbers(pc.ceil, found))
_SIGN = _of(signs)
_DAYS_BETWEEN = _of(dates.days_between)
_DATE_ADD = _of(dates.later)

FUNCTIONS: dict[str, Function] = {
    "coalesce": _CHOICE,
    "ifnull": _CHOICE,
    "nvl": _CHOICE,
    "nvl2": Function(_by_null),
    "nullif": Function(_null_if),
    "if": Function(_chosen),
    "isnull": _of(pc.is_null),
    "isnotnull": _of(pc.is_valid),
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
    # numbers
    "abs": _of(lambda found: with_sign(pc.abs_checked, found)),
    "floor": _of(lambda found: whole_numbers(pc.floor, found)),
    "ceil": _CEILING,
    "ceiling": _CEILING,
    "sign": _SIGN,
    "signum": _SIGN,
    "mod": _of(remainder),
    "pmod": _of(positive_remainder),
    # strings
    "upper": _UPPER,
    "ucase": _UPPER,
    "lower": _LOWER,
    "lcase": _LOWER,
    "length": _LENGTH,
    "len": _LENGTH,
    "char_length": _LENGTH,
    "character_length": _LENGTH,
    "octet_length": _of(lambda found: pc.binary_length(found).cast(pa.int32())),
    "concat": Function(_joined),
    "concat_ws": Function(_joined_by),
    "substring": _SUBSTRING,
    "substr": _SUBSTRING,
    "left": _each(strings.left),
    "right": _each(strings.right),
    "trim": _of(lambda found: pc.utf8_trim(found, characters=" ")),
    "btrim": _of(lambda found: pc.utf8_trim(found, characters=" ")),
    "ltrim": _of(lambda found: pc.utf8_ltrim(found, characters=" ")),
    "rtrim": _of(lambda found: pc.utf8_rtrim(found, characters=" ")),
    "lpad": _each(strings.padded_left),
    "rpad": _each(strings.padded_right),
    "repeat": _each(strings.repeated),
    "replace": _each(strings.replaced),
    "translate": _each(strings.translated),
    "reverse": _of(pc.utf8_reverse),
    "split_part": _each(strings.part),
    "instr": _each(lambda text, found: text.find(found) + 1),
    "locate": _each(lambda found, text: text.find(found) + 1),
    "startswith": _each(str.startswith),
    "endswith": _each(str.endswith),
    "contains": _each(str.__contains__),
    "like": Function(_like, _pattern_is_plain),
    "ilike": Function(_like_in_any_case, _is_plain_and_ascii),
    # dates
    "year": _date_part(pc.year),
    "quarter": _date_part(pc.quarter),
    "month": _date_part(pc.month),
    "day": _date_part(pc.day),
    "dayofmonth": _date_part(pc.day),
    "dayofyear": _date_part(pc.day_of_year),
    "dayofweek": _date_part(lambda found: pc.day_of_week(found, count_from_zero=False, week_start=7)),
    "weekday": _date_part(pc.day_of_week),
    "weekofyear": _date_part(pc.iso_week),
    "date_add": _DATE_ADD,
    "dateadd": _DATE_ADD,
    "date_sub": _of(dates.earlier),
    "datediff": _DAYS_BETWEEN,
    "date_diff": _DAYS_BETWEEN,
    "add_months": _of(dates.months_later),
    "last_day": _of(dates.last_day),
    "trunc": Function(dates.truncated, dates.can_truncate),
    "make_date": _each(dates.made),
    "to_date": _of(lambda found: found),
}
"""The functions by name."""
