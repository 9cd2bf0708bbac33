"""Scalar expressions: frozen trees over the attributes of a query.

An attribute is a column inside a query: its column id, name and type. A tree says what Apache Spark's ANSI mode means
by an expression: types and casts are explicit where they are known. What only an engine understands is Opaque: text
with children in between. Each form for a reader is a visitor: `spark_text.py` (text), `engine/connect_columns.py`
(PySpark columns), and `sail_forms.py` (the forms that make Sail compute what Apache Spark does).

    leaves         Column Name Variable Literal
    conditions     Comparison And Or Not IsNull In Between
    values         Arithmetic Negative Cast Case Call Lambda Over Opaque
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

from viewkeeper.algebra.types import INTEGERS, Type, as_decimal

BOOLEAN, INT, BIGINT, DOUBLE, STRING, DATE = map(Type, ("boolean", "int", "bigint", "double", "string", "date"))
VOID = Type("void")
"""The type of a literal NULL: it takes the type of the other values."""

E = TypeVar("E", bound="Expression")


@dataclass(frozen=True)
class Attribute:
    """A column inside a query. `number` is its column id, which identifies it; the name is for display."""

    number: int
    name: str
    type: Type
    nullable: bool = True

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Attribute):
            return self is other
        same = self.number == other.number and self.name == other.name
        return same and self.type == other.type and self.nullable == other.nullable

    @cached_property
    def label(self) -> str:
        """Its column name in engine text."""
        return f"c{self.number}"

    def __str__(self) -> str:
        return self.name


class Expression:
    """A scalar expression. Equal trees are equal values.

    `type` is None where only an engine knows it. `fallible` says whether the node itself can raise for some row.
    """

    if TYPE_CHECKING:

        @property
        def type(self) -> Type | None:
            """The type of its value."""

        @property
        def fallible(self) -> bool:
            """Whether it can raise where its children do not."""

    @property
    def children(self) -> tuple[Expression, ...]:
        """The expressions it is made of."""
        return ()

    def with_children(self: E, children: tuple[Expression, ...]) -> E:
        """The same node over other children."""
        return self

    @property
    def attribute(self) -> Attribute | None:
        """The attribute, if the expression is nothing but one."""
        return None

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes it names, each once, in order."""
        return tuple(dict.fromkeys(a for child in self.children for a in child.attributes))

    @cached_property
    def raises(self) -> bool:
        """Whether it is fallible: whether it can raise for some row."""
        return self.fallible or any(child.raises for child in self.children)

    def substitute(self, mapping: Mapping[Attribute, Expression]) -> Expression:
        """The same expression with some attributes replaced by expressions."""
        if not any(attribute in mapping for attribute in self.attributes):
            return self
        return self.with_children(tuple(child.substitute(mapping) for child in self.children))

    def walk(self) -> Iterator[Expression]:
        """This expression and all inside it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @cached_property
    def _hash(self) -> int:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return hash((type(self), *(getattr(self, field.name) for field in fields)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        from viewkeeper.algebra.spark_text import printed

        return printed(self, str)


@dataclass_transform(frozen_default=True)
def _tree(kind: type[E]) -> type[E]:
    """A frozen dataclass whose hash is computed once."""
    made = dataclass(frozen=True)(kind)
    made.__hash__ = Expression.__hash__  # type: ignore[method-assign]
    return made


# leaves -----------------------------------------------------------------------------------------


@_tree
class Column(Expression):
    """An attribute of the input."""

    of: Attribute
    fallible = False

    @property
    def type(self) -> Type:
        """That of the attribute."""
        return self.of.type

    @property
    def attribute(self) -> Attribute:
        """The attribute."""
        return self.of

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attribute."""
        return (self.of,)

    def substitute(self, mapping: Mapping[Attribute, Expression]) -> Expression:
        """What takes the place of the attribute."""
        return mapping.get(self.of, self)


@_tree
class Name(Expression):
    """A column of a frame by its name: a weight, an epoch, a column of a file."""

    name: str
    type: Type | None = None
    fallible = False


@_tree
class Variable(Expression):
    """A variable of a lambda."""

    name: str
    type: Type | None = None
    fallible = False


@_tree
class Literal(Expression):
    """A constant. Decimals, floats, dates and times are spelled as text, so that no digit is lost."""

    value: str | int | bool | None
    type: Type
    fallible = False


# conditions -------------------------------------------------------------------------------------


class Condition(Expression):
    """An expression that is true, false or NULL."""

    @property
    def type(self) -> Type:
        """BOOLEAN."""
        return BOOLEAN


@_tree
class Comparison(Condition):
    """left operator right, where the operator is =, <>, <, <=, >, >= or <=>."""

    operator: str
    left: Expression
    right: Expression
    fallible: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """Both sides."""
        return (self.left, self.right)

    def with_children(self, children: tuple[Expression, ...]) -> Comparison:
        """The same comparison of other values."""
        return dataclasses.replace(self, left=children[0], right=children[1])

    @property
    def is_equation(self) -> bool:
        """Whether it is = or <=>."""
        return self.operator in ("=", "<=>")


class _Connective(Condition):
    if TYPE_CHECKING:
        conditions: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """The conditions."""
        return self.conditions

    def with_children(self: E, children: tuple[Expression, ...]) -> E:
        """The same over other conditions."""
        return dataclasses.replace(self, conditions=children)  # type: ignore[type-var]


@_tree
class And(_Connective):
    """All conditions. A later one is evaluated only for rows that earlier ones do not decide, if it is fallible."""

    conditions: tuple[Expression, ...]
    fallible = False


@_tree
class Or(_Connective):
    """Any condition. A later one is evaluated only for rows that earlier ones do not decide, if it is fallible."""

    conditions: tuple[Expression, ...]
    fallible = False


@_tree
class Not(Condition):
    """The opposite of a condition."""

    child: Expression
    fallible = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """The condition."""
        return (self.child,)

    def with_children(self, children: tuple[Expression, ...]) -> Not:
        """The opposite of another condition."""
        return Not(children[0])


@_tree
class IsNull(Condition):
    """child IS NULL; negated, IS NOT NULL."""

    child: Expression
    negated: bool = False
    fallible = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """The value."""
        return (self.child,)

    def with_children(self, children: tuple[Expression, ...]) -> IsNull:
        """The same test of another value."""
        return IsNull(children[0], self.negated)


@_tree
class In(Condition):
    """child IN (options)."""

    child: Expression
    options: tuple[Expression, ...]
    fallible: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """The value, then the options."""
        return (self.child, *self.options)

    def with_children(self, children: tuple[Expression, ...]) -> In:
        """The same test of other values."""
        return In(children[0], children[1:], self.fallible)


@_tree
class Between(Condition):
    """child BETWEEN low AND high."""

    child: Expression
    low: Expression
    high: Expression
    fallible: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """The value and both ends."""
        return (self.child, self.low, self.high)

    def with_children(self, children: tuple[Expression, ...]) -> Between:
        """The same test of other values."""
        return Between(children[0], children[1], children[2], self.fallible)


# values -----------------------------------------------------------------------------------------


@_tree
class Arithmetic(Expression):
    """left operator right, where the operator is +, -, *, /, % or div.

    With a type, the operands are numbers and have the types that Apache Spark casts them to; overflow and division by
    zero raise. Without one, only the engine knows what it is (a date plus an interval ...).
    """

    operator: str
    left: Expression
    right: Expression
    type: Type | None = None
    fallible: bool = True

    @property
    def children(self) -> tuple[Expression, ...]:
        """Both operands."""
        return (self.left, self.right)

    def with_children(self, children: tuple[Expression, ...]) -> Arithmetic:
        """The same operator between other operands."""
        return dataclasses.replace(self, left=children[0], right=children[1])


@_tree
class Negative(Expression):
    """-child, of the same type."""

    child: Expression
    fallible: bool = True

    @property
    def type(self) -> Type | None:
        """That of the child."""
        return self.child.type

    @property
    def children(self) -> tuple[Expression, ...]:
        """The value."""
        return (self.child,)

    def with_children(self, children: tuple[Expression, ...]) -> Negative:
        """The negative of another value."""
        return Negative(children[0], self.fallible)


@_tree
class Cast(Expression):
    """CAST(child AS type); `tries`: NULL instead of an error. `implicit`: Apache Spark casts by itself, unwritten."""

    child: Expression
    type: Type
    tries: bool = False
    implicit: bool = False
    fallible: bool = True

    @property
    def children(self) -> tuple[Expression, ...]:
        """The value."""
        return (self.child,)

    def with_children(self, children: tuple[Expression, ...]) -> Cast:
        """The same cast of another value."""
        return dataclasses.replace(self, child=children[0])


@_tree
class Case(Expression):
    """CASE WHEN condition THEN value ... ELSE default END. A branch is evaluated only where it is reached."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None = None
    fallible: bool = False

    @property
    def values(self) -> tuple[Expression, ...]:
        """The values of the branches, and the default."""
        more = () if self.default is None else (self.default,)
        return (*(value for _, value in self.branches), *more)

    @cached_property
    def type(self) -> Type | None:
        """The type that all values have; None if they differ or one is not known."""
        return common(self.values)

    @property
    def children(self) -> tuple[Expression, ...]:
        """Condition, value, condition, value ..., default."""
        more = () if self.default is None else (self.default,)
        return (*(part for branch in self.branches for part in branch), *more)

    def with_children(self, children: tuple[Expression, ...]) -> Case:
        """The same branches of other conditions and values."""
        count = 2 * len(self.branches)
        branches = tuple(zip(children[0:count:2], children[1:count:2], strict=True))
        return Case(branches, children[count] if self.default is not None else None, self.fallible)


@_tree
class Call(Expression):
    """A function by its name, in lower case. An aggregate may be `distinct`; `where` is the condition of its FILTER."""

    name: str
    arguments: tuple[Expression, ...] = ()
    type: Type | None = None
    distinct: bool = False
    where: Expression | None = None
    fallible: bool = True

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments, and the condition."""
        return self.arguments if self.where is None else (*self.arguments, self.where)

    def with_children(self, children: tuple[Expression, ...]) -> Call:
        """The same function of other arguments."""
        if self.where is None:
            return dataclasses.replace(self, arguments=children)
        return dataclasses.replace(self, arguments=children[:-1], where=children[-1])


@_tree
class Lambda(Expression):
    """(variables) -> body, an argument of a function."""

    variables: tuple[str, ...]
    body: Expression
    type = None
    fallible = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """The body."""
        return (self.body,)

    def with_children(self, children: tuple[Expression, ...]) -> Lambda:
        """The same variables with another body."""
        return Lambda(self.variables, children[0])


@_tree
class Over(Expression):
    """A window function: call OVER (PARTITION BY ... ORDER BY ... frame).

    A sort key is a value, whether it is descending, and whether NULLs come first.
    """

    call: Expression
    partition: tuple[Expression, ...] = ()
    order: tuple[tuple[Expression, bool, bool], ...] = ()
    frame: str = ""
    fallible = False

    @property
    def type(self) -> Type | None:
        """That of the function."""
        return self.call.type

    @property
    def children(self) -> tuple[Expression, ...]:
        """The function, the partition, the sort keys."""
        return (self.call, *self.partition, *(value for value, _, _ in self.order))

    def with_children(self, children: tuple[Expression, ...]) -> Over:
        """The same window of other values."""
        count = 1 + len(self.partition)
        order = tuple((v, down, first) for v, (_, down, first) in zip(children[count:], self.order, strict=True))
        return Over(children[0], children[1:count], order, self.frame)


@_tree
class Opaque(Expression):
    """Text that only an engine understands, with expressions in between: pieces[0] parts[0] pieces[1] ..."""

    pieces: tuple[str, ...]
    parts: tuple[Expression, ...] = ()
    type: Type | None = None
    fallible: bool = True

    @property
    def children(self) -> tuple[Expression, ...]:
        """The expressions in between."""
        return self.parts

    def with_children(self, children: tuple[Expression, ...]) -> Opaque:
        """The same text with other expressions in between."""
        return dataclasses.replace(self, parts=children)


KINDS: tuple[type[Expression], ...] = (
    Column,
    Name,
    Variable,
    Literal,
    Comparison,
    And,
    Or,
    Not,
    IsNull,
    In,
    Between,
    Arithmetic,
    Negative,
    Cast,
    Case,
    Call,
    Lambda,
    Over,
    Opaque,
)
"""All kinds of nodes."""


# making -----------------------------------------------------------------------------------------

TRUE, FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
NULL = Literal(None, VOID)

Value = Expression | Attribute


def column(attribute: Attribute) -> Expression:
    """An attribute as an expression."""
    return Column(attribute)


def expression(value: Value) -> Expression:
    """An attribute as an expression; an expression as it is."""
    return Column(value) if isinstance(value, Attribute) else value


def integer(value: int) -> Literal:
    """A number as it is written: INT, or BIGINT if it needs one."""
    return Literal(value, INT if -(1 << 31) <= value < 1 << 31 else BIGINT)


def string(value: str) -> Literal:
    """A string."""
    return Literal(value, STRING)


def comparison(operator: str, left: Value, right: Value, *, fallible: bool = False) -> Comparison:
    """left operator right."""
    return Comparison(operator, expression(left), expression(right), fallible)


def same(left: Value, right: Value, *, null_safe: bool = False) -> Comparison:
    """left = right, or left <=> right."""
    return comparison("<=>" if null_safe else "=", left, right)


def is_null(value: Value) -> IsNull:
    """value IS NULL."""
    return IsNull(expression(value))


def not_null(value: Value) -> IsNull:
    """value IS NOT NULL."""
    return IsNull(expression(value), negated=True)


def call(name: str, *arguments: Value, kind: Type | None = None, fallible: bool = False) -> Call:
    """A call that is known not to raise, unless `fallible`."""
    return Call(name, tuple(map(expression, arguments)), kind, fallible=fallible)


def coalesce(*values: Value) -> Call:
    """The first value that is not NULL; all have one type."""
    made = tuple(map(expression, values))
    return Call("coalesce", made, common(made), fallible=False)


def cast(value: Value, kind: Type) -> Expression:
    """A value cast to a type; fallible unless the type holds every value."""
    child = expression(value)
    return Cast(child, kind, fallible=not is_widening(child.type, kind))


def explicit(value: Expression) -> Expression:
    """A part of an expression as one of its own: an operator around it casts it no longer."""
    return dataclasses.replace(value, implicit=False) if isinstance(value, Cast) and value.implicit else value


def null_of(kind: Type) -> Cast:
    """NULL of a type."""
    return Cast(NULL, kind, fallible=False)


def case(*branches: tuple[Value, Value], default: Value | None = None) -> Case:
    """CASE WHEN condition THEN value ... [ELSE default] END, of values of one type."""
    made = tuple((expression(test), expression(value)) for test, value in branches)
    return Case(made, None if default is None else expression(default))


def plain(operator: str, left: Value, right: Value, kind: Type | None = None) -> Arithmetic:
    """An operator that is known not to raise."""
    return Arithmetic(operator, expression(left), expression(right), kind, fallible=False)


def opaque(template: str, *parts: Value, fallible: bool = False) -> Opaque:
    """Engine text in which each `{}` stands for the next part."""
    pieces = tuple(template.split("{}"))
    assert len(pieces) == len(parts) + 1
    return Opaque(pieces, tuple(map(expression, parts)), fallible=fallible)


def conjunction(conditions: Iterable[Expression]) -> Expression:
    """Some conditions joined by AND, in order."""
    found = tuple(part for condition in conditions for part in conditions_of(condition) if part != TRUE)
    if len(found) == 1:
        return found[0]
    return And(found) if found else TRUE


def disjunction(conditions: Iterable[Expression]) -> Expression:
    """Some conditions joined by OR, in order."""
    found = tuple(
        part
        for condition in conditions
        for part in (condition.conditions if isinstance(condition, Or) else (condition,))
    )
    if len(found) == 1:
        return found[0]
    return Or(found) if found else FALSE


def conditions_of(condition: Expression) -> tuple[Expression, ...]:
    """The conditions that a condition joins by AND, in order."""
    if not isinstance(condition, And):
        return (condition,)
    return tuple(part for inside in condition.conditions for part in conditions_of(inside))


# types ------------------------------------------------------------------------------------------


def common(values: Iterable[Expression]) -> Type | None:
    """The type that all values have, NULL literals aside; None if they differ or one is not known."""
    kinds = dict.fromkeys(value.type for value in values)
    kinds.pop(VOID, None)
    return next(iter(kinds)) if len(kinds) == 1 else None


def is_widening(has: Type | None, wanted: Type) -> bool:
    """Whether a cast succeeds for every value."""
    if has is None:
        return False
    if has == VOID or has.ddl == wanted.ddl:
        return True
    if has.is_integer and wanted.is_integer:
        return INTEGERS[has.name] <= INTEGERS[wanted.name]
    if wanted.is_float:
        return has.is_integer or has.is_float or has.name == "decimal"
    if wanted.name == "decimal" and (has.is_integer or has.name == "decimal"):
        left = as_decimal(has)
        return left.scale <= wanted.scale and left.precision - left.scale <= wanted.precision - wanted.scale
    return wanted.name == "string"


# attributes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Equality:
    """left = right between plain columns of one type family; null_safe is <=>."""

    left: Attribute
    right: Attribute
    null_safe: bool = False

    def __str__(self) -> str:
        return f"{self.left} {'<=>' if self.null_safe else '='} {self.right}"


class Numbers:
    """Makes attributes with new column ids."""

    def __init__(self, start: int = 1) -> None:
        self._next = itertools.count(start)

    def attribute(self, name: str, kind: Type, *, nullable: bool = True) -> Attribute:
        """A new attribute."""
        return Attribute(next(self._next), name, kind, nullable)

    def like(self, attribute: Attribute, *, nullable: bool | None = None) -> Attribute:
        """A new attribute with the name and type of another."""
        return self.attribute(
            attribute.name, attribute.type, nullable=attribute.nullable if nullable is None else nullable
        )


def attributes_in(expressions: Iterable[Expression]) -> Iterator[Attribute]:
    """The attributes that some expressions name."""
    for expression in expressions:
        yield from expression.attributes
