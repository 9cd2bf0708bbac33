"""Views that production rules can be derived for, as blocks: SELECTs of plain columns from tables, with a conjunction
of conditions and of subqueries under EXISTS, IN or ANY and their negations, combined by UNION or by INTERSECT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from viewkeeper.advice.named_relations import Known, VirtualRelation
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import spelled
from viewkeeper.errors import NotMaintainable
from viewkeeper.sql.conditions import anded
from viewkeeper.sql.dialect import COMPARISONS, parse, place_in, render


@dataclass(frozen=True)
class Table:
    """A table reference. `start` is its position in the text."""

    name: str
    alias: str
    start: int
    schema: Schema

    @property
    def called(self) -> str:
        """What its columns are qualified by."""
        return self.alias or self.name

    @property
    def text(self) -> str:
        """Its name, as it is printed."""
        return spelled(self.name)


@dataclass(frozen=True)
class Nested:
    """A subquery: `columns` from `tables` where `conditions`; `before` is the text before it."""

    negated: bool
    columns: str
    tables: tuple[Table, ...]
    conditions: tuple[str, ...]
    before: str


@dataclass(frozen=True)
class Block:
    """A SELECT, with its text, in which the positions of tables are.

    `columns` are the selected ones, as written; `row` are the same for comparisons: without their table where that is
    unambiguous.
    """

    text: str
    columns: tuple[str, ...]
    row: tuple[str, ...]
    tables: tuple[Table, ...]
    conditions: tuple[str, ...]
    nested: tuple[Nested, ...]
    distinct: bool


@dataclass(frozen=True)
class ViewText:
    """A view: its blocks, and the operator between them: '' for a single one, else 'union distinct' or 'intersect'."""

    name: str
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]
    operator: str = ""


def read_view(name: str, columns: tuple[str, ...], query: str, whole: str, known: Known) -> ViewText:
    """The query of a view as blocks; refused if it has anything else."""
    reader = _Reader(name, query, whole, known)
    selects, operator = reader.selects(parse(query, whole))
    for select in selects:
        reader.block(select)  # refuses with the position in the user's text
    texts = [render(select) for select in selects]
    blocks = [_Reader(name, text, text, known).block(parse(text, text)) for text in texts]
    return ViewText(name, columns, tuple(blocks), operator)


class _Reader:
    def __init__(self, name: str, query: str, whole: str, known: Known) -> None:
        self.name = name
        self.query = query
        self.whole = whole
        self.known = known

    def selects(self, tree: exp.Expr) -> tuple[list[exp.Select], str]:
        self._check_parts(tree)
        if isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
            return self.selects(tree.this)
        if isinstance(tree, exp.Select):
            return [tree], ""
        for kind, word in ((exp.Union, "union distinct"), (exp.Intersect, "intersect")):
            if isinstance(tree, kind):
                if not tree.args.get("distinct"):
                    self.refuse("ALL", tree, "leave out ALL")
                sides = [self.selects(side) for side in (tree.left, tree.right)]
                if any(operator not in ("", word) for _, operator in sides):
                    self.refuse("UNION and INTERSECT together", tree, "make one of them a view of its own")
                return [select for found, _ in sides for select in found], word
        return self.refuse(type(tree).__name__.upper(), tree, "write SELECT, UNION or INTERSECT")

    def block(self, select: exp.Expr) -> Block:
        """A SELECT as a block."""
        assert isinstance(select, exp.Select)
        self._check_parts(select)
        conditions: list[str] = []
        nested: list[Nested] = []
        where = select.args.get("where")
        for conjunct in [*(anded(where.this) if where is not None else ()), *self._joined(select)]:
            found = self._nested(conjunct, select)
            if found is not None:
                nested.append(found)
            else:
                conditions.append(self._plain(conjunct))
        tables = self._tables(select)
        columns = [column for item in select.expressions for column in self._columns(item, tables)]
        row = tuple(self._alone(column, tables) for column in columns)
        distinct = bool(select.args.get("distinct"))
        texts = tuple(map(render, columns))
        return Block(self.query, texts, row, tables, tuple(conditions), tuple(nested), distinct)

    def _check_parts(self, tree: exp.Expr) -> None:
        for part, (word, instead) in _MORE.items():
            if tree.args.get(part):
                self.refuse(word, tree.args[part], instead)

    # parts ---------------------------------------------------------------------------------------

    def _columns(self, item: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr]:
        """The columns that an item selects: `*` stands for those of all tables, in EXISTS for anything."""
        column = item.unalias()
        star = isinstance(column, exp.Star) or (isinstance(column, exp.Column) and isinstance(column.this, exp.Star))
        select = item.parent_select
        if select is not None and isinstance(select.parent, exp.Exists) and (star or isinstance(column, exp.Literal)):
            yield exp.Star()
        elif star:
            for table in tables:
                if isinstance(column, exp.Star) or column.text("table").lower() == table.called.lower():
                    qualifier = table.called if len(tables) > 1 else None
                    yield from (exp.column(found, table=qualifier) for found in table.schema.names)
        elif isinstance(column, exp.Column):
            yield column
        else:
            self.refuse("a computed column", item, "--target postgres takes it")

    def _alone(self, column: exp.Expr, tables: Sequence[Table]) -> str:
        """A column without its table, if no other table has a column of that name."""
        named = [table for table in tables if table.schema.find(column.name) is not None]
        return spelled(column.name) if isinstance(column, exp.Column) and len(named) == 1 else render(column)

    def _tables(self, select: exp.Select) -> tuple[Table, ...]:
        start = select.args.get("from_") or select.args.get("from")
        if start is None:
            self.refuse("no table", select, "name one in FROM")
        parts = [start.this, *(join.this for join in select.args.get("joins") or ())]
        return tuple(self._table(part) for part in parts)

    def _table(self, part: exp.Expr) -> Table:
        if not isinstance(part, exp.Table) or not isinstance(part.this, exp.Identifier):
            self.refuse("a subquery in FROM", part, "make it a view of its own")
        alias = part.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            self.refuse("names for the columns of a table", part, "name them in SELECT")
        relation = self.known.find(part.name)
        if isinstance(relation, VirtualRelation):
            self.refuse(f"{relation.name}, a view that is not stored", part, "write CREATE MATERIALIZED VIEW for it")
        assert relation is not None, "the analysis has found it before"
        return Table(relation.name, part.alias, int(part.this.meta["start"]), relation.schema)

    def _joined(self, select: exp.Select) -> Iterator[exp.Expr]:
        """The conditions of inner joins, which mean the same in WHERE."""
        for join in select.args.get("joins") or ():
            strange = any(join.args.get(part) for part in ("side", "using", "method"))
            if strange or join.kind not in ("", "INNER", "CROSS"):
                self.refuse("a join other than INNER or CROSS with ON", join, "--target postgres takes it")
            if join.args.get("on") is not None:
                yield from anded(join.args["on"])

    def _plain(self, conjunct: exp.Expr) -> str:
        if any(isinstance(part, (exp.Select, exp.Or)) for part in conjunct.walk()):
            self.refuse("OR, or a subquery in this place", conjunct, "write a UNION, or make it a view of its own")
        if isinstance(conjunct, exp.Not) and isinstance(conjunct.this, exp.Is):
            return f"{render(conjunct.this.this)} IS NOT {render(conjunct.this.expression)}"
        return render(conjunct)

    def _nested(self, conjunct: exp.Expr, select: exp.Select) -> Nested | None:
        negated = False
        while isinstance(conjunct, (exp.Not, exp.Paren)):
            negated ^= isinstance(conjunct, exp.Not)
            conjunct = conjunct.this
        if isinstance(conjunct, exp.Exists):
            return self._subquery(conjunct.this, negated, "exists")
        if isinstance(conjunct, exp.In) and conjunct.args.get("query") is not None:
            inner = conjunct.args["query"].unnest()
            items = inner.expressions if isinstance(inner, exp.Select) else []
            if negated and not (
                self._never_null(conjunct.this, select) and all(self._never_null(i, inner) for i in items)
            ):
                instead = "declare both sides NOT NULL, or write NOT EXISTS (... WHERE one = the other)"
                self.refuse("NOT IN, which NULLs make unknown", conjunct, instead)
            return self._subquery(inner, negated, f"{render(conjunct.this)} in")
        if isinstance(conjunct, exp.Binary) and isinstance(conjunct.expression, exp.All):
            self.refuse("a comparison with ALL", conjunct, "write NOT EXISTS (... WHERE ...) instead")
        if isinstance(conjunct, exp.Binary) and isinstance(conjunct.expression, exp.Any):
            word = COMPARISONS.get(type(conjunct))
            if negated or word is None:
                self.refuse("this comparison with ANY", conjunct, "use = < <= > >= or <>, without NOT")
            return self._subquery(conjunct.expression.this, False, f"{render(conjunct.this)} {word} any")
        return None

    def _never_null(self, value: exp.Expr, select: exp.Select) -> bool:
        """Whether a value is a column of one table of a SELECT that is declared NOT NULL."""
        column = value.unalias()
        if not isinstance(column, exp.Column):
            return False
        tables = [t for t in self._tables(select) if not column.table or column.table.lower() == t.called.lower()]
        found = [there for table in tables if (there := table.schema.find(column.name)) is not None]
        return len(found) == 1 and not found[0].nullable

    def _subquery(self, node: exp.Expr, negated: bool, before: str) -> Nested:
        while isinstance(node, (exp.Subquery, exp.Paren)):
            node = node.this
        if not isinstance(node, exp.Select):
            self.refuse("a set operation in a subquery", node, "make it a view of its own")
        inner = self.block(node)
        if inner.nested:
            self.refuse("a subquery inside a subquery", node, "make it a view of its own")
        return Nested(negated, ", ".join(inner.columns), inner.tables, inner.conditions, before)

    def refuse(self, what: str, at: exp.Expr, instead: str) -> NoReturn:
        """Refuses a part of the query, with its position."""
        marks = [part.meta for part in at.walk() if "start" in part.meta] if isinstance(at, exp.Expr) else []
        place = None
        if marks:
            start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks)
            place = place_in(self.query, start, end - start + 1, self.whole)
        raise NotMaintainable(f"no rules can be derived for {self.name}: it has {what}", place=place, hint=instead)


_MORE = {
    "group": ("GROUP BY", "--target postgres takes it"),
    "having": ("HAVING", "--target postgres takes it"),
    "windows": ("WINDOW", "--target postgres takes it"),
    "qualify": ("QUALIFY", "--target postgres takes it"),
    "order": ("ORDER BY", "leave it out; with LIMIT, --target postgres takes it"),
    "limit": ("LIMIT", "--target postgres takes it"),
    "offset": ("OFFSET", "--target postgres takes it"),
    "laterals": ("LATERAL VIEW", "store the parts as rows of another table"),
    "with_": ("WITH", "make its queries views of their own"),
    "pivots": ("PIVOT", "write its columns out"),
}
"""Other clauses, which are refused, and what to do about each."""
