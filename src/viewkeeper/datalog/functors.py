"""The functors: the number and families of their arguments, and the family of their result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Functor:
    """A functor. `takes` and `gives` are 'number' or 'symbol', or None where any family will do.

    `most` is None if there may be any number of arguments. If `gives` is None, the result has the family of the
    arguments, which is the same for all.
    """

    name: str
    least: int
    most: int | None
    takes: tuple[str | None, ...]
    gives: str | None

    def family_of(self, position: int) -> str | None:
        """The family that an argument must have; the last one given holds for all that follow."""
        return self.takes[min(position, len(self.takes) - 1)]

    @property
    def counted(self) -> str:
        """How many arguments it takes, in words."""
        noun = "argument" if (self.most or self.least) == 1 else "arguments"
        return f"{self.least} {noun}" if self.least == self.most else f"{self.least} or more {noun}"


FUNCTORS = {
    functor.name: functor
    for functor in (
        Functor("cat", 2, None, ("symbol",), "symbol"),
        Functor("strlen", 1, 1, ("symbol",), "number"),
        Functor("substr", 3, 3, ("symbol", "number", "number"), "symbol"),
        Functor("ord", 1, 1, ("symbol",), "number"),
        Functor("to_number", 1, 1, (None,), "number"),
        Functor("to_string", 1, 1, (None,), "symbol"),
        Functor("to_float", 1, 1, (None,), "number"),
        Functor("min", 2, None, (None,), None),
        Functor("max", 2, None, (None,), None),
    )
}

AGGREGATES = ("count", "sum", "min", "max", "mean")

RESERVED = frozenset(
    (*FUNCTORS, *AGGREGATES, "contains", "match", "true", "false", "band", "bor", "bxor", "bnot", "bshl", "bshr")
)
"""Reserved words, which cannot name a relation or a variable."""
