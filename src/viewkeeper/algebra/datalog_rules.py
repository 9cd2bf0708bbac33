"""Rules of recursive relations, from Datalog text or WITH RECURSIVE.

    head(columns) :- literal, ..., equalities, conditions

A variable that stands in several literals is one attribute for each, made equal. So a body is a join, and a rule can be
taken apart and put together again like one.
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
    """A literal of a body: a recursive relation by its name, or an expression outside of the recursion by its number.

    `attributes` are its columns in this rule, by position. A negated one is always outside; its attributes are all made
    equal to ones of other literals.
    """

    source: str | int
    attributes: tuple[Attribute, ...]
    negated: bool = False

    @property
    def is_recursive(self) -> bool:
        """Whether it stands for a relation of the recursion."""
        return isinstance(self.source, str)


@dataclass(frozen=True)
class Rule:
    """A rule. `columns` are the head's, over the attributes of the body's literals; `text` is for people.

    `computed` are values that negated literals are compared with, where they are not plain attributes.
    """

    head: str
    columns: tuple[Expression, ...]
    body: tuple[Literal, ...]
    equalities: tuple[Equality, ...] = ()
    conditions: tuple[Expression, ...] = ()
    computed: tuple[tuple[Attribute, Expression], ...] = ()
    text: str = ""
