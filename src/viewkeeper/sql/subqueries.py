"""Subqueries as joins: EXISTS, IN, ANY and ALL as semi and anti joins, values as left joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    FALSE,
    NULL,
    TRUE,
    Arithmetic,
    Attribute,
    Cast,
    Column,
    Expression,
    Literal,
    Negative,
    case,
    coalesce,
    column,
    comparison,
    conjunction,
    disjunction,
    integer,
    is_null,
    not_null,
    same,
)
from viewkeeper.algebra.nodes import Node
from viewkeeper.algebra.types import Type
from viewkeeper.sql.context import Context, is_plain_literal, passed_on
from viewkeeper.sql.equations import filtered
from viewkeeper.sql.free import copied, free
from viewkeeper.sql.joins import inner_join, left_join, tied
from viewkeeper.sql.templates import templated
from viewkeeper.sql.unnest import Pushed, Unnesting, value_of_none

BIGINT = Type("bigint")
BOOLEAN = Type("boolean")


@dataclass(frozen=True)
class Subquery:
    """A subquery that is not yet joined. Its rows may depend on attributes of the outer queries.

    `exists`: whether there is a row. `any`: whether the comparison of the operands with its columns holds for a row (IN
    is `=`; ALL is the negation of ANY with the opposite comparison). `scalar`: the value of its only row.
    """

    kind: str
    node: Node
    outputs: tuple[Attribute, ...]
    operands: tuple[exp.Expr, ...] = ()
    operator: str = "="
    at: exp.Expr | None = None


def compared(operator: str, operands: Sequence[Expression], columns: Sequence[Attribute]) -> list[Expression]:
    """The conditions that compare operands with columns, one by one."""
    pairs = list(zip(operands, columns, strict=True))
    if operator == "=":
        return [same(one, other) for one, other in pairs]
    return [comparison(operator, one, other, fallible=True) for one, other in pairs]


def _is_nullable(expression: Expression) -> bool:
    attribute = expression.attribute
    if attribute is not None:
        return attribute.nullable
    return not is_plain_literal(expression)


class Attaching:
    """Joins subqueries to an outer expression."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # help ------------------------------------------------------------------------------------------

    def peel(self, node: Node, outer: set[Attribute], *, copies: bool, columns: bool) -> tuple[Node, list[Expression]]:
        """A subquery without its top filters on outer attributes, and those filters as conditions for the join.

        Where copies of a row do not matter (`copies`), or its columns do not (`columns`), more can be removed.
        """
        if not free(node) & outer:
            return node, []
        if isinstance(node, n.Filter):
            below, conditions = self.peel(node.input, outer, copies=copies, columns=columns)
            if set(node.condition.attributes) & outer:
                return below, [*conditions, node.condition]
            return n.Filter(below, node.condition), conditions
        if isinstance(node, n.Project) and (not columns or not _depends(node, outer)):
            below, conditions = self.peel(node.input, outer, copies=copies, columns=columns)
            needed = [a for c in conditions for a in c.attributes if a not in outer and a in below.outputs]
            own = [(a, e) for a, e in node.columns if not set(e.attributes) & outer]
            return n.Project(below, tuple({**dict(own), **dict(passed_on(needed))}.items())), conditions
        if isinstance(node, n.Distinct) and not copies:
            return self.peel(node.input, outer, copies=copies, columns=columns)
        if isinstance(node, n.Top) and not copies and not columns and node.limit and not node.offset:
            return self.peel(node.input, outer, copies=copies, columns=columns)
        return node, []

    def _pushed(self, node: Node, outer: Node) -> Pushed:
        return Unnesting(self.context, outer).independent(node)

    # conditions ------------------------------------------------------------------------------------

    def exists(self, outer: Node, sub: Node, conditions: Sequence[Expression], *, negated: bool) -> Node:
        """Semi join: the outer rows with a match in the subquery. Negated, an anti join: those without one."""
        node, peeled = self.peel(sub, set(outer.outputs), copies=False, columns=bool(conditions))
        pushed = self._pushed(node, outer)
        every = [*pushed.ties(), *peeled, *conditions]
        if not negated:
            own = [c for c in every if set(c.attributes) <= set(outer.outputs) and c.attributes]
            outer = filtered(outer, own)
            every = [c for c in every if c not in own]
        sides = tied(self.context, outer, pushed.node, every)
        return n.Exists(sides.left, sides.right, sides.equalities, sides.conditions, negated)

    def any_condition(self, outer: Node, sub: Subquery, operands: Sequence[Expression], *, negated: bool) -> Node:
        """The outer rows for which the comparison holds for some row (negated: is false for every row)."""
        conditions = compared(sub.operator, operands, sub.outputs)
        if not negated:
            return self.exists(outer, sub.node, conditions, negated=False)
        nullable = any(_is_nullable(e) for e in operands) or any(a.nullable for a in sub.outputs)
        if not nullable:
            return self.exists(outer, sub.node, conditions, negated=True)
        if sub.operator == "=" and len(operands) == 1:
            return self._not_in(outer, sub, operands[0])
        either = coalesce(conjunction(conditions), TRUE)
        return self.exists(outer, sub.node, [either], negated=True)

    def _not_in(self, outer: Node, sub: Subquery, operand: Expression) -> Node:
        """NOT IN: rows for which the subquery is empty, or where neither side is NULL and nothing is equal."""
        before = outer.outputs
        outer, flags = self._flags(outer, sub)
        empty = is_null(flags[0])
        known = conjunction((not_null(operand), comparison("=", flags[1], integer(0))))
        outer = filtered(outer, [disjunction((empty, known))])
        node, renamed = copied(sub.node, self.context.numbers)
        target = renamed.get(sub.outputs[0], sub.outputs[0])
        kept = self.exists(outer, node, compared("=", [operand], [target]), negated=True)
        return n.Project(kept, passed_on(before))

    def _flags(self, outer: Node, sub: Subquery) -> tuple[Node, list[Attribute]]:
        """Per outer row: a value that is NULL if the subquery is empty, and one above 0 if it has a NULL."""
        numbers = self.context.numbers
        copy, renamed = copied(sub.node, numbers)
        target = renamed.get(sub.outputs[0], sub.outputs[0])
        pushed = self._pushed(copy, outer)
        null_mark = numbers.attribute("is_null", Type("int"))
        below = n.Project(
            pushed.node,
            (
                *passed_on(pushed.carriers.values()),
                (null_mark, case((is_null(target), integer(1)))),
            ),
        )
        calls = (
            n.Call(numbers.attribute("rows", BIGINT, nullable=False), "count"),
            n.Call(numbers.attribute("nulls", BIGINT, nullable=False), "count", null_mark),
        )
        flags = [call.output for call in calls]
        groups = tuple(dict.fromkeys(pushed.carriers.values()))
        if not groups:  # a flag, because a count would change with every row, and all outer rows with it
            whole = n.Aggregate(below, (), calls, whole=True)
            some = filtered(whole, [comparison(">", flags[0], integer(0))])
            values = (integer(1), case((comparison(">", flags[1], integer(0)), integer(1)), default=integer(0)))
            flags = [numbers.attribute(flag.name, Type("int"), nullable=False) for flag in flags]
            counted: Node = n.Project(some, tuple(zip(flags, values, strict=True)))
        else:
            counted = n.Aggregate(below, groups, calls)
        joined, outside = left_join(self.context, outer, counted, pushed.ties())
        return joined, [outside[flag] for flag in flags]

    # values ----------------------------------------------------------------------------------------

    def marker(self, outer: Node, sub: Node, conditions: Sequence[Expression]) -> tuple[Node, Attribute]:
        """A column that is TRUE for the outer rows with a match in the subquery, and NULL for the others."""
        node, peeled = self.peel(sub, set(outer.outputs), copies=False, columns=bool(conditions))
        every = [*peeled, *conditions]
        if not free(node) & set(outer.outputs):
            sides = tied(self.context, outer, node, every)
            if not sides.conditions and (sides.equalities or not every):
                keys = passed_on(e.right for e in sides.equalities)
                matched: Node = n.Distinct(n.Project(sides.right, keys)) if keys else self._one_if_any(sides.right)
                ties = [same(e.left, e.right, null_safe=e.null_safe) for e in sides.equalities]
                return self._marked(sides.left, matched, ties)
        return self._marked_by_domain(outer, sub, conditions)

    def _one_if_any(self, node: Node) -> Node:
        counted = self.context.numbers.attribute("rows", BIGINT, nullable=False)
        whole = n.Aggregate(n.Project(node, ()), (), (n.Call(counted, "count"),), whole=True)
        return filtered(whole, [comparison(">", counted, integer(0))])

    def _marked(self, outer: Node, matched: Node, ties: Sequence[Expression]) -> tuple[Node, Attribute]:
        mark = self.context.numbers.attribute("found", BOOLEAN)
        right = n.Project(matched, (*passed_on(matched.outputs), (mark, TRUE)))
        joined, outside = left_join(self.context, outer, right, ties)
        return joined, outside[mark]

    def _marked_by_domain(self, outer: Node, sub: Node, conditions: Sequence[Expression]) -> tuple[Node, Attribute]:
        """The general case of `marker`: the distinct outer values that have a match, joined back to the outer rows."""
        named = {a for c in conditions for a in c.attributes} | free(sub)
        need = sorted(named & set(outer.outputs), key=lambda a: a.number)
        copy, renamed = copied(outer, self.context.numbers)
        domain = n.Distinct(n.Project(copy, passed_on(renamed[a] for a in need)))
        inner = {a: column(renamed[a]) for a in need}
        moved = substituted(sub, {a: renamed[a] for a in need})
        moved, fresh = copied(moved, self.context.numbers)
        outputs = {a: column(fresh[a]) for a in sub.outputs if a in fresh}
        kept = self.exists(domain, moved, [c.substitute({**inner, **outputs}) for c in conditions], negated=False)
        kept = n.Project(kept, passed_on(domain.outputs))
        ties = [same(a, renamed[a], null_safe=a.nullable) for a in need]
        return self._marked(outer, kept, ties)

    def exists_value(self, outer: Node, sub: Subquery) -> tuple[Node, Expression]:
        """EXISTS as a value."""
        node, mark = self.marker(outer, sub.node, [])
        return node, not_null(mark)

    def any_value(self, outer: Node, sub: Subquery, operands: Sequence[Expression]) -> tuple[Node, Expression]:
        """IN or ANY as a value: TRUE, FALSE, or NULL where NULLs make it unknown."""
        conditions = compared(sub.operator, operands, sub.outputs)
        node, found = self.marker(outer, sub.node, conditions)
        nullable = any(_is_nullable(e) for e in operands) or any(a.nullable for a in sub.outputs)
        if not nullable:
            return node, not_null(found)
        if len(operands) == 1:
            node, flags = self._flags(node, sub)
            return node, case(
                (found, TRUE),
                (is_null(flags[0]), FALSE),
                (disjunction((is_null(operands[0]), comparison(">", flags[1], integer(0)))), NULL),
                default=FALSE,
            )
        copy, fresh = copied(sub.node, self.context.numbers)
        outputs = [fresh.get(a, a) for a in sub.outputs]
        either = coalesce(conjunction(compared(sub.operator, operands, outputs)), TRUE)
        node, open_ = self.marker(node, copy, [either])
        return node, case((found, TRUE), (open_, NULL), default=FALSE)

    def scalar(self, outer: Node, sub: Subquery, *, needed: bool = False) -> tuple[Node, Expression]:
        """The value of the only row of a subquery; NULL without one. `needed`: outer rows with NULL may be dropped."""
        target = sub.outputs[0]
        values: list[n.Project] = []
        base = sub.node
        while isinstance(base, n.Project):
            values.append(base)
            base = base.input
        one_row = _has_one_row(base) or (isinstance(base, n.Aggregate) and base.whole)
        if one_row and not free(sub.node) & set(outer.outputs):
            return inner_join(self.context, [outer, sub.node], []), column(target)
        if isinstance(base, n.Aggregate) and base.whole:
            return self._aggregated(outer, base, values, target, needed=needed)
        pushed = self._pushed(sub.node, outer)
        single = single_value(self.context, target)
        groups = tuple(dict.fromkeys(pushed.carriers.values()))
        grouped = n.Aggregate(pushed.node, groups, (single,), whole=not groups)
        if not groups:
            return inner_join(self.context, [outer, grouped], []), column(single.output)
        return self._valued(outer, grouped, pushed, single.output, needed=needed)

    def _valued(
        self, outer: Node, grouped: Node, pushed: Pushed, target: Attribute, *, needed: bool
    ) -> tuple[Node, Expression]:
        """Outer rows with the value of their group; without a group, NULL, or no row if it may be dropped."""
        if needed:
            return inner_join(self.context, [outer, grouped], pushed.ties()), column(target)
        joined, outside = left_join(self.context, outer, grouped, pushed.ties())
        return joined, column(outside[target])

    def _aggregated(
        self, outer: Node, base: n.Aggregate, values: list[n.Project], target: Attribute, *, needed: bool
    ) -> tuple[Node, Expression]:
        """Outer rows with an aggregate without GROUP BY, which has one row even for empty input (the count bug).

        If its value for empty input is NULL, it is computed per group before the join; else after it.
        """
        pushed = self._pushed(base.input, outer)
        groups = tuple(dict.fromkeys(pushed.carriers.values()))
        calls = tuple(c.substituted(pushed.values) for c in base.calls)
        outside = set(outer.outputs)
        if not groups:  # only what is computed from the aggregate depends on the outer row
            node: Node = inner_join(self.context, [outer, base], [])
            known = {c.output: column(c.output) for c in calls}
        elif not any(_depends(p, outside) for p in values) and self._is_null_for_none(values, target):
            grouped: Node = n.Aggregate(pushed.node, groups, calls)
            for project in reversed(values):
                grouped = n.Project(grouped, tuple({**dict(passed_on(groups)), **dict(project.columns)}.items()))
            return self._valued(outer, grouped, pushed, target, needed=needed)
        else:
            counted = n.Aggregate(pushed.node, groups, calls)
            node, padded = left_join(self.context, outer, counted, pushed.ties())
            known = {c.output: value_of_none(c, padded[c.output]) for c in calls}
        for project in reversed(values):
            known = {a: e.substitute(known) for a, e in project.columns}
        return node, known[target]

    def _is_null_for_none(self, values: list[n.Project], target: Attribute) -> bool:
        """Whether the value is certainly NULL for empty input: an aggregate that is, or arithmetic on some."""
        if target in self.context.null_for_none:
            return True
        for project in values:
            found = next((e for a, e in project.columns if a == target), None)
            if found is None:
                return False
            return _is_arithmetic(found) and bool(
                {a for a in found.attributes if self._is_null_for_none(values[values.index(project) + 1 :], a)}
            )
        return False

    def lateral(
        self, outer: Node, sub: Node, conditions: Sequence[Expression], *, left: bool
    ) -> tuple[Node, dict[Attribute, Attribute]]:
        """Each outer row with the rows of a subquery that depends on it, and the new attributes of its columns."""
        node, peeled = self.peel(sub, set(outer.outputs), copies=True, columns=True)
        pushed = self._pushed(node, outer)
        every = [*pushed.ties(), *peeled, *conditions]
        if left:
            return left_join(self.context, outer, pushed.node, every)
        return inner_join(self.context, [outer, pushed.node], every), {}


def single_value(context: Context, target: Attribute) -> n.Call:
    """An aggregate that returns the value of the only row and raises if there are more."""
    output = context.numbers.attribute(target.name, target.type)
    ddl = target.type.ddl
    single = templated(
        f"CASE WHEN count(1) > 1 THEN CAST(raise_error('a scalar subquery gave more than one row') AS {ddl}) "
        f"ELSE first({{}}) END",
        target,
        raises=True,
    )
    return n.Call(output, "single", None, single)


def _is_arithmetic(value: Expression) -> bool:
    """Whether a value has only columns, numbers, + - * / and casts: a NULL in it makes all of it NULL."""
    return all(
        isinstance(part, (Column, Literal, Arithmetic, Negative, Cast)) and part != NULL for part in value.walk()
    )


def substituted(node: Node, mapping: dict[Attribute, Attribute]) -> Node:
    """An expression with some of its free attributes replaced."""
    return n.map_attributes(node, lambda a: mapping.get(a, a))


def _has_one_row(node: Node) -> bool:
    return isinstance(node, n.Rows) and len(node.rows) == 1


def _depends(node: n.Project, outer: set[Attribute]) -> bool:
    return any(set(e.attributes) & outer for _, e in node.columns)
