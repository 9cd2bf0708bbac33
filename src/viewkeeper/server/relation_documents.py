"""Documents about relations: tables, views, one of them in full, and the dependency graph."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from viewkeeper.analysis.dependencies import keys_of
from viewkeeper.api.database import Database
from viewkeeper.catalog.display_names import display_name
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import AssertionView, Auxiliary, Derived, MaterializedView, Relation, Table
from viewkeeper.catalog.state import State
from viewkeeper.errors import NotFound, ViewkeeperError
from viewkeeper.log.definition_text import definition_text
from viewkeeper.maintain.declared_keys import declared_keys
from viewkeeper.server.access_tokens import Access
from viewkeeper.server.row_counts import RowCounts
from viewkeeper.server.row_encoding import json_value, schema_documents


def find_relation(state: State, name: str, access: Access, epoch: int | None = None) -> Relation:
    """The relation of a name, if the token reaches it."""
    access.grant(name)
    found = state.find(name, epoch)
    now = state.find(name) if found is None and epoch is not None else None
    if now is not None and not now.is_hidden:
        raise NotFound(f"there was no {now.name} in epoch {epoch}", hint=f"it was created in epoch {now.created}")
    if found is None or found.is_hidden:
        raise no_such_table(name, [each for each in state.names() if access.reaches(each)], None)
    return found


def iso_time(seconds: float) -> str | None:
    """A time as text, in UTC; None for 0."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat() if seconds else None


def tables_document(state: State, counts: RowCounts, access: Access) -> dict[str, Any]:
    """The tables that a token reaches."""
    found = [_listed(state, each, counts, access) for each in _visible(state, access) if isinstance(each, Table)]
    return {"epoch": state.epoch, "tables": found}


def views_document(state: State, counts: RowCounts, access: Access) -> dict[str, Any]:
    """The views that a token reaches; assertions have a list of their own."""
    views = [each for each in _visible(state, access) if isinstance(each, Derived)]
    found = [
        {
            **_listed(state, view, counts, access),
            "lag": lag(state, view),
            "stale_since": view.definition.suspended or None,
            "materialized": isinstance(view, MaterializedView),
            "language": view.definition.language,
        }
        for view in views
        if not isinstance(view, AssertionView)
    ]
    return {"epoch": state.epoch, "views": found}


def _visible(state: State, access: Access) -> list[Relation]:
    there = [each for each in state.alive() if not each.is_hidden and access.reaches(each.name)]
    return sorted(there, key=lambda each: each.name.lower())


def _listed(state: State, relation: Relation, counts: RowCounts, access: Access) -> dict[str, Any]:
    """What lists say of a relation. Who is bound to some of its rows does not learn how many there are."""
    bound = access.grant(relation.name).where is not None
    stored = isinstance(relation, Table | MaterializedView)
    changed = max([relation.created, *(file.last_epoch for file in relation.files)]) if stored else None
    key = next((each.columns for each in relation.schema.keys if each.primary), ())
    return {
        "name": relation.name,
        "kind": relation.kind_words,
        "columns": schema_documents(relation.schema),
        "key": list(key),
        "rows": counts.total(relation.files) if stored and not bound else None,
        "bytes": 0 if bound else sum(file.size for file in relation.files),
        "last_change": None if bound else changed,
        "last_changed_at": None if bound or changed is None else iso_time(_time_of(state, changed)),
    }


def _time_of(state: State, epoch: int) -> float:
    return state.committed_at if epoch == state.epoch else state.time_of(epoch)


def lag(state: State, relation: Relation) -> int:
    """How many epochs a view is behind."""
    if isinstance(relation, Derived) and relation.definition.is_demand:
        return max(0, state.epoch - relation.definition.refreshed)
    return 0


def relation_document(db: Database, name: str, access: Access) -> dict[str, Any]:
    """Everything about one table, view or assertion. Who reaches single relations sees nothing of others."""
    state = db.store.refresh()
    relation = find_relation(state, name, access)
    derived = relation if isinstance(relation, Derived) else None
    document: dict[str, Any] = {
        "name": relation.name,
        "kind": relation.kind_words,
        "definition": definition_text(relation, state.epoch),
        "language": "sql" if derived is None else derived.definition.language,
        "columns": schema_documents(relation.schema),
        "keys": _keys(state, relation),
        "lag": lag(state, relation),
        "options": {} if derived is None else json_value(derived.definition.options),
        "analysis": "" if derived is None else _analysis(db, derived),
        "plan": "" if derived is None else _plan(db, derived),
        "reads": [] if derived is None else _names(state, derived.definition.uses),
        "readers": _names(state, state.depending.dependents(relation.id)),
        "epoch": state.epoch,
        "oldest": max(relation.created, state.oldest_of(relation)),
    }
    if access.grants is not None:
        document |= {"definition": None, "analysis": None, "plan": None, "reads": [], "readers": []}
    return document


def _names(state: State, keys: Any) -> list[str]:
    found = (state.relations[key] for key in dict.fromkeys(keys) if key in state.relations)
    return [each.name for each in found if not each.is_hidden]


def _keys(state: State, relation: Relation) -> list[list[str]]:
    """The keys of a table as declared, those of a view as derived from its query."""
    if isinstance(relation, Table):
        return [list(key.columns) for key in relation.schema.keys]
    assert isinstance(relation, Derived)
    definition = relation.definition
    return [list(key) for key in keys_of(definition.as_written, definition.names, declared_keys(state.relations.get))]


def _analysis(db: Database, relation: Derived) -> str:
    try:
        return str(db.view(relation.name).analysis)
    except ViewkeeperError as problem:
        return problem.message


def _plan(db: Database, relation: Derived) -> str:
    try:
        return db.explain(relation.name)
    except ViewkeeperError as problem:
        return problem.message


# the graph ----------------------------------------------------------------------------------------


def graph_document(state: State) -> dict[str, Any]:
    """Nodes with their levels, and edges in the direction of a change."""
    there = state.alive()
    levels = graph_levels(state)
    names = {each.id: display_name(there, each) for each in there if not each.is_hidden or isinstance(each, Auxiliary)}
    nodes = [
        {"name": names[each.id], "kind": _kind(each), "level": levels[each.id]} for each in there if each.id in names
    ]
    edges = [
        {"from": names[below], "to": names[each.id]}
        for each in there
        if isinstance(each, Derived) and each.id in names
        for below in dict.fromkeys(each.needs)
        if below in names
    ]
    for rule in state.rules.values():
        below = _watched(state, rule.relation, names)
        above = [levels[key] for key in below]
        nodes.append({"name": rule.name, "kind": "rule", "level": max(above, default=0) + 1})
        edges += [{"from": names[key], "to": rule.name} for key in below]
    return {"epoch": state.epoch, "nodes": nodes, "edges": edges}


def _watched(state: State, key: str, names: Mapping[str, str]) -> list[str]:
    """What a rule watches: a relation that is shown, or what a query in brackets reads."""
    relation = state.relations[key]
    if key in names or not isinstance(relation, Derived):
        return [key] if key in names else []
    return [below for below in relation.definition.uses if below in names]


def _kind(relation: Relation) -> str:
    return "auxiliary" if isinstance(relation, Auxiliary) else relation.kind_words


def graph_levels(state: State) -> dict[str, int]:
    """The level of each relation: tables are 0, every other is above all that it reads."""
    there = state.alive()
    levels = {each.id: 0 for each in there}
    views = [each for each in there if isinstance(each, Derived)]
    for _ in views:
        raised = {each.id: 1 + max((levels.get(key, 0) for key in each.needs), default=0) for each in views}
        if all(levels[key] == level for key, level in raised.items()):
            break
        levels |= raised
    return levels
