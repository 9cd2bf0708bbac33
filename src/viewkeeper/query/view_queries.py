"""Queries of views, translated: their expressions, their columns, and the relations they name."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra.schema import Column, make_schema
from viewkeeper.catalog.relations import Relation, VirtualView
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import Place, SqlError, place_of
from viewkeeper.query.virtual_views import virtual_query
from viewkeeper.recursion.pushed_constants import with_constants
from viewkeeper.sql.dialect import OLD_STATE
from viewkeeper.sql.query import Query, Stored, Virtual, translate
from viewkeeper.sql.table_references import named_columns
from viewkeeper.transaction.open_transaction import OpenTransaction


class Names:
    """Resolves names in a query, and records which relations were named."""

    def __init__(self, tx: OpenTransaction) -> None:
        self.tx = tx
        self.used: dict[str, Relation] = {}

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name."""
        if name.endswith(OLD_STATE):
            raise SqlError(
                "AS OF OLD reads a table as before a transaction: it cannot stand in the query of a view",
                place=place,
                hint="use it in the condition or the action of a rule",
            )
        relation = self.tx.relation(name, place)
        self.used[relation.id] = relation
        if isinstance(relation, VirtualView):
            return Virtual(relation.name, virtual_query(relation))
        return Stored(relation.id, relation.name, relation.schema)


class Made:
    """A translated query: its expression, its columns, and the relations it names."""

    def __init__(self, query: Query, names: tuple[str, ...], uses: tuple[str, ...]) -> None:
        self.node = query.node
        self.names = names
        self.uses = uses
        # The view may get another query later, so its readers must not rely on a column never being NULL.
        self.schema = make_schema((Column(name, a.type) for name, a in zip(names, query.node.outputs, strict=True)), ())


def read_query(text: str, whole: str, names: Names, typer: EngineTyper) -> Query:
    """A query as an expression, with constants pushed into the recursions it reads."""
    query = translate(text, whole, names, typer)
    return replace(query, node=with_constants(query.node))


def define(tx: OpenTransaction, text: str, whole: str, columns: tuple[str, ...] | None, name: str) -> Made:
    """Translates the query of a view."""
    catalog = Names(tx)
    query = read_query(text, whole, catalog, EngineTyper(tx.store.engine))
    names = named_columns(name, columns, query.names)
    try:
        return Made(query, names, tuple(catalog.used))
    except SqlError as problem:
        problem.place = problem.place or place_of(name)
        raise
