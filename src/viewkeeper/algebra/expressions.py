"""Scalar expressions: the user's own text, with attributes in place of column names.

An attribute is a column inside a query: its column id, name and type. An expression is text with attributes in between,
so attributes can be renamed and substituted without parsing it, and every engine function stays as it was written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from viewkeeper.algebra.types import Type


@dataclass(frozen=True)
class Attribute:
    """A column inside a query. `number` is its column id, which identifies it; the name is for display."""

    number: int
    name: str
    type: Type
    nullable: bool = True

    def __hash__(self) -> int:
        return self.number

    @property
    def label(self) -> str:
        """Its column name in engine text."""
        return f"c{self.number}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Expression:
    """Engine text with attributes in it. `raises` says whether it is fallible: whether it can raise for some row."""

    parts: tuple[str | Attribute, ...]
    raises: bool = True

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes it names, each once, in order."""
        return tuple(dict.fromkeys(part for part in self.parts if isinstance(part, Attribute)))

    @property
    def attribute(self) -> Attribute | None:
        """The attribute, if the expression is nothing but one."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Attribute):
            return self.parts[0]
        return None

    @property
    def sql(self) -> str:
        """The text for the engine."""
        return "".join(part if isinstance(part, str) else part.label for part in self.parts)

    def __str__(self) -> str:
        return "".join(str(part) for part in self.parts)

    def substitute(self, mapping: Mapping[Attribute, Expression]) -> Expression:
        """The same expression with some attributes replaced by expressions."""
        if not any(part in mapping for part in self.parts if isinstance(part, Attribute)):
            return self
        parts: list[str | Attribute] = []
        raises = self.raises
        for part in self.parts:
            replaced = mapping.get(part) if isinstance(part, Attribute) else None
            if replaced is None:
                parts.append(part)
            elif replaced.attribute is not None:
                parts.append(replaced.attribute)
            else:
                raises = raises or replaced.raises
                parts += ["(", *replaced.parts, ")"]
        return Expression(tuple(parts), raises)


@dataclass(frozen=True)
class Equality:
    """left = right between plain columns of one type family; null_safe is <=>."""

    left: Attribute
    right: Attribute
    null_safe: bool = False

    def __str__(self) -> str:
        return f"{self.left} {'<=>' if self.null_safe else '='} {self.right}"


def column(attribute: Attribute) -> Expression:
    """An attribute as an expression."""
    return Expression((attribute,), raises=False)


def text(template: str, *arguments: Attribute | Expression, raises: bool = False) -> Expression:
    """An expression from a template in which each `{}` stands for the next argument."""
    pieces = template.split("{}")
    assert len(pieces) == len(arguments) + 1
    parts: list[str | Attribute] = [pieces[0]]
    for argument, piece in zip(arguments, pieces[1:], strict=True):
        if isinstance(argument, Attribute):
            parts.append(argument)
        elif argument.attribute is not None:
            parts.append(argument.attribute)
        else:
            raises = raises or argument.raises
            parts += ["(", *argument.parts, ")"]
        parts.append(piece)
    return Expression(tuple(part for part in parts if part != ""), raises)


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


Rename = Callable[[Attribute], Attribute]


@dataclass(frozen=True)
class Conjunction(Expression):
    """Conditions joined by AND, some of them fallible; stored one by one so that they are tested in order."""

    conditions: tuple[Expression, ...] = ()

    def substitute(self, mapping: Mapping[Attribute, Expression]) -> Expression:
        """The same conditions with some attributes replaced."""
        return conjunction(tuple(condition.substitute(mapping) for condition in self.conditions))


def conjunction(conditions: tuple[Expression, ...]) -> Expression:
    """Some conditions joined by AND."""
    if len(conditions) == 1:
        return conditions[0]
    parts: list[str | Attribute] = []
    for index, condition in enumerate(conditions):
        parts += [" AND (" if index else "(", *condition.parts, ")"]
    if any(condition.raises for condition in conditions):
        return Conjunction(tuple(parts), True, conditions)
    return Expression(tuple(parts) or ("true",), raises=False)


def conditions_of(condition: Expression) -> tuple[Expression, ...]:
    """The conditions that a condition joins by AND, in order."""
    if not isinstance(condition, Conjunction):
        return (condition,)
    return tuple(part for inside in condition.conditions for part in conditions_of(inside))


def attributes_in(expressions: tuple[Expression, ...]) -> Iterator[Attribute]:
    """The attributes that some expressions name."""
    for expression in expressions:
        yield from expression.attributes
