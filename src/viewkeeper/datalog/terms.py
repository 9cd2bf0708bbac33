"""Terms, as frozen values: variables, constants, expressions, functors and aggregates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from viewkeeper.errors import Place

if TYPE_CHECKING:
    from viewkeeper.datalog.program_tree import Body


@dataclass(frozen=True)
class Node:
    """Anything that has a position in the text."""

    place: Place = field(compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Variable(Node):
    """A variable. Names are compared with their case."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Wildcard(Node):
    """An underscore: any value, and another one each time."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Number(Node):
    """An integer."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Real(Node):
    """A number with a decimal point, exactly as written."""

    value: Decimal

    def __str__(self) -> str:
        return f"{self.value:f}"


@dataclass(frozen=True)
class Text(Node):
    """A string."""

    value: str

    def __str__(self) -> str:
        return '"' + "".join(_ESCAPED.get(letter, letter) for letter in self.value) + '"'


@dataclass(frozen=True)
class Boolean(Node):
    """The value true or false, as an argument of an atom or on the right of a comparison."""

    value: bool

    def __str__(self) -> str:
        return str(self.value).lower()


@dataclass(frozen=True)
class Unary(Node):
    """A prefix operator: `-` or `bnot`."""

    operator: str
    operand: Term

    def __str__(self) -> str:
        operator = self.operator if self.operator == "-" else self.operator + " "
        negative = self.operator == "-" and str(self.operand).startswith("-")
        return operator + (f"({self.operand})" if negative else _inside(self.operand, _SIGNED))


@dataclass(frozen=True)
class Binary(Node):
    """A binary operator."""

    operator: str
    left: Term
    right: Term

    def __str__(self) -> str:
        level = LEVELS[self.operator]
        left, right = (level + 1, _SIGNED) if self.operator == "^" else (level, level + 1)
        return f"{_inside(self.left, left)} {self.operator} {_inside(self.right, right)}"


@dataclass(frozen=True)
class Call(Node):
    """A functor with its arguments. The name of a user's function begins with `@`."""

    function: str
    arguments: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.function}({listed(self.arguments)})"


@dataclass(frozen=True)
class Aggregate(Node):
    """An aggregate over the solutions of a body. Only `count` has no target."""

    function: str
    target: Term | None
    body: Body

    def __str__(self) -> str:
        target = "" if self.target is None else f" {self.target}"
        return f"{self.function}{target} : {{ {self.body} }}"


Constant: TypeAlias = Number | Real | Text | Boolean
Term: TypeAlias = Variable | Wildcard | Constant | Unary | Binary | Call | Aggregate

# printing -----------------------------------------------------------------------------------------------

LEVELS = {"bor": 1, "bxor": 2, "band": 3, "bshl": 4, "bshr": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "^": 8}
"""How tightly an operator binds; a sign binds more tightly than `*` and less than `^`."""

_SIGNED = 7

ESCAPES = {'"': '"', "'": "'", "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""What may follow a backslash in a string, and what it means."""

_ESCAPED = {meaning: "\\" + letter for letter, meaning in ESCAPES.items() if letter != "'"}


def listed(parts: Iterable[Node]) -> str:
    """Nodes with commas between them."""
    return ", ".join(map(str, parts))


def _inside(term: Term, level: int) -> str:
    """A term as an operand, in parentheses if it binds less tightly than it must."""
    match term:
        case Binary():
            own = LEVELS[term.operator]
        case Unary():
            own = _SIGNED
        case Number() | Real():
            own = _SIGNED if str(term).startswith("-") else 9
        case _:
            own = 9
    return f"({term})" if own < level else str(term)
