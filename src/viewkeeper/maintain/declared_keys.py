"""Keys and foreign keys of stored relations, in the form that analyses use."""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.algebra import nodes as n
from viewkeeper.analysis.dependencies import Declared, keys_of
from viewkeeper.catalog.relations import Derived, Relation
from viewkeeper.plan.by_keys import Refers


def declared_keys(find: Callable[[str], Relation | None]) -> Declared:
    """The keys of stored relations none of whose columns can be NULL."""

    def keys(scan: n.Scan) -> list[tuple[str, ...]]:
        relation = find(scan.relation)
        if relation is None:
            return []
        schema = relation.schema
        return [key.columns for key in schema.keys if not any(schema.column(c).nullable for c in key.columns)]

    return keys


def current_keys(find: Callable[[str], Relation | None]) -> Declared:
    """The keys of stored relations; those of views follow from their definitions, which may be replaced one day."""
    declared = declared_keys(find)

    def keys(scan: n.Scan) -> list[tuple[str, ...]]:
        relation = find(scan.relation)
        if not isinstance(relation, Derived):
            return declared(scan)
        return keys_of(relation.definition.as_written, relation.definition.names, keys)

    return keys


def foreign_keys(find: Callable[[str], Relation | None]) -> Refers:
    """The foreign keys from one stored relation to another."""

    def refers(child: n.Scan, parent: n.Scan) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        ours, theirs = find(child.relation), find(parent.relation)
        if ours is None or theirs is None:
            return []
        keys = ours.schema.references
        return [(key.columns, key.referenced) for key in keys if key.table.lower() == theirs.name.lower()]

    return refers
