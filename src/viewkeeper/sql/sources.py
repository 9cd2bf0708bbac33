"""FROM: tables, derived tables and joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.expressions import TRUE, Attribute, Expression, coalesce, column
from viewkeeper.algebra.nodes import Equality, Exists, Node, Outer, Rows
from viewkeeper.sql.binding import Binder
from viewkeeper.sql.clauses import QUERY, only
from viewkeeper.sql.conditions import conjuncts
from viewkeeper.sql.context import Context
from viewkeeper.sql.equations import equality_of
from viewkeeper.sql.generators import generate, table_function
from viewkeeper.sql.joins import computed_sides, inner_join, left_join, tied
from viewkeeper.sql.pivots import pivoted
from viewkeeper.sql.placing import Placing
from viewkeeper.sql.scopes import Scope, Visible

if TYPE_CHECKING:
    from viewkeeper.sql.translation import Translation

_BESIDE = ("alias", "joins", "laterals", "pivots")
"""The clauses that an item of FROM may have; its joins and lateral views are read with the parentheses around it."""

_JOINS = ("", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "LEFT SEMI", "ANTI", "LEFT ANTI")
_NESTED = "put the join that comes first in brackets: t JOIN (u JOIN v ON ...) ON ..."


class Sources:
    """The FROM clause of one query: its inputs, and the columns it adds to the scope."""

    def __init__(self, translation: Translation, scope: Scope, binder: Binder) -> None:
        self.translation = translation
        self.context: Context = translation.context
        self.scope = scope
        self.binder = binder
        self.placing = Placing(self.context, binder)
        self.inputs: list[Node] = []
        self.conditions: list[Expression] = []
        self.waiting: list[exp.Expr] = []

    def read(self, tree: exp.Expr) -> None:
        """Reads FROM, its joins and lateral views."""
        source = tree.args.get("from_") or tree.args.get("from")
        if source is None:
            self.inputs = [Rows((), ((),))]
            return
        self._first(source.this)
        for join in tree.args.get("joins") or ():
            self._join(join)
        self._lateral_views(tree.args.get("laterals") or ())

    def _first(self, item: exp.Expr) -> None:
        node, columns = self._item(item)
        self.inputs.append(node)
        self.scope.columns += columns
        self._after(item)

    def _after(self, item: exp.Expr) -> None:
        """Reads the joins and lateral views that follow the first item inside parentheses."""
        if item.args.get("joins") or item.args.get("laterals"):
            only(self.context, item, *(name for name in item.args if name not in ("order", "limit", "offset")))
        for join in item.args.get("joins") or ():
            self._join(join)
        self._lateral_views(item.args.get("laterals") or ())

    def node(self) -> Node:
        """All inputs read so far as one expression; conditions with subqueries are still pending."""
        node = inner_join(self.context, self.inputs, self.conditions)
        self.inputs, self.conditions = [node], []
        return node

    def filtered(self, where: exp.Expr | None) -> Node:
        """All inputs, filtered by the conditions of WHERE and the pending ones."""
        waiting = self.waiting
        if where is not None:
            bound = [self.binder.bind(c) for c in conjuncts(where)]
            self.translation.no_aggregates(bound, "WHERE")
            self.conditions += [self.context.expression(c) for c in bound if not self.placing.has_subquery(c)]
            waiting = [*waiting, *(c for c in bound if self.placing.has_subquery(c))]
        return self.placing.keep(self.node(), waiting)

    # items -----------------------------------------------------------------------------------------

    def _item(self, item: exp.Expr) -> tuple[Node, list[Visible]]:
        """One item: its expression and its columns. What follows it inside parentheses is not read here."""
        self._refuse_parts(item)
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Values):  # (VALUES ...) AS v JOIN ...
            only(self.context, item, "this", *_BESIDE)
            node, names, default = *self._derived(item.this), None
        elif isinstance(item, exp.Table) and not isinstance(item.this, exp.Identifier):
            only(self.context, item, "this", *_BESIDE)
            node, names = table_function(self.context, self.binder, item)
            default = None
        elif isinstance(item, exp.Table):
            only(self.context, item, "this", "db", "catalog", "hints", *_BESIDE)
            node, names = self.translation.table(item, self.scope)
            default = item.name
        elif _is_bracketed(item):
            only(self.context, item, "this", *_BESIDE)
            node, columns = self._bracketed(item)
            if not item.args.get("alias") and not item.args.get("pivots"):
                return node, columns
            names, default = [(c.name, c.attribute) for c in Scope(columns).star()], None
        elif isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery):  # nothing stands before it
            node, names, default = *self._derived(item.this), None
        elif isinstance(item, exp.Lateral):
            self.context.wrong("LATERAL needs a table before it", item, "write FROM explode(...) AS t")
        else:
            node, names, default = *self._derived(item), None
        node, names = self._pivot(item, node, names)
        return node, self._aliased(item, names, default)

    def _derived(self, item: exp.Expr) -> tuple[Node, list[tuple[str, Attribute]]]:
        """A query in FROM."""
        scope = self.scope.inner() if self.scope.parent is None else self._around()
        query = self.translation.query(item, scope, beside=_BESIDE)
        return query.node, list(zip(query.names, query.node.outputs, strict=True))

    def _around(self) -> Scope:
        """The scope of a derived table: it sees WITH and the outer queries, but not its neighbors."""
        return Scope(parent=Scope(columns=[], parent=self.scope.parent, named=self.scope.named))

    def _refuse_parts(self, item: exp.Expr) -> None:
        if item.args.get("sample") is not None:
            self.context.refuse(
                "TABLESAMPLE cannot be maintained: it draws rows at random",
                item,
                "choose rows by a condition, for instance WHERE pmod(hash(id), 10) = 0",
            )
        for name in ("version", "when", "ordinality"):
            if item.args.get(name):
                self.context.refuse("time travel is not possible inside a view", item, "read the table as it is")

    def _pivot(
        self, item: exp.Expr, node: Node, names: list[tuple[str, Attribute]]
    ) -> tuple[Node, list[tuple[str, Attribute]]]:
        for pivot in item.args.get("pivots") or ():
            node, names = pivoted(self.translation, node, names, pivot, self.scope)
        return node, names

    def _aliased(self, item: exp.Expr, names: list[tuple[str, Attribute]], default: str | None) -> list[Visible]:
        alias = item.args.get("alias")
        pivots = item.args.get("pivots")
        if pivots and pivots[-1].args.get("alias") is not None:
            alias = pivots[-1].args["alias"]
        qualifier = alias.name if isinstance(alias, exp.TableAlias) and alias.this is not None else default
        renamed = alias.columns if isinstance(alias, exp.TableAlias) else []
        if renamed and len(renamed) != len(names):
            self.context.wrong(f"'{qualifier}' has {len(names)} columns and {len(renamed)} names are given", item, None)
        shown = [c.name for c in renamed] if renamed else [name for name, _ in names]
        return [Visible(name, qualifier, a) for name, (_, a) in zip(shown, names, strict=True)]

    def _bracketed(self, item: exp.Expr) -> tuple[Node, list[Visible]]:
        """The item inside the parentheses of (a JOIN b ON ...)."""
        inside = Sources(self.translation, Scope(parent=self.scope.parent, named=self.scope.named), self.binder)
        inside.binder = Binder(self.context, inside.scope, self.binder.translate)
        inside.placing = Placing(self.context, inside.binder)
        inside._first(item.this)
        return inside.filtered(None), inside.scope.columns

    # joins -----------------------------------------------------------------------------------------

    def _join(self, join: exp.Join) -> None:
        side, kind = join.side.upper(), join.kind.upper()
        self._check_join(join, side, kind)
        if isinstance(join.this, exp.Lateral):
            self._lateral(join, left=side == "LEFT")
            return
        right, columns = self._item(join.this)
        left_columns = list(self.scope.columns)
        merged = self._merged_names(join, left_columns, columns)
        self.scope.columns = [*left_columns, *columns]
        if kind in ("SEMI", "ANTI"):
            self._semi(join, right, columns, merged, negated=kind == "ANTI")
            self.scope.columns = left_columns
            return
        if side in ("LEFT", "RIGHT", "FULL"):
            self._outer(join, right, merged, left_columns, columns, side)
        else:
            self.inputs.append(right)
            bound = [*self._on(join), *self._equal(merged)]
            self.conditions += [self.context.expression(c) for c in bound if not self.placing.has_subquery(c)]
            self.waiting += [c for c in bound if self.placing.has_subquery(c)]
            self._merge(merged, left_columns, columns, {}, side)
        self._lateral_views(join.this.args.get("laterals") or ())

    def _check_join(self, join: exp.Join, side: str, kind: str) -> None:
        """Refuses joins that Spark does not have."""
        only(self.context, join, "this", "side", "kind", "method", "on", "using")
        only(self.context, join.this, *(name for name in join.this.args if name != "joins"), hint=_NESTED)
        if join.method and join.method.upper() != "NATURAL":
            self.context.refuse(f"{join.method} JOIN is not supported", join, None)
        name = " ".join(word for word in (side, kind) if word and word != "OUTER")
        if name not in _JOINS:
            self.context.wrong(f"there is no {name} JOIN", join, f"there are {', '.join(_JOINS[1:])}")
        if isinstance(join.this, exp.Lateral):
            if name not in ("", "INNER", "CROSS", "LEFT"):
                self.context.wrong(
                    f"{name} JOIN LATERAL is not possible: its right side is computed for each row of the left",
                    join,
                    "write JOIN LATERAL or LEFT JOIN LATERAL",
                )
            if join.method or join.args.get("using"):
                self.context.wrong("LATERAL cannot be joined by USING or NATURAL", join, "join with ON")

    def _on(self, join: exp.Join) -> list[exp.Expr]:
        on = join.args.get("on")
        if on is None:
            return []
        bound = [self.binder.bind(c) for c in conjuncts(on)]
        self.translation.no_aggregates(bound, "ON")
        return bound

    def _merged_names(self, join: exp.Join, left: list[Visible], right: list[Visible]) -> list[tuple[Visible, Visible]]:
        """The pairs of columns that USING or NATURAL compares."""
        if join.method.upper() == "NATURAL":
            names = [c.name for c in left if not c.hidden and any(not r.hidden and r.is_named(c.name) for r in right)]
            wanted: list[tuple[str, exp.Expr]] = [(name, join.this) for name in dict.fromkeys(names)]
        else:
            wanted = [(part.name, part) for part in join.args.get("using") or ()]
        pairs: list[tuple[Visible, Visible]] = []
        for name, at in wanted:
            found = [[c for c in side if not c.hidden and c.is_named(name)] for side in (left, right)]
            if any(len(side) != 1 for side in found):
                problem = "is ambiguous" if all(found) else "is not on both sides"
                self.context.wrong(f"the column '{name}' of USING {problem}", at, "join with ON")
            pairs.append((found[0][0], found[1][0]))
        return pairs

    def _equal(self, merged: Sequence[tuple[Visible, Visible]]) -> list[exp.Expr]:
        return [
            exp.EQ(this=self.context.marked(one.attribute), expression=self.context.marked(other.attribute))
            for one, other in merged
        ]

    def _merge(
        self,
        merged: Sequence[tuple[Visible, Visible]],
        left: list[Visible],
        right: list[Visible],
        renamed: dict[Attribute, Attribute],
        side: str,
    ) -> None:
        """The columns after a join: those of USING first, once."""
        paired = {c for pair in merged for c in pair}
        columns = [replace(c, hidden=c.hidden or c in paired) for c in (*left, *right)]
        first = [Visible(one.name, None, (other if side == "RIGHT" else one).attribute) for one, other in merged]
        self.scope.columns = [*first, *columns]
        self.scope.repointed(renamed)
        if side == "FULL":
            for index, (one, other) in enumerate(merged):
                pair = [column(renamed.get(c.attribute, c.attribute)) for c in (one, other)]
                node, made = self.context.extend(self.node(), [(one.name, coalesce(*pair))])
                self.inputs = [node]
                self.scope.columns[index] = Visible(one.name, None, made[0])

    def _semi(
        self,
        join: exp.Join,
        right: Node,
        columns: list[Visible],
        merged: list[tuple[Visible, Visible]],
        *,
        negated: bool,
    ) -> None:
        bound = [*self._on(join), *self._equal(merged)]
        left, right, conditions = self._sided(join, self.node(), right, bound)
        sides = tied(self.context, left, right, conditions)
        self.inputs = [Exists(sides.left, sides.right, sides.equalities, sides.conditions, negated)]

    def _sided(
        self, join: exp.Join, left: Node, right: Node, bound: Sequence[exp.Expr]
    ) -> tuple[Node, Node, list[Expression]]:
        """The sides and conditions of a join, with each subquery joined to the side that its condition is about."""
        conditions: list[Expression] = []
        for condition in bound:
            if not self.placing.has_subquery(condition):
                conditions.append(self.context.expression(condition))
                continue
            ready = condition
            for part in list(condition.find_all(exp.Placeholder)):
                named = self.placing.named(part)
                if named & set(left.outputs) and named & set(right.outputs):
                    self.context.refuse(
                        "a subquery in ON of an outer join that is about both sides is not supported",
                        join.args.get("on"),
                        "compute it in a derived table of one side, or move it to WHERE",
                    )
            about_left = self.placing.named(condition) & set(left.outputs)
            subqueries_left = any(
                self.placing.named(p) & set(left.outputs) for p in condition.find_all(exp.Placeholder)
            )
            if about_left and subqueries_left:
                left, ready = self.placing.joined(left, condition)
            else:
                right, ready = self.placing.joined(right, condition)
            conditions.append(self.context.expression(ready))
        return left, right, conditions

    def _outer(
        self,
        join: exp.Join,
        right: Node,
        merged: list[tuple[Visible, Visible]],
        left_columns: list[Visible],
        columns: list[Visible],
        side: str,
    ) -> None:
        bound = [*self._on(join), *self._equal(merged)]
        left, right, conditions = self._sided(join, self.node(), right, bound)
        node: Node
        if side == "FULL":
            node, renamed = self._full(left, right, conditions)
        elif side == "RIGHT":
            node, renamed = left_join(self.context, right, left, conditions)
        else:
            node, renamed = left_join(self.context, left, right, conditions)
        self.inputs = [node]
        self._merge(merged, left_columns, columns, renamed, side)

    def _full(
        self, left: Node, right: Node, conditions: Sequence[Expression]
    ) -> tuple[Node, dict[Attribute, Attribute]]:
        equalities: list[Equality] = []
        rest: list[Expression] = []
        for condition in conditions:
            (left, right), rewritten = computed_sides(self.context, (left, right), condition)
            found = equality_of(rewritten, set(left.outputs), set(right.outputs))
            if found is not None:
                equalities.append(found)
            elif rewritten != TRUE:
                rest.append(rewritten)
        both = (*left.outputs, *right.outputs)
        padded = tuple((self.context.numbers.like(a, nullable=True), a) for a in both)
        node = Outer(left, right, tuple(dict.fromkeys(equalities)), tuple(rest), padded, full=True)
        return node, {inner: outer for outer, inner in padded}

    # lateral ---------------------------------------------------------------------------------------

    def _lateral(self, join: exp.Join, *, left: bool) -> None:
        item = join.this
        only(self.context, item, "this", "view", "outer", "alias")
        node = self.placing.keep(self.node(), self.waiting)
        self.waiting = []
        is_query = isinstance(item.this, exp.Query)
        if not is_query and not (left and _has_condition(join)):
            node, made = generate(self.context, self.placing, node, item, outer=left)
            self.inputs = [node]
            self.scope.columns += made
            self.waiting += self._on(join)
            return
        query = self.translation.query(item.this if is_query else _selected(item), self.scope.inner())
        names = list(zip(query.names, query.node.outputs, strict=True))
        self.scope.columns += self._aliased(item, names, None)
        bound = self._on(join)
        simple = [self.context.expression(c) for c in bound if not self.placing.has_subquery(c)]
        if left and len(simple) < len(bound):
            self.context.refuse(
                "a subquery in ON of a LEFT JOIN LATERAL is not supported",
                join.args.get("on"),
                "compute it in the subquery after LATERAL",
            )
        node, renamed = self.placing.attaching.lateral(node, query.node, simple, left=left)
        self.scope.repointed(renamed)
        self.inputs = [node]
        self.waiting = [c for c in bound if self.placing.has_subquery(c)]

    def _lateral_views(self, laterals: Sequence[exp.Lateral]) -> None:
        for item in laterals:
            node, made = generate(self.context, self.placing, self.node(), item, outer=bool(item.args.get("outer")))
            self.inputs = [node]
            self.scope.columns += made


def _has_condition(join: exp.Join) -> bool:
    """Whether there is an ON; sqlglot adds ON TRUE where there is none."""
    on = join.args.get("on")
    return on is not None and not (isinstance(on, exp.Boolean) and on.this)


def _selected(item: exp.Lateral) -> exp.Select:
    """SELECT * FROM the table function of a LATERAL."""
    call, alias = item.this.copy(), item.args.get("alias")
    table = exp.Table(this=call, alias=alias.copy() if alias is not None else None)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))


def _is_bracketed(item: exp.Expr) -> bool:
    """Whether an item of FROM is another item in brackets, with the joins that follow it there."""
    if not isinstance(item, exp.Subquery) or any(item.args.get(name) for name in QUERY):
        return False
    return isinstance(item.this, (exp.Table, exp.Subquery))
