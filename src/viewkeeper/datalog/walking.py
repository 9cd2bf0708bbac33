"""Traversal of trees, and renaming of variables in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from viewkeeper.datalog.terms import Aggregate, Node, Variable

N = TypeVar("N", bound=Node)


def children(node: Node) -> Iterator[Node]:
    """The children of a node in the order of the text, except fields that comparisons ignore."""
    for part in fields(node):
        if not part.compare:
            continue
        value = getattr(node, part.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (each for each in value if isinstance(each, Node))


def walk(node: Node, enter: Callable[[Node], bool] = lambda node: True) -> Iterator[Node]:
    """A node and all below it, parents first; nothing below a node that must not be entered."""
    yield node
    if enter(node):
        for child in children(node):
            yield from walk(child, enter)


def variables(nodes: Iterable[Node]) -> list[Variable]:
    """Every occurrence of a variable, inside aggregates too."""
    return [part for node in nodes for part in walk(node) if isinstance(part, Variable)]


def own_variables(nodes: Iterable[Node]) -> list[Variable]:
    """Every occurrence of a variable outside of aggregates."""

    def enter(node: Node) -> bool:
        return not isinstance(node, Aggregate)

    return [part for node in nodes for part in walk(node, enter) if isinstance(part, Variable)]


def names(found: Iterable[Variable]) -> list[str]:
    """The names of variables, each once, in order."""
    return list(dict.fromkeys(variable.name for variable in found))


def rebuilt(node: N, change: Callable[[Any], Any]) -> N:
    """The node with each of its children changed; the same object if nothing changed."""
    changed: dict[str, Any] = {}
    for part in fields(node):
        value = getattr(node, part.name)
        if not part.compare:
            continue
        if isinstance(value, Node):
            new: Any = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            new = tuple(map(change, value))
            new = value if all(a is b for a, b in zip(new, value, strict=True)) else new
        else:
            continue
        if new is not value:
            changed[part.name] = new
    return replace(node, **changed) if changed else node


def renamed(node: N, new_names: Mapping[str, str]) -> N:
    """The node with variables renamed, everywhere below it."""

    def change(part: Any) -> Any:
        if isinstance(part, Variable):
            name = new_names.get(part.name, part.name)
            return part if name == part.name else replace(part, name=name)
        return rebuilt(part, change)

    result: N = change(node)
    return result
