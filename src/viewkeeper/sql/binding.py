"""Binding: names become attributes, and subqueries become placeholders that are joined later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.types import Type
from viewkeeper.sql.conditions import unwrapped
from viewkeeper.sql.context import Context
from viewkeeper.sql.dialect import COMPARISONS
from viewkeeper.sql.functions import WINDOW_ONLY, WITHOUT_BRACKETS, is_moving_time, why_not_deterministic
from viewkeeper.sql.parameters import without_value
from viewkeeper.sql.scopes import Scope, Visible, name_parts, unknown
from viewkeeper.sql.subqueries import Subquery

if TYPE_CHECKING:
    from viewkeeper.sql.catalog import Query

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TIMES = (
    exp.DataType.Type.DATE,
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
    exp.DataType.Type.TIMESTAMPNTZ,
)
_HINTS = {
    "clock": "store the time in a column when the row is inserted",
    "random": "store the value in a column when the row is inserted",
}

Aliases = Mapping[str, exp.Expr]
Translate = Callable[[exp.Expr, Scope], "Query"]


class Binder:
    """Binds syntax in one scope. `translate` translates the subqueries in it."""

    def __init__(self, context: Context, scope: Scope, translate: Translate) -> None:
        self.context = context
        self.scope = scope
        self.translate = translate
        self.waiting: list[Subquery] = []

    def bind(self, node: exp.Expr, before: Aliases | None = None, after: Aliases | None = None) -> exp.Expr:
        """A bound copy. Names are looked up in `before`, then in FROM, then in `after`, then in outer queries."""
        first, last = before or {}, after or {}

        def replaced(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column):
                return self._column(part, first, last)
            found = self._subquery(part, first, last)
            if found is not None:
                return found
            self._check(part)
            if isinstance(part, exp.Anonymous):
                self._keep_names(part)
            return part

        bound: exp.Expr = node.copy().transform(replaced, copy=False)
        return self._named_zips(bound)

    # names that functions take from their arguments -----------------------------------------------------

    def _keep_names(self, call: exp.Anonymous) -> None:
        """Expands `*` in a call, and makes the names explicit that struct and arrays_zip take from their columns."""
        name = call.name.lower()
        listed = [part for given in call.expressions for part in _listed(given)]
        if any(isinstance(part, exp.Star) for part in listed) and (name != "count" or listed != call.expressions):
            if len(listed) > 1 or listed != call.expressions:
                self.context.refuse("a * beside DISTINCT or other values is not supported", call, "name the columns")
            call.set("expressions", [_qualified(column) for column in self.scope.star()])
        if name == "struct":
            for part in list(call.expressions):
                if isinstance(part, (exp.Column, exp.Dot)):
                    alias = exp.to_identifier(part.name, quoted=True)
                    part.replace(exp.Alias(this=part.copy(), alias=alias))
        if name == "arrays_zip":
            names = [p.name if isinstance(p, (exp.Column, exp.Dot)) else str(i) for i, p in enumerate(call.expressions)]
            call.meta["names"] = names

    def _named_zips(self, bound: exp.Expr) -> exp.Expr:
        """The call with the structs that arrays_zip makes under the names of the user's columns."""

        def named(part: exp.Expr) -> exp.Expr:
            names = part.meta.get("names") if isinstance(part, exp.Anonymous) else None
            if names is None or part.find(exp.Placeholder) is not None:
                return part
            del part.meta["names"]
            kind = self.context.type_of(self.context.expression(part), part)
            assert kind.element is not None
            fields = tuple((name, inner) for name, (_, inner) in zip(names, kind.element.fields, strict=True))
            wanted = Type("array", element=Type("struct", fields=fields))
            return exp.Cast(this=part.copy(), to=exp.DataType.build(wanted.ddl, dialect="spark"))

        if not any("names" in part.meta for part in bound.find_all(exp.Anonymous)):
            return bound
        result: exp.Expr = bound.transform(named, copy=False)
        return result

    # columns ---------------------------------------------------------------------------------------

    def _column(self, node: exp.Column, first: Aliases, last: Aliases) -> exp.Expr:
        if isinstance(node.this, exp.Star):
            self.context.wrong("a * cannot stand here", node, "name the columns")
        parts = name_parts(node)
        if parts[0].lower() in first and len(parts) == 1:
            return _grouped(first[parts[0].lower()])
        found, rest = self.scope.lookup(parts)
        if not found and parts[0].lower() in last:
            return self._fields(_grouped(last[parts[0].lower()]), None, parts[1:], node)
        scope = self.scope.parent
        while not found and scope is not None:
            found, rest = scope.lookup(parts)
            scope = scope.parent
        if not found:
            if len(parts) == 1 and parts[0].lower() in WITHOUT_BRACKETS:
                self._refuse_function(parts[0], 0, node)
            of_struct = [c for c in self.scope.columns if c.is_named(parts[0]) and c.attribute.type.name == "struct"]
            if of_struct and len(parts) > 1:
                self._field_type(of_struct[0].attribute.type, parts[1], node)
            raise unknown(self.context, self.scope, node, list(last))
        attribute = self._only(found, node)
        return self._fields(self.context.marked(attribute, node), attribute.type, rest, node)

    def _only(self, found: list[Visible], node: exp.Column) -> Attribute:
        if len({c.attribute for c in found}) > 1:
            owners = ", ".join(f"{c.qualifier}.{c.name}" if c.qualifier else c.name for c in found)
            self.context.wrong(f"'{node.name}' is ambiguous: it can be {owners}", node, "write the table before it")
        return found[0].attribute

    def _fields(self, node: exp.Expr, kind: Type | None, names: Sequence[str], at: exp.Column) -> exp.Expr:
        """Fields of a struct: a.b.c."""
        for name in names:
            if kind is not None:
                kind = self._field_type(kind, name, at)
            node = exp.Dot(this=node, expression=exp.to_identifier(name, quoted=True))
        return node

    def _field_type(self, kind: Type, name: str, at: exp.Column) -> Type | None:
        inside = kind.element if kind.name == "array" and kind.element is not None else kind
        if inside.name == "struct":
            for field, found in inside.fields:
                if field.lower() == name.lower():
                    return Type("array", element=found) if kind.name == "array" else found
            fields = ", ".join(field for field, _ in inside.fields)
            self.context.wrong(f"there is no field '{name}' in '{at.sql('spark')}'", at, f"its fields are {fields}")
        if kind.name == "map":
            return kind.value
        raise unknown(self.context, self.scope, at)

    # subqueries ------------------------------------------------------------------------------------

    def _subquery(self, node: exp.Expr, first: Aliases, last: Aliases) -> exp.Expr | None:
        if isinstance(node, exp.Exists):
            return self._wait("exists", _without_nulls(node.this), node)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self._compared(node.this, node.args["query"], "=", node, first, last)
        if isinstance(node, exp.In) and len(node.expressions) == 1 and _is_query(node.expressions[0]):
            return self._compared(node.this, node.expressions[0], "=", node, first, last)
        if type(node) in COMPARISONS and isinstance(node.expression, (exp.Any, exp.All)):
            return self._quantified(node, first, last)
        if isinstance(node, exp.Query):
            return self._wait("scalar", node, node)
        return None

    def _quantified(self, node: exp.Expr, first: Aliases, last: Aliases) -> exp.Expr | None:
        """op ANY (query) as a placeholder; op ALL (query) as NOT (opposite op ANY (query)), right for NULLs too."""
        right = node.expression
        if not _is_query(unwrapped(right.this)):
            return None
        operator = COMPARISONS[type(node)]
        if isinstance(right, exp.Any):
            return self._compared(node.this, right.this, operator, node, first, last)
        inside = self._compared(node.this, right.this, _OPPOSITE[operator], node, first, last)
        return exp.Paren(this=exp.Not(this=inside))

    def _compared(
        self, left: exp.Expr, query: exp.Expr, operator: str, at: exp.Expr, first: Aliases, last: Aliases
    ) -> exp.Expr:
        operand = unwrapped(left)
        operands = operand.expressions if isinstance(operand, exp.Tuple) else [operand]
        bound = tuple(self.bind(part, first, last) for part in operands)
        return self._wait("any", query, at, bound, operator)

    def _wait(
        self, kind: str, query: exp.Expr, at: exp.Expr, operands: tuple[exp.Expr, ...] = (), operator: str = "="
    ) -> exp.Expr:
        translated = self.translate(query, self.scope.inner())
        outputs = translated.node.outputs
        if kind == "scalar" and len(outputs) != 1:
            self.context.wrong("a subquery that is a value has one column", at, f"this one has {len(outputs)}")
        if kind == "any" and len(outputs) != len(operands):
            self.context.wrong(
                f"the left side has {len(operands)} values and the subquery {len(outputs)} columns", at, None
            )
        self.waiting.append(Subquery(kind, translated.node, outputs, operands, operator, at))
        return exp.Placeholder(this=str(len(self.waiting) - 1))

    def subquery(self, node: exp.Expr) -> Subquery | None:
        """The subquery whose placeholder a piece of bound syntax is."""
        node = unwrapped(node)
        return self.waiting[int(node.name)] if isinstance(node, exp.Placeholder) else None

    # what is refused -------------------------------------------------------------------------------

    def _check(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Anonymous):
            self._refuse_function(node.name, len(node.expressions), node)
            node.set("this", node.name.lower())
            if node.name in WINDOW_ONLY and not _is_in_window(node):
                self.context.wrong(f"{node.name} needs OVER", node, f"write {node.name}() OVER (ORDER BY ...)")
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and _moves(node):
            self.context.refuse(
                f"'{node.this.name}' as a date or time cannot be maintained: it depends on when it runs",
                node,
                _HINTS["clock"],
            )
        if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
            raise without_value(node, self.context.place(node))

    def _refuse_function(self, name: str, arguments: int, node: exp.Expr) -> None:
        reason = why_not_deterministic(name, arguments)
        if reason is not None:
            hint = _HINTS["clock" if "when it runs" in reason else "random"]
            self.context.refuse(f"{name.lower()}() cannot be maintained: {reason}", node, hint)


def _without_nulls(query: exp.Expr) -> exp.Expr:
    """A query of which only the number of rows counts, without a column that is always NULL."""
    if not any(isinstance(item.unalias(), exp.Null) for item in getattr(query, "selects", ())):
        return query
    made = query.copy()
    for item in getattr(made, "selects", ()):
        if isinstance(item.unalias(), exp.Null):
            item.unalias().replace(exp.Literal.number(1))
    return made


def _listed(node: exp.Expr) -> list[exp.Expr]:
    """An argument, or those of a DISTINCT."""
    return list(node.expressions) if isinstance(node, exp.Distinct) else [node]


def _qualified(column: Visible) -> exp.Column:
    """A column by its full name."""
    qualifier = exp.to_identifier(column.qualifier, quoted=True) if column.qualifier else None
    return exp.Column(this=exp.to_identifier(column.name, quoted=True), table=qualifier)


def _is_in_window(node: exp.Expr) -> bool:
    """Whether a call is the function of an OVER."""
    above = node.parent
    while isinstance(above, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        above = above.parent
    return isinstance(above, exp.Window)


def _moves(node: exp.Cast) -> bool:
    """Whether a literal depends on when it is evaluated, like DATE'today'."""
    return is_moving_time(node.this.name) and node.to.this in _TIMES


def _is_query(node: exp.Expr) -> bool:
    node = unwrapped(node)
    return isinstance(node, (exp.Query, exp.Subquery))


def _grouped(node: exp.Expr) -> exp.Expr:
    """A copy in parentheses where it needs them inside an expression."""
    copy = node.copy()
    simple = isinstance(copy, (exp.Column, exp.Literal, exp.Anonymous, exp.Paren, exp.Placeholder))
    return copy if simple else exp.Paren(this=copy)
