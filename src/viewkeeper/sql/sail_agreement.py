"""Which calls give the same results on Sail as on Apache Spark: the generated table `sail_agreement.txt`.

The table has one line for each function and types of arguments that were compared, over values that engines are known
to disagree about. `tests/sql/function_agreement.py` makes it, with the rewrites of `sail_rewrites.py` in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from viewkeeper.algebra.types import INTEGERS, Type

AGREES, NEARLY, DIFFERS, FAILS, MISSING = "agrees", "nearly", "differs", "fails", "missing"
"""Equal; equal except for the last digits of floats; another value or type, or no error where Apache Spark raises; an
error for some value where Apache Spark has none; not available."""

NARROW = 28
"""Decimals of at most this many digits are narrow: their sums have room for ten more digits."""

CONSTANT = "constant"
INTEGER = "integer"

Argument = Type | str
"""The class of an argument: its type, `=text` for a constant, or `#word` for another part of a call."""


@dataclass(frozen=True)
class Compared:
    """One line of the table: a call of a kind (scalar, aggregate, window, generator) and its arguments' classes."""

    kind: str
    name: str
    arguments: tuple[str, ...]
    outcome: str
    example: str = ""

    @property
    def is_constant(self) -> bool:
        """Whether all arguments are constants: then the line says nothing about other calls."""
        return all(part.startswith("=") for part in self.arguments)

    @property
    def is_refused(self) -> bool:
        """Whether a view must not use it on Sail."""
        return self.outcome in (DIFFERS, MISSING)


def class_of(kind: Type) -> str:
    """The class of a type in the table: without the parts of maps and structs, decimals as narrow or wide."""
    if kind.name == "array" and kind.element is not None:
        return f"array<{class_of(kind.element)}>"
    return "wide decimal" if kind.name == "decimal" and kind.precision > NARROW else kind.name


@cache
def table() -> dict[tuple[str, str], tuple[Compared, ...]]:
    """The lines by kind and name."""
    found: dict[tuple[str, str], list[Compared]] = {}
    for line in files("viewkeeper.sql").joinpath("sail_agreement.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, name, arguments, outcome, example = line.split("\t")
            given = tuple(arguments.split("; ")) if arguments else ()
            found.setdefault((kind, name), []).append(Compared(kind, name, given, outcome, example))
    return {key: tuple(lines) for key, lines in found.items()}


def is_mixed(kind: str, name: str) -> bool:
    """Whether some calls of a function are refused, so that the types of its arguments matter."""
    return any(line.is_refused for line in table().get((kind, name), ()))


def refused(kind: str, name: str, arguments: Sequence[Argument]) -> Compared | None:
    """The line because of which a call is refused; None if it agrees or was not compared."""
    lines = table().get((kind, name), ())
    alike = [line for line in lines if len(line.arguments) == len(arguments)]
    exact = [line for line in alike if all(map(_is_exactly, line.arguments, arguments))]
    typed = [line for line in alike if not line.is_constant]
    matching = exact or [line for line in typed if all(map(_may_be, line.arguments, arguments))]
    if not alike:  # any number of arguments: each counts for itself
        matching = [line for line in lines if not line.is_constant and _is_among(line.arguments, arguments)]
    return next((line for line in matching if line.is_refused), None)


def _is_among(wanted: Sequence[str], given: Sequence[Argument]) -> bool:
    """Whether every class of a line is that of some argument."""
    return all(any(_may_be(part, argument) for argument in given) for part in wanted if not part.startswith("="))


def _is_exactly(wanted: str, given: Argument) -> bool:
    """Whether an argument is of the class in a line."""
    if isinstance(given, str):
        return wanted == given or (wanted == CONSTANT and given.startswith("="))
    shown = class_of(given)
    return wanted == shown or (wanted == INTEGER and shown in INTEGERS)


def _may_be(wanted: str, given: Argument) -> bool:
    """The same, where any constant matches any other: one that was not compared counts as the worst that was."""
    if isinstance(given, str) and given.startswith("="):
        return wanted == CONSTANT or wanted.startswith("=")
    return _is_exactly(wanted, given)
