"""Expressions in the forms that make Sail compute what Apache Spark does.

Sail's integers wrap around, its decimal quotients are cut off after four digits more than the dividend has, its sums
of decimals do not notice a 39th digit, and NULL / 0 raises there. So integers are computed in a wider type and cast
back, which raises; a quotient is computed with one digit more than asked for and rounded; and a divisor is evaluated
only where the dividend is not NULL. Sail evaluates all parts of AND, OR and of a CASE of conditions, so fallible parts
are put into a CASE of numbers. In the result, Arithmetic has no type: it is Sail's own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.expressions import Expression
from viewkeeper.algebra.types import Type

MOST_DIGITS = 38
_WHOLE = Type("decimal", 20, 0)
_DIVISIONS = ("/", "%", "div")
_SUMS = ("+", "-")
_STRICT = (e.Column, e.Literal, e.Arithmetic, e.Negative)
_MOST_SUMS = 6
"""Longest chain of sums that is nested; longer ones are folded: Sail's planning time grows fast with nesting."""
_MORE_DIGITS = 4
"""How many more digits than its dividend a quotient has on Sail."""
_EXACT_DIGITS = 15
"""Decimals of so many digits become the nearest DOUBLE when Sail casts them."""


@lru_cache(maxsize=20_000)
def sail_form(expression: Expression) -> Expression:
    """An expression that gives Apache Spark's result on Sail."""
    if isinstance(expression, e.Arithmetic) and expression.type is not None:
        return _arithmetic(expression)
    children = expression.children
    made = tuple(sail_form(child) for child in children)
    node = expression
    if any(one is not other for one, other in zip(children, made, strict=True)):
        node = expression.with_children(made)
    match node:
        case e.And() | e.Or():
            return _in_order(node, [child.raises for child in children])
        case e.Case() if node.type == e.BOOLEAN and expression.raises:
            return _of_numbers(node)
        case e.Cast():
            return _cast(node, expression.children[0].type)
        case _:
            return node


def _cast(node: e.Cast, has: Type | None) -> Expression:
    """A cast. One of many digits to a float goes through their text, because Sail would not give the nearest."""
    child = node.child
    if has is not None and has.name == "decimal" and node.type.is_float and has.precision > _EXACT_DIGITS:
        child = e.Cast(child, e.STRING)
    return replace(node, child=child, implicit=False) if child is not node.child or node.implicit else node


# conditions -------------------------------------------------------------------------------------


def _in_order(node: e.And | e.Or, raises: list[bool]) -> Expression:
    """AND or OR of conditions, each evaluated only where earlier ones do not decide.

    A condition that is NULL does not decide, so where none decides, all of them are combined.
    """
    kind = type(node)
    first = next((i for i, one in enumerate(raises) if i and one), None)
    if first is None:
        return node
    before = node.conditions[:first]
    tests = [before[0] if len(before) == 1 else kind(before), *node.conditions[first:]]
    decided = [e.Not(test) if kind is e.And else test for test in tests[:-1]]
    branches = tuple((one, e.integer(0 if kind is e.And else 1)) for one in decided)
    rest = e.Cast(kind(tuple(tests)), e.INT)
    return e.Comparison("=", e.Case(branches, rest), e.integer(1))


def _of_numbers(node: e.Case) -> Expression:
    """A CASE of conditions that tests them in order. Sail would turn it into AND and OR and evaluate all of them."""
    branches = tuple((test, e.Cast(value, e.INT)) for test, value in node.branches)
    default = None if node.default is None else e.Cast(node.default, e.INT)
    return e.Comparison("=", e.Case(branches, default), e.integer(1))


# arithmetic -------------------------------------------------------------------------------------


def _arithmetic(node: e.Arithmetic) -> Expression:
    left, right, result = node.left.type, node.right.type, node.type
    if left is None or right is None or result is None:
        return e.Arithmetic(node.operator, sail_form(node.left), sail_form(node.right))
    if left.is_integer and result.is_integer and node.operator in _SUMS:
        terms = _terms(node, result)
        if len(terms) > _MOST_SUMS:
            return _folded(terms, result)
    one, other = sail_form(node.left), sail_form(node.right)
    if node.operator in _DIVISIONS and not _is_safe_divisor(node.left, node.right):
        other = e.Case(((_is_there(node.left, one), other),))
    if left.is_integer and result.is_integer:
        return _integers(node, one, other, result)
    if result.name == "decimal":
        one, other = _apart(one, node.left), _apart(other, node.right)
        if node.operator == "/":
            return _Quotient(one, other, left, right, result).rounded()
        return _decimals(node.operator, one, other, left, right, result)
    return e.Arithmetic(node.operator, one, other)


def _apart(form: Expression, meant: Expression) -> Expression:
    """An operand; one that is or may be computed inside a function call.

    Sail's planning time doubles with each cast inside a cast, and it puts what a subquery computes for a column in the
    place of the column.
    """
    return form if _literal(meant) is not None else e.Call("nullif", (form, e.NULL))


def _is_there(meant: Expression, form: Expression) -> Expression:
    """Whether a value is not NULL. Arithmetic is not, if its columns are not: so it is not computed a second time."""
    strict = (isinstance(part, _STRICT) or (isinstance(part, e.Cast) and not part.tries) for part in meant.walk())
    if all(strict) and e.NULL not in meant.walk():
        return e.conjunction(map(e.not_null, meant.attributes))
    return e.not_null(form)


def _is_safe_divisor(left: Expression, right: Expression) -> bool:
    """Whether NULL / 0 cannot occur: the divisor is a literal other than 0, or the dividend a literal."""
    divisor, dividend = _literal(right), _literal(left)
    return dividend is not None or (divisor is not None and bool(str(divisor).strip("-0.eE")))


def _literal(node: Expression) -> Any:
    while isinstance(node, e.Cast):
        node = node.child
    return node.value if isinstance(node, e.Literal) and node.type not in (e.STRING, e.BOOLEAN) else None


def _integers(node: e.Arithmetic, left: Expression, right: Expression, result: Type) -> Expression:
    left, right = _apart(left, node.left), _apart(right, node.right)
    if node.operator in ("%", "div"):
        return e.Arithmetic(node.operator, left, right)  # it raises by itself
    wide = _wide(result)
    return e.Cast(e.Arithmetic(node.operator, e.Cast(left, wide), e.Cast(right, wide)), result)


def _wide(kind: Type) -> Type:
    return _WHOLE if kind.name == "bigint" else e.BIGINT


def _terms(node: Expression, kind: Type) -> list[tuple[str, Expression]]:
    """The terms of a sum of integers of one type, each with its sign."""
    terms: list[tuple[str, Expression]] = []
    while isinstance(node, e.Arithmetic) and node.operator in _SUMS and node.type == kind:
        terms.append((node.operator, node.right))
        node = node.left
    return [("+", node), *reversed(terms)]


def _folded(terms: list[tuple[str, Expression]], kind: Type) -> Expression:
    """A long chain of sums as a fold; every partial sum is checked."""
    wide = _wide(kind)
    values = [e.Cast(sail_form(term), wide) for _, term in terms]
    signed = tuple(v if s == "+" else e.Negative(v) for (s, _), v in zip(terms, values, strict=True))
    total = e.Arithmetic("+", e.Variable("a"), e.Variable("x"))
    step = e.Lambda(("a", "x"), e.Cast(e.Cast(total, kind), wide))
    return e.Cast(e.Call("aggregate", (e.Call("array", signed), e.Cast(e.integer(0), wide), step)), kind)


def _decimals(operator: str, one: Expression, other: Expression, left: Type, right: Type, result: Type) -> Expression:
    made: Expression = e.Arithmetic(operator, one, other)
    exact = exact_scale(operator, left, right)
    if result.precision == MOST_DIGITS and result.scale == exact and operator != "%":
        made = _within(made, result)
    return e.Cast(made, result)


def _within(node: Expression, kind: Type) -> Expression:
    """A decimal that raises if it has more than 38 digits: Sail raises only for values beyond 128 bits.

    The value is computed once, as the variable of a lambda.
    """
    x = e.Variable("x")
    most = e.Cast(e.string(_greatest(kind)), kind)
    raised = e.Cast(e.Call("raise_error", (e.string("Overflow happened on: a result"),)), kind)
    outside = e.Or((e.Comparison(">", x, most), e.Comparison("<", x, e.Negative(most))))
    test = e.Lambda(("x",), e.Case(((outside, raised),), x))
    return e.Call("get", (e.Call("transform", (e.Call("array", (node,)), test)), e.integer(0)))


def _greatest(kind: Type) -> str:
    digits = "9" * kind.precision
    return f"{digits[: kind.precision - kind.scale]}.{digits[: kind.scale]}" if kind.scale else digits


def exact_scale(operator: str, left: Type, right: Type) -> int:
    """The digits after the point of a product, sum or remainder of decimals."""
    return left.scale + right.scale if operator == "*" else max(left.scale, right.scale)


def room(operator: str, left: Type, right: Type, result: Type) -> int:
    """How many digits before the point the result of a decimal operator can have on Sail; more raise."""
    if operator == "/":
        return _Quotient(e.NULL, e.NULL, left, right, result).room(more=0)
    return MOST_DIGITS - exact_scale(operator, left, right)


class _Quotient:
    """A quotient of decimals, rounded half up: by one extra digit, or by the remainder if there is no room for one."""

    def __init__(self, left: Expression, right: Expression, has: Type, by: Type, result: Type) -> None:
        self.left = left
        self.right = right
        self.has = has
        self.by = by
        self.result = result

    def room(self, more: int) -> int:
        """The digits before the point that are left with `more` extra digits."""
        return MOST_DIGITS - self._dividend_scale(more) - _MORE_DIGITS - self.by.scale

    def _dividend_scale(self, more: int) -> int:
        """The scale of a dividend whose quotient has the digits asked for, and some more."""
        return max(self.has.scale, self.result.scale + more - _MORE_DIGITS)

    def rounded(self) -> Expression:
        """The quotient in the type of the result."""
        fits = self.room(1) >= self.has.precision - self.has.scale
        if fits or self._dividend_scale(0) == self._dividend_scale(1):
            return e.Cast(self._cut_off(1), self.result)
        return self._by_remainder()

    def _cut_off(self, more: int) -> Expression:
        """Sail's own quotient, truncated, with `more` extra digits."""
        scale = self._dividend_scale(more)
        digits = min(MOST_DIGITS, self.has.precision - self.has.scale + scale)
        dividend = self.left if scale == self.has.scale else e.Cast(self.left, Type("decimal", digits, scale))
        return e.Arithmetic("/", dividend, self.right)

    def _by_remainder(self) -> Expression:
        """The quotient truncated, plus one unit if the remainder is at least half the divisor."""
        scale = self.result.scale
        unit = e.Cast(e.string(f"0.{'0' * (scale - 1)}1"), Type("decimal", scale, scale))
        quotient = e.Cast(self._cut_off(0), self.result)
        product = e.Arithmetic("*", quotient, self.right)
        wide = e.Cast(self.left, Type("decimal", MOST_DIGITS, scale + self.by.scale))
        rest = e.Call("abs", (e.Arithmetic("-", wide, product),))
        half = e.Arithmetic("*", rest, e.Cast(e.integer(2), Type("decimal", 1, 0)))
        whole = e.Call("abs", (e.Arithmetic("*", self.right, unit),))
        signs = [e.Comparison("<", side, e.integer(0)) for side in (self.left, self.right)]
        step = e.Case(((e.Comparison("=", signs[0], signs[1]), unit),), e.Negative(unit))
        more = e.Cast(e.Arithmetic("+", quotient, step), self.result)
        return e.Case(((e.Comparison(">=", half, whole), more),), quotient)
