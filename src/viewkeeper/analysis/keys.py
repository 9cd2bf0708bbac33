"""Keys of a query: sets of columns no two of its rows agree on. Sound: what is found is a key, not all are found."""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute

Keys = set[frozenset[Attribute]]


def keys_of(node: n.Node, declared: Callable[[n.Scan], list[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """The smallest known keys of a query, as column names."""
    found = sorted(_keys(node, declared), key=lambda key: (len(key), sorted(a.number for a in key)))
    small = [key for key in found if not any(other < key for other in found)]
    return [tuple(a.name for a in node.outputs if a in key) for key in small]


def _keys(node: n.Node, declared: Callable[[n.Scan], list[tuple[str, ...]]]) -> Keys:
    match node:
        case n.Scan():
            by_name = {name.lower(): a for name, a in zip(node.stored_names, node.attributes, strict=True)}
            keys = [[by_name.get(name.lower()) for name in key] for key in declared(node)]
            return {frozenset(a for a in key if a is not None) for key in keys if None not in key}
        case n.Project():
            passed = {e.attribute: a for a, e in node.columns if e.attribute is not None}
            below = _keys(node.input, declared)
            return {frozenset(passed[a] for a in key) for key in below if all(a in passed for a in key)}
        case n.Filter() | n.Top() | n.Window():
            return _keys(node.input, declared)
        case n.Exists():
            return _keys(node.left, declared)
        case n.Distinct():
            return {frozenset(node.outputs), *_keys(node.input, declared)}
        case n.Aggregate():
            return {frozenset(node.groups)}
        case n.Fixpoint() if not node.bag:
            return {frozenset(node.outputs)}
        case n.Join():
            total: Keys = {frozenset()}
            for part in node.inputs:
                total = {one | other for one in total for other in _keys(part, declared)}
            return total
        case _:
            return set()
