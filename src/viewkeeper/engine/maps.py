"""Engine text for nested values: maps as arrays of entries and back, and values that are NULL unless a condition holds.

Apache Spark's GROUP BY over a map turns NULL values of a number type into 0. Stored maps are sorted by key, so two
maps are equal exactly if their entries are, and every engine groups arrays correctly.
"""

from __future__ import annotations

import itertools

from viewkeeper.algebra.types import Type, quote


def as_entries(text: str, kind: Type) -> str:
    """An expression with every map in it, at any depth, as an array of structs."""
    return _turned(text, kind, itertools.count(), forth=True)


def from_entries(text: str, kind: Type) -> str:
    """The inverse of as_entries."""
    return _turned(text, kind, itertools.count(), forth=False)


def hidden(text: str, kind: Type, condition: str) -> str:
    """An expression that is NULL unless a condition holds; also a struct's fields, which Sail reads through a CASE."""
    if kind.name != "struct":
        return f"CASE WHEN {condition} THEN {text} END"
    fields = ", ".join(
        f"{_string(name)}, {hidden(f'{text}.{quote(name)}', inner, condition)}" for name, inner in kind.fields
    )
    return f"CASE WHEN {condition} AND {text} IS NOT NULL THEN named_struct({fields}) END"


def _turned(text: str, kind: Type, numbers: itertools.count[int], *, forth: bool) -> str:
    if not kind.has_map():
        return text
    if kind.name == "array" and kind.element is not None:
        part = f"_vk_e{next(numbers)}"
        return f"transform({text}, {part} -> {_turned(part, kind.element, numbers, forth=forth)})"
    if kind.name == "struct":
        fields = ", ".join(
            f"{_string(name)}, {_turned(f'{text}.{quote(name)}', inner, numbers, forth=forth)}"
            for name, inner in kind.fields
        )
        return f"CASE WHEN {text} IS NOT NULL THEN named_struct({fields}) END"
    assert kind.value is not None
    entries = f"map_entries({text})" if forth else text
    if kind.value.has_map():
        part = f"_vk_e{next(numbers)}"
        value = _turned(f"{part}.value", kind.value, numbers, forth=forth)
        entries = f"transform({entries}, {part} -> named_struct('key', {part}.key, 'value', {value}))"
    return entries if forth else f"map_from_entries({entries})"


def _string(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
