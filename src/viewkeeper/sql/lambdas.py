"""Lambdas: the types of their variables, from the arguments of the function that calls them."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.algebra.types import Type

_INT = Type("int")
_OF_ELEMENTS = frozenset({"transform", "filter", "exists", "forall", "any_match", "all_match"})
_OF_ENTRIES = frozenset({"map_filter", "transform_keys", "transform_values"})
_FOLDS = frozenset({"aggregate", "reduce"})


def variables_of(function: str, given: Sequence[Type | None], count: int) -> list[Type | None]:
    """The types of a lambda's variables, None if not known; `given` are the types of the arguments before it."""
    first = given[0] if given else None
    if first is None:
        return [None] * count
    if function in _OF_ELEMENTS:
        return [first.element, _INT][:count]
    if function == "array_sort":
        return [first.element] * count
    if function in _OF_ENTRIES:
        return [first.key, first.value][:count]
    if function in _FOLDS and len(given) > 1:
        return [given[1], first.element][:count]
    return [None] * count
