"""A query, parsed once, with the text it comes from, for positions in errors."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.errors import Place
from viewkeeper.sql.dialect import SourceText, parse, place_in


@dataclass(frozen=True)
class QueryText:
    """A query: its syntax tree, whose positions are offsets in `text`, which is `whole` or a piece of it.

    A query that is `made` was built from pieces of a statement: the pieces have positions in `whole`, the query itself
    has no text. The tree must not be changed; copy it first.
    """

    tree: exp.Expr
    text: str
    whole: str
    made: bool = False

    @staticmethod
    def of(text: str) -> QueryText:
        """The query of a text, or an error with its position. The text may be a piece of a larger one."""
        whole = text.whole if isinstance(text, SourceText) else text
        return QueryText(parse(text, whole), text, whole)

    @staticmethod
    def of_pieces(tree: exp.Expr, whole: str) -> QueryText:
        """A query that was built from pieces of a text."""
        return QueryText(tree, whole, whole, made=True)

    @property
    def begins_with_select(self) -> bool:
        """Whether its text begins with SELECT."""
        return self.made or self.text.lstrip().upper().startswith("SELECT")

    def place(self, start: int, end: int) -> Place:
        """The position of the text between two offsets."""
        return place_in(self.text, start, end - start, self.whole)

    def place_of_column(self, parts: list[str]) -> Place | None:
        """The position of the column with these name parts, of which an engine may have omitted some."""
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
