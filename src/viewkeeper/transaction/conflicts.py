"""Conflict checks: compares what others have committed since a transaction began with what it has read and defined."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from viewkeeper.algebra.rows import is_among
from viewkeeper.algebra.schema import EPOCH
from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.declared_functions import users_of
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.display_names import display_name
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.errors import Conflict
from viewkeeper.store.file_reading import read_files
from viewkeeper.transaction.open_transaction import OpenTransaction, Read


def check_conflicts(tx: OpenTransaction, state: State, files: list[DataFile]) -> None:
    """Raises Conflict if what the transaction did would come out differently on the newest state."""
    if tx.store.is_revoked(state, files):
        raise Conflict(
            "this process was taken for dead and its unfinished work was swept", hint="run the transaction again"
        )
    if tx.firing is not None and all(firing.key != tx.firing.key for firing in state.waiting):
        raise _conflict("another process has run this firing of a detached rule")
    if state.epoch == tx.state.epoch and state.oldest == tx.state.oldest:
        return
    for relation in tx.created.values():
        taken = state.find(relation.name)
        if taken is not None and taken.id not in tx.dropped:
            raise _conflict(f"another transaction has created a {taken.kind_words} named '{relation.name}'")
    for name in tx.absent:
        taken = state.find(name)
        if taken is not None and tx.state.find(name) is None:
            raise _conflict(
                f"another transaction has created a {taken.kind_words} named '{name}', which was not there before"
            )
    for key in {*tx.dropped, *tx.pending, *tx.defined, *tx.refreshed, *tx.suspended}:
        if key not in tx.created:
            _still_there(tx, state, key)
            _check_views(tx, state, key)
    for key in tx.suspended:
        if _bare(state.relations[key]) != _bare(tx.state.relations[key]):
            raise _conflict(f"another transaction has altered the view '{tx.state.relations[key].name}'")
    made = [relation for relation in tx.alive() if relation.id in tx.created or relation.id in tx.defined]
    for key in {used for relation in made if isinstance(relation, Derived) for used in relation.needs}:
        if key not in tx.created:
            _still_there(tx, state, key)
    if state.rules != tx.state.rules and (tx.pending or tx.rules):
        changed = {key for key in {*state.rules, *tx.state.rules} if state.rules.get(key) != tx.state.rules.get(key)}
        names = sorted({there[key].name for there in (state.rules, tx.state.rules) for key in changed if key in there})
        raise _conflict(f"another transaction has created, changed or dropped the rule '{names[0]}'")
    _check_firings(tx, state)
    for read in tx.reads:
        _check_read(tx, state, read)
    _check_functions(tx, state)


def _check_firings(tx: OpenTransaction, state: State) -> None:
    """Raises if a rule that this transaction drops has fired meanwhile, or a firing that it repeats waits no more."""
    waiting = {firing.key for firing in state.waiting}
    known = {firing.key for firing in tx.state.waiting}
    dropped = {key for key, rule in tx.rules.items() if rule is None}
    for rule, _ in waiting - known:
        if rule in dropped:
            raise _conflict(f"another transaction has fired the rule '{tx.state.rules[rule].name}'")
    for change in tx.waiting:
        if change.get("epoch") and (change["rule"], change["epoch"]) not in waiting:
            name = tx.state.rules[change["rule"]].name
            raise _conflict(f"another transaction has ended the firing of the rule '{name}' at epoch {change['epoch']}")


def _check_functions(tx: OpenTransaction, state: State) -> None:
    """Raises if another transaction changed a function that this one declares, drops or calls in new views."""
    made = [relation for relation in tx.alive() if relation.id in tx.created or relation.id in tx.defined]
    for key in {*tx.functions, *tx.state.functions}:
        changed = state.functions.get(key) != tx.state.functions.get(key)
        if changed and (key in tx.functions or users_of(made, key)):
            raise _conflict(f"another transaction has declared or dropped the function '{key}'")
        if key in tx.functions and users_of(state.alive(), key) != users_of(tx.state.alive(), key):
            raise _conflict(f"another transaction has created or dropped a view that uses the function '{key}'")


def _still_there(tx: OpenTransaction, state: State, key: str) -> Relation:
    current = state.relations.get(key)
    if current is None or current.dropped is not None:
        before = tx.state.relations[key]
        if isinstance(before, Auxiliary):
            raise _conflict(f"another transaction has dropped {display_name(tx.state.alive(), before)}")
        raise _conflict(f"another transaction has dropped the {before.kind_words} '{before.name}'")
    return current


def _check_views(tx: OpenTransaction, state: State, key: str) -> None:
    """Raises if the views over a changed relation are not those whose changes this transaction has derived."""
    before, after = _views_over(tx.state, key), _views_over(state, key)
    changed = [view for view in {**before, **after} if before.get(view) != after.get(view)]
    if changed:
        relations = [state.relations.get(view) or tx.state.relations[view] for view in changed]
        name = min(relations, key=lambda r: (isinstance(r, Auxiliary), r.name)).name
        raise _conflict(f"another transaction has created, replaced or dropped the view '{name}'")


def _views_over(state: State, key: str) -> dict[str, Definition]:
    """The definitions of everything that reads a relation, through other views too, by id."""
    return {view: _bare(state.relations[view]) for view in state.depending.all_dependents([key])}


def _bare(relation: Relation) -> Definition:
    """A definition without the epoch of the last refresh, which changes although the definition stays the same."""
    return replace(as_derived(relation).definition, refreshed=0)


def _check_read(tx: OpenTransaction, state: State, read: Read) -> None:
    current = _still_there(tx, state, read.relation)
    base = tx.state.epoch
    if max(state.oldest, current.oldest) > base and current.files != tx.state.relations[read.relation].files:
        # Rows of the epochs since may have canceled each other out of the files.
        raise _conflict(f"'{current.name}' was changed and compacted since the transaction began")
    newer = [file for file in current.files if file.last_epoch > base]
    if not newer:
        return
    if read.keys is not None:
        newer = [file for file in newer if read.keys.may_be_in(file.bounds)]
    if read.ranges is not None:
        newer = [file for file in newer if read.ranges.may_be_in(file.bounds)]
    if not newer:
        return
    if read.keys is not None and sum(file.rows for file in newer) <= tx.store.tuning.small_rows:
        rows = read_files(tx.store.storage, newer, current.schema)
        changed = rows.select(read.keys.schema.names).filter(pc.greater(rows[EPOCH], base))
        if not is_among(changed, read.keys.table).any():
            return
    raise _conflict(f"another transaction has changed rows of '{current.name}' that this one has read")


def _conflict(what: str) -> Conflict:
    return Conflict(what, detail="nothing was changed", hint="run the transaction again")
