"""SELECT statements as algebra: all that a view may use, and also ORDER BY of the result, repeated names and the clock.

A plain query (`is_plain`) needs no translation: all engines agree on it, so its text is sent as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp

from viewkeeper.algebra.nodes import Node, Top, transform
from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import is_aggregate
from viewkeeper.sql.catalog import Catalog, Query, Stored
from viewkeeper.sql.context import Context, Typer
from viewkeeper.sql.dialect import place_in
from viewkeeper.sql.finish import finished
from viewkeeper.sql.functions import ORDER_DEPENDENT, WITHOUT_BRACKETS
from viewkeeper.sql.generators import is_generator
from viewkeeper.sql.limits import is_all
from viewkeeper.sql.naming import column_name
from viewkeeper.sql.operators import has_operators
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.row_values import has_row_values, without_row_values
from viewkeeper.sql.scopes import Scope
from viewkeeper.sql.table_references import find_references
from viewkeeper.sql.translation import Translation
from viewkeeper.sql.window_names import resolve_named_windows

PLAIN = "one table or none, with nothing but columns, WHERE, ORDER BY and LIMIT"
"""What a plain query is."""

_PLAIN_PARTS = frozenset({"expressions", "from_", "where", "order", "limit", "offset", "hint"})
_PLAIN_SOURCE = frozenset({"this", "db", "alias"})
_UNQUOTED = frozenset({"all", "distinct"})
"""Words that some engines read as names only when quoted."""
_EVERYTHING = (1 << 63) - 1  # a LIMIT without effect, so that ORDER BY becomes a node of the algebra
_NAMED_ALIKE = frozenset({"avg", "count", "max", "min", "sum"})
_ONE_VALUE = frozenset(
    {
        *("curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now", "unix_timestamp"),
        *("current_catalog", "current_database", "current_path", "current_schema", "current_timezone"),
        *("current_user", "session_user", "user", "version"),
    }
)
"""Functions of the clock and the session, which without arguments have one value for a whole query."""


@dataclass(frozen=True)
class Selected:
    """A query as algebra. `guessed`: whether an engine may name a column of the result otherwise."""

    query: Query
    guessed: bool


def is_plain(query: QueryText) -> bool:
    """Whether a query reads at most one table and has nothing but columns, WHERE, ORDER BY and LIMIT."""
    tree = query.tree
    if isinstance(tree, exp.Values):
        return True
    if not isinstance(tree, exp.Select) or not query.begins_with_select:
        return False
    if any(value and name not in _PLAIN_PARTS for name, value in tree.args.items()):
        return False
    source = tree.args["from_"].this if tree.args.get("from_") else None
    if source is not None:
        parts = {name for name, value in source.args.items() if value}
        if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier) or parts - _PLAIN_SOURCE:
            return False
    if any(_is_more(part) for part in tree.walk() if part is not tree) or _uses_own_names(tree):
        return False
    order = tree.args.get("order")
    return order is None or not any(is_all(key) for key in order.expressions)


def says_the_same(tree: exp.Expr, *, coerces: bool) -> bool:
    """Whether every engine evaluates the operators of a query alike. `coerces`: whether this one is Apache Spark."""
    return not has_row_values(tree) and (coerces or not has_operators(tree))


def has_subquery(tree: exp.Expr) -> bool:
    """Whether there is a query inside a query."""
    return any(isinstance(part, exp.Query) for part in tree.walk() if part is not tree)


def _is_more(part: exp.Expr) -> bool:
    """Whether a part of a query makes it more than plain, or is spelled in a way that not every engine accepts."""
    if isinstance(part, exp.Star):
        return any(part.args.values())
    if isinstance(part, exp.Identifier):
        return not part.quoted and part.name.lower() in _UNQUOTED
    return isinstance(part, (exp.Query, exp.Window, exp.Fetch)) or is_aggregate(part) or is_generator(part)


def _uses_own_names(tree: exp.Select) -> bool:
    """Whether a selected column may use the name of one before it."""
    seen: set[str] = set()
    for item in tree.expressions:
        if any(column.name.lower() in seen for column in item.find_all(exp.Column)):
            return True
        seen.add(item.alias.lower())
    return False


def select(query_text: QueryText, catalog: Catalog, typer: Typer) -> Selected:
    """The algebra of a SELECT, or NotMaintainable, which names what only an engine can do."""
    context = _Context(query_text.text, query_text.whole, typer)
    tree = query_text.tree.copy()
    guesses = set(_guesses(tree, context))
    root = _with_order(_unbracketed(without_row_values(context, tree)))
    _refuse_order(root, context)
    for part in list(root.find_all(exp.Select, exp.SetOperation, exp.Subquery)):
        if part is not root and part.args.get("order") and _is_source(part):
            _refuse_use_of_order(root, context)
            _refuse_order(_with_order(part), context)
    _keep_clock(root, context, catalog)
    query = Translation(context, catalog).query(root, Scope())
    node = transform(finished(context, query.node), _without_everything)
    return Selected(Query(node, query.names), any(name in guesses for name in query.names))


class _Context(Context):
    """The translation of a query outside a view."""

    repeatable: ClassVar[bool] = False
    refuses: ClassVar[bool] = False

    def _type(self, ddl: str, at: exp.Expr | None) -> Type:
        if ddl == "void":
            self.refuse("a column that is always NULL has no type", at)
        return super()._type(ddl, at)


# order --------------------------------------------------------------------------------------------


def _unbracketed(tree: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it; a LIMIT after them takes rows in the order inside."""
    while isinstance(tree, exp.Subquery):
        inside = tree.this
        own = {name: tree.args[name] for name in ("limit", "offset") if tree.args.get(name)}
        if tree.args.get("order") or tree.args.get("with_"):
            return tree
        if own and any(inside.args.get(name) for name in ("limit", "offset")):
            return tree
        for name, value in own.items():
            inside.set(name, value)
        tree = inside
    return tree


def _is_source(tree: exp.Expr) -> bool:
    """Whether a query is in FROM or WITH, where an engine passes its order on."""
    above = tree.parent
    while isinstance(above, exp.Subquery):
        above = above.parent
    return isinstance(above, (exp.From, exp.CTE))


def _with_order(tree: exp.Expr) -> exp.Expr:
    """A query whose ORDER BY has an effect without LIMIT too, and takes expressions after a set operation too."""
    if not tree.args.get("order"):
        return tree
    if not isinstance(tree, exp.Select):
        tree = _wrapped(tree)
    if not tree.args.get("limit") and not tree.args.get("offset"):
        tree.set("limit", exp.Limit(expression=exp.Literal.number(_EVERYTHING)))
    return tree


def _refuse_order(tree: exp.Expr, context: Context) -> None:
    """Leaves ORDER BY to the engine if it computes from DISTINCT rows, or sorts rows of a table function in SELECT."""
    order = tree.args.get("order")
    if order is None:
        return
    selected = [item.unalias() for item in tree.expressions]
    for key in order.expressions:
        named = isinstance(key.this, (exp.Column, exp.Literal, exp.Var))
        if tree.args.get("distinct") and not named and key.this not in selected:
            context.refuse("SELECT DISTINCT is ordered by an expression that is not selected", key)
    for item in selected:
        if is_generator(item):
            context.refuse("ORDER BY beside a table function in SELECT", item)


def _refuse_use_of_order(tree: exp.Expr, context: Context) -> None:
    """Leaves aggregates that may depend on the order of a subquery to the engine; the algebra has no such order."""
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in ORDER_DEPENDENT:
            context.refuse(f"{call.name.lower()} may go by the ORDER BY of a subquery", call)


def _wrapped(tree: exp.Expr) -> exp.Expr:
    """SELECT * FROM the query, with the query's ORDER BY, LIMIT and WITH moved to it."""
    outer = exp.Select(expressions=[exp.Star()])
    if tree.parent is not None:
        tree.replace(outer)
    for name in ("order", "limit", "offset", "with_"):
        if tree.args.get(name):
            outer.set(name, tree.args[name])
            tree.set(name, None)
    inside = tree if isinstance(tree, exp.Subquery) else exp.Subquery(this=tree)
    outer.set("from_", exp.From(this=inside))
    return outer


def _without_everything(node: Node) -> Node:
    return replace(node, limit=None) if isinstance(node, Top) and node.limit == _EVERYTHING else node


# the clock ----------------------------------------------------------------------------------------


def _keep_clock(tree: exp.Expr, context: Context, catalog: Catalog) -> None:
    """Allows functions of the clock and the session, which have one value for a whole query wherever they are moved."""
    for call in list(tree.find_all(exp.Anonymous)):
        name = call.name.lower()
        if not call.expressions and name in _ONE_VALUE:
            call.replace(exp.var(f"{name}()"))
    bare = [
        column
        for column in tree.find_all(exp.Column)
        if len(column.parts) == 1 and column.name.lower() in WITHOUT_BRACKETS & _ONE_VALUE
    ]
    if not bare:
        return
    taken = set(_names(tree, context, catalog))
    for column in bare:
        if column.name.lower() not in taken:
            column.replace(exp.var(f"{column.name.lower()}()"))


def _names(tree: exp.Expr, context: Context, catalog: Catalog) -> Iterator[str]:
    """The names, in lower case, that columns of a query may have."""
    for part in tree.find_all(exp.Alias, exp.TableAlias):
        yield part.alias.lower()
        yield from (column.name.lower() for column in part.args.get("columns") or ())
    for reference in find_references(tree):
        place = place_in(context.text, reference.start, reference.end - reference.start, context.whole)
        found = catalog.find(reference.name, place)
        names = found.schema.names if isinstance(found, Stored) else found.query.names
        yield from (name.lower() for name in names)


# names --------------------------------------------------------------------------------------------


def _guesses(tree: exp.Expr, context: Context) -> Iterator[str]:
    """The names of selected columns that engines may name otherwise."""
    for block in tree.find_all(exp.Select):
        for item in resolve_named_windows(context, block).expressions:
            if not _is_named_alike(item):
                yield column_name(item)


def _is_named_alike(item: exp.Expr) -> bool:
    """Whether the name of a selected column is the same everywhere."""
    while isinstance(item, exp.Paren):
        item = item.this
    if isinstance(item, (exp.Alias, exp.Aliases, exp.Column, exp.Literal, exp.Star)):
        return True
    if isinstance(item, exp.Cast):
        return isinstance(item.this, exp.Column)
    simple = all(isinstance(part, (exp.Column, exp.Star)) for part in item.expressions)
    return isinstance(item, exp.Anonymous) and simple and (item.name.lower() in _NAMED_ALIKE or is_generator(item))
