"""Expressions for the parts of operators: aggregates, windows, orders, join conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    BIGINT,
    DOUBLE,
    FALSE,
    INT,
    STRING,
    Attribute,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Not,
    Over,
    call,
    case,
    cast,
    coalesce,
    column,
    comparison,
    conditions_of,
    conjunction,
    integer,
    plain,
    same,
    string,
)
from viewkeeper.algebra.extrema import extremum
from viewkeeper.algebra.sail_forms import sail_form
from viewkeeper.algebra.types import Type
from viewkeeper.engine.connect_columns import Item, parsed
from viewkeeper.engine.maps import hidden

ROWS_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"

ROW_NUMBER = Call("row_number", fallible=False)

NEVER_NULL = ("coalesce", "ifnull", "nvl")


def meant(expression: Expression, engine: str) -> Expression:
    """An expression in the form that gives Apache Spark's result on an engine."""
    return sail_form(expression) if engine == "sail" else expression


def aggregate(made: n.Call, engine: str) -> Expression:
    """An aggregate over plain rows."""
    if made.text is not None:
        return meant(made.text, engine)
    if made.argument is None:
        return call("count", integer(1))
    kind = made.argument.type
    if made.function == "sum":
        wide = cast(made.argument, Type("decimal", 20, 0)) if kind.is_integer else column(made.argument)
        return _checked_sum(wide, kind, made.output.type)
    if made.function in ("min", "max"):
        return extremum(made.function, column(made.argument), kind)
    return call(made.function, made.argument)


def _checked_sum(argument: Expression, kind: Type, result: Type) -> Expression:
    """A sum that raises if it has more digits than its type; Sail's own wraps around, or has a 39th digit."""
    total = call("sum", argument)
    if kind.name != "decimal" or kind.precision + _ROWS <= result.precision:
        return cast(total, result)
    most = cast(string(f"1.2E{result.precision - result.scale}"), DOUBLE)
    # Sail names both sums alike, without their casts: + 0D makes the names differ
    about = call("abs", call("sum", plain("+", cast(argument, DOUBLE), Literal("0", DOUBLE))))
    raised = cast(call("raise_error", string(f"a sum has more than {result.precision} digits")), result)
    return case((comparison(">", about, most), raised), default=cast(cast(total, STRING), result))


_ROWS = 10
"""Digits that the number of rows may add to a sum."""


def whole_row(
    outputs: tuple[Attribute, ...], partition: tuple[Attribute, ...], order: tuple[n.Order, ...]
) -> list[n.Order]:
    """The rest of a row as order keys, so that ties are broken deterministically."""
    used = {*partition, *(key.attribute for key in order)}
    return [n.Order(a) for a in outputs if a not in used and not a.type.has_map()]


def equality(pair: n.Equality) -> Expression:
    """left = right, or left <=> right."""
    return same(pair.left, pair.right, null_safe=pair.null_safe)


def join_condition(equalities: Sequence[n.Equality], conditions: Iterable[Expression], engine: str) -> Expression:
    """The condition of a join."""
    return conjunction((*map(equality, equalities), in_turn(conditions, engine)))


def in_turn(conditions: Iterable[Expression], engine: str) -> Expression:
    """The conjunction of conditions. A fallible one is tested only for rows that pass those before it.

    Sail evaluates all parts of an AND. So there it is a CASE that returns numbers, which Sail does not turn into AND.
    """
    apart = tuple(part for condition in conditions for part in conditions_of(condition))
    first = next((i for i, part in enumerate(apart) if i and part.raises), None)
    if engine != "sail" or first is None:
        return meant(conjunction(apart), engine)
    tests = [sail_form(conjunction(apart[:first])), *map(sail_form, apart[first:])]
    failed = tuple((Not(coalesce(test, FALSE)), integer(0)) for test in tests[:-1])
    return comparison("=", Case(failed, Cast(tests[-1], INT)), integer(1))


def windowed(
    function: Expression, partition: Sequence[Attribute], order: Sequence[n.Order], frame: str, engine: str
) -> Expression:
    """A window function with what stands after OVER."""
    keys = tuple((_comparable(key.attribute), key.descending, key.nulls_first) for key in order)
    return Over(meant(function, engine), tuple(_comparable(a) for a in partition), keys, frame)


def _comparable(attribute: Attribute) -> Expression:
    """An order or partition key; Sail distinguishes -0.0 from 0.0 there."""
    value = column(attribute)
    if not attribute.type.is_float:
        return value
    return case((comparison("=", value, integer(0)), cast(integer(0), attribute.type)), default=value)


def sort_column(key: n.Order) -> Any:
    """A sort key as a column."""
    found = parsed(_comparable(key.attribute))
    if key.descending:
        return found.desc_nulls_first() if key.nulls_first else found.desc_nulls_last()
    return found.asc_nulls_first() if key.nulls_first else found.asc_nulls_last()


def forgetful(attribute: Attribute, condition: Expression) -> Item:
    """A grouping column behind a condition that always holds.

    Sail believes that grouping columns are a key even after an explode has repeated their rows, and then drops rows of
    a join whose other columns are not used. It does not believe that of computed columns.
    """
    return hidden(Column(attribute), attribute.type, condition), attribute.label


def copies(count: Expression) -> Expression:
    """A row of its own for each copy."""
    return call("explode", call("array_repeat", integer(1), Cast(count, INT)))


ONE, NONE = Literal(1, BIGINT), Literal(0, BIGINT)
