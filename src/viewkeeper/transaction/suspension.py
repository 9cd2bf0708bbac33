"""Suspended views: not maintained, reported as stale on every read, and resumed by a refresh.

A suspended view is handled like a demand view that is out of date: commits leave it as it is, views over it read it as
it is stored, and REFRESH brings it up to date, here by a full refresh.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.algebra.types import spelled
from viewkeeper.catalog.graph import reading
from viewkeeper.catalog.name_errors import wrong_kind
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.errors import SqlError
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.table_references import find_references
from viewkeeper.transaction.open_transaction import OpenTransaction


def suspend(tx: OpenTransaction, statement: sql.SuspendView) -> None:
    """ALTER MATERIALIZED VIEW name SUSPEND: from this transaction on the view is not maintained."""
    place = statement.name.place
    relation = tx.relation(statement.name, place)
    if not isinstance(relation, Derived):
        raise wrong_kind(relation, "ALTER", place)
    if isinstance(relation, VirtualView):
        raise SqlError(
            f"{relation.name} stores nothing, so there is nothing to suspend",
            place=place,
            hint=f"DROP VIEW {spelled(relation.name)}, or leave it",
        )
    if relation.id in {*tx.created, *tx.defined}:
        raise SqlError(
            f"{relation.name} is defined in this transaction, so it is computed when that commits",
            place=place,
            hint="COMMIT first",
        )
    if relation.definition.suspended:
        return
    keys = {relation.id, *(key for key in relation.definition.hidden if _is_free(tx, key, relation.id))}
    tx.refreshing -= keys
    tx.suspended |= keys
    tx.makes_epoch = True


def _is_free(tx: OpenTransaction, key: str, view: str) -> bool:
    """Whether no other view that is maintained needs an auxiliary relation."""
    users = [user for user in tx.dependents(key) if not isinstance(user, Auxiliary) and user.id != view]
    return all(user.definition.suspended for user in users)


def refresh(tx: OpenTransaction, statement: sql.Refresh) -> None:
    """REFRESH: when the transaction commits, a view that is out of date is brought up to date."""
    place = statement.name.place
    relation = tx.relation(statement.name, place)
    if not isinstance(relation, Derived):
        raise SqlError(f"{relation.name} is a table: there is nothing to refresh", place=place, hint="leave it out")
    keys = (*relation.definition.hidden, relation.id)
    tx.suspended.difference_update(keys)
    tx.refreshing.update(key for key in keys if as_derived(tx.by_id(key)).definition.is_demand)
    tx.makes_epoch = True


# remarks on stale views -----------------------------------------------------------------------------


def stale_since(relation: Relation, epoch: int) -> int | None:
    """The epoch since which a relation, read at an epoch, has not been maintained; None if it is up to date."""
    since = relation.definition.suspended if isinstance(relation, Derived) else 0
    return since if 0 < since <= epoch else None


def stale_remarks(state: State, relations: Iterable[Relation], epoch: int) -> list[str]:
    """Remarks for someone who reads relations at an epoch: which are stale, or read a stale one."""
    found: dict[str, str] = {}
    maintained = [relation for relation in state.relations.values() if stale_since(relation, epoch) is None]
    graph = reading(maintained, epoch)  # what a stale one reads does not matter
    for relation in relations:
        below = [relation, *(state.relations[key] for key in graph.all_read([relation.id]))]
        for stale in [each for each in below if stale_since(each, epoch) is not None]:
            read = "" if stale.id == relation.id else f"{relation.name} reads {stale.name}: "
            since = stale_since(stale, epoch)
            found.setdefault(
                f"{relation.id} {stale.id}",
                f"{read}{stale.name} is stale: it is suspended since epoch {since}; "
                f"REFRESH MATERIALIZED VIEW {spelled(stale.name)} brings it up to date",
            )
    return list(found.values())


def remarks_on_query(state: State, epoch: int, query: QueryText) -> list[str]:
    """Remarks for someone who runs a query at an epoch."""
    if not any(stale_since(relation, epoch) for relation in state.alive()):
        return []
    read = [state.find(reference.name, epoch) for reference in find_references(query.tree)]
    return stale_remarks(state, [relation for relation in read if relation is not None], epoch)
