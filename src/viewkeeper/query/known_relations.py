"""The relations of a database, in the form that analyses of views use."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.advice.named_relations import Known, StoredRelation, VirtualRelation
from viewkeeper.algebra.schema import Key
from viewkeeper.analysis.dependencies import keys_of
from viewkeeper.catalog.relations import Derived, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.maintain.declared_keys import declared_keys
from viewkeeper.query.programs import DATALOG


def known_relations(state: State) -> Known:
    """Tables with their keys, materialized views with the keys derived from their queries, and virtual views."""
    known = Known()

    declared = declared_keys(state.relations.get)
    for relation in state.alive():
        if relation.is_hidden:
            continue
        if not isinstance(relation, Derived):
            known.add(StoredRelation(relation.name, relation.schema, is_view=False))
            continue
        definition = relation.definition
        if isinstance(relation, VirtualView) and definition.language != DATALOG:
            known.add(VirtualRelation(relation.name, definition.sql, definition.sql, definition.names))
        else:
            keys = keys_of(definition.as_written, definition.names, declared)
            schema = replace(relation.schema, keys=tuple(Key(key, primary=False) for key in keys))
            known.add(StoredRelation(relation.name, schema, is_view=True))
    return known
