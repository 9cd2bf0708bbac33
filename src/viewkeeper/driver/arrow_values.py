"""Scalar expressions over Arrow: on the driver, with the results that an engine has.

Apache Spark's ANSI mode is the reference. What is here equals Apache Spark and Sail on random and nasty values, which
`tests/driver/test_values.py` shows form by form. `why_not` names what is not on the list: the engine computes it. So it
does where a row would raise: the driver stops with `LeftToEngine`, and the error is the engine's own.
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.expressions import BOOLEAN, VOID, Expression
from viewkeeper.algebra.function_types import result_type
from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.driver.arrow_functions import FUNCTIONS
from viewkeeper.driver.cast_texts import read, written
from viewkeeper.driver.numbers import (
    LeftToEngine,
    as_values,
    decimal_operation,
    decimal_quotient,
    divided,
    float_operation,
    integer_operation,
    remainder,
    rescaled,
    with_sign,
)

_PLAIN = frozenset(
    (*INTEGERS, "float", "double", "decimal", "string", "boolean", "date", "timestamp", "timestamp_ntz", "binary")
)
_ORDERED = _PLAIN - {"boolean", "binary"}


def evaluate(expression: Expression, table: pa.Table) -> pa.Array:
    """The values of an expression for the rows of a table whose columns are named by labels."""
    return as_values(_Rows(table).of(expression), table.num_rows)


@functools.lru_cache(maxsize=20_000)
def why_not(expression: Expression) -> str | None:
    """What keeps an expression from the driver; None if nothing does."""
    quotient = _average(expression)
    for child in quotient.children if quotient is not None else expression.children:
        found = why_not(child)
        if found is not None:
            return found
    check = _CHECKS.get(type(expression))
    if quotient is not None:
        return None
    if check is None or (isinstance(expression, e.Call) and expression.name not in FUNCTIONS):
        return f"{_shown(expression)} is left to the engine"
    return None if check(expression) else f"{_shown(expression)} of these types is left to the engine"


def _average(expression: Expression) -> e.Arithmetic | None:
    """The quotient inside a cast, where it is that of a sum and a count, for an average of decimals.

    It has no type: engines give it different numbers of digits, but at least so many more than the cast that the
    rounded result is the same (see `sql/recipes.py`), which is that of the exact quotient.
    """
    if not isinstance(expression, e.Cast) or not isinstance(expression.child, e.Arithmetic) or expression.tries:
        return None
    made = expression.child
    kinds = [kind_of(part) for part in made.children]
    if made.operator != "/" or made.type is not None or expression.type.name != "decimal":
        return None
    total, count = kinds
    if total is None or count is None or not total.name == count.name == "decimal" or count.scale:
        return None
    return made if total.scale >= expression.type.scale + EXTRA_DIGITS else None


EXTRA_DIGITS = 5
"""Digits that the sum in an average has more than the average, so that no engine rounds it differently."""


def _shown(expression: Expression) -> str:
    match expression:
        case e.Call():
            return f"{expression.name}()"
        case e.Arithmetic() | e.Comparison():
            return f"'{expression.operator}'"
        case e.Cast():
            return f"CAST({expression.child.type or '...'} AS {expression.type})"
        case _:
            text = str(expression)
            return text if len(text) <= 40 else f"{text[:37]}..."


def kind_of(expression: Expression) -> Type | None:
    """The type of an expression, that of a function on the list included: definitions may be older than its type."""
    if expression.type is None and isinstance(expression, e.Call):
        return result_type(expression.name, [kind_of(argument) for argument in expression.arguments])
    return expression.type


class _Rows:
    """The rows that expressions are evaluated for. A value is an array, or a scalar where it is the same for all."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.count = table.num_rows

    def of(self, node: Expression) -> Any:
        """The values of an expression."""
        return _FORMS[type(node)](self, node)

    def kind(self, node: Expression) -> Type:
        """The type of an expression, which is known if it is on the list."""
        found = kind_of(node)
        assert found is not None
        return found

    def where(self, mask: Any, node: Expression) -> Any:
        """The values of an expression for some rows, and NULL for the others: only what is evaluated can raise."""
        kind = kind_of(node)
        assert kind is not None
        there = int(pc.sum(mask).as_py() or 0)
        if there == self.count:
            return self.of(node)
        empty = pa.nulls(self.count, _arrow(kind))
        if not there:
            return empty
        found = as_values(_Rows(self.table.filter(mask)).of(node), there)
        return pc.replace_with_mask(empty, mask, found.cast(empty.type))

    def if_reached(self, mask: Any, node: Expression) -> Any:
        """The values of an expression for some rows; those for other rows do not matter."""
        return self.where(mask, node) if node.raises else self.of(node)

    def all(self) -> Any:
        """A mask of all rows."""
        return pa.array(np.ones(self.count, dtype=bool))

    # leaves ----------------------------------------------------------------------------------------

    def column(self, node: e.Column) -> Any:
        found = self.table.column(node.of.label)
        if found.num_chunks == 1:
            return found.chunk(0)
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)

    def literal(self, node: e.Literal) -> Any:
        return constant(node)

    # conditions ------------------------------------------------------------------------------------

    def comparison(self, node: e.Comparison) -> Any:
        return self._compared(node.operator, node.left, node.right)

    def _compared(self, operator: str, left: Expression, right: Expression) -> Any:
        one, other = self.of(left), self.of(right)
        if pa.types.is_null(one.type) or pa.types.is_null(other.type):
            if operator == "<=>":
                return pc.and_(pc.is_null(one), pc.is_null(other))
            return pa.scalar(None, pa.bool_())
        one, other = _alike(one, other, kind_of(left), kind_of(right))
        if operator == "<=>":
            both = pc.and_(pc.is_null(one), pc.is_null(other))
            return pc.or_(pc.fill_null(_equal(one, other), False), both)
        match operator:
            case "=":
                return _equal(one, other)
            case "<>":
                return pc.invert(_equal(one, other))
            case "<":
                return _less(one, other)
            case ">":
                return _less(other, one)
            case "<=":
                return pc.invert(_less(other, one))
            case _:
                return pc.invert(_less(one, other))

    def both(self, node: e.And) -> Any:
        found: Any = pa.scalar(True)
        for index, condition in enumerate(node.conditions):
            reached = as_values(pc.fill_null(found, True), self.count)
            one = self.if_reached(reached, condition) if index else self.of(condition)
            found = pc.and_kleene(found, one)
        return found

    def either(self, node: e.Or) -> Any:
        found: Any = pa.scalar(False)
        for index, condition in enumerate(node.conditions):
            reached = as_values(pc.invert(pc.fill_null(found, False)), self.count)
            one = self.if_reached(reached, condition) if index else self.of(condition)
            found = pc.or_kleene(found, one)
        return found

    def opposite(self, node: e.Not) -> Any:
        return pc.invert(self.of(node.child))

    def is_null(self, node: e.IsNull) -> Any:
        found = self.of(node.child)
        return pc.is_valid(found) if node.negated else pc.is_null(found)

    def among(self, node: e.In) -> Any:
        found: Any = pa.scalar(False)
        for option in node.options:
            found = pc.or_kleene(found, self._compared("=", node.child, option))
        return found

    def between(self, node: e.Between) -> Any:
        low = self._compared(">=", node.child, node.low)
        return pc.and_kleene(low, self._compared("<=", node.child, node.high))

    # values ----------------------------------------------------------------------------------------

    def arithmetic(self, node: e.Arithmetic) -> Any:
        left, right = self.of(node.left), self.of(node.right)
        kind, given = node.type, kind_of(node.left)
        assert kind is not None
        assert given is not None
        if kind.is_float:
            return divided(left, right) if node.operator == "/" else float_operation(node.operator, left, right)
        if kind.is_integer:
            left, right = (value.cast(kind.arrow) for value in (left, right))
            if node.operator == "%":
                return remainder(left, right)
            return divided(left, right) if node.operator == "div" else integer_operation(node.operator, left, right)
        if node.operator == "/":
            return decimal_quotient(as_values(left, self.count), as_values(right, self.count), kind)
        return decimal_operation(node.operator, left, right, kind)

    def negative(self, node: e.Negative) -> Any:
        return with_sign(pc.negate_checked, self.of(node.child))

    def cast(self, node: e.Cast) -> Any:
        average = _average(node)
        if average is not None:
            total, count = (as_values(self.of(part), self.count) for part in average.children)
            return decimal_quotient(total, count, node.type)
        found, has = self.of(node.child), kind_of(node.child)
        assert has is not None
        return cast_values(found, has, node.type)

    def case(self, node: e.Case) -> Any:
        kind = kind_of(node)
        assert kind is not None
        found: Any = pa.scalar(None, _arrow(kind))
        left = self.all()
        for index, (test, value) in enumerate(node.branches):
            met = as_values(self.if_reached(left, test) if index else self.of(test), self.count)
            chosen = pc.and_(left, pc.fill_null(met, False))
            found = pc.if_else(chosen, self._typed(self.if_reached(chosen, value), kind), found)
            left = pc.and_(left, pc.invert(chosen))
        if node.default is not None:
            found = pc.if_else(left, self._typed(self.if_reached(left, node.default), kind), found)
        return found

    def _typed(self, found: Any, kind: Type) -> Any:
        return pa.scalar(None, _arrow(kind)) if pa.types.is_null(found.type) else found

    def call(self, node: e.Call) -> Any:
        return FUNCTIONS[node.name].compute(self, node)


def constant(node: e.Literal) -> Any:
    """A literal as a scalar."""
    kind, value = node.type, node.value
    if kind == VOID:
        return pa.scalar(None, pa.null())
    if value is None:
        return pa.scalar(None, kind.arrow)
    if kind.name == "decimal":
        return pa.scalar(decimal.Decimal(str(value)), kind.arrow)
    if kind.is_float:
        return pa.scalar(float(value), pa.float64()).cast(kind.arrow)
    if kind.name == "date":
        return pa.scalar(str(value)).cast(kind.arrow)
    return pa.scalar(value, kind.arrow)


def _arrow(kind: Type) -> pa.DataType:
    return pa.null() if kind == VOID else kind.arrow


# comparing ----------------------------------------------------------------------------------------


def _alike(one: Any, other: Any, left: Type | None, right: Type | None) -> tuple[Any, Any]:
    """Two values in one type."""
    assert left is not None
    assert right is not None
    if left.name == "decimal" or right.name == "decimal":
        scale = max(left.scale, right.scale)
        return rescaled(one, scale), rescaled(other, scale)
    if one.type != other.type:
        return one.cast(pa.int64()), other.cast(pa.int64())
    return one, other


def _equal(one: Any, other: Any) -> Any:
    found = pc.equal(one, other)
    if pa.types.is_floating(one.type):  # NaN equals NaN
        return pc.or_(found, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    return found


def _less(one: Any, other: Any) -> Any:
    found = pc.less(one, other)
    if pa.types.is_floating(one.type):  # NaN is greater than every number
        return pc.or_(found, pc.and_(pc.invert(pc.is_nan(one)), pc.is_nan(other)))
    return found


# casts --------------------------------------------------------------------------------------------


def _is_castable(has: Type | None, wanted: Type) -> bool:
    """Whether a cast is on the list."""
    if has is None:
        return False
    if has == VOID or has.ddl == wanted.ddl:
        return has == VOID or has.name in _PLAIN
    numbers = has.is_integer or has.name == "decimal"
    if wanted.is_integer or wanted.name == "decimal":
        return numbers or has.name == "string" or (has.name == "boolean" and wanted.is_integer)
    if wanted.is_float:
        return has.is_integer or has.is_float or (has.name in ("decimal", "string") and wanted.name == "double")
    if wanted.name == "date":
        return has.name in ("string", "timestamp_ntz")
    if wanted.name == "timestamp_ntz":
        return has.name == "date"
    return wanted.name == "string" and (numbers or has.name in ("boolean", "date"))


def cast_values(found: Any, has: Type, wanted: Type) -> Any:
    """Values in another type. Digits are rounded half up, as Apache Spark does; a value that does not fit raises."""
    if has == VOID:
        return pa.scalar(None, wanted.arrow)
    if has.ddl == wanted.ddl:
        return found
    if has.name == "string":
        return read(found, wanted)
    if wanted.name == "string" and has.name in ("decimal", "date"):
        return written(found)
    try:
        if {has.name, wanted.name} == {"date", "timestamp_ntz"}:
            return found.cast(wanted.arrow, safe=False)
        if wanted.name == "decimal":
            return rescaled(found, wanted.scale, wanted.precision)
        if has.name == "decimal" and wanted.is_integer:
            whole = pc.trunc(found) if has.scale else found
            return rescaled(whole, 0).cast(pa.int64()).cast(wanted.arrow)
        if has.name == "decimal":
            return _nearest(found)
        return found.cast(wanted.arrow, safe=not wanted.is_float)
    except pa.ArrowInvalid as problem:
        raise LeftToEngine(str(problem)) from problem


def _nearest(found: Any) -> Any:
    """Decimals as the nearest doubles."""
    if isinstance(found, pa.Scalar):
        value = found.as_py()
        return pa.scalar(None if value is None else float(value), pa.float64())
    return pa.array([None if value is None else float(value) for value in found.to_pylist()], pa.float64())


# what is on the list ------------------------------------------------------------------------------


def _comparable(node: Any, *parts: Expression) -> bool:
    kinds = [kind_of(part) for part in parts]
    known = [kind for kind in kinds if kind is not None and kind != VOID]
    if None in kinds or any(kind.name not in _PLAIN for kind in known):
        return False
    if len({kind.ddl for kind in known}) <= 1:
        return True
    return all(kind.is_integer for kind in known) or all(kind.is_integer or kind.name == "decimal" for kind in known)


def _is_ordered(node: Expression) -> bool:
    kind = kind_of(node)
    return kind is not None and (kind == VOID or kind.name in _ORDERED)


def _can_compare(node: e.Comparison) -> bool:
    ordered = _is_ordered(node.left) and _is_ordered(node.right)
    return _comparable(node, node.left, node.right) and (node.is_equation or node.operator == "<>" or ordered)


def _can_compute(node: e.Arithmetic) -> bool:
    left, right, kind = kind_of(node.left), kind_of(node.right), node.type
    if left is None or right is None or kind is None:
        return False
    if kind.is_float:
        return left.ddl == right.ddl == kind.ddl and node.operator in "+-*/"
    if kind.is_integer:
        return left.is_integer and right.is_integer
    return kind.name == left.name == right.name == "decimal" and node.operator in "+-*/"


def _are_conditions(parts: Iterable[Expression]) -> bool:
    return all(kind_of(part) == BOOLEAN for part in parts)


def _can_choose(node: e.Case) -> bool:
    kind = kind_of(node)
    if not _are_conditions(test for test, _ in node.branches):
        return False
    return kind is not None and kind.name in _PLAIN and all(kind_of(value) is not None for value in node.values)


def _can_call(node: e.Call) -> bool:
    found = FUNCTIONS.get(node.name)
    kind = result_type(node.name, [kind_of(argument) for argument in node.arguments])
    return found is not None and kind is not None and not node.distinct and node.where is None and found.takes(node)


def _is_number(node: Expression) -> bool:
    kind = kind_of(node)
    return kind is not None and (kind.is_integer or kind.is_float or kind.name == "decimal")


_LITERALS = _PLAIN - {"timestamp", "timestamp_ntz", "binary"}

_CHECKS: dict[type[Expression], Callable[[Any], bool]] = {
    e.Column: lambda node: node.of.type.name in _PLAIN,
    e.Literal: lambda node: node.type == VOID or node.type.name in _LITERALS,
    e.Comparison: _can_compare,
    e.And: lambda node: _are_conditions(node.conditions),
    e.Or: lambda node: _are_conditions(node.conditions),
    e.Not: lambda node: _are_conditions(node.children),
    e.IsNull: lambda node: True,
    e.In: lambda node: (
        _comparable(node, *node.children)
        and not any(kind.is_float for kind in map(kind_of, node.children) if kind is not None)
    ),
    e.Between: lambda node: _comparable(node, *node.children) and all(map(_is_ordered, node.children)),
    e.Arithmetic: _can_compute,
    e.Negative: lambda node: _is_number(node.child),
    e.Cast: lambda node: _is_castable(kind_of(node.child), node.type),
    e.Case: _can_choose,
    e.Call: _can_call,
}

_FORMS: dict[type[Expression], Callable[[_Rows, Any], Any]] = {
    e.Column: _Rows.column,
    e.Literal: _Rows.literal,
    e.Comparison: _Rows.comparison,
    e.And: _Rows.both,
    e.Or: _Rows.either,
    e.Not: _Rows.opposite,
    e.IsNull: _Rows.is_null,
    e.In: _Rows.among,
    e.Between: _Rows.between,
    e.Arithmetic: _Rows.arithmetic,
    e.Negative: _Rows.negative,
    e.Cast: _Rows.cast,
    e.Case: _Rows.case,
    e.Call: _Rows.call,
}
