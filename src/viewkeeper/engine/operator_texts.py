"""Engine text for the parts of operators: aggregates, windows, orders, join conditions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, conditions_of, conjunction
from viewkeeper.algebra.extrema import extremum_text
from viewkeeper.algebra.types import Type
from viewkeeper.engine.connect_columns import parsed
from viewkeeper.engine.maps import hidden

ROWS_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def call_text(call: n.Call) -> str:
    """The engine text of an aggregate over plain rows."""
    if call.text is not None:
        return call.text.sql
    if call.argument is None:
        return "count(1)"
    argument = call.argument.label
    if call.function == "sum":
        if call.argument.type.is_integer:
            argument = f"CAST({argument} AS DECIMAL(20,0))"
        return _checked_sum(argument, call.argument.type, call.output.type)
    if call.function in ("min", "max"):
        return extremum_text(call.function, argument, call.argument.type)
    return f"{call.function}({argument})"


def _checked_sum(argument: str, kind: Type, result: Type) -> str:
    """A sum that raises if it has more digits than its type; Sail's own wraps around, or has a 39th digit."""
    if kind.name != "decimal" or kind.precision + _ROWS <= result.precision:
        return f"CAST(sum({argument}) AS {result.ddl})"
    most = f"CAST('1.2E{result.precision - result.scale}' AS DOUBLE)"
    digits = f"CAST(CAST(sum({argument}) AS STRING) AS {result.ddl})"
    return (  # Sail names both sums alike, without their casts: + 0D makes the names differ
        f"CASE WHEN abs(sum(CAST({argument} AS DOUBLE) + 0D)) > {most} "
        f"THEN CAST(raise_error('a sum has more than {result.precision} digits') AS {result.ddl}) ELSE {digits} END"
    )


_ROWS = 10
"""Digits that the number of rows may add to a sum."""


def whole_row(
    outputs: tuple[Attribute, ...], partition: tuple[Attribute, ...], order: tuple[n.Order, ...]
) -> list[n.Order]:
    """The rest of a row as order keys, so that ties are broken deterministically."""
    used = {*partition, *(key.attribute for key in order)}
    return [n.Order(a) for a in outputs if a not in used and not a.type.has_map()]


def same_text(equality: n.Equality) -> Expression:
    """left = right, or left <=> right."""
    return Expression((equality.left, " <=> " if equality.null_safe else " = ", equality.right), raises=False)


def condition_text(equalities: tuple[n.Equality, ...], conditions: tuple[Expression, ...], engine: str) -> str:
    """The condition of a join."""
    texts = [same_text(equality).sql for equality in equalities]
    if conditions or not texts:
        texts.append(in_turn(conditions, engine))
    return " AND ".join(f"({one})" for one in texts) if len(texts) > 1 else texts[0]


def in_turn(conditions: Iterable[Expression], engine: str) -> str:
    """The conjunction of conditions. A fallible one is tested only for rows that pass those before it.

    Sail evaluates all parts of an AND. So there it is a CASE that returns numbers, which Sail does not turn into AND.
    """
    apart = tuple(part for condition in conditions for part in conditions_of(condition))
    first = next((i for i, part in enumerate(apart) if i and part.raises), None)
    if engine != "sail" or first is None:
        return conjunction(apart).sql
    tests = [conjunction(apart[:first]), *apart[first:]]
    failed = " ".join(f"WHEN NOT coalesce({test.sql}, false) THEN 0" for test in tests[:-1])
    return f"CASE {failed} ELSE CAST({tests[-1].sql} AS INT) END = 1"


def window_text(partition: tuple[Attribute, ...], order: list[n.Order], frame: str) -> str:
    """The text in the parentheses after OVER."""
    parts = []
    if partition:
        parts.append("PARTITION BY " + ", ".join(_comparable(a) for a in partition))
    if order:
        parts.append("ORDER BY " + ", ".join(_order_text(key) for key in order))
    if frame:
        parts.append(frame)
    return " ".join(parts)


def _order_text(key: n.Order) -> str:
    nulls = "NULLS FIRST" if key.nulls_first else "NULLS LAST"
    return f"{_comparable(key.attribute)} {'DESC' if key.descending else 'ASC'} {nulls}"


def _comparable(attribute: Attribute) -> str:
    """An order or partition key; Sail distinguishes -0.0 from 0.0 there."""
    label = attribute.label
    if not attribute.type.is_float:
        return label
    return f"CASE WHEN {label} = 0 THEN CAST(0 AS {attribute.type.ddl}) ELSE {label} END"


def sort_column(key: n.Order) -> Any:
    """A sort key as a column."""
    column = parsed(_comparable(key.attribute))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def forgetful(attribute: Attribute, condition: str) -> str:
    """A grouping column behind a condition that always holds.

    Sail believes that grouping columns are a key even after an explode has repeated their rows, and then drops rows of
    a join whose other columns are not used. It does not believe that of computed columns.
    """
    return f"{hidden(attribute.label, attribute.type, condition)} AS {attribute.label}"
