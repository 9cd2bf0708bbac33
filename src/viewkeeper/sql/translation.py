"""Queries of all kinds: WITH, SELECT, set operations, VALUES, and the tables they name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from viewkeeper.algebra.expressions import NULL, Attribute, Expression, column
from viewkeeper.algebra.nodes import Distinct, Least, Monus, Node, Project, Rows, Scan, Top, Union
from viewkeeper.algebra.types import Type
from viewkeeper.errors import Place
from viewkeeper.sql.aggregate_calls import is_aggregate, outermost
from viewkeeper.sql.binding import Binder
from viewkeeper.sql.blocks import Block
from viewkeeper.sql.catalog import Catalog, Query, Stored
from viewkeeper.sql.clauses import QUERY, only
from viewkeeper.sql.coercion import cast_to, common_type
from viewkeeper.sql.context import Context
from viewkeeper.sql.dialect import Verbatim
from viewkeeper.sql.free import copied
from viewkeeper.sql.limits import limit_of, offset_of, order_by_output
from viewkeeper.sql.prune import simplified
from viewkeeper.sql.recursive_queries import Recursion
from viewkeeper.sql.scopes import Scope

Expected = Sequence[Type | None]


class Translation:
    """Translates the queries of one text."""

    def __init__(self, context: Context, catalog: Catalog) -> None:
        self.context = context
        self.catalog = catalog

    def query(
        self, tree: exp.Expr, scope: Scope, expected: Expected = (), *, beside: Sequence[str] = ("alias",)
    ) -> Query:
        """The algebra of a query in a scope of its own. `expected` are types for columns that are only NULL.

        `beside` are the clauses of the tree that are read elsewhere.
        """
        self._with(tree, scope)
        if isinstance(tree, exp.Subquery):
            only(self.context, tree, "this", *QUERY, *beside)
            inside = self.query(tree.this, Scope(parent=scope), expected)
            return self._limited(inside, tree)
        if isinstance(tree, exp.Select):
            return Block(self, tree, scope, expected).translate()
        if isinstance(tree, exp.SetOperation):
            only(self.context, tree, "this", "expression", "distinct", "by_name", *QUERY, *beside)
            return self._limited(self._set_operation(tree, scope), tree)
        if isinstance(tree, exp.Values):
            only(self.context, tree, "expressions", *beside)
            return self._values(tree, scope, expected)
        if isinstance(tree, exp.Table):
            only(self.context, tree, "this", "db", "catalog", *beside)
            node, names = self.table(tree, scope)
            return Query(self.context.project(node, [(n, column(a)) for n, a in names]), tuple(n for n, _ in names))
        return self.context.wrong("this is not a query", tree, "write SELECT ...")

    # WITH ------------------------------------------------------------------------------------------

    def _with(self, tree: exp.Expr, scope: Scope) -> None:
        clause = tree.args.get("with_") or tree.args.get("with")
        if clause is None:
            return
        only(self.context, clause, "expressions", "recursive")
        for cte in clause.expressions:
            only(self.context, cte, "this", "alias", "materialized")
            if clause.args.get("recursive") and _names_itself(cte):
                made = self._recursive(cte, scope)
            else:
                made = self._called(cte, self.query(cte.this, Scope(parent=scope)))
            scope.named[cte.alias.lower()] = made

    def _called(self, cte: exp.CTE, made: Query) -> Query:
        """A query of WITH, with the names that WITH gives its columns."""
        given = [column.name for column in cte.args["alias"].columns]
        if given and len(given) != len(made.names):
            self.context.wrong(f"'{cte.alias}' has {len(made.names)} columns, {len(given)} names are given", cte)
        return Query(made.node, tuple(given) or made.names)

    def _recursive(self, cte: exp.CTE, scope: Scope) -> Query:
        """The algebra of a query of WITH RECURSIVE that reads itself."""
        tree = cte.this
        if not isinstance(tree, exp.Union) or any(tree.args.get(part) for part in ("order", "limit", "offset")):
            self.context.refuse(
                f"the recursive query '{cte.alias}' is not a UNION", cte, "write a start, UNION, and a step"
            )
        bag = tree.args.get("distinct") is False
        parts = _chain(tree)
        start = [part for part in parts if not _names(part, cte.alias)]
        steps = [part for part in parts if _names(part, cte.alias)]
        if not start:
            self.context.refuse(
                f"every branch of '{cte.alias}' reads '{cte.alias}', so it has no rows to start from",
                cte,
                "add a branch that reads other tables only",
            )
        branches = self._branches(start, scope)
        nodes, attributes = self._aligned(branches, start)
        begun = self._called(cte, Query(Union(tuple(nodes), tuple(attributes)), branches[0].names))
        numbers = self.context.numbers
        kinds: list[Type] = []
        wider = [a.type for a in attributes]
        while wider != kinds:  # a step may have wider numbers than the start
            kinds = wider
            columns = tuple(numbers.attribute(name, kind) for name, kind in zip(begun.names, kinds, strict=True))
            marker = Scan(f"recursive {cte.alias.lower()} {columns[0].number}", cte.alias, columns)
            inside = Scope(parent=scope)
            inside.named[cte.alias.lower()] = Query(marker, begun.names)
            made = self._branches(steps, inside)
            for branch, part in zip(made, steps, strict=True):
                if len(branch.names) != len(columns):
                    self.context.wrong(
                        f"a step of '{cte.alias}' has {len(branch.names)} columns, its start has {len(columns)}",
                        part,
                        None,
                    )
            wider = [_widest([c.type, *(b.node.outputs[i].type for b in made)]) for i, c in enumerate(columns)]
        nodes = [_cast_columns(self.context, node, list(zip(node.outputs, kinds, strict=True))) for node in nodes]
        recursion = Recursion(self.context, {cte.alias: marker}, cte, bag=bag)
        for node, part in zip(nodes, start, strict=True):
            recursion.branch(cte.alias, simplified(node), _label(cte.alias, part))
        for branch, part in zip(made, steps, strict=True):
            self._check_step(branch, columns, cte.alias, part)
            pairs = list(zip(branch.node.outputs, (c.type for c in columns), strict=True))
            step = simplified(_cast_columns(self.context, branch.node, pairs))
            recursion.branch(cte.alias, step, _label(cte.alias, part))
        return Query(recursion.fixpoint(cte.alias, [numbers.like(column) for column in columns]), begun.names)

    def _check_step(self, branch: Query, columns: Sequence[Attribute], name: str, at: exp.Expr) -> None:
        """Refuses a step whose values may not fit the columns of the start."""
        for given, wanted in zip(branch.node.outputs, columns, strict=True):
            if given.type.ddl == wanted.type.ddl:
                continue
            if common_type(wanted.type, given.type) != wanted.type:
                self.context.wrong(
                    f"column '{wanted.name}' of '{name}' is {wanted.type} in its start and {given.type} in a step",
                    at,
                    "write a CAST in one of them",
                )

    # tables ----------------------------------------------------------------------------------------

    def table(self, item: exp.Table, scope: Scope) -> tuple[Node, list[tuple[str, Attribute]]]:
        """A table by name: a query of WITH, a stored relation, or a view."""
        if item.args.get("db") is not None:
            self.context.wrong(
                f"'{item.db}.{item.name}' has more than one part: there are no schemas or catalogs",
                item,
                f"write {item.name}",
            )
        named = scope.named_query(item.name)
        if named is not None:
            return self._copy(named)
        place = self.context.place(item.this) or Place.at(self.context.whole, 0)
        found = self.catalog.find(item.name, place)
        if isinstance(found, Stored):
            numbers = self.context.numbers
            attributes = [numbers.attribute(c.name, c.type, nullable=c.nullable) for c in found.schema]
            scan = Scan(found.id, found.name, tuple(attributes))
            return scan, [(a.name, a) for a in attributes]
        return self._copy(found.query)

    def _copy(self, query: Query) -> tuple[Node, list[tuple[str, Attribute]]]:
        """A copy of a named query with new column ids."""
        node, _ = copied(query.node, self.context.numbers)
        return node, list(zip(query.names, node.outputs, strict=True))

    # set operations --------------------------------------------------------------------------------

    def _set_operation(self, tree: exp.SetOperation, scope: Scope) -> Query:
        kind = type(tree)
        if tree.args.get("by_name"):
            self.context.refuse("UNION BY NAME is not supported", tree, "list the columns in the same order")
        parts = _chain(tree) if kind is exp.Union else [tree.this, tree.expression]
        branches = self._branches(parts, scope)
        widths = {len(branch.names) for branch in branches}
        if len(widths) > 1:
            counts = " and ".join(str(len(branch.names)) for branch in branches)
            self.context.wrong(f"the queries of a set operation have {counts} columns", parts[-1], None)
        nodes, attributes = self._aligned(branches, parts)
        distinct = tree.args.get("distinct") is not False
        if distinct or kind is not exp.Union:
            for attribute in attributes:
                if attribute.type.has_map():
                    self.context.refuse(
                        f"the column '{attribute.name}' is a MAP, which has no equality", parts[0], "use map_entries"
                    )
        node: Node
        if kind is exp.Union:
            node = Union(tuple(nodes), tuple(attributes))
            node = Distinct(node) if distinct else node
        else:
            left, right = (Distinct(part) if distinct else part for part in nodes)
            node = (Least if kind is exp.Intersect else Monus)(left, right, tuple(attributes))
        return Query(node, branches[0].names)

    def _branches(self, parts: Sequence[exp.Expr], scope: Scope) -> list[Query]:
        """The translated branches. Those with a column that is only NULL come last, when its type is known."""
        bare = [_null_columns(part) for part in parts]
        done: dict[int, Query] = {}
        for index in sorted(range(len(parts)), key=lambda i: (bool(bare[i]), i)):
            expected: list[Type | None] = []
            if bare[index] and done:
                known = next(iter(done.values())).node.outputs
                expected = [a.type for a in known]
            done[index] = self.query(parts[index], Scope(parent=scope), expected)
        return [done[index] for index in range(len(parts))]

    def _aligned(self, branches: Sequence[Query], at: Sequence[exp.Expr]) -> tuple[list[Node], list[Attribute]]:
        """The branches with columns cast to common types, and the attributes of the result."""
        kinds: list[Type] = []
        for index in range(len(branches[0].names)):
            kind = branches[0].node.outputs[index].type
            for branch, place in zip(branches[1:], at[1:], strict=True):
                found = common_type(kind, branch.node.outputs[index].type)
                if found is None:
                    other = branch.node.outputs[index].type
                    self.context.wrong(
                        f"column {index + 1} of the set operation is {kind} in one query and {other} in another",
                        place,
                        "write a CAST",
                    )
                kind = found
            kinds.append(kind)
        nodes: list[Node] = []
        for branch in branches:
            pairs = list(zip(branch.node.outputs, kinds, strict=True))
            if any(a.type.ddl != kind.ddl for a, kind in pairs):
                nodes.append(_cast_columns(self.context, branch.node, pairs))
            else:
                nodes.append(branch.node)
        numbers = self.context.numbers
        attributes = [
            numbers.attribute(name, kind, nullable=any(node.outputs[i].nullable for node in nodes))
            for i, (name, kind) in enumerate(zip(branches[0].names, kinds, strict=True))
        ]
        return nodes, attributes

    def _limited(self, query: Query, tree: exp.Expr) -> Query:
        """A query with the ORDER BY and LIMIT of a set operation or parenthesized query, by its output columns."""
        limit, offset = limit_of(self.context, tree), offset_of(self.context, tree)
        if limit is None and not offset:
            return query
        order = order_by_output(self.context, tree, list(zip(query.names, query.node.outputs, strict=True)))
        return Query(Top(query.node, (), tuple(order), limit, offset), query.names)

    # VALUES ----------------------------------------------------------------------------------------

    def _values(self, tree: exp.Values, scope: Scope, expected: Expected) -> Query:
        binder = Binder(self.context, scope, self.query)
        rows: list[list[Expression]] = []
        for row in tree.expressions:
            items = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
            bound = [binder.bind(item) for item in items]
            if any(item.find(exp.Placeholder) for item in bound):
                self.context.refuse("a subquery in VALUES is not supported", row, "write SELECT ... UNION ALL")
            rows.append([self.context.expression(item) for item in bound])
        if len({len(row) for row in rows}) != 1:
            self.context.wrong("the rows of VALUES have different lengths", tree, None)
        kinds = [self._column_type([row[i] for row in rows], i, tree, expected) for i in range(len(rows[0]))]
        numbers = self.context.numbers
        alias = tree.args.get("alias")
        given = [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
        names = given or [f"col{i + 1}" for i in range(len(kinds))]
        attributes = tuple(numbers.attribute(name, kind) for name, kind in zip(names, kinds, strict=True))
        return Query(Rows(attributes, tuple(tuple(row) for row in rows)), tuple(names))

    def _column_type(self, values: Sequence[Expression], index: int, at: exp.Expr, expected: Expected) -> Type:
        said = [value for value in values if value != NULL]
        if not said:
            if index < len(expected) and (kind := expected[index]) is not None:
                return kind
            said = list(values)
        kinds = list(dict.fromkeys(self.context.types(said, [at] * len(said))))
        kind = kinds[0]
        for other in kinds[1:]:
            found = common_type(kind, other)
            if found is None:
                self.context.wrong(f"VALUES has {kind} and {other} in one column", at, "write a CAST")
            kind = found
        return kind

    # checks ----------------------------------------------------------------------------------------

    def no_aggregates(self, bound: Iterable[exp.Expr], where: str) -> None:
        """Refuses aggregates and window functions in a clause that allows none."""
        for node in bound:
            for part in outermost(node, is_aggregate):
                self.context.wrong(f"an aggregate cannot stand in {where}", part, "use HAVING, or a subquery")
            window = node.find(exp.Window)
            if window is not None:
                self.context.wrong(f"a window function cannot stand in {where}", window, "use QUALIFY")


def _names(tree: exp.Expr, name: str) -> bool:
    """Whether a query reads a table of that name."""
    return any(table.name.lower() == name.lower() for table in tree.find_all(exp.Table))


def _names_itself(cte: exp.CTE) -> bool:
    return _names(cte.this, cte.alias)


def _label(name: str, part: exp.Expr) -> str:
    """A branch of a recursive query as text for display."""
    return f"{name} :- {' '.join(part.sql(dialect=Verbatim).split())}"


def _widest(kinds: Sequence[Type]) -> Type:
    """The widest of some types if all are integers or all floats; else the first."""
    first = kinds[0]
    if all(kind.is_integer for kind in kinds) or all(kind.is_float for kind in kinds):
        for kind in kinds[1:]:
            first = common_type(first, kind) or first
    return first


def _cast_columns(context: Context, node: Node, pairs: Sequence[tuple[Attribute, Type]]) -> Project:
    columns: list[tuple[Attribute, Expression]] = []
    for attribute, kind in pairs:
        expression = cast_to(column(attribute), attribute.type, kind)
        if expression.attribute is not None:
            columns.append((attribute, expression))
        else:
            columns.append((context.numbers.attribute(attribute.name, kind, nullable=attribute.nullable), expression))
    return Project(node, tuple(columns))


def _chain(tree: exp.SetOperation) -> list[exp.Expr]:
    """The branches of a chain of UNION ALL, or of UNION: (a UNION b) UNION c is one union of three."""
    distinct = tree.args.get("distinct") is not False
    left = tree.this
    plain = not any(left.args.get(part) for part in ("order", "limit", "offset", "with_", "with", "by_name"))
    if isinstance(left, exp.Union) and plain and (distinct or left.args.get("distinct") is False):
        return [*_chain(left), tree.expression]
    return [left, tree.expression]


def _null_columns(tree: exp.Expr) -> bool:
    """Whether a branch has a column that is just NULL."""
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if isinstance(tree, exp.Values):
        return any(isinstance(part, exp.Null) for part in tree.find_all(exp.Null))
    if not isinstance(tree, exp.Select):
        return False
    return any(isinstance(part.unalias(), exp.Null) for part in tree.expressions)
