"""Building joins: conditions become equalities, filters of one input, or conditions of the join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewkeeper.algebra.expressions import TRUE, Attribute, Expression, column, explicit, same
from viewkeeper.algebra.nodes import Equality, Filter, Join, Node, Outer, Project
from viewkeeper.errors import NotMaintainable, SqlError
from viewkeeper.sql.context import Context
from viewkeeper.sql.equations import equality_of, filtered, is_equation


def with_filter(node: Node, condition: Expression) -> Node:
    """A node with a filter, pushed down as far as it stays correct: below projections, to the left of outer joins."""
    named = set(condition.attributes)
    if isinstance(node, Outer) and not node.full and named and named <= set(node.left.outputs):
        return replace(node, left=with_filter(node.left, condition))
    if isinstance(node, Join) and named and (part := _only_input(node.inputs, named)) is not None:
        inputs = tuple(with_filter(one, condition) if one is part else one for one in node.inputs)
        return replace(node, inputs_=inputs)
    if isinstance(node, Project) and named and all((a, column(a)) in node.columns for a in named):
        return replace(node, input=with_filter(node.input, condition))
    return Filter(node, condition)


def _only_input(inputs: Iterable[Node], named: set[Attribute]) -> Node | None:
    return next((part for part in inputs if named <= set(part.outputs)), None)


def computed_sides(context: Context, inputs: Sequence[Node], condition: Expression) -> tuple[list[Node], Expression]:
    """The inputs with the sides of an equation as columns, and the equation between those columns."""
    nodes = list(inputs)
    if not is_equation(condition):
        return nodes, condition
    sides = (condition.left, condition.right)
    homes = [_home(nodes, side) for side in sides]
    if None in homes or homes[0] == homes[1] or all(side.attribute is not None for side in sides):
        return nodes, condition
    sides = (explicit(condition.left), explicit(condition.right))
    if not _one_type(context, *sides):
        return nodes, condition
    columns: list[Attribute] = []
    for home, side in zip(homes, sides, strict=True):
        assert home is not None
        nodes[home], made = context.extend(nodes[home], [("key", side)])
        columns.append(made[0])
    return nodes, replace(condition, left=column(columns[0]), right=column(columns[1]), fallible=False)


def _one_type(context: Context, one: Expression, other: Expression) -> bool:
    """Whether two expressions have the same type, and one that a column can have."""
    try:
        kinds = context.types([one, other])
    except (NotMaintainable, SqlError):  # for instance an interval, which no column can hold
        return False
    return kinds[0].ddl == kinds[1].ddl and not kinds[0].has_map()


def _home(nodes: Sequence[Node], expression: Expression) -> int | None:
    """The position of the input that has all columns an expression refers to, if there is one."""
    named = set(expression.attributes)
    if not named:
        return None
    return next((i for i, node in enumerate(nodes) if named <= set(node.outputs)), None)


def inner_join(context: Context, inputs: Sequence[Node], conditions: Iterable[Expression]) -> Node:
    """One join of all inputs. Conditions on attributes of an outer query stay in filters on top, to be unnested."""
    nodes = [part for one in inputs for part in _flat(one)]
    waiting = [c for one in inputs for c in _flat_conditions(one)]
    equalities: list[Equality] = []
    rest: list[Expression] = []
    above: list[Expression] = []
    for condition in (*waiting, *conditions):
        named = set(condition.attributes)
        home = _home(nodes, condition)
        if not named <= {a for node in nodes for a in node.outputs} or not named:
            above.append(_around_computed(context, nodes, condition))
        elif home is not None:
            nodes[home] = with_filter(nodes[home], condition)
        else:
            nodes, rewritten = computed_sides(context, nodes, condition)
            found = _equality(nodes, rewritten)
            if found is not None:
                equalities.append(found)
            else:
                rest.append(rewritten)
    if len(nodes) == 1:
        return filtered(nodes[0], above)
    return filtered(Join(tuple(nodes), tuple(dict.fromkeys(equalities)), tuple(rest)), above)


def _around_computed(context: Context, nodes: list[Node], condition: Expression) -> Expression:
    """An equation with a value of an outer query; the side that is computed here becomes a column.

    So unnesting can use that column for the value of the other side.
    """
    if not is_equation(condition) or not condition.attributes:
        return condition
    sides = [explicit(condition.left), explicit(condition.right)]
    local = {a for node in nodes for a in node.outputs}
    for index, side in enumerate(sides):
        other = sides[1 - index]
        home = _home(nodes, side)
        if home is None or side.attribute is not None or set(other.attributes) & local or not other.attributes:
            continue
        if _one_type(context, side, other):
            nodes[home], made = context.extend(nodes[home], [("key", side)])
            sides[index] = column(made[0])
            return replace(condition, left=sides[0], right=sides[1], fallible=False)
    return condition


def _equality(nodes: Sequence[Node], condition: Expression) -> Equality | None:
    if not is_equation(condition) or condition.left.attribute is None or condition.right.attribute is None:
        return None
    left, right = (_home(nodes, side) for side in (condition.left, condition.right))
    if left is None or right is None or left == right:
        return None
    return equality_of(condition, set(nodes[left].outputs), set(nodes[right].outputs))


def _flat(node: Node) -> list[Node]:
    return list(node.inputs) if isinstance(node, Join) else [node]


def _flat_conditions(node: Node) -> list[Expression]:
    if not isinstance(node, Join):
        return []
    kept = [same(e.left, e.right, null_safe=e.null_safe) for e in node.equalities]
    return [*kept, *node.conditions]


@dataclass(frozen=True)
class Sides:
    """Two sides of a join with their equalities and other conditions."""

    left: Node
    right: Node
    equalities: tuple[Equality, ...]
    conditions: tuple[Expression, ...]


def tied(context: Context, left: Node, right: Node, conditions: Iterable[Expression]) -> Sides:
    """The sides of an outer, semi or anti join: conditions about the right side alone become its filters."""
    equalities: list[Equality] = []
    rest: list[Expression] = []
    for condition in conditions:
        named = set(condition.attributes)
        if named and named <= set(right.outputs):
            right = with_filter(right, condition)
            continue
        (left, right), rewritten = computed_sides(context, (left, right), condition)
        found = equality_of(rewritten, set(left.outputs), set(right.outputs))
        if found is not None:
            equalities.append(found)
        elif rewritten != TRUE:
            rest.append(rewritten)
    return Sides(left, right, tuple(dict.fromkeys(equalities)), tuple(rest))


def left_join(
    context: Context, left: Node, right: Node, conditions: Iterable[Expression]
) -> tuple[Outer, dict[Attribute, Attribute]]:
    """A LEFT join, and the new attribute for each of the right side."""
    sides = tied(context, left, right, conditions)
    padded = tuple((context.numbers.like(a, nullable=True), a) for a in sides.right.outputs)
    node = Outer(sides.left, sides.right, sides.equalities, sides.conditions, padded)
    return node, {inner: outer for outer, inner in padded}
