"""What subscriptions follow: a relation or a query, its rows at an epoch, and its net change between two epochs.

A query is a virtual view without a name: it is translated under the definitions of an epoch, and translated again when
relations are created, dropped or redefined.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.cast import conform
from viewkeeper.algebra.rows import canonical, consolidate, signed
from viewkeeper.algebra.schema import Column, Schema, make_schema
from viewkeeper.algebra.serial import to_json
from viewkeeper.algebra.types import quote
from viewkeeper.catalog.definition import VIEW, Definition
from viewkeeper.catalog.relations import Derived, Relation, VirtualView
from viewkeeper.catalog.state import State
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import Gone, NotFound, NotMaintainable, SqlError
from viewkeeper.feed.nervous import nervous_change
from viewkeeper.log.open_log import Held
from viewkeeper.log.tail import Committed
from viewkeeper.maintain.declared_keys import relation_keys
from viewkeeper.maintain.net_changes import net_rows
from viewkeeper.maintain.past_changes import virtual_change
from viewkeeper.plan.maintainable import unsteady
from viewkeeper.plan.pushed_filters import with_pushed_filters
from viewkeeper.query.select import TablesAt
from viewkeeper.query.virtual_views import virtual_frame
from viewkeeper.recursion.pushed_constants import with_constants
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.query import translate
from viewkeeper.sql.sail_functions import check_on_sail
from viewkeeper.sql.table_references import named_columns
from viewkeeper.store.scans import Source, pick
from viewkeeper.store.store import Store
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.open_transaction import change_between


class Followed:
    """A relation by its id, or a query by its text."""

    def __init__(self, store: Store, name: str, key: str = "", text: str = "", *, nervous: bool = False) -> None:
        """`name` is for display; `key` is the id of the relation, empty for a query. `nervous`: see `nervous.py`."""
        self.store = store
        self.name = name
        self.key = key
        self.text = text
        self.nervous = nervous
        self._translated: dict[int, Definition] = {}  # by the epoch from which the definitions it uses are those
        self._lock = threading.Lock()

    def where(self, condition: str) -> Followed:
        """The rows of it for which a condition holds."""
        source = f"({self.text})" if self.text else quote(self.name)
        return Followed(
            self.store, self.name, nervous=self.nervous, text=f"SELECT * FROM {source} WHERE (\n{condition}\n)"
        )

    @property
    def is_stored(self) -> bool:
        """Whether its changes are in the ledger, not derived."""
        return bool(self.key) and not isinstance(self.store.state.relations.get(self.key), VirtualView)

    # what it is ----------------------------------------------------------------------------------

    def relation(self, state: State, epoch: int, since: int | None = None) -> Relation:
        """The relation at an epoch; for a query a virtual view with the definitions it had since an earlier one."""
        if self.key:
            found = state.relations.get(self.key)
            if found is None or not found.lives_at(epoch):
                since_when = f" in epoch {found.dropped}" if found is not None and found.dropped else ""
                raise NotFound(f"{self.name} was dropped{since_when}", hint="subscribe to another table or view")
            return found
        now = self._definition(state, epoch)
        before = now if since is None else self._definition(state, since) if self.exists(state, since) else None
        former = ((epoch, before),) if before is not None and before is not now else ()
        names = zip(now.names, now.as_written.outputs, strict=True)
        schema = make_schema((Column(name, a.type) for name, a in names), ())
        return VirtualView(self.text, self.name, schema, epoch if before is None else 0, definition=now, former=former)

    def exists(self, state: State, epoch: int) -> bool:
        """Whether it is there at an epoch; a query is if all that it names is."""
        if self.key:
            found = state.relations.get(self.key)
            return found is not None and found.lives_at(epoch)
        try:
            self._definition(state, epoch)
        except NotFound:
            return False
        return True

    def schema(self, state: State) -> Schema:
        """Its columns."""
        return self.relation(state, state.epoch).schema

    def _definition(self, state: State, epoch: int) -> Definition:
        """The query under the definitions of an epoch."""
        since = _defined(state, epoch)
        with self._lock:
            known = self._translated.get(since)
        if known is None:
            known = self._translate(state, epoch)
            with self._lock:
                known = self._translated.setdefault(since, known)
        return known

    def _translate(self, state: State, epoch: int) -> Definition:
        engine = self.store.engine
        whole = self.text.whole if isinstance(self.text, SourceText) else self.text
        if engine.kind == "sail":
            check_on_sail(self.text, whole, self.store.known_functions())
        query = translate(self.text, whole, TablesAt(self.store, state, epoch), EngineTyper(engine))
        for call in unsteady(query.node):
            raise NotMaintainable(
                f"{call.function} rounds by the order of the rows, so its value before a change must be stored",
                hint=f"create a view of it and subscribe to that: CREATE VIEW v AS {self.text}",
            )
        node = with_constants(with_pushed_filters(query.node))
        names = named_columns(self.name, None, query.names)
        return Definition(VIEW, self.text, names, to_json(node), engine=engine.kind)

    # its changes ---------------------------------------------------------------------------------

    def is_reached(self, state: State, commit: Committed) -> bool:
        """Whether a commit may change it."""
        if not self.exists(state, commit.epoch):
            return False
        if self.is_stored:
            return self.key in commit.changed or commit.defines
        return commit.defines or bool(self.reads(state, commit.epoch) & commit.changed)

    def reads(self, state: State, epoch: int) -> frozenset[str]:
        """The ids of the stored relations that it is derived from."""
        relation = self.relation(state, epoch)
        if not isinstance(relation, VirtualView):
            return frozenset((relation.id,))
        definition = relation.definition_at(epoch)
        return frozenset(scan.relation for scan in n.scans(definition.as_written)) | frozenset(definition.hidden)

    def check_kept(self, state: State, since: int) -> None:
        """Raises Gone if the changes after an epoch are no longer kept."""
        relation = self.relation(state, state.epoch)
        oldest = state.oldest_feed(relation, since)
        if since < oldest and oldest > 0:
            problem = Gone(
                f"the changes of {self.name} since epoch {since} are no longer kept",
                hint=f"the oldest kept epoch is {oldest}; begin again with a snapshot",
            )
            problem.oldest = oldest
            raise problem

    def change(self, held: Held, since: int, until: int) -> Change:
        """The net change after one epoch, up to another; it is derived now."""
        relation = self.relation(held.state, until, since)
        if isinstance(relation, VirtualView):
            rows = self._derived(relation, lambda: self._virtual(held, relation, since, until))
            return Change(relation.schema, lambda: rows)
        if relation.created > since:
            return self.snapshot(held, until)
        found = change_between(self.store, held, relation, since, until)
        self._derived(relation, lambda: found.rows)
        return found

    def _virtual(self, held: Held, relation: VirtualView, since: int, until: int) -> pa.Table:
        same = relation.created <= since and relation.definition_at(since) is relation.definition_at(until)
        if self.nervous and same:
            return nervous_change(self.store, held, relation, since, until)
        return virtual_change(self.store, held.state, relation, until, since)

    def made_nervous(self, state: State) -> Followed:
        """The same with nervous changes. Raises if it may have duplicates, which could not be told from repetitions."""
        if not relation_keys(state.relations.get, self.relation(state, state.epoch)):
            raise SqlError(
                f"a nervous subscription needs rows without duplicates, and {self.name} may have some",
                hint="use precision = 'exact', or subscribe to SELECT DISTINCT ...",
            )
        return Followed(self.store, self.name, self.key, self.text, nervous=True)

    def snapshot(self, held: Held, epoch: int) -> Change:
        """All rows of an epoch, as a change from nothing."""
        relation = self.relation(held.state, epoch)
        rows = self._derived(relation, lambda: self._rows(held, relation, epoch))
        return Change(relation.schema, lambda: rows)

    def _rows(self, held: Held, relation: Relation, epoch: int) -> pa.Table:
        schema = relation.schema
        if isinstance(relation, VirtualView):
            frame = virtual_frame(self.store, held.state, relation, epoch)
            plain = conform(self.store.engine.fetch(frame), schema)
            return consolidate(signed(canonical(plain, schema), 1))
        return net_rows(self.store, pick(Source(schema, relation.files_at(epoch), epoch)), schema)

    def _derived(self, relation: Relation, derive: Callable[[], pa.Table]) -> pa.Table:
        if self.key and isinstance(relation, Derived):
            self.store.bring_functions_of(relation)
        try:
            with self.store.engine.running():
                return self.store.engine.surviving(derive)
        finally:
            self.store.clear_scratch()


def named(store: Store, state: State, name: str) -> Followed | None:
    """What follows the relation of a name; None if there is none."""
    relation = state.find(name)
    return None if relation is None else Followed(store, relation.name, relation.id)


def _defined(state: State, epoch: int) -> int:
    """The last epoch up to a given one in which relations were created, dropped or redefined."""
    found = 0
    for relation in state.relations.values():
        when = [relation.created, relation.dropped or 0]
        when += [until for until, _ in relation.former] if isinstance(relation, Derived) else []
        found = max(found, *(number for number in when if number <= epoch), 0)
    return found
