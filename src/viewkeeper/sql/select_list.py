"""The SELECT list: `*` expanded, names, and aliases that later columns may use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.algebra.types import Type
from viewkeeper.sql.binding import Binder
from viewkeeper.sql.context import Context
from viewkeeper.sql.naming import column_name
from viewkeeper.sql.scopes import Scope, Visible, name_parts, unknown


@dataclass(frozen=True)
class Item:
    """A selected column: its name, bound syntax and position. `names` are the columns of a table function."""

    name: str
    bound: exp.Expr
    at: exp.Expr
    names: tuple[str, ...] = ()


class Selecting:
    """Reads the SELECT list. `aliases` are the names it gives, as bound syntax."""

    def __init__(self, context: Context, binder: Binder, scope: Scope) -> None:
        self.context = context
        self.binder = binder
        self.scope = scope
        self.aliases: dict[str, exp.Expr] = {}

    def items(self, tree: exp.Select, expected: Sequence[Type | None]) -> list[Item]:
        """The selected columns; a bare NULL gets the expected type of its column."""
        found: list[Item] = []
        for node in tree.expressions:
            for item in self._read(node):
                kind = expected[len(found)] if len(found) < len(expected) else None
                if isinstance(item.bound, exp.Null) and kind is not None:
                    cast = exp.Cast(this=exp.Null(), to=exp.DataType.build(kind.ddl, dialect="spark"))
                    item = Item(item.name, cast, item.at)
                found.append(item)
        if not found:
            self.context.wrong("nothing is selected", tree, None)
        return found

    def _read(self, node: exp.Expr) -> Iterator[Item]:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            yield from self._star(node, star)
            return
        if isinstance(node, exp.Aliases):
            names = tuple(part.name for part in node.expressions)
            yield Item(names[0], self.binder.bind(node.this, after=self.aliases), node, names)
            return
        inside = node.this if isinstance(node, exp.Alias) else node
        bound = self.binder.bind(inside, after=self.aliases)
        if isinstance(node, exp.Alias):
            self.aliases.setdefault(node.alias.lower(), bound)
            yield Item(node.alias, bound, node, (node.alias,))
        else:
            yield Item(column_name(node), bound, node)

    def _star(self, node: exp.Expr, star: exp.Star) -> Iterator[Item]:
        if star.args.get("replace") or star.args.get("rename"):
            self.context.refuse("* REPLACE and * RENAME are not supported", node, "name the columns")
        left_out = {part.name.lower() for part in star.args.get("except_") or star.args.get("except") or ()}
        seen: set[str] = set()
        for name, bound in self._all(node):
            seen.add(name.lower())
            if name.lower() not in left_out:
                yield Item(name, bound, node)
        for part in star.args.get("except_") or star.args.get("except") or ():
            if part.name.lower() not in seen:
                self.context.wrong(f"there is no column '{part.name}' to leave out", part, None)

    def _all(self, node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
        """The columns of *, t.* or struct.*."""
        parts = name_parts(node)[:-1] if isinstance(node, exp.Column) else []
        if not parts:
            if not self.scope.columns:
                self.context.wrong("* needs a table in FROM", node, None)
            yield from self._marked(self.scope.star(), node)
            return
        for scope in self.scope.outwards() if len(parts) == 1 else ():
            if own := scope.star(parts[0]):
                yield from self._marked(own, node)
                return
        column = exp.column(parts[-1], *reversed(parts[:-1]))
        if isinstance(node, exp.Column):
            for inner, outer in zip(column.parts, node.parts, strict=False):
                inner.meta.update(outer.meta)
        found, _ = self.scope.lookup(parts)
        if not found:
            raise unknown(self.context, self.scope, column)
        bound = self.binder.bind(column)
        kind = self.context.type_of(self.context.expression(bound), node)
        if kind.name != "struct":
            self.context.wrong(f"'{'.'.join(parts)}' is neither a table nor a STRUCT", node, None)
        for name, _ in kind.fields:
            yield name, exp.Dot(this=bound.copy(), expression=exp.to_identifier(name, quoted=True))

    def _marked(self, columns: Sequence[Visible], at: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
        for column in columns:
            yield column.name, self.context.marked(column.attribute, at)
