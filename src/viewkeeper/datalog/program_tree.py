"""The tree of a program, as frozen values. Comparing trees ignores positions; `str` gives canonical text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from viewkeeper.algebra.types import Type
from viewkeeper.datalog.terms import Node, Term, Wildcard, listed

# literals and bodies ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Atom(Node):
    """A relation with its arguments."""

    relation: str
    arguments: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.relation}({listed(self.arguments)})"

    @property
    def wildcards(self) -> tuple[int, ...]:
        """The positions, from 0, that hold an underscore."""
        return tuple(i for i, argument in enumerate(self.arguments) if isinstance(argument, Wildcard))


@dataclass(frozen=True)
class Negation(Node):
    """An atom that must not hold."""

    atom: Atom

    def __str__(self) -> str:
        return f"!{self.atom}"


@dataclass(frozen=True)
class Comparison(Node):
    """Two terms and `=`, `!=`, `<`, `<=`, `>` or `>=`."""

    operator: str
    left: Term
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True)
class StringTest(Node):
    """`contains(part, whole)` or `match(pattern, text)`, perhaps after `!`."""

    name: str
    left: Term
    right: Term
    negated: bool = False

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.name}({self.left}, {self.right})"


@dataclass(frozen=True)
class Truth(Node):
    """The literal `true` or `false`."""

    holds: bool

    def __str__(self) -> str:
        return str(self.holds).lower()


Constraint: TypeAlias = Comparison | StringTest | Truth
Literal: TypeAlias = Atom | Negation | Constraint


@dataclass(frozen=True)
class Conjunction(Node):
    """Two or more parts that must all hold. No part is a conjunction."""

    parts: tuple[Body, ...]

    def __str__(self) -> str:
        return ", ".join(f"({part})" if isinstance(part, Disjunction) else str(part) for part in self.parts)


@dataclass(frozen=True)
class Disjunction(Node):
    """Two or more parts of which one must hold. No part is a disjunction."""

    parts: tuple[Body, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.parts))


Body: TypeAlias = Literal | Conjunction | Disjunction

# items ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeclaredColumn(Node):
    """A column of a declaration: its name, the type's canonical spelling, and the type that stores it."""

    name: str
    spelling: str
    type: Type

    def __str__(self) -> str:
        return f"{self.name}:{self.spelling}"


@dataclass(frozen=True)
class Name(Node):
    """The name of a relation in a declaration or directive."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Declaration(Node):
    """`.decl` of one or more relations with the same columns."""

    names: tuple[Name, ...]
    columns: tuple[DeclaredColumn, ...]

    def __str__(self) -> str:
        return f".decl {listed(self.names)}({listed(self.columns)})"


@dataclass(frozen=True)
class Directive(Node):
    """`.input` or `.output` of one or more relations; `kind` is 'input' or 'output'."""

    kind: str
    names: tuple[Name, ...]

    def __str__(self) -> str:
        return f".{self.kind} {listed(self.names)}"


@dataclass(frozen=True)
class Clause(Node):
    """A fact (no body) or a rule. `sign` is '+', '-' or nothing; `text` is the source, sign and dot included."""

    sign: str
    heads: tuple[Atom, ...]
    body: Body | None
    text: str = field(compare=False, repr=False)

    def __str__(self) -> str:
        sign = f"{self.sign} " if self.sign else ""
        body = "" if self.body is None else f" :- {self.body}"
        return f"{sign}{listed(self.heads)}{body}."


Item: TypeAlias = Declaration | Directive | Clause


@dataclass(frozen=True)
class Program(Node):
    """A program: its items in order."""

    items: tuple[Item, ...]

    def __str__(self) -> str:
        return "".join(f"{item}\n" for item in self.items)

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """The declarations in order."""
        return tuple(item for item in self.items if isinstance(item, Declaration))

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The `.input` and `.output` directives in order."""
        return tuple(item for item in self.items if isinstance(item, Directive))

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The facts and rules in order, removed ones included."""
        return tuple(item for item in self.items if isinstance(item, Clause))
