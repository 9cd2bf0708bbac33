"""Parameters of statements: `:name` and `?` become literals of the values that are given for them."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewkeeper.algebra.expressions import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, VOID, Literal
from viewkeeper.algebra.spark_text import literal_text
from viewkeeper.algebra.types import Type
from viewkeeper.errors import Place, SqlError, TypeMismatch
from viewkeeper.sql.tokens import tokenize

Parameters = Mapping[str, Any] | Sequence[Any]
"""Values by name for `:name`, or in order for `?`."""


@dataclass(frozen=True)
class _Piece:
    """A parameter as written, between two offsets, and the literal in its place."""

    start: int
    end: int
    literal: str


@dataclass(frozen=True)
class Bound:
    """A text with literals in the place of its parameters."""

    written: str
    text: str
    pieces: tuple[_Piece, ...] = ()

    def as_written(self, place: Place | None) -> Place | None:
        """The position in the text as the user wrote it, for a position in the text with literals."""
        if place is None or not self.pieces or len(place.text) != len(self.text):
            return place
        start, _ = self._written(place.offset)
        _, end = self._written(place.offset + place.length - 1)
        return Place.at(self.written, start, end - start)

    def _written(self, offset: int) -> tuple[int, int]:
        """What stands for a letter in the text as written: between which offsets."""
        longer = 0
        for piece in self.pieces:
            begin = piece.start + longer
            if offset < begin:
                break
            if offset < begin + len(piece.literal):
                return piece.start, piece.end
            longer += len(piece.literal) - (piece.end - piece.start)
        return offset - longer, offset - longer + 1


def with_values(text: str, parameters: Parameters) -> Bound:
    """A text with the values of its parameters. Names without a value stay: they may be those of an active rule."""
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, (Mapping, Sequence)):
        raise TypeMismatch(
            f"a {type(parameters).__name__} does not hold the values of parameters",
            hint='give a dict for :name, as in {"id": 1}, or a list for ?',
        )
    pieces = _named(text, parameters) if isinstance(parameters, Mapping) else _in_order(text, parameters)
    parts, position = [], 0
    for piece in pieces:
        parts += [text[position : piece.start], piece.literal]
        position = piece.end
    return Bound(text, "".join([*parts, text[position:]]), tuple(pieces))


def without_value(node: exp.Expr, place: Place | None) -> SqlError:
    """The error for a parameter that no value is given for."""
    named = node.name not in ("", "?")
    written, given = (f":{node.name}", f'{{"{node.name}": ...}}') if named else ("?", "[...]")
    return SqlError(f"the parameter {written} has no value", place=place, hint=f"give it: db.sql(text, {given})")


def _named(text: str, values: Mapping[str, Any]) -> list[_Piece]:
    found = [(name, start, end) for name, start, end in _names(text) if name in values]
    unused = set(values) - {name for name, _, _ in found}
    if unused:
        raise SqlError(f"there is no parameter :{min(unused)} in the text", hint="leave its value out, or name it")
    return [_Piece(start, end, _literal(values[name], f":{name}")) for name, start, end in found]


def _names(text: str) -> Iterator[tuple[str, int, int]]:
    """The parameters :name, with where they begin and end; not the colon in STRUCT<a:INT>."""
    before: Token | None = None
    for colon, word in itertools.pairwise(tokenize(text)):
        name = text[word.start : word.end + 1]
        if colon.token_type == TokenType.COLON and colon.end + 1 == word.start and name.isidentifier():
            joined = before is not None and before.end + 1 == colon.start and text[before.end].isidentifier()
            if not joined:
                yield name, int(colon.start), int(word.end) + 1
        before = colon


def _in_order(text: str, values: Sequence[Any]) -> list[_Piece]:
    marks = [token for token in tokenize(text) if token.token_type == TokenType.PLACEHOLDER]
    if len(marks) != len(values):
        place = Place.at(text, int(marks[len(values)].start)) if len(marks) > len(values) else None
        raise SqlError(f"the text has {len(marks)} parameters (?), and {len(values)} values are given", place=place)
    return [
        _Piece(int(mark.start), int(mark.end) + 1, _literal(value, f"parameter {number}"))
        for number, (mark, value) in enumerate(zip(marks, values, strict=True), start=1)
    ]


def _literal(value: Any, what: str) -> str:
    """A Python value as SQL; a negative number is in brackets, so that no sign before it makes a comment."""
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        value = value.item()
    match value:
        case None:
            return literal_text(Literal(None, VOID))
        case bool():
            return literal_text(Literal(value, BOOLEAN))
        case int():
            return _signed(literal_text(Literal(value, INT if -(1 << 31) <= value < 1 << 31 else BIGINT)))
        case float():
            plain = value - value == 0
            return _signed(literal_text(Literal(repr(value), DOUBLE))) if plain else f"CAST('{value}' AS DOUBLE)"
        case decimal.Decimal() if value.is_finite():
            return _signed(literal_text(Literal(f"{value:f}", Type("decimal"))))
        case str() | uuid.UUID():
            return literal_text(Literal(str(value), STRING))
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case dt.datetime() if value != value:  # pandas.NaT
            return literal_text(Literal(None, VOID))
        case dt.datetime():
            return literal_text(Literal(str(value), Type("timestamp")))
        case dt.date():
            return literal_text(Literal(str(value), DATE))
        case Mapping():
            return f"map({', '.join(_literal(part, what) for pair in value.items() for part in pair)})"
        case list() | tuple():
            return f"array({', '.join(_literal(part, what) for part in value)})"
    raise TypeMismatch(
        f"{what}: a {type(value).__name__} cannot be a parameter ({value!r})",
        hint="give None, a bool, number, text, bytes, date, datetime, or a list or dict of these",
    )


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
