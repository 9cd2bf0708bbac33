"""Syntax as expression trees of the algebra.

Every form whose meaning is known becomes a node of its own. Other syntax is Opaque: its text, with the known parts
inside as children. For Apache Spark, the casts that its analyzer adds are recorded as implicit; for Sail they are in
the syntax already (`operators.py`).
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.expressions import VOID, Expression, is_widening
from viewkeeper.algebra.function_types import result_type
from viewkeeper.algebra.types import Type
from viewkeeper.sql.coercion import Operation, common_type_of, is_number, operation
from viewkeeper.sql.conditions import put_together, unwrapped
from viewkeeper.sql.dialect import COMPARISONS, literal_suffix, render
from viewkeeper.sql.fallible import family
from viewkeeper.sql.sail_agreement import NARROW
from viewkeeper.sql.syntax import cast_type, literal_type, number

Resolve = Callable[[exp.Expr], Expression | None]
"""What a column of the syntax stands for; None if it is something else."""

OPERATION, TYPE = "operation", "type"
"""Marks on syntax: the types of an arithmetic operator, and the type of a value, where they are known."""

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
_COMPARISONS = COMPARISONS | {exp.NullSafeEQ: "<=>"}
_LIKE: dict[type[exp.Expr], str] = {exp.Like: "like", exp.ILike: "ilike"}
_CHOICES = ("coalesce", "ifnull", "nvl")
_NUMBERS = ("L", "S", "Y")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_DATE_PARTS = ("year", "quarter", "month", "day")
_INTERVAL = re.compile(
    r"INTERVAL\s+(?P<q>'?)(?P<count>[0-9]{1,6})(?P=q)\s+(?P<unit>DAY|WEEK|MONTH|YEAR)S?", re.IGNORECASE
)
_STEPS = {
    "day": ("date_add", 1),
    "week": ("date_add", 7),
    "month": ("add_months", 1),
    "year": ("add_months", 12),
}
"""The functions that move a date, by the units of an interval, each with how many of its steps a unit is."""


class Trees:
    """Makes trees of syntax. `coerces`: implicit casts are added as Apache Spark does."""

    def __init__(self, resolve: Resolve, prefix: str, *, coerces: bool) -> None:
        self.resolve = resolve
        self.prefix = prefix
        self.coerces = coerces
        self.variables: tuple[str, ...] = ()

    def of(self, node: exp.Expr) -> Expression:
        """The tree of a piece of syntax."""
        how = _FORMS.get(type(node))
        made = how(self, node) if how is not None else None
        return made if made is not None else self._opaque(node)

    def _all(self, nodes: Sequence[exp.Expr]) -> list[Expression]:
        return [self.of(node) for node in nodes]

    def _opaque(self, node: exp.Expr) -> Expression:
        """Any other syntax as text, with the known parts inside it as children."""
        children: list[Expression] = []

        def put(part: Any) -> Any:
            if not isinstance(part, exp.Expr):
                return part
            if type(part) in _INSIDE and not (isinstance(part, exp.Identifier) and part.name not in self.variables):
                children.append(self.of(part))
                return exp.Column(this=exp.Identifier(this=f"{self.prefix}{len(children) - 1}h", quoted=False))
            return inside(part)

        def inside(part: exp.Expr) -> exp.Expr:
            for name, value in list(part.args.items()):
                if isinstance(value, exp.Expr):
                    part.set(name, put(value))
                elif isinstance(value, list):
                    part.set(name, [put(one) for one in value])
            return part

        text = render(inside(node.copy()))
        found = re.split(rf"{self.prefix}(\d+)h", text)
        parts = tuple(children[int(number)] for number in found[1::2])
        return e.Opaque(tuple(found[::2]), parts, _type_mark(node))

    # leaves ----------------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> Expression | None:
        found = self.resolve(node)
        if found is None and _has_only(node, "this") and node.name in self.variables:
            return e.Variable(node.name, _type_mark(node))
        return found

    def _identifier(self, node: exp.Identifier) -> Expression | None:
        return e.Variable(node.name, _type_mark(node)) if node.name in self.variables else None

    def _literal(self, node: exp.Literal) -> Expression | None:
        return e.string(str(node.this)) if node.is_string else _number(node)

    def _negative(self, node: exp.Neg) -> Expression | None:
        if number(node) is not None:
            return _number(node)
        inside = self.of(node.this)
        if isinstance(inside, e.Literal) and not str(inside.value).startswith("-") and _is_number(inside):
            value = -inside.value if isinstance(inside.value, int) else f"-{inside.value}"
            return replace(inside, value=value)
        return e.Negative(inside)

    def _cast(self, node: exp.Cast) -> Expression | None:
        kind, suffix = cast_type(node), literal_suffix(node)
        if kind is None or any(part.length is not None for part in kind.parts()):
            return None
        if suffix:
            return self._typed_literal(node, kind, suffix)
        if not _has_only(node, "this", "to", "safe"):
            return None
        child = self.of(node.this)
        tries = isinstance(node, exp.TryCast)
        constant = isinstance(child, e.Literal) and child.type == e.STRING and kind.name in _TIMES
        return e.Cast(child, kind, tries, fallible=not (tries or constant or is_widening(child.type, kind)))

    def _typed_literal(self, node: exp.Cast, kind: Type, suffix: str) -> Expression | None:
        text = str(node.this.this)
        if suffix in _NUMBERS:
            return e.Literal(int(text), kind)
        if suffix in ("D", "F", "BD"):
            return e.Literal(text, kind)
        return e.Literal(text, kind) if kind.name in _TIMES and not {"'", "\\"} & set(text) else None

    # conditions ------------------------------------------------------------------------------------

    def _comparison(self, node: exp.Binary) -> Expression:
        sides = self._all([node.this, node.expression])
        left, right = self._alike(sides)
        return e.Comparison(_COMPARISONS[type(node)], left, right, not _is_one_family(sides))

    def _distinct_from(self, node: exp.NullSafeNEQ) -> Expression:
        return e.Not(self._comparison(exp.NullSafeEQ(this=node.this, expression=node.expression)))

    def _and(self, node: exp.And) -> Expression:
        return e.And(tuple(self._all(put_together(node, exp.And))))

    def _or(self, node: exp.Or) -> Expression:
        return e.Or(tuple(self._all(put_together(node, exp.Or))))

    def _not(self, node: exp.Not) -> Expression:
        inside = self.of(node.this)
        if isinstance(inside, e.IsNull) and isinstance(unwrapped(node.this), exp.Is):
            return e.IsNull(inside.child, not inside.negated)
        return e.Not(inside)

    def _is(self, node: exp.Is) -> Expression | None:
        negated = bool(node.args.get("negate"))
        if isinstance(node.expression, exp.Null):
            return e.IsNull(self.of(node.this), negated)
        if isinstance(node.expression, exp.Boolean):
            truth = e.Literal(bool(node.expression.this), e.BOOLEAN)
            return _unless(negated, e.Comparison("<=>", self.of(node.this), truth))
        return None

    def _in(self, node: exp.In) -> Expression | None:
        if not _has_only(node, "this", "expressions", "negate") or not node.expressions:
            return None
        found = self._all([node.this, *node.expressions])
        child, *options = self._alike(found)
        return _unless(bool(node.args.get("negate")), e.In(child, tuple(options), not _is_one_family(found)))

    def _between(self, node: exp.Between) -> Expression | None:
        if not _has_only(node, "this", "low", "high", "negate"):
            return None
        found = self._all([node.this, node.args["low"], node.args["high"]])
        child, low, high = self._alike(found)
        return _unless(bool(node.args.get("negate")), e.Between(child, low, high, not _is_one_family(found)))

    def _like(self, node: exp.Binary) -> Expression | None:
        special = isinstance(node.expression, (exp.Any, exp.All, exp.Tuple))
        if special or not _has_only(node, "this", "expression", "negate"):
            return None
        sides = self._all([node.this, node.expression])
        made = e.Call(_LIKE[type(node)], tuple(sides), e.BOOLEAN, fallible=not _is_one_family(sides))
        return _unless(bool(node.args.get("negate")), made)

    # values ----------------------------------------------------------------------------------------

    def _arithmetic(self, node: exp.Binary) -> Expression:
        chain: list[exp.Expr] = [node]
        while type(chain[-1].this) in _OPERATORS:
            chain.append(chain[-1].this)
        made = self.of(chain[-1].this)
        for one in reversed(chain):
            moved = _moved_date(one, made)
            made = self._operator(one, made, self.of(one.expression)) if moved is None else moved
        return made

    def _operator(self, node: exp.Expr, left: Expression, right: Expression) -> Expression:
        kinds: Operation | None = node.meta.get(OPERATION)
        if self.coerces and left.type is not None and right.type is not None:
            exact = _digits(left, right), _digits(right, left)
            kinds = operation(type(node), exact[0] or left.type, exact[1] or right.type)
            if kinds is not None:
                left, right = _implicit(left, kinds.left), _implicit(right, kinds.right)
        return e.Arithmetic(_OPERATORS[type(node)], left, right, None if kinds is None else kinds.result)

    def _case(self, node: exp.Case) -> Expression | None:
        branches = node.args["ifs"]
        tests = self._all([branch.this for branch in branches])
        fallible = False
        if node.this is not None:
            operand = self.of(node.this)
            if not isinstance(operand, (e.Column, e.Literal)):
                return None
            fallible = not _is_one_family([operand, *tests])
            one, *others = self._alike([operand, *tests])
            tests = [e.Comparison("=", one, other) for other in others]
        values = self._all([branch.args["true"] for branch in branches])
        rest = node.args.get("default")
        if rest is not None:
            values.append(self.of(rest))
        fallible = fallible or not _is_one_family(values)
        values = self._of_one_type(values)
        pairs = tuple(zip(tests, values, strict=False))
        return e.Case(pairs, values[-1] if rest is not None else None, fallible)

    def _call(self, node: exp.Anonymous) -> Expression | None:
        if not isinstance(node.this, str) or not re.fullmatch(r"[A-Za-z]\w*", node.this, re.ASCII):
            return None
        name, given = node.this.lower(), node.expressions
        distinct = len(given) == 1 and isinstance(given[0], exp.Distinct) and _has_only(given[0], "expressions")
        if distinct:
            given = given[0].expressions
        if any(isinstance(part, _SPECIAL) for part in given):
            return None
        arguments = self._all(given)
        kind, fallible = _type_mark(node), True
        if name in _CHOICES and arguments:
            fallible = not _is_one_family(arguments)
            arguments = self._of_one_type(arguments)
        if name in ("greatest", "least") and all(part.type is not None and is_number(part.type) for part in arguments):
            arguments = self._of_one_type(arguments)
        kind = kind or result_type(name, [argument.type for argument in arguments])
        return e.Call(name, tuple(arguments), kind, distinct, fallible=fallible)

    def _filtered(self, node: exp.Filter) -> Expression | None:
        made = self.of(node.this)
        if not isinstance(made, e.Call) or not isinstance(node.expression, exp.Where):
            return None
        return replace(made, where=self.of(node.expression.this))

    def _joined(self, node: exp.DPipe) -> Expression:
        parts = self._all(put_together(node, exp.DPipe))
        return e.Call("concat", tuple(parts), _type_mark(node) or result_type("concat", [part.type for part in parts]))

    def _extract(self, node: exp.Extract) -> Expression | None:
        """EXTRACT of a date is the function of its name."""
        child, name = self.of(node.expression), node.this.name.lower()
        if name not in _DATE_PARTS or child.type != e.DATE or not _has_only(node, "this", "expression"):
            return None
        return e.Call(name, (child,), e.INT)

    def _lambda(self, node: exp.Lambda) -> Expression | None:
        if not _has_only(node, "this", "expressions"):
            return None
        outside = self.variables
        names = tuple(variable.name for variable in node.expressions)
        self.variables = (*outside, *names)
        try:
            return e.Lambda(names, self.of(node.this))
        finally:
            self.variables = outside

    # implicit casts --------------------------------------------------------------------------------

    def _alike(self, parts: Sequence[Expression]) -> list[Expression]:
        """Compared values, cast to one type unless they are compared alike without casts."""
        kinds = [part.type for part in parts]
        found = [kind for kind in kinds if kind is not None]
        if not self.coerces or len(found) < len(kinds):
            return list(parts)
        kind = common_type_of(found)
        if kind is None or (kind.is_integer and all(one == VOID or one.is_integer for one in found)):
            return list(parts)
        if kind.name == "decimal" and _holds_constants(parts):
            return list(parts)
        return [_implicit(part, kind) for part in parts]

    def _of_one_type(self, parts: Sequence[Expression]) -> list[Expression]:
        """The values of branches, cast to their common type."""
        found = [part.type for part in parts if part.type is not None]
        kind = common_type_of(found) if self.coerces and len(found) == len(parts) else None
        return list(parts) if kind is None or kind == VOID else [_implicit(part, kind) for part in parts]


def _moved_date(node: exp.Expr, date: Expression) -> Expression | None:
    """A date plus or minus a constant number of days or months; None if it is something else."""
    interval = unwrapped(node.args["expression"])
    if date.type != e.DATE or not isinstance(node, (exp.Add, exp.Sub)) or not isinstance(interval, exp.Interval):
        return None
    found = _INTERVAL.fullmatch(render(interval))
    if found is None:
        return None
    function, size = _STEPS[found["unit"].lower()]
    count = int(found["count"]) * size
    return e.Call(function, (date, e.integer(count if isinstance(node, exp.Add) else -count)), e.DATE)


def _has_only(node: exp.Expr, *known: str) -> bool:
    """Whether no other arguments of a node are set than the `known` ones."""
    return not any(value for name, value in node.args.items() if name not in known)


def _unless(negated: bool, condition: Expression) -> Expression:
    return e.Not(condition) if negated else condition


def _type_mark(node: exp.Expr) -> Type | None:
    found: Type | None = node.meta.get(TYPE)
    return found


def _number(node: exp.Expr) -> Expression | None:
    kind, text = literal_type(node), number(node)
    if kind is None or text is None:
        return None
    return e.Literal(int(text) if kind.is_integer else text, kind)


def _is_number(literal: e.Literal) -> bool:
    kind = literal.type
    return kind.is_integer or kind.is_float or kind.name == "decimal"


def _implicit(part: Expression, kind: Type) -> Expression:
    has = part.type
    if has is not None and has.ddl == kind.ddl:
        return part
    return e.Cast(part, kind, implicit=True, fallible=has is not None and not is_widening(has, kind))


def _digits(part: Expression, beside: Expression) -> Type | None:
    """The type of an integer literal beside a decimal: it has as many digits as are written."""
    if beside.type is None or beside.type.name != "decimal" or not isinstance(part, e.Literal):
        return None
    return Type("decimal", len(str(abs(int(part.value or 0)))), 0) if part.type.is_integer else None


def _holds_constants(parts: Sequence[Expression]) -> bool:
    """Whether decimals of one type, not too wide, are compared with literals that the type holds."""
    constants = [part for part in parts if isinstance(part, e.Literal) and _is_number(part)]
    columns = {part.type for part in parts if part not in constants}
    kind = columns.pop() if len(columns) == 1 else None
    if kind is None or kind.name != "decimal" or kind.precision > NARROW:
        return False
    return all(kind.holds(decimal.Decimal(str(part.value))) for part in constants)


def _is_one_family(parts: Sequence[Expression]) -> bool:
    """Whether values are of one family: they are compared, or chosen from, without a cast that could fail."""
    found = {None if part.type is None else family(part.type) for part in parts if part.type != VOID}
    return None not in found and len(found) <= 1


_SPECIAL = (exp.Star, exp.Distinct, exp.Order, exp.Ordered, exp.Kwarg, exp.Alias, exp.Var)
"""Arguments that make a call one of a syntax of its own."""

_FORMS: dict[type[exp.Expr], Callable[[Trees, Any], Expression | None]] = {
    exp.Paren: lambda trees, node: trees.of(node.this) if _has_only(node, "this") else None,
    exp.Column: Trees._column,
    exp.Identifier: Trees._identifier,
    exp.Literal: Trees._literal,
    exp.Boolean: lambda trees, node: e.Literal(bool(node.this), e.BOOLEAN),
    exp.Null: lambda trees, node: e.NULL,
    exp.Neg: Trees._negative,
    exp.Cast: Trees._cast,
    exp.TryCast: Trees._cast,
    exp.NullSafeNEQ: Trees._distinct_from,
    exp.And: Trees._and,
    exp.Or: Trees._or,
    exp.Not: Trees._not,
    exp.Is: Trees._is,
    exp.In: Trees._in,
    exp.Between: Trees._between,
    exp.Case: Trees._case,
    exp.Anonymous: Trees._call,
    exp.DPipe: Trees._joined,
    exp.Extract: Trees._extract,
    exp.Lambda: Trees._lambda,
    exp.Filter: Trees._filtered,
    **dict.fromkeys(_COMPARISONS, Trees._comparison),
    **dict.fromkeys(_OPERATORS, Trees._arithmetic),
    **dict.fromkeys(_LIKE, Trees._like),
}
"""The syntax that becomes a node of its own."""

_INSIDE = frozenset(_FORMS) - {exp.Literal, exp.Boolean, exp.Null, exp.Lambda}
"""The syntax that is a child inside Opaque text."""
