"""A query with the text it stands in, parsed once; what is wrong with it has its place there."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.errors import Place
from viewkeeper.sql.dialect import Cut, parse, place_in


@dataclass(frozen=True)
class QueryText:
    """A query: its syntax tree, whose places are offsets in `text`, which is `whole` or was cut from it.

    One that is `made` was put together from pieces of a statement; pieces of `whole` have their places, and the query
    itself has no text. Nobody changes the tree: who wants to takes a copy.
    """

    tree: exp.Expr
    text: str
    whole: str
    made: bool = False

    @staticmethod
    def of(text: str) -> QueryText:
        """A query, perhaps cut from a text; an error with its place if it cannot be read."""
        whole = text.whole if isinstance(text, Cut) else text
        return QueryText(parse(text, whole), text, whole)

    @staticmethod
    def of_pieces(tree: exp.Expr, whole: str) -> QueryText:
        """A query that was put together from pieces of a text."""
        return QueryText(tree, whole, whole, made=True)

    @property
    def begins_with_select(self) -> bool:
        """Whether it is written as SELECT, with nothing before it."""
        return self.made or self.text.lstrip().upper().startswith("SELECT")

    def place(self, start: int, end: int) -> Place:
        """The place of what stands between two offsets."""
        return place_in(self.text, start, end - start, self.whole)

    def place_of_column(self, parts: list[str]) -> Place | None:
        """Where a column stands that the query names with these parts, of which an engine may have left out some."""
        wanted = [part.lower() for part in parts]
        best: tuple[int, int] | None = None
        for name in self.tree.find_all(exp.Identifier):
            if name.name.lower() != wanted[-1] or "start" not in name.meta:
                continue
            if isinstance(name.parent, (exp.Alias, exp.Aliases, exp.TableAlias, exp.Table)) or _is_variable(name):
                continue
            column = name.parent
            said = [part.name.lower() for part in column.parts] if isinstance(column, exp.Column) else []
            rank = (0 if said == wanted else 1 if said else 2, name.meta["start"])
            if best is None or rank < best:
                best, end = rank, name.meta["end"] + 1
        return None if best is None else self.place(best[1], end)


def _is_variable(name: exp.Identifier) -> bool:
    """Whether a name is a variable of a lambda around it."""
    around = name.find_ancestor(exp.Lambda)
    while around is not None:
        if any(variable.name.lower() == name.name.lower() for variable in around.expressions):
            return True
        around = around.find_ancestor(exp.Lambda)
    return False
