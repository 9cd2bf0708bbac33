"""Operators made explicit: every implicit cast is written.

Apache Spark's analyzer infers the types of operands, branches and results. Sail infers others, so on Sail they are
inferred here, bottom up, and written into the expression; `algebra/sail_forms.py` has the forms that raise where Sail
would not. The engine is asked for what only it knows (the types of functions), and only where an operator needs it.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from sqlglot import exp

from viewkeeper.algebra.expressions import VOID, Attribute
from viewkeeper.algebra.sail_forms import room
from viewkeeper.algebra.types import Type
from viewkeeper.sql.coercion import Operation, common_type_of, operation
from viewkeeper.sql.conditions import put_together, unwrapped
from viewkeeper.sql.dialect import COMPARISONS, literal_suffix, render
from viewkeeper.sql.lambdas import variables_of
from viewkeeper.sql.sail_agreement import NARROW
from viewkeeper.sql.sail_calls import Translating, check, is_concerned
from viewkeeper.sql.sail_rewrites import rewritten
from viewkeeper.sql.syntax import call, cast, cast_type, grouped, integer, joined, literal_type, number
from viewkeeper.sql.trees import OPERATION, TYPE

BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP = map(Type, ("boolean", "date", "double", "string", "timestamp"))
_PARTS_OF_DAYS = re.compile(r"HOUR|MINUTE|SECOND", re.IGNORECASE)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_COMPARISONS = (*COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ)
_CONDITIONS = (exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Exists)
_ALIKE = {"coalesce": "coalesce", "ifnull": "coalesce", "nvl": "coalesce", "greatest": "greatest", "least": "least"}
_IFS = ("if", "iff")
_UNTYPED = (exp.Lambda, exp.Var, exp.Interval)
_SHIFTS: dict[type[exp.Expr], str] = {exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>"}
_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_LEAST_ROOM = 9
"""Digits before the point that the result of a decimal operator must have room for."""


def _holds_constants(parts: Sequence[Typed]) -> bool:
    """Whether decimals of one type, not too wide, are compared with literals that the type holds.

    Every engine compares them alike without casts, and files can be skipped only by a column without a cast.
    """
    columns = {part.type for part in parts if number(part.node) is None}
    kind = columns.pop() if len(columns) == 1 else None
    if kind is None or kind.name != "decimal" or kind.precision > NARROW:
        return False
    texts = [text for part in parts if (text := number(part.node)) is not None]
    return all(kind.holds(decimal.Decimal(text)) for text in texts)


def has_operators(tree: exp.Expr) -> bool:
    """Whether an expression in a query may have to be made explicit."""
    return any(type(part) in _FORMS and not _is_alike(part) for part in tree.walk())


def _is_alike(node: exp.Expr) -> bool:
    """Whether syntax means the same on every engine, whatever its operands."""
    if isinstance(node, exp.Neg):
        return isinstance(node.this, (exp.Column, exp.Literal))
    if isinstance(node, exp.Cast):
        return bool(literal_suffix(node))
    return isinstance(node, (exp.Paren, exp.And, exp.Or, exp.Not, exp.Is))


class Types(Translating, Protocol):
    """What this rewrite needs of a translation."""

    def attribute_of(self, node: exp.Expr | None) -> Attribute | None:
        """The attribute that a piece of bound syntax is."""

    def wrong(self, message: str, node: exp.Expr | None, hint: str | None = None) -> NoReturn:
        """Refuses text that the engine cannot run."""

    def asked_type(self, node: exp.Expr, variables: dict[str, Type]) -> Type | None:
        """The type that the engine gives to bound syntax; None if no column can have it."""


@dataclass
class Typed:
    """Explicit syntax, and its type once it is known."""

    node: exp.Expr
    type: Type | None = None


class WrittenOut:
    """Makes the operators of bound syntax explicit."""

    def __init__(self, types: Types) -> None:
        self.types = types
        self.variables: dict[str, Type] = {}

    def __call__(self, bound: exp.Expr) -> exp.Expr:
        """A copy with every cast and check of an operator explicit."""
        return self.typed(bound.copy()).node

    def type_of(self, part: Typed) -> Type | None:
        """The type of a piece; the engine is asked if it is not known."""
        if part.type is None:
            part.type = self.types.asked_type(part.node, self.variables)
        if part.type is not None:
            part.node.meta[TYPE] = part.type
        return part.type

    def typed(self, node: exp.Expr) -> Typed:
        """A piece made explicit, in place where possible."""
        attribute = self.types.attribute_of(node) if isinstance(node, exp.Column) else None
        if attribute is not None:
            return Typed(node, attribute.type)
        if isinstance(node, exp.Identifier):
            kind = self.variables.get(node.name)
            if kind is not None:
                node.meta[TYPE] = kind
            return Typed(node, kind)
        if (kind := literal_type(node)) is not None:
            return Typed(node, kind)
        how = _FORMS.get(type(node))
        return self._inside(node) if how is None else how(self, node)

    def _inside(self, node: exp.Expr) -> Typed:
        """Any other syntax, with its parts made explicit."""
        for name, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(name, self.typed(value).node)
            elif isinstance(value, list):
                node.set(name, [self.typed(part).node if isinstance(part, exp.Expr) else part for part in value])
        return Typed(node)

    def _paren(self, node: exp.Paren) -> Typed:
        inside = self.typed(node.this)
        return Typed(grouped(inside.node), inside.type)

    def _cast(self, node: exp.Cast) -> Typed:
        kind = cast_type(node)
        if literal_suffix(node) or kind is None:
            return Typed(node, kind)
        inside = self.typed(node.this)
        name = "try_cast" if isinstance(node, exp.TryCast) else "cast"
        node.set("this", inside.node)
        adapted = self._adapted(name, node, [inside, Typed(node.args["to"], kind)], kind)
        if kind.is_float and adapted.node is node:
            self.type_of(inside)  # a cast of many digits has a form of its own
        return adapted

    # arithmetic ------------------------------------------------------------------------------------

    def _negative(self, node: exp.Neg) -> Typed:
        inside = self.typed(node.this)
        node.set("this", grouped(inside.node))
        return Typed(node, inside.type)

    def _operator(self, node: exp.Binary) -> Typed:
        """A chain of operators, from the left."""
        chain: list[exp.Binary] = []
        first: exp.Expr = node
        while isinstance(first, _ARITHMETIC):
            chain.append(first)
            first = first.this
        found = self.typed(first)
        for one in reversed(chain):
            found = self._arithmetic(one, found, self.typed(one.expression))
        return found

    def _arithmetic(self, node: exp.Binary, left: Typed, right: Typed) -> Typed:
        kinds = [self.type_of(part) for part in (left, right)]
        if any(kind is not None and kind.name == "string" for kind in kinds) and type(node) in _SIGNS:
            self._check_operator(_SIGNS[type(node)], (left, right), node)
        if kinds[0] is not None and kinds[1] is not None:
            exact = self._exact(left, kinds[1]), self._exact(right, kinds[0])
            found = operation(type(node), exact[0] or kinds[0], exact[1] or kinds[1])
            if found is not None:
                self._check_room(node, found)
                one, other = self._as(left, found.left), self._as(right, found.right)
                node.set("this", grouped(one))
                node.set("expression", grouped(other))
                node.meta[OPERATION] = found
                return Typed(node, found.result)
            if isinstance(node, exp.Sub) and kinds == [DATE, DATE]:  # an interval; Sail would count days
                left.node, right.node = cast(left.node, TIMESTAMP), cast(right.node, TIMESTAMP)
        elif kinds[0] == DATE and isinstance(right.node, exp.Interval) and _PARTS_OF_DAYS.search(render(right.node)):
            left.node = cast(left.node, TIMESTAMP)  # Sail would drop the hours
        node.set("this", grouped(left.node))
        node.set("expression", grouped(right.node))
        return Typed(node)

    def _check_room(self, node: exp.Binary, kinds: Operation) -> None:
        """Refuses decimals with so many digits after the point that too few are left before it."""
        whole = kinds.left.precision - kinds.left.scale
        if kinds.result.name == "decimal" and room(_SIGNS[type(node)], *kinds) < min(whole, _LEAST_ROOM):
            self.types.wrong(
                f"{kinds.left} {_SIGNS[type(node)]} {kinds.right} needs more digits than Sail computes with",
                node,
                "cast both sides to fewer digits, for instance CAST(... AS DECIMAL(18,6))",
            )

    def _exact(self, part: Typed, beside: Type) -> Type | None:
        """The type of an integer literal beside a decimal: it has as many digits as are written."""
        value = integer(part.node) if beside.name == "decimal" else None
        return None if value is None else Type("decimal", len(str(abs(value))), 0)

    def _check_operator(self, sign: str, parts: Sequence[Typed], node: exp.Expr) -> None:
        """Refuses an operator that is known to differ on Sail for these types of operands."""
        kinds = [self.type_of(part) for part in parts]
        check(self.types, "scalar", sign, [part.node for part in parts], kinds, node, variables=self.variables)

    def _shift(self, node: exp.Binary) -> Typed:
        parts = [self.typed(node.this), self.typed(node.expression)]
        self._check_operator(_SHIFTS[type(node)], parts, node)
        for name, part in zip(("this", "expression"), parts, strict=True):
            node.set(name, grouped(part.node))
        return Typed(node)

    def _bits(self, node: exp.Binary) -> Typed:
        parts = [self.typed(node.this), self.typed(node.expression)]
        kind = self._common(parts)
        if kind is None or not kind.is_integer:
            kind = None
        for name, part in zip(("this", "expression"), parts, strict=True):
            node.set(name, grouped(part.node if kind is None else self._as(part, kind)))
        return Typed(node, kind)

    def _not_bits(self, node: exp.BitwiseNot) -> Typed:
        inside = self.typed(node.this)
        kind = self.type_of(inside)
        if kind is None or not kind.is_integer:
            node.set("this", grouped(inside.node))
            return Typed(node, kind)
        return Typed(cast(exp.BitwiseNot(this=grouped(inside.node)), kind), kind)

    # conditions ------------------------------------------------------------------------------------

    def _connective(self, node: exp.Connector) -> Typed:
        """AND and OR."""
        kind = type(node)
        parts: list[exp.Expr] = []
        waiting: list[exp.Expr] = [node]
        while waiting:
            part = waiting.pop()
            inside = unwrapped(part)
            if type(inside) is kind:
                waiting += [inside.expression, inside.this]
            else:
                parts.append(part)
        return Typed(joined(kind, [grouped(self.typed(part).node) for part in parts]), BOOLEAN)

    def _condition(self, node: exp.Expr) -> Typed:
        return Typed(self._inside(node).node, BOOLEAN)

    def _compare(self, node: exp.Binary) -> Typed:
        parts = [self.typed(node.this), self.typed(node.expression)]
        made = self._alike(parts)
        node.set("this", grouped(made[0]))
        node.set("expression", grouped(made[1]))
        return Typed(node, BOOLEAN)

    def _in(self, node: exp.In) -> Typed:
        if node.args.get("query") is not None or not node.expressions:
            return self._condition(node)
        made = self._alike([self.typed(part) for part in (node.this, *node.expressions)])
        node.set("this", grouped(made[0]))
        node.set("expressions", made[1:])
        return Typed(node, BOOLEAN)

    def _between(self, node: exp.Between) -> Typed:
        names = ("this", "low", "high")
        made = self._alike([self.typed(node.args[name]) for name in names])
        for name, part in zip(names, made, strict=True):
            node.set(name, grouped(part))
        return Typed(node, BOOLEAN)

    def _alike(self, parts: Sequence[Typed]) -> list[exp.Expr]:
        """Compared values, cast to one type unless every engine compares them alike without casts."""
        kind = self._common(parts)
        kinds = [part.type for part in parts]
        if kind is None or (kind.is_integer and all(k == VOID or (k is not None and k.is_integer) for k in kinds)):
            return [part.node for part in parts]
        if kind.name == "decimal" and _holds_constants(parts):
            return [part.node for part in parts]
        return [self._as(part, kind) for part in parts]

    # branches --------------------------------------------------------------------------------------

    def _case(self, node: exp.Case) -> Typed:
        branches = node.args["ifs"]
        tests = [self.typed(branch.this) for branch in branches]
        if node.this is not None:
            made = self._alike([self.typed(node.this), *tests])
            node.set("this", made[0])
            tests = [Typed(one) for one in made[1:]]
        values = [self.typed(branch.args["true"]) for branch in branches]
        rest = node.args.get("default")
        if rest is not None:
            values.append(self.typed(rest))
        kind = self._branches(values)
        for branch, test, value in zip(branches, tests, values, strict=False):
            branch.set("this", test.node)
            branch.set("true", value.node)
        if rest is not None:
            node.set("default", values[-1].node)
        return Typed(node, kind)

    def _branches(self, values: list[Typed]) -> Type | None:
        """Casts the values of branches to their common type, and returns it."""
        kind = self._common(values)
        if kind is None or kind == VOID:
            return kind
        for value in values:
            value.node = self._as(value, kind)
        return kind

    def _common(self, parts: Sequence[Typed]) -> Type | None:
        kinds = [kind for part in parts if (kind := self.type_of(part)) is not None]
        if len(kinds) < len(parts):
            return None
        kind = common_type_of(kinds)
        if kind is None and not any(one.is_nested for one in kinds):
            self._refuse_mix(kinds, parts[-1].node, "have no common type")
        return kind

    def _refuse_mix(self, kinds: Sequence[Type], node: exp.Expr, why: str) -> None:
        names = " and ".join(str(kind) for kind in dict.fromkeys(kinds) if kind != VOID)
        self.types.wrong(f"{names} {why}", node, "write a CAST")

    def _as(self, part: Typed, kind: Type) -> exp.Expr:
        """A piece cast to a type; a literal number becomes a literal of it."""
        has = part.type
        if has is not None and has.ddl == kind.ddl:
            return part.node
        text = number(part.node)
        if kind == DOUBLE and text is not None:
            made = exp.Cast(this=exp.Literal.number(text.lstrip("-")), to=exp.DataType.build("double"))
            made.meta["literal"] = "D"
            return exp.Neg(this=made) if text.startswith("-") else made
        return cast(part.node, kind)

    # calls -----------------------------------------------------------------------------------------

    def _call(self, node: exp.Anonymous) -> Typed:
        name = node.name.lower()
        if name == "mod" and len(node.expressions) == 2:
            return self._operator(exp.Mod(this=node.expressions[0], expression=node.expressions[1]))
        if name in _IFS and len(node.expressions) == 3:
            test, yes, no = node.expressions
            return self._case(exp.Case(ifs=[exp.If(this=test, true=yes)], default=no))
        if name == "nvl2" and len(node.expressions) == 3:
            test, yes, no = node.expressions
            given = exp.Not(this=exp.Is(this=grouped(test), expression=exp.Null()))
            return self._case(exp.Case(ifs=[exp.If(this=given, true=yes)], default=no))
        if name == "decode" and len(node.expressions) > 2:
            return self._decode(node)
        if name == "nullif" and len(node.expressions) == 2:
            return self._nullif(node)
        if name == "positive" and len(node.expressions) == 1:
            inside = self.typed(node.expressions[0])
            if self.type_of(inside) == STRING:
                return Typed(cast(inside.node, DOUBLE), DOUBLE)
            return Typed(grouped(inside.node), inside.type)
        return self._function(node, name)

    def _function(self, node: exp.Anonymous, name: str) -> Typed:
        parts: list[Typed] = []
        for part in node.expressions:
            if isinstance(part, exp.Lambda):
                parts.append(self._lambda(part, name, parts))
            else:
                parts.append(self.typed(part))
        kind: Type | None = None
        if name == "shiftrightunsigned":  # a >>> b
            self._check_operator(">>>", parts, node)
        if name in ("greatest", "least"):
            kinds = [self.type_of(part) or VOID for part in parts]
            if len({one.name == "string" for one in kinds if one != VOID}) > 1:
                self._refuse_mix(kinds, node, f"cannot be compared by {name}")
        if name in _ALIKE and parts:
            name, kind = _ALIKE[name], self._branches(parts)
        elif name == "array" and parts:
            element = self._branches(parts)
            kind = None if element in (None, VOID) else Type("array", element=element)
        elif name == "map" and parts and len(parts) % 2 == 0:
            self._branches(parts[::2])
            self._branches(parts[1::2])
        made = call(name, *(part.node for part in parts))
        made.meta.update(node.meta)
        return self._adapted(name, made, parts, kind)

    def _extract(self, node: exp.Extract) -> Typed:
        inside = self.typed(node.expression)
        node.set("expression", inside.node)
        return self._adapted("extract", node, [Typed(node.this), inside], None)

    def _adapted(self, name: str, node: exp.Expr, parts: Sequence[Typed], kind: Type | None) -> Typed:
        """A call rewritten for Sail; one that gives other results there is refused."""
        if not is_concerned(name):
            return Typed(node, kind)
        arguments = [part.node for part in parts]
        kinds = [None if isinstance(part.node, _UNTYPED) else self.type_of(part) for part in parts]
        check(self.types, "scalar", name, arguments, kinds, node, variables=self.variables)
        instead = rewritten(name, arguments, kinds)
        return Typed(node, kind) if instead is None else Typed(instead, kind)

    def _lambda(self, node: exp.Lambda, name: str, before: Sequence[Typed]) -> Typed:
        """A lambda; its variables have the types that the function passes to it."""
        kinds = variables_of(name, [self.type_of(part) for part in before], len(node.expressions))
        outside = self.variables
        self.variables = {**outside, **{v.name: k for v, k in zip(node.expressions, kinds, strict=False) if k}}
        for variable in node.expressions[len(kinds) :]:
            self.variables.pop(variable.name, None)
        try:
            node.set("this", self.typed(node.this).node)
        finally:
            self.variables = outside
        return Typed(node)

    def _joined(self, node: exp.DPipe) -> Typed:
        """a || b: concat(a, b)."""
        return self._call(exp.Anonymous(this="concat", expressions=put_together(node, exp.DPipe)))

    def _decode(self, node: exp.Anonymous) -> Typed:
        """decode(x, a, b, c): CASE WHEN x <=> a THEN b ELSE c END. Without c, the default is a NULL STRING."""
        value, *rest = node.expressions
        branches = [
            exp.If(this=exp.NullSafeEQ(this=grouped(value.copy()), expression=grouped(one)), true=other)
            for one, other in zip(rest[::2], rest[1::2], strict=False)
        ]
        default = rest[-1] if len(rest) % 2 else cast(exp.Null(), Type("string"))
        return self._case(exp.Case(ifs=branches, default=default))

    def _nullif(self, node: exp.Anonymous) -> Typed:
        """nullif(x, y): of the type of x."""
        one, other = node.expressions
        same = exp.EQ(this=grouped(one.copy()), expression=grouped(other))
        return self._case(exp.Case(ifs=[exp.If(this=same, true=exp.Null())], default=one))


_FORMS: dict[type[exp.Expr], Callable[[WrittenOut, Any], Typed]] = {
    exp.Paren: WrittenOut._paren,
    exp.Cast: WrittenOut._cast,
    exp.TryCast: WrittenOut._cast,
    exp.Neg: WrittenOut._negative,
    exp.And: WrittenOut._connective,
    exp.Or: WrittenOut._connective,
    exp.Not: WrittenOut._condition,
    exp.In: WrittenOut._in,
    exp.Between: WrittenOut._between,
    exp.Case: WrittenOut._case,
    exp.Anonymous: WrittenOut._call,
    exp.Extract: WrittenOut._extract,
    exp.BitwiseNot: WrittenOut._not_bits,
    exp.DPipe: WrittenOut._joined,
    **dict.fromkeys(_SHIFTS, WrittenOut._shift),
    **dict.fromkeys(_ARITHMETIC, WrittenOut._operator),
    **dict.fromkeys(_BITS, WrittenOut._bits),
    **dict.fromkeys(_COMPARISONS, WrittenOut._compare),
    **dict.fromkeys(_CONDITIONS, WrittenOut._condition),
}
