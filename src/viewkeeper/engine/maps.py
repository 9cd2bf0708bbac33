"""Nested values: maps as arrays of entries and back, and values that are NULL unless a condition holds.

Apache Spark's GROUP BY over a map turns NULL values of a number type into 0. Stored maps are sorted by key, so two
maps are equal exactly if their entries are, and every engine groups arrays correctly.
"""

from __future__ import annotations

import itertools

from viewkeeper.algebra.expressions import (
    Expression,
    Lambda,
    Variable,
    call,
    case,
    conjunction,
    not_null,
    opaque,
    string,
)
from viewkeeper.algebra.types import Type, quote


def as_entries(value: Expression, kind: Type) -> Expression:
    """An expression with every map in it, at any depth, as an array of structs."""
    return _turned(value, kind, itertools.count(), forth=True)


def from_entries(value: Expression, kind: Type) -> Expression:
    """The inverse of as_entries."""
    return _turned(value, kind, itertools.count(), forth=False)


def hidden(value: Expression, kind: Type, condition: Expression) -> Expression:
    """An expression that is NULL unless a condition holds; also a struct's fields, which Sail reads through a CASE."""
    if kind.name != "struct":
        return case((condition, value))
    fields = [
        part for name, inner in kind.fields for part in (string(name), hidden(_field(value, name), inner, condition))
    ]
    return case((conjunction((condition, not_null(value))), call("named_struct", *fields)))


def _field(value: Expression, name: str) -> Expression:
    return opaque(f"{{}}.{quote(name)}", value)


def _turned(value: Expression, kind: Type, numbers: itertools.count[int], *, forth: bool) -> Expression:
    if not kind.has_map():
        return value
    if kind.name == "array" and kind.element is not None:
        part = f"_vk_e{next(numbers)}"
        inside = _turned(Variable(part), kind.element, numbers, forth=forth)
        return call("transform", value, Lambda((part,), inside))
    if kind.name == "struct":
        fields = [
            part
            for name, inner in kind.fields
            for part in (string(name), _turned(_field(value, name), inner, numbers, forth=forth))
        ]
        return case((not_null(value), call("named_struct", *fields)))
    assert kind.value is not None
    entries = call("map_entries", value) if forth else value
    if kind.value.has_map():
        part = f"_vk_e{next(numbers)}"
        key, inner = _field(Variable(part), "key"), _field(Variable(part), "value")
        pair = call(
            "named_struct", string("key"), key, string("value"), _turned(inner, kind.value, numbers, forth=forth)
        )
        entries = call("transform", entries, Lambda((part,), pair))
    return entries if forth else call("map_from_entries", entries)
