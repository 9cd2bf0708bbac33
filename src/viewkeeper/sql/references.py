"""The tables a query names, at their places, so that they can be replaced by what they stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from viewkeeper.errors import Place, SqlError


@dataclass(frozen=True)
class Reference:
    """A table named in a query: where, and whether it has an alias of its own."""

    name: str
    start: int
    end: int
    has_alias: bool


def parse_query(query: str, whole: str | None = None) -> exp.Expr:
    """The syntax tree of a query; an error with its place in the user's text if it cannot be read."""
    try:
        tree = sqlglot.parse_one(query, dialect="spark")
    except ParseError as problem:
        about = problem.errors[0] if problem.errors else {}
        what = str(about.get("description") or "the query cannot be read").rstrip(".")
        what = re.sub(r"<Token .*?text: (.*?), line.*?>", r"'\1'", what)
        what = re.sub(r"^Required keyword: .*", "Something is missing here", what)
        if what == "Invalid expression / Unexpected token":
            what = f"'{about.get('highlight')}' is not expected here"
        offset = _offset(query, int(about.get("line") or 1), int(about.get("col") or 1))
        length = max(1, len(str(about.get("highlight") or " ")))
        raise SqlError(
            f"bad SQL: {what[0].lower() + what[1:]}", place=place_in(query, offset - length + 1, length, whole)
        ) from None
    except SqlglotError as problem:
        raise SqlError(f"bad SQL: {str(problem).splitlines()[0]}", place=place_in(query, 0, 1, whole)) from None
    return tree


def parse_expression(text: str, whole: str) -> exp.Expr:
    """The syntax tree of an expression or condition that was cut from a statement."""
    prefix = "SELECT 1 WHERE "
    try:
        tree = parse_query(prefix + text)
    except SqlError as problem:
        if problem.place is not None:
            offset = _offset(prefix + text, problem.place.line, problem.place.column) - len(prefix)
            problem.place = place_in(text, offset, problem.place.length, whole)
        raise
    where = tree.args.get("where")
    more = [name for name, part in tree.args.items() if part and name not in ("expressions", "where", "kind")]
    if not isinstance(tree, exp.Select) or where is None or more:
        raise SqlError("an expression cannot go on like this", place=place_in(text, 0, len(text), whole))
    condition: exp.Expr = where.this
    return condition


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(len(part) + 1 for part in lines[: line - 1]) + column - 1


def place_in(query: str, offset: int, length: int, whole: str | None) -> Place:
    """A place in a query as a place in the whole text it was cut from."""
    if whole is not None and (start := whole.find(query)) >= 0:
        return Place.at(whole, start + max(0, offset), length)
    return Place.at(whole if whole is not None else query, max(0, offset) if whole is None else 0, length)


def find_references(tree: exp.Expr) -> list[Reference]:
    """The tables a query names that are not defined in it (by WITH), in the order of their places."""
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
        found[meta["start"]] = Reference(table.name, meta["start"], meta["end"] + 1, bool(table.alias))
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


def place_of_name(name: str, whole: str) -> Place | None:
    """Where a name first stands in the user's text."""
    found = re.search(rf"(?<![\w`]){re.escape(name)}(?![\w`])|`{re.escape(name)}`", whole, re.IGNORECASE)
    return Place.at(whole, found.start(), found.end() - found.start()) if found else None
