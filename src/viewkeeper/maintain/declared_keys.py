"""Keys and foreign keys of stored relations, in the form that analyses use."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from viewkeeper.algebra import nodes as n
from viewkeeper.analysis.dependencies import Declared, keys_of
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation
from viewkeeper.plan.by_keys import Refers, without_needless

T = TypeVar("T")

Key: TypeAlias = tuple[str, ...]
"""The names of columns no two rows agree on."""

Find: TypeAlias = Callable[[str], Relation | None]
"""The relation with an id; None if there is none."""


def declared_keys(find: Find) -> Declared:
    """The keys of stored relations none of whose columns can be NULL."""

    def keys(scan: n.Scan) -> list[Key]:
        relation = find(scan.relation)
        return [] if relation is None else _declared(relation)

    return keys


def _declared(relation: Relation) -> list[Key]:
    schema = relation.schema
    return [key.columns for key in schema.keys if not any(schema.column(c).nullable for c in key.columns)]


def stored_keys(find: Find) -> Declared:
    """Declared keys, and the groups of auxiliary group-bys: NULL is a group too, so that no two rows agree on them."""

    def keys(scan: n.Scan) -> list[Key]:
        relation = find(scan.relation)
        if isinstance(relation, Auxiliary) and isinstance(relation.definition.maintained, n.Aggregate):
            return [tuple(relation.schema.names[: len(relation.definition.maintained.groups)])]
        return [] if relation is None else _declared(relation)

    return keys


def current_keys(find: Find) -> Declared:
    """The keys of stored relations; those of views follow from their definitions, which may be replaced one day."""

    def keys(scan: n.Scan) -> list[Key]:
        relation = find(scan.relation)
        return [] if relation is None else relation_keys(find, relation)

    return keys


def relation_keys(find: Find, relation: Relation) -> list[Key]:
    """The keys of a relation none of whose columns can be NULL: declared ones, or those that follow from its query."""
    if not isinstance(relation, Derived):
        return _declared(relation)
    definition = relation.definition
    return _once(_keys, find, definition, lambda keys: keys_of(definition.as_written, definition.names, keys))


def simplified(find: Find, relation: Derived) -> n.Node:
    """The query of a view without the operators that keys make unnecessary."""
    definition = relation.definition
    return _once(_simplified, find, definition, lambda keys: without_needless(definition.as_written, keys))


_Known: TypeAlias = "weakref.WeakKeyDictionary[Definition, tuple[dict[str, list[Key]], T]]"
_keys: _Known[list[Key]] = weakref.WeakKeyDictionary()
_simplified: _Known[n.Node] = weakref.WeakKeyDictionary()


def _once(known: _Known[T], find: Find, definition: Definition, derive: Callable[[Declared], T]) -> T:
    """What follows from a definition and the keys of what it reads: derived once, as long as these are the same."""
    keys = current_keys(find)
    below = {scan.relation: keys(scan) for scan in n.scans(definition.as_written)}
    found = known.get(definition)
    if found is None or found[0] != below:
        found = known[definition] = (below, derive(lambda scan: below.get(scan.relation, [])))
    return found[1]


def foreign_keys(find: Find) -> Refers:
    """The foreign keys from one stored relation to another."""

    def refers(child: n.Scan, parent: n.Scan) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        ours, theirs = find(child.relation), find(parent.relation)
        if ours is None or theirs is None:
            return []
        keys = ours.schema.references
        return [(key.columns, key.referenced) for key in keys if key.table.lower() == theirs.name.lower()]

    return refers
