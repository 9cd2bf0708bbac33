"""The net change of a virtual view in past epochs, from the states of its inputs before and after them."""

from __future__ import annotations

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.maintain.net_changes import net_change, net_difference
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.store.store import Store


def virtual_change(store: Store, state: State, relation: VirtualView, epoch: int, since: int | None = None) -> pa.Table:
    """The net change of a virtual view in an epoch, or after an earlier one up to it, as signed rows.

    If it was created meanwhile, its rows; where its definition was replaced, the difference of the two.
    """
    since = epoch - 1 if since is None else since
    reader = StateReader(store, state.relations.__getitem__, epoch, since)
    now = relation.definition_at(epoch)
    node = now.as_written
    if relation.created > since:
        return net_difference(store, relation, node, None, reader)
    before = relation.definition_at(since)
    if now is not before:
        return net_difference(store, relation, node, before.as_written, reader)
    node = now.maintained if has_auxiliaries(state, now, since) else node
    return net_change(store, relation, node, {scan.relation for scan in n.scans(node)}, reader)


def has_auxiliaries(state: State, definition: Definition, since: int) -> bool:
    """Whether all auxiliary relations of a virtual view can be read from an epoch on."""
    found = [state.relations.get(key) for key in definition.hidden]
    return all(r is not None and r.created <= since and state.oldest_of(r) <= since for r in found)
