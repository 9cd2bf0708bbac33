"""The algebra of a query's text."""

from __future__ import annotations

from viewkeeper.errors import SqlError
from viewkeeper.sql.catalog import Catalog, Query, Stored, Virtual
from viewkeeper.sql.context import Context, Typer
from viewkeeper.sql.dialect import parse, place_in
from viewkeeper.sql.finish import finished
from viewkeeper.sql.row_values import without_row_values
from viewkeeper.sql.scopes import Scope
from viewkeeper.sql.translation import Translation

__all__ = ["Catalog", "Query", "Stored", "Typer", "Virtual", "translate"]


def translate(text: str, whole: str, catalog: Catalog, typer: Typer) -> Query:
    """The algebra of a query. `whole` is the user's text that it is a piece of, for positions in errors."""
    context = Context(text, whole, typer)
    try:
        query = Translation(context, catalog).query(without_row_values(context, parse(text, whole)), Scope())
        return Query(finished(context, query.node), query.names)
    except RecursionError:
        place, hint = place_in(text, 0, 1, whole), "define parts of it as views"
        raise SqlError("the query is nested too deep", place=place, hint=hint) from None
