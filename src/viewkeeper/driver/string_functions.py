"""Functions of single strings as Apache Spark has them, on characters (code points)."""

from __future__ import annotations

from viewkeeper.driver.numbers import LeftToEngine

_LONGEST = 1_000_000
"""Most characters of a string that is made of repetitions."""

_MOST = (1 << 31) - 1


def substring(text: str, position: int, length: int = _MOST) -> str:
    """The characters from a position, counted from 1, or from the end if it is negative."""
    if length < 0 or -position > len(text):
        raise LeftToEngine("a negative length, or a position before the string")
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[start : start + length]


def left(text: str, count: int) -> str:
    """The first characters."""
    return text[:count] if count > 0 else ""


def right(text: str, count: int) -> str:
    """The last characters."""
    return text[-count:] if count > 0 else ""


def padded_left(text: str, length: int, filling: str = " ") -> str:
    """A string of a length, with a filling before it, or cut off."""
    _check_length(length)
    return _padding(text, length, filling) + text if length > len(text) else text[:length]


def padded_right(text: str, length: int, filling: str = " ") -> str:
    """A string of a length, with a filling after it, or cut off."""
    _check_length(length)
    return text + _padding(text, length, filling) if length > len(text) else text[:length]


def _check_length(length: int) -> None:
    if not 0 <= length <= _LONGEST:
        raise LeftToEngine("a negative or large length")


def _padding(text: str, length: int, filling: str) -> str:
    missing = length - len(text)
    return repeated(filling, -(-missing // len(filling)))[:missing] if filling else ""


def repeated(text: str, count: int) -> str:
    """So many copies."""
    if count < 0 or len(text) * count > _LONGEST:
        raise LeftToEngine("a negative or large number of repetitions")
    return text * count


def replaced(text: str, found: str, instead: str) -> str:
    """The string with another one in place of each occurrence; an empty one occurs nowhere."""
    return text.replace(found, instead) if found else text


def translated(text: str, found: str, instead: str) -> str:
    """The string with single characters replaced, or left out where there is none instead."""
    table: dict[str, str] = {}
    for place, character in enumerate(found):
        table.setdefault(character, instead[place : place + 1])
    return "".join(table.get(character, character) for character in text)


def part(text: str, separator: str, number: int) -> str:
    """One part of a string, counted from 1, or from the end if negative; an empty string if there is none."""
    if not number:
        raise LeftToEngine("part 0 of a string")
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""
