"""Text as values of the declared types, as CSV files and names of folders hold it.

One set of rules for all engines: ISO dates and times, numbers in digits (no hexadecimals, no separators), the words
for true and false that Spark knows. Blanks around anything but a string do not count. Empty text is NULL, except in a
string column.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.algebra.values import convert

_WHOLE = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPECIAL = r"(?i)^[+-]?(nan|inf|infinity)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_ZONED = r"[ T][0-9:.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_BOOLEAN = r"(?i)^(true|false)$"

_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


class Unreadable(ValueError):
    """A text that is no value of the type: its position among the texts, and why."""

    def __init__(self, index: int, text: str, why: str) -> None:
        super().__init__(why)
        self.index, self.text, self.why = index, text, why


def read_texts(texts: pa.Array, kind: Type, zone: str, *, blank_is_null: bool = True) -> pa.Array:
    """An array of strings as a type; Unreadable for the first text that is no value of it."""
    if kind.name == "string":
        return texts
    if kind.name == "binary":
        return texts.cast(pa.binary())
    if kind.is_nested:
        first = next((i for i, text in enumerate(texts) if text.is_valid), None)
        if first is not None:
            raise Unreadable(first, texts[first].as_py(), f"text cannot become a value of {kind}")
        return pa.nulls(len(texts), kind.arrow)
    trimmed = pc.utf8_trim_whitespace(texts)
    if blank_is_null:
        trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    why, read = _READERS[kind.name]
    try:
        return read(trimmed, kind, zone)
    except (ValueError, ArithmeticError):  # pa.ArrowInvalid is a ValueError
        raise _first_unreadable(texts, trimmed, kind, zone, why) from None


def _first_unreadable(texts: pa.Array, trimmed: pa.Array, kind: Type, zone: str, why: str) -> Unreadable:
    """The first text that cannot be read, found by bisection."""
    read = _READERS[kind.name][1]
    low, high = 0, len(trimmed)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            read(trimmed.slice(low, middle - low), kind, zone)
            low = middle
        except (ValueError, ArithmeticError):
            high = middle
    try:
        read(trimmed.slice(low, 1), kind, zone)
    except _Why as problem:
        why = str(problem)
    except (ValueError, ArithmeticError):
        pass
    return Unreadable(low, texts[low].as_py(), why)


class _Why(ValueError):
    """A reason that says more than the type's own."""


def _check(texts: pa.Array, pattern: str) -> None:
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        raise ValueError


def _boolean(texts: pa.Array, kind: Type, zone: str) -> pa.Array:
    lowered = pc.utf8_lower(texts)
    true = pc.is_in(lowered, pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(lowered, pa.array(_FALSE)))
    if pc.any(pc.and_(pc.is_valid(texts), pc.invert(known)), min_count=0).as_py():
        raise ValueError
    return pc.if_else(pc.is_valid(texts), true, pa.scalar(None, pa.bool_()))


def _integer(texts: pa.Array, kind: Type, zone: str) -> pa.Array:
    _check(texts, _WHOLE)
    try:
        return pc.replace_substring_regex(texts, r"^\+", "").cast(pa.int64()).cast(kind.arrow)
    except pa.ArrowInvalid:
        raise _Why("it is out of range") from None


def _floating(texts: pa.Array, kind: Type, zone: str) -> pa.Array:
    _check(texts, f"{_NUMBER}|{_SPECIAL}")
    return pc.replace_substring_regex(texts, r"^\+", "").cast(kind.arrow)


def _decimal(texts: pa.Array, kind: Type, zone: str) -> pa.Array:
    _check(texts, _NUMBER)
    try:
        return texts.cast(kind.arrow)
    except pa.ArrowInvalid:  # more digits than the scale has: rounded half up, as everywhere
        pass
    try:
        read = [None if text is None else convert(decimal.Decimal(text), kind, zone) for text in texts.to_pylist()]
    except (ValueError, ArithmeticError) as problem:
        raise _Why(str(problem)) from None
    return pa.array(read, kind.arrow)


def _date(texts: pa.Array, kind: Type, zone: str) -> pa.Array:
    _check(texts, _DATE)
    return _known_years(texts).cast(pa.date32())


def _timestamp(texts: pa.Array, kind: Type, zone: str) -> pa.Array:
    texts = _microseconds(texts)
    zoned = pc.match_substring_regex(texts, _ZONED)
    none = pa.scalar(None, pa.string())
    absolute = pc.if_else(zoned, texts, none).cast(pa.timestamp("us", "UTC"))
    local = pc.if_else(zoned, none, texts).cast(pa.timestamp("us"))
    moments = pc.assume_timezone(local, zone, ambiguous="earliest").cast(pa.timestamp("us", "UTC"))
    return pc.coalesce(absolute, moments).cast(kind.arrow)


def _timestamp_ntz(texts: pa.Array, kind: Type, zone: str) -> pa.Array:
    texts = _microseconds(texts)
    if pc.any(pc.match_substring_regex(texts, _ZONED), min_count=0).as_py():
        raise _Why("it has a time zone, the column has none")
    return texts.cast(pa.timestamp("us"))


def _microseconds(texts: pa.Array) -> pa.Array:
    """Texts of dates and times without zeros beyond the microsecond; anything else there is refused by Arrow."""
    _check(texts, _MOMENT)
    shortened = pc.replace_substring_regex(texts, r"(\.[0-9]{6})0+", r"\1")
    if pc.any(pc.match_substring_regex(shortened, r"\.[0-9]{7}"), min_count=0).as_py():
        raise _Why("it is finer than a microsecond")
    return _known_years(shortened)


def _known_years(texts: pa.Array) -> pa.Array:
    if pc.any(pc.starts_with(texts, "0000"), min_count=0).as_py():
        raise _Why("it lies outside the years 1 to 9999")
    return texts


_READERS: dict[str, tuple[str, Callable[[pa.Array, Type, str], pa.Array]]] = {
    "boolean": ("it is not true or false", _boolean),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), ("it is not a whole number", _integer)),
    **dict.fromkeys(("float", "double"), ("it is not a number", _floating)),
    "decimal": ("it is not a number", _decimal),
    "date": ("it is not a date such as 2024-02-29", _date),
    "timestamp": ("it is not a date and time such as 2024-02-29 10:11:12", _timestamp),
    "timestamp_ntz": ("it is not a date and time such as 2024-02-29 10:11:12", _timestamp_ntz),
}


_CHAINS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("bigint", _WHOLE), ("decimal(38,0)", _WHOLE), ("double", f"{_NUMBER}|{_SPECIAL}")),
    (("date", _DATE), ("timestamp", _MOMENT)),
    (("boolean", _BOOLEAN),),
)
"""The types to try for a column of text, with their patterns. A text of one type is one of each later type too."""


class Guess:
    """The type that all texts of a column read as, found batch by batch."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._left: tuple[tuple[str, str], ...] | None = None

    def see(self, texts: pa.Array) -> None:
        """Narrows the guess to the types that more texts read as."""
        if self._left == ():
            return
        trimmed = pc.utf8_trim_whitespace(pc.drop_null(texts))
        trimmed = trimmed.filter(pc.not_equal(trimmed, ""))
        if len(trimmed):
            chains = _CHAINS if self._left is None else (self._left,)
            rest = (chain[i:] for chain in chains for i in range(len(chain)) if self._reads(trimmed, *chain[i]))
            self._left = next(rest, ())

    def _reads(self, texts: pa.Array, kind: str, pattern: str) -> bool:
        try:
            _check(texts, pattern)
            read_texts(texts, parse_type(kind), self._zone)
        except ValueError:
            return False
        return True

    @property
    def type(self) -> str:
        """The type: STRING where no other fits, and for no texts at all."""
        return self._left[0][0] if self._left else "string"
