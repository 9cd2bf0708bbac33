"""One SELECT: FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY, the selected columns, DISTINCT, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Distinct, Node, Order, Project, Top
from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import is_aggregate, outermost, replaced, same, unique
from viewkeeper.sql.aggregates import Aggregation
from viewkeeper.sql.binding import Binder
from viewkeeper.sql.catalog import Query
from viewkeeper.sql.clauses import QUERY, only
from viewkeeper.sql.conditions import conjuncts, unwrapped
from viewkeeper.sql.context import Context, passed_on
from viewkeeper.sql.generators import generated, is_generator
from viewkeeper.sql.grouping import Grouping, GroupingSets, groupings_in, read_grouping, written_keys
from viewkeeper.sql.limits import is_all, limit_of, offset_of, ordinal
from viewkeeper.sql.placing import Placing
from viewkeeper.sql.scopes import Scope
from viewkeeper.sql.select_list import Item, Selecting
from viewkeeper.sql.sources import Sources
from viewkeeper.sql.subqueries import substituted
from viewkeeper.sql.window_frames import direction
from viewkeeper.sql.window_names import resolve_named_windows
from viewkeeper.sql.windows import Windows

if TYPE_CHECKING:
    from viewkeeper.sql.translation import Translation

_CLAUSES = (
    *("expressions", "distinct", "hint", "from_", "joins", "laterals", "where", "group", "having", "windows"),
    *("qualify", *QUERY),
)
"""The clauses of SELECT that are translated here."""


@dataclass
class _Sort:
    """A sort key: bound, with its direction."""

    bound: exp.Expr
    descending: bool
    nulls_first: bool
    at: exp.Expr


class Block:
    """Translates one SELECT."""

    def __init__(
        self, translation: Translation, tree: exp.Select, scope: Scope, expected: Sequence[Type | None] = ()
    ) -> None:
        self.translation = translation
        self.context: Context = translation.context
        self.tree = resolve_named_windows(self.context, tree)
        self.scope = scope
        self.expected = expected
        self.binder = Binder(self.context, scope, translation.query)
        self.placing = Placing(self.context, self.binder)
        self.items: list[Item] = []
        self.having: list[exp.Expr] = []
        self.qualify: list[exp.Expr] = []
        self.sorts: list[_Sort] = []

    def translate(self) -> Query:
        """The query as algebra."""
        self._refuse_parts()
        sources = Sources(self.translation, self.scope, self.binder)
        sources.read(self.tree)
        node = sources.filtered(self.tree.args["where"].this if self.tree.args.get("where") else None)
        selecting = Selecting(self.context, self.binder, self.scope)
        selecting.aliases.update(self._time_windows())
        self.items = selecting.items(self.tree, self.expected)
        self._bind_conditions(selecting.aliases)
        self._bind_sorts(selecting.aliases)
        node = self._aggregate(node, selecting.aliases)
        node = self.placing.keep(node, self.having)
        node = self._windows(node)
        node = self.placing.keep(node, self.qualify)
        node = self._generate(node)
        return self._select(node)

    def _refuse_parts(self) -> None:
        for part, word in (("cluster", "CLUSTER BY"), ("distribute", "DISTRIBUTE BY"), ("sort", "SORT BY")):
            if self.tree.args.get(part):
                self.context.refuse(f"{word} means nothing in a view", self.tree.args[part], "leave it out")
        for part in ("into", "connect", "match", "prewhere", "sample"):
            if self.tree.args.get(part):
                self.context.refuse(f"{part.upper()} is not supported", self.tree, None)
        distinct = self.tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            self.context.refuse("DISTINCT ON is not supported", distinct, "use QUALIFY row_number() OVER (...) = 1")
        only(self.context, self.tree, *_CLAUSES)

    # binding ---------------------------------------------------------------------------------------

    def _bind_conditions(self, aliases: dict[str, exp.Expr]) -> None:
        for name, conditions in (("having", self.having), ("qualify", self.qualify)):
            clause = self.tree.args.get(name)
            if clause is not None:
                conditions += [self.binder.bind(c, after=aliases) for c in conjuncts(clause.this)]

    def _bind_sorts(self, aliases: dict[str, exp.Expr]) -> None:
        order = self.tree.args.get("order")
        names = {**self._names_of_items(), **aliases}
        for key in order.expressions if order is not None else ():
            descending, first = direction(key)
            if is_all(key) and not self.scope.lookup(["all"])[0] and "all" not in aliases:
                self.sorts += [_Sort(item.bound, descending, first, key) for item in self.items]
                continue
            position = ordinal(key.this)
            if position is not None:
                bound = self._item_at(position, key, "ORDER BY").bound
            else:
                bound = self.binder.bind(key.this, before=names)
            self.sorts.append(_Sort(bound, descending, first, key))

    def _names_of_items(self) -> dict[str, exp.Expr]:
        """The names that exactly one selected column has; ORDER BY looks them up first."""
        found: dict[str, list[exp.Expr]] = {}
        for item in self.items:
            found.setdefault(item.name.lower(), []).append(item.bound)
        return {name: bound[0] for name, bound in found.items() if all(same(bound[0], other) for other in bound)}

    def _item_at(self, position: int, at: exp.Expr, clause: str) -> Item:
        if not 1 <= position <= len(self.items):
            self.context.wrong(f"{clause} {position}: there are {len(self.items)} columns", at, None)
        return self.items[position - 1]

    def _later(self) -> list[exp.Expr]:
        """All syntax that is evaluated after GROUP BY."""
        return [*(item.bound for item in self.items), *self.having, *self.qualify, *(sort.bound for sort in self.sorts)]

    def _replace(self, known: Sequence[tuple[exp.Expr, exp.Expr]]) -> None:
        self.items = [replace(item, bound=replaced(item.bound, known)) for item in self.items]
        self.having = [replaced(c, known) for c in self.having]
        self.qualify = [replaced(c, known) for c in self.qualify]
        for sort in self.sorts:
            sort.bound = replaced(sort.bound, known)

    # GROUP BY --------------------------------------------------------------------------------------

    def _aggregate(self, node: Node, aliases: dict[str, exp.Expr]) -> Node:
        group = self.tree.args.get("group")
        calls = unique(part for bound in self._later() for part in outermost(bound, is_aggregate))
        for call in calls:
            self._no_nesting(call)
        if group is None and not calls and not self.tree.args.get("having"):
            return node
        grouping = self._grouping(group, aliases)
        aggregation = Aggregation(self.context, self.placing, grouping.keys, calls)
        before = set(node.outputs)
        prepared = aggregation.prepare(node)
        shown: Sequence[Attribute] = aggregation.keys
        known: list[tuple[exp.Expr, exp.Expr]] = []
        if grouping.sets is not None:
            sets = GroupingSets(self.context, aggregation, grouping.sets)
            made, shown, values = sets.aggregate(prepared)
            known += [(call, sets.grouping(call)) for call in unique(groupings_in(self._later()))]
        else:
            whole = not grouping.keys and (group is None or not group.args.get("all"))
            made, values = aggregation.aggregate(prepared, aggregation.keys, whole=whole or not grouping.keys)
        known += [(call, self.context.marked(a, call)) for call, a in zip(calls, values, strict=True)]
        known += [(key, self.context.marked(a, key)) for key, a in zip(grouping.keys, shown, strict=True)]
        self._replace(known)
        self._follow(dict(zip(aggregation.keys, shown, strict=True)))
        self._check_grouped(before, set(made.outputs))
        return made

    def _no_nesting(self, call: exp.Expr) -> None:
        calls = [part for part in call.walk() if isinstance(part, exp.Anonymous) and is_aggregate(part)]
        window = call.find(exp.Window)
        if window is not None:
            self.context.wrong("a window function cannot stand inside an aggregate", window, "compute it in a subquery")
        if len(calls) > 1:
            self.context.wrong("an aggregate cannot stand inside an aggregate", call, "compute it in a subquery")

    def _grouping(self, group: exp.Group | None, aliases: dict[str, exp.Expr]) -> Grouping:
        if group is None:
            return Grouping(())
        if group.args.get("all") is True and not group.expressions and not self.scope.lookup(["all"])[0]:
            plain = [item.bound for item in self.items if not any(True for _ in outermost(item.bound, is_aggregate))]
            return Grouping(tuple(unique(plain)))
        bound: list[tuple[exp.Expr, exp.Expr]] = []
        if group.args.get("all") is True:  # a column of that name
            group = exp.Group(expressions=[exp.column("all"), *group.expressions])
        for key in written_keys(group):
            position = ordinal(key)
            if position is not None:
                made = self._item_at(position, key, "GROUP BY").bound
            else:
                made = self._selected_subquery(key) or self.binder.bind(key, after=aliases)
            self.translation.no_aggregates([made], "GROUP BY")
            bound.append((key, made))
        return read_grouping(self.context, group, bound)

    def _time_windows(self) -> dict[str, exp.Expr]:
        """The name that a key such as window(time, '1 hour') has, unless a column has it."""
        group = self.tree.args.get("group")
        found: dict[str, exp.Expr] = {}
        for key in written_keys(group) if group is not None else ():
            name = key.name.lower() if isinstance(key, exp.Anonymous) else ""
            if name in ("window", "session_window") and not self.scope.lookup([name])[0]:
                found[name] = self.binder.bind(key)
        return found

    def _selected_subquery(self, key: exp.Expr) -> exp.Expr | None:
        """The selected column that consists of the same subquery as a key."""
        if not isinstance(unwrapped(key), exp.Query):
            return None
        written = ((item, item.at.this if isinstance(item.at, exp.Alias) else item.at) for item in self.items)
        return next((item.bound for item, other in written if same(key, other)), None)

    def _follow(self, renamed: dict[Attribute, Attribute]) -> None:
        """Makes subqueries that are joined after GROUP BY refer to its output columns."""
        changed = {old: new for old, new in renamed.items() if old != new}
        if not changed:
            return
        for bound in self._later():
            for part in bound.find_all(exp.Placeholder):
                index = int(part.name)
                waiting = self.binder.waiting[index]
                self.binder.waiting[index] = replace(waiting, node=substituted(waiting.node, changed))

    def _check_grouped(self, before: set[Attribute], after: set[Attribute]) -> None:
        for bound in self._later():
            for part in bound.find_all(exp.Column):
                attribute = self.context.attribute_of(part)
                if attribute is not None and attribute in before and attribute not in after:
                    self._not_grouped(attribute, part)
            for attribute in self.placing.named(bound):
                if attribute in before and attribute not in after:
                    self._not_grouped(attribute, bound)

    def _not_grouped(self, attribute: Attribute, at: exp.Expr) -> None:
        self.context.wrong(
            f"'{attribute.name}' is neither in GROUP BY nor in an aggregate",
            at,
            f"add it to GROUP BY, or write any_value({attribute.name})",
        )

    # windows, generators, columns ------------------------------------------------------------------

    def _windows(self, node: Node) -> Node:
        later = [*(item.bound for item in self.items), *self.qualify, *(sort.bound for sort in self.sorts)]
        found = unique(part for bound in later for part in outermost_windows(bound))
        if not found:
            return node
        node, known = Windows(self.context, self.placing).add(node, found)
        self._replace(known)
        return node

    def _generate(self, node: Node) -> Node:
        """A table function among the selected columns."""
        calls = [(i, item) for i, item in enumerate(self.items) if is_generator(item.bound)]
        for item in self.items:
            nested = [part for part in item.bound.walk() if is_generator(part) and part is not item.bound]
            if nested:
                self.context.refuse("a table function cannot stand inside an expression", nested[0], "use LATERAL VIEW")
        if not calls:
            return node
        if len(calls) > 1:
            self.context.refuse("only one table function can stand in SELECT", calls[1][1].at, "use LATERAL VIEW")
        index, item = calls[0]
        node, bound = self.placing.joined(node, item.bound)
        assert isinstance(bound, exp.Anonymous)
        node, made = generated(self.context, node, bound, list(item.names), outer=False)
        new = [Item(a.name, self.context.marked(a, item.at), item.at) for a in made]
        self.items[index : index + 1] = new
        return node

    def _select(self, node: Node) -> Query:
        """The selected columns, then DISTINCT, ORDER BY and LIMIT."""
        limit, offset = limit_of(self.context, self.tree), offset_of(self.context, self.tree)
        distinct = self.tree.args.get("distinct") is not None
        sorts = self.sorts if limit is not None or offset else []
        keys = [self._sort_item(sort) for sort in sorts]
        hidden = [sort.bound for sort, key in zip(sorts, keys, strict=True) if key is None]
        if distinct and hidden:
            self.context.wrong("ORDER BY of SELECT DISTINCT takes selected columns", self.tree.args["order"], None)
        expressions = []
        for bound in (*(item.bound for item in self.items), *hidden):
            node, expression = self.placing.value(node, bound)
            expressions.append(expression)
        names = [*(item.name for item in self.items), *(["order"] * len(hidden))]
        places = [*(item.at for item in self.items), *hidden]
        made: Node = self.context.project(node, list(zip(names, expressions, strict=True)), places)
        outputs, shown = made.outputs, made.outputs[: len(self.items)]
        if distinct:
            self._check_distinct(shown)
            made = Distinct(made)
        if limit is not None or offset:
            order: dict[Attribute, Order] = {}
            extra = iter(outputs[len(self.items) :])
            for sort, key in zip(sorts, keys, strict=True):
                attribute = outputs[key] if key is not None else next(extra)
                order.setdefault(attribute, Order(attribute, sort.descending, sort.nulls_first))
            made = Top(made, (), tuple(order.values()), limit, offset)
        if hidden:
            made = Project(made, passed_on(shown))
        return Query(made, tuple(item.name for item in self.items))

    def _sort_item(self, sort: _Sort) -> int | None:
        return next((i for i, item in enumerate(self.items) if same(item.bound, sort.bound)), None)

    def _check_distinct(self, columns: Iterable[Attribute]) -> None:
        for attribute in columns:
            if attribute.type.has_map():
                self.context.refuse(
                    f"DISTINCT of the MAP column '{attribute.name}' is not possible: it has no equality",
                    self.items[0].at,
                    "select map_entries of it",
                )


def outermost_windows(node: exp.Expr) -> list[exp.Expr]:
    """The window functions in bound syntax."""
    return [part for part in node.find_all(exp.Window) if part.find_ancestor(exp.Window) is None]
