"""Rules of recursive relations, from Datalog text or WITH RECURSIVE.

    head(columns) :- literal, ..., equalities, conditions

A variable that occurs in several literals is one attribute per literal, with equalities between them. So a body is a
join and can be rewritten like one.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.algebra.expressions import Attribute, Equality, Expression


@dataclass(frozen=True)
class Predicate:
    """A recursive relation: its name within the recursion, and its columns."""

    name: str
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True)
class Literal:
    """A literal of a body: a recursive relation by name, or an expression outside the recursion by position.

    `attributes` are its columns in this rule, by position. A negated literal is outside the recursion; each of its
    attributes is equal to one of another literal.
    """

    source: str | int
    attributes: tuple[Attribute, ...]
    negated: bool = False

    @property
    def is_recursive(self) -> bool:
        """Whether it names a relation of the recursion."""
        return isinstance(self.source, str)


@dataclass(frozen=True)
class Rule:
    """A Datalog rule. `columns` are the head's, over the attributes of the body's literals; `text` is for display.

    `computed` are the values that negated literals are compared with, where those are not plain attributes.
    """

    head: str
    columns: tuple[Expression, ...]
    body: tuple[Literal, ...]
    equalities: tuple[Equality, ...] = ()
    conditions: tuple[Expression, ...] = ()
    computed: tuple[tuple[Attribute, Expression], ...] = ()
    text: str = ""
