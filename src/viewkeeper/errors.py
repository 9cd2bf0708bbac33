"""One tree of errors. Each says what is wrong, where, and what to type instead.

The message is one sentence on what is wrong; `place` is the position in the user's text; `detail` adds facts;
`hint` can be typed. `view` is the view whose maintenance failed in a commit.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A position in the user's text: 1-based line and column, and the length to underline."""

    text: str
    line: int
    column: int
    length: int = 1

    @staticmethod
    def at(text: str, offset: int, length: int = 1) -> Place:
        """The position of a character offset in a text."""
        offset = max(0, min(offset, len(text)))
        before = text[:offset]
        line = before.count("\n") + 1
        column = offset - (before.rfind("\n") + 1) + 1
        return Place(text, line, column, max(1, length))

    @property
    def offset(self) -> int:
        """Its character offset in the text."""
        return sum(len(line) + 1 for line in self.text.split("\n")[: self.line - 1]) + self.column - 1

    @property
    def marked(self) -> str:
        """What stands there."""
        return self.text.split("\n")[self.line - 1][self.column - 1 : self.column - 1 + self.length]

    def __str__(self) -> str:
        lines = self.text.split("\n")
        source = lines[self.line - 1] if self.line <= len(lines) else ""
        before = "".join(" " * _width(letter) for letter in source[: self.column - 1])
        marked = source[self.column - 1 : self.column - 1 + self.length]
        mark = before + "^" * max(1, sum(_width(letter) for letter in marked))
        source = source.replace("\t", " " * _TAB)
        return f"line {self.line}, column {self.column}:\n  {source}\n  {mark}"


class Name(str):
    """A name with its source span: the text it comes from, and where it starts and ends there."""

    __slots__ = ("end", "start", "text")
    text: str
    start: int
    end: int

    @staticmethod
    def at(name: str, text: str, start: int, end: int) -> Name:
        """A name that is spelled, quoted or not, between two offsets of a text."""
        made = Name(name)
        made.text, made.start, made.end = text, start, end
        return made

    @property
    def place(self) -> Place:
        """Its position in the text."""
        return Place.at(self.text, self.start, self.end - self.start)


def place_of(name: str) -> Place | None:
    """The position of a name that has a source span; None for any other."""
    return name.place if isinstance(name, Name) else None


_TAB = 4


def _width(letter: str) -> int:
    """How many columns of a screen a letter takes."""
    if letter == "\t":
        return _TAB
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


class ViewkeeperError(Exception):
    """The root of everything Viewkeeper raises on purpose."""

    def __init__(
        self, message: str, *, detail: str | None = None, hint: str | None = None, place: Place | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.place = place
        self.statement: tuple[int, int] | None = None
        self.view: str | None = None

    def __str__(self) -> str:
        parts = [self.message]
        if self.statement is not None and self.statement[1] > 1:
            number, count = self.statement
            before = "the statements before it stand" if number > 1 else "nothing was changed"
            parts.append(f"in statement {number} of {count} ({before})")
        if self.place is not None:
            parts.append(f"at {self.place}")
        if self.detail:
            parts.append(f"detail: {self.detail}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class SqlError(ViewkeeperError):
    """SQL text that cannot be read, or names something wrongly."""


class DatalogError(ViewkeeperError):
    """A Datalog program that cannot be read, or is not safe or stratified."""


class NotMaintainable(ViewkeeperError):
    """A view that cannot be maintained."""


class ConstraintViolation(ViewkeeperError):
    """A PRIMARY KEY, UNIQUE, NOT NULL or length that a change would break."""


class AssertionViolated(ViewkeeperError):
    """An assertion that a change would break."""


class RuleLoop(ViewkeeperError):
    """Active rules that keep triggering each other."""


class Conflict(ViewkeeperError):
    """Another transaction changed what this one has read."""


class NotFound(ViewkeeperError):
    """A table, row or epoch that does not exist."""


class Gone(NotFound):
    """An epoch whose changes are no longer kept; `oldest` is the oldest after which they are."""

    oldest: int = 0


class AlreadyExists(ViewkeeperError):
    """A name that is taken."""


class TypeMismatch(ViewkeeperError):
    """A value that does not fit its column, or a type that is not supported."""


class StorageError(ViewkeeperError):
    """The directory, disk or object store did not do what was asked."""


class EngineError(ViewkeeperError):
    """Spark or Sail failed, or is not available."""


class StatementTimeout(EngineError):
    """A statement took longer than its time limit; it was stopped, and nothing was changed."""


class SessionLost(EngineError):
    """The engine forgot the session, for instance after a long idle time; a new one can be started."""


class InternalError(ViewkeeperError):
    """Something that must not happen: a law of change broke its contract. Nothing was changed."""
