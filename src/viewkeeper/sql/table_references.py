"""The tables that a query names, with their positions, so that they can be replaced."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from viewkeeper.errors import SqlError, place_of


@dataclass(frozen=True)
class Reference:
    """A table named in a query: its position, and the syntax that names it, which may have an alias."""

    name: str
    start: int
    end: int
    table: exp.Table


def find_references(tree: exp.Expr) -> list[Reference]:
    """The tables that a query names and does not define (by WITH), in the order of the text."""
    found: dict[int, Reference] = {}
    local: set[int] = set()
    for scope in traverse_scope(tree):
        for table in scope.tables:
            source = scope.sources.get(table.alias_or_name)
            if not isinstance(source, exp.Table) and table.name in scope.cte_sources:
                local.add(id(table))
    for table in tree.find_all(exp.Table):
        if id(table) in local or not isinstance(table.this, exp.Identifier):
            continue
        if _names_cte(table):
            continue
        meta = table.this.meta
        if "start" not in meta:
            continue
        if table.args.get("db") is not None:
            raise SqlError(
                f"'{table.db}.{table.name}' has more than one part: there are no schemas or catalogs",
                hint=f"write `{table.name}`",
            )
        found[meta["start"]] = Reference(table.name, meta["start"], meta["end"] + 1, table)
    return [found[start] for start in sorted(found)]


def _names_cte(table: exp.Table) -> bool:
    """Whether a WITH around the table defines its name (before it, or recursively)."""
    node: exp.Expr | None = table
    name = table.name.lower()
    while node is not None:
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With) and any(cte.alias.lower() == name for cte in with_.expressions):
            inside = next((cte for cte in with_.expressions if cte.alias.lower() == name), None)
            if inside is None or not _within(table, inside) or with_.args.get("recursive"):
                return True
        node = node.parent
    return False


def _within(node: exp.Expr, ancestor: exp.Expr) -> bool:
    current: exp.Expr | None = node
    while current is not None:
        if current is ancestor:
            return True
        current = current.parent
    return False


def named_columns(name: str, given: tuple[str, ...] | None, own: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a view's columns: those given, or else its query's. Refuses duplicates."""
    names = tuple(map(str, given)) if given is not None else own
    if len(names) != len(own):
        raise SqlError(
            f"{name} names {len(names)} columns, its query has {len(own)}",
            place=place_of(name),
            hint=f"the query's columns are {', '.join(own)}",
        )
    seen: set[str] = set()
    for column in names:
        if column.lower() in seen:
            raise SqlError(
                f"two columns of {name} are named '{column}'",
                place=place_of(name),
                hint="give one another name with AS",
            )
        seen.add(column.lower())
    return names
