"""Operators rewritten for Sail so that they give Apache Spark's results.

Sail's integers wrap around, its decimal quotients are cut off after four digits more than the dividend has, its sums
of decimals do not notice a 39th digit, and NULL / 0 raises there. So integers are computed in a wider type and cast
back, which raises; a quotient is computed with one digit more than asked for and rounded; and a divisor is evaluated
only where the dividend is not NULL.
"""

from __future__ import annotations

import re

from sqlglot import exp

from viewkeeper.algebra.types import Type
from viewkeeper.sql.coercion import MOST_DIGITS, Operation
from viewkeeper.sql.sail_rewrites import filled
from viewkeeper.sql.syntax import call, cast, grouped, joined, number

_BIGINT, _STRING, _INT = Type("bigint"), Type("string"), Type("int")
_TIMESTAMP = Type("timestamp")
_PARTS_OF_DAYS = re.compile(r"HOUR|MINUTE|SECOND", re.IGNORECASE)
_WHOLE = Type("decimal", 20, 0)
_DIVISIONS = (exp.Div, exp.Mod, exp.IntDiv)
_SUMS = (exp.Add, exp.Sub)
_MOST_SUMS = 6
"""Longest chain of sums that is nested; longer ones are folded: Sail's planning time grows fast with nesting."""
_CHAIN = "chain"
_MORE_DIGITS = 4
"""How many more digits than its dividend a quotient has on Sail."""
_EXACT_DIGITS = 15
"""Decimals of so many digits become the nearest DOUBLE when Sail casts them."""


def arithmetic(operator: type[exp.Expr], left: exp.Expr, right: exp.Expr, kinds: Operation) -> exp.Expr:
    """An arithmetic operator between operands that have the operation's types already."""
    if operator in _DIVISIONS and not _is_safe_divisor(left, right):
        right = exp.Case(ifs=[exp.If(this=_is_not_null(left), true=right)])
    if kinds.result.is_integer and kinds.left.is_integer:
        return _integers(operator, left, right, kinds)
    if kinds.result.name == "decimal":
        return _decimals(operator, _apart(left), _apart(right), kinds)
    return _binary(operator, left, right)


def _apart(operand: exp.Expr) -> exp.Expr:
    """An operand; a computed one inside a function call. Sail's planning time doubles with each cast inside a cast."""
    return call("nullif", operand, exp.Null()) if operand.find(exp.Binary) is not None else operand


def _binary(operator: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return operator(this=grouped(left), expression=grouped(right))


def _is_not_null(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=grouped(node.copy()), expression=exp.Null()))


def _is_safe_divisor(left: exp.Expr, right: exp.Expr) -> bool:
    """Whether NULL / 0 cannot occur: the divisor is a literal other than 0, or the dividend a literal."""
    for node, zero in ((right, False), (left, True)):
        while isinstance(node, (exp.Paren, exp.Cast)):
            node = node.this
        text = number(node)
        if text is not None and (zero or text.strip("-0.eE")):
            return True
    return False


def _integers(operator: type[exp.Expr], left: exp.Expr, right: exp.Expr, kinds: Operation) -> exp.Expr:
    if operator in (exp.Mod, exp.IntDiv):
        return _binary(operator, _apart(left), _apart(right))  # it raises by itself
    wide = _WHOLE if kinds.result.name == "bigint" else _BIGINT
    terms = [*_terms(left, kinds.result, wide), _term(operator, right, wide)] if operator in _SUMS else []
    if len(terms) > _MOST_SUMS:
        made: exp.Expr = _folded(terms, kinds.result, wide)
    else:
        made = cast(_binary(operator, cast(_apart(left), wide), cast(_apart(right), wide)), kinds.result)
    made.meta[_CHAIN] = (kinds.result, terms)
    return made


def _terms(node: exp.Expr, kind: Type, wide: Type) -> list[exp.Expr]:
    """The terms of a sum of integers of one type; the node itself, if it is no such sum."""
    inside = node
    while isinstance(inside, exp.Paren):
        inside = inside.this
    found, terms = inside.meta.get(_CHAIN, (None, ()))
    return list(terms) if found == kind and terms else [cast(node, wide)]


def _term(operator: type[exp.Expr], node: exp.Expr, wide: Type) -> exp.Expr:
    term = cast(node, wide)
    return term if operator is exp.Add else exp.Neg(this=grouped(term))


def _folded(terms: list[exp.Expr], kind: Type, wide: Type) -> exp.Expr:
    """A long chain of sums as a fold; every partial sum is checked."""
    step = f"(a, x) -> CAST(CAST(a + x AS {kind.ddl}) AS {wide.ddl})"
    terms_as_array = call("array", *(term.copy() for term in terms))
    return cast(filled(f"aggregate({{0}}, CAST(0 AS {wide.ddl}), {step})", [terms_as_array]), kind)


def _decimals(operator: type[exp.Expr], left: exp.Expr, right: exp.Expr, kinds: Operation) -> exp.Expr:
    if operator is exp.Div:
        return _quotient(left, right, kinds)
    made = _binary(operator, left, right)
    exact = _exact_scale(operator, kinds)
    if kinds.result.precision == MOST_DIGITS and kinds.result.scale == exact and operator is not exp.Mod:
        made = _within(made, kinds.result)
    return cast(made, kinds.result)


def _within(node: exp.Expr, kind: Type) -> exp.Expr:
    """A decimal that raises if it has more than 38 digits: Sail raises only for values beyond 128 bits.

    The value is computed once, as the variable of a lambda.
    """
    most = f"CAST('{_greatest(kind)}' AS {kind.ddl})"
    raised = f"CAST(raise_error('Overflow happened on: a result') AS {kind.ddl})"
    test = f"x -> CASE WHEN x > {most} OR x < -{most} THEN {raised} ELSE x END"
    return filled(f"get(transform(array({{0}}), {test}), 0)", [node])


def _greatest(kind: Type) -> str:
    digits = "9" * kind.precision
    return f"{digits[: kind.precision - kind.scale]}.{digits[: kind.scale]}" if kind.scale else digits


def _exact_scale(operator: type[exp.Expr], kinds: Operation) -> int:
    return kinds.left.scale + kinds.right.scale if operator is exp.Mul else max(kinds.left.scale, kinds.right.scale)


def room(operator: type[exp.Expr], kinds: Operation) -> int:
    """How many digits before the point the result of a decimal operator can have; more raise."""
    if operator is exp.Div:
        return _room_of_quotient(kinds, more=0)
    return MOST_DIGITS - _exact_scale(operator, kinds)


def _room_of_quotient(kinds: Operation, more: int) -> int:
    return MOST_DIGITS - _dividend_scale(kinds, more) - _MORE_DIGITS - kinds.right.scale


def _dividend_scale(kinds: Operation, more: int) -> int:
    """The scale of a dividend whose quotient has the digits asked for, and some more."""
    return max(kinds.left.scale, kinds.result.scale + more - _MORE_DIGITS)


def _quotient(left: exp.Expr, right: exp.Expr, kinds: Operation) -> exp.Expr:
    """A quotient, rounded half up: by one extra digit, or by the remainder if there is no room for one."""
    if _room_of_quotient(kinds, 1) >= kinds.left.precision - kinds.left.scale:
        return cast(_cut_off(left, right, kinds, 1), kinds.result)
    if _dividend_scale(kinds, 0) == _dividend_scale(kinds, 1):
        return cast(_cut_off(left, right, kinds, 1), kinds.result)
    return _by_remainder(left, right, kinds)


def _cut_off(left: exp.Expr, right: exp.Expr, kinds: Operation, more: int) -> exp.Expr:
    """Sail's own quotient, truncated, with `more` extra digits."""
    scale = _dividend_scale(kinds, more)
    digits = min(MOST_DIGITS, kinds.left.precision - kinds.left.scale + scale)
    dividend = left if scale == kinds.left.scale else cast(left, Type("decimal", digits, scale))
    return _binary(exp.Div, dividend, right)


def _by_remainder(left: exp.Expr, right: exp.Expr, kinds: Operation) -> exp.Expr:
    """The quotient truncated, plus one unit if the remainder is at least half the divisor."""
    scale = kinds.result.scale
    unit = cast(exp.Literal.string(f"0.{'0' * (scale - 1)}1"), Type("decimal", scale, scale))
    quotient = cast(_cut_off(left, right, kinds, 0), kinds.result)
    product = _binary(exp.Mul, quotient.copy(), right.copy())
    rest = _binary(exp.Sub, cast(left.copy(), Type("decimal", MOST_DIGITS, scale + kinds.right.scale)), product)
    half = _binary(exp.Mul, call("abs", rest), cast(exp.Literal.number(2), Type("decimal", 1, 0)))
    whole = call("abs", _binary(exp.Mul, right.copy(), unit.copy()))
    zero = exp.Literal.number(0)
    signs = [exp.Paren(this=exp.LT(this=grouped(side.copy()), expression=zero.copy())) for side in (left, right)]
    step = exp.Case(
        ifs=[exp.If(this=exp.EQ(this=signs[0], expression=signs[1]), true=unit.copy())], default=exp.Neg(this=unit)
    )
    more = cast(_binary(exp.Add, quotient.copy(), step), kinds.result)
    return exp.Case(ifs=[exp.If(this=exp.GTE(this=grouped(half), expression=whole), true=more)], default=quotient)


def times(node: exp.Expr, left: exp.Expr, right: exp.Expr, *kinds: str) -> exp.Expr | None:
    """DATE - DATE as an interval, as TIMESTAMP - TIMESTAMP; Sail would count days. None for anything else."""
    if not isinstance(node, exp.Sub) or kinds != ("date", "date"):
        return None
    return _binary(exp.Sub, cast(left, _TIMESTAMP), cast(right, _TIMESTAMP))


def moment(date: exp.Expr, interval: exp.Interval) -> exp.Expr:
    """A date to add an interval to, as a TIMESTAMP if the interval has hours or less, which Sail would drop."""
    return cast(date, _TIMESTAMP) if _PARTS_OF_DAYS.search(interval.sql("spark")) else date


def converted(node: exp.Expr, has: Type, wanted: Type) -> exp.Expr:
    """A cast between types."""
    if has.name == "decimal" and wanted.is_float and has.precision > _EXACT_DIGITS:
        return cast(cast(node, _STRING), wanted)
    return cast(node, wanted)


def guarded(node: exp.Case) -> exp.Expr:
    """A CASE of conditions that tests them in order. Sail would turn it into AND and OR and evaluate all of them."""
    for branch in node.args["ifs"]:
        branch.set("true", cast(branch.args["true"], _INT))
    if node.args.get("default") is not None:
        node.set("default", cast(node.args["default"], _INT))
    return exp.Paren(this=exp.EQ(this=node, expression=_one(True)))


def in_order(kind: type[exp.Expr], tests: list[exp.Expr]) -> exp.Expr:
    """AND or OR of conditions, each evaluated only where earlier ones do not decide. Sail evaluates all of them.

    A condition that is NULL does not decide, so where none decides, all of them are combined.
    """
    decided = [exp.Not(this=test.copy()) if kind is exp.And else test.copy() for test in tests[:-1]]
    branches = [exp.If(this=one, true=_one(kind is exp.Or)) for one in decided]
    case = exp.Case(ifs=branches, default=cast(joined(kind, tests), _INT))
    return exp.Paren(this=exp.EQ(this=case, expression=_one(True)))


def _one(true: bool) -> exp.Expr:
    return exp.Literal.number(1 if true else 0)


def bits_of(node: exp.Expr, kind: Type) -> exp.Expr:
    """~x, in the type of x."""
    return cast(exp.BitwiseNot(this=grouped(node)), kind)
