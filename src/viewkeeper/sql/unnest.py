"""General unnesting (Neumann and Kemper): makes a correlated query independent of the outer query.

`push` turns an expression with free attributes into one without: its rows for every value of the free attributes, with
columns that carry those values. The values come from the *domain*, the distinct outer rows. Where an equation compares
a free attribute with a column inside, that column carries the value and no domain is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, coalesce, column, not_null, same
from viewkeeper.algebra.nodes import Node
from viewkeeper.algebra.types import same_family
from viewkeeper.sql.context import Context, passed_on
from viewkeeper.sql.equations import filtered, is_equation
from viewkeeper.sql.free import copied, free, used
from viewkeeper.sql.functions import EMPTY_VALUE
from viewkeeper.sql.joins import inner_join
from viewkeeper.sql.templates import templated

Need = frozenset[Attribute]


@dataclass(frozen=True)
class Pushed:
    """An expression for all values of the free attributes: the column that carries each, and those never NULL."""

    node: Node
    carriers: dict[Attribute, Attribute]
    strict: frozenset[Attribute] = frozenset()

    def ties(self) -> list[Expression]:
        """The equations that join outer rows with the rows for them."""
        return [self.tie(d, carrier) for d, carrier in self.carriers.items()]

    def tie(self, outer: Attribute, carrier: Attribute) -> Expression:
        """outer = carrier, or outer <=> carrier where both can be NULL."""
        safe = outer not in self.strict and outer.nullable and carrier.nullable
        return same(outer, carrier, null_safe=safe)

    @property
    def values(self) -> dict[Attribute, Expression]:
        """The expression that replaces each free attribute."""
        return {d: column(carrier) for d, carrier in self.carriers.items()}


@dataclass
class Unnesting:
    """Pushes the columns of one outer expression into expressions that depend on them."""

    context: Context
    outer: Node
    _uses: dict[Attribute, int] = field(default_factory=dict)

    def independent(self, node: Node) -> Pushed:
        """The expression without references to outer attributes."""
        for part in node.walk():
            for attribute in used(part):
                self._uses[attribute] = self._uses.get(attribute, 0) + 1
        return self.push(node, free(node) & frozenset(self.outer.outputs))

    def domain(self, need: Iterable[Attribute]) -> tuple[Node, dict[Attribute, Attribute]]:
        """The distinct values of some outer columns, under new attributes."""
        copy, known = copied(self.outer, self.context.numbers)
        wanted = sorted(need, key=lambda a: a.number)
        for attribute in wanted:
            if attribute.type.has_map():
                self.context.refuse(
                    f"a subquery cannot refer to the MAP column '{attribute.name}' of the query around it",
                    None,
                    "refer to a value in it, computed in a derived table",
                )
        node = n.Distinct(n.Project(copy, passed_on(known[a] for a in wanted)))
        return node, {a: known[a] for a in wanted}

    def push(self, node: Node, need: Need) -> Pushed:
        """The expression with carriers for all needed attributes."""
        if not need:
            return Pushed(node, {})
        if not free(node) & need:
            domain, carriers = self.domain(need)
            return Pushed(inner_join(self.context, [node, domain], []), carriers)
        return _PUSH[type(node)](self, node, need)

    # row by row ------------------------------------------------------------------------------------

    def _filter(self, node: n.Filter, need: Need) -> Pushed:
        conditions: list[Expression] = []
        base: Node = node
        while isinstance(base, n.Filter):
            conditions.insert(0, base.condition)
            base = base.input
        return self._select(base, conditions, need)

    def _select(self, base: Node, conditions: list[Expression], need: Need) -> Pushed:
        below = free(base) & need
        covers: dict[Attribute, tuple[Attribute, Expression]] = {}
        for condition in conditions:
            found = self._cover(condition, need - below, set(base.outputs))
            if found is not None and found[0] not in covers:
                covers[found[0]] = (found[1], condition)
        if need <= below | covers.keys():
            return self._covered(base, conditions, below, {d: covers[d] for d in need - below})
        if below:
            pushed = self.push(base, need)
            return replace(pushed, node=filtered(pushed.node, [c.substitute(pushed.values) for c in conditions]))
        domain, carriers = self.domain(need)
        values = {d: column(a) for d, a in carriers.items()}
        joined = inner_join(self.context, [base, domain], [c.substitute(values) for c in conditions])
        return Pushed(joined, carriers)

    def _cover(self, condition: Expression, wanted: Need, local: set[Attribute]) -> tuple[Attribute, Attribute] | None:
        """The free attribute and the column inside that a condition equates, if it does."""
        if not is_equation(condition):
            return None
        for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
            d, inside = one.attribute, other.attribute
            if d is None or inside is None or d not in wanted or inside not in local:
                continue
            alone = self._uses.get(d, 0) == 1 and same_family(d.type, inside.type)
            if (alone or d.type.ddl == inside.type.ddl) and not d.type.has_map():
                return d, inside
        return None

    def _covered(
        self,
        base: Node,
        conditions: list[Expression],
        below: Need,
        covers: dict[Attribute, tuple[Attribute, Expression]],
    ) -> Pushed:
        """The expression if columns inside carry all free attributes that the base itself does not refer to."""
        pushed = self.push(base, below)
        carriers = {**pushed.carriers, **{d: inside for d, (inside, _) in covers.items()}}
        equations = [c for _, c in covers.values()]
        strict = {d for d, (_, c) in covers.items() if is_equation(c) and c.operator == "="}
        values = {d: column(a) for d, a in carriers.items()}
        kept = [c.substitute(values) for c in conditions if c not in equations]
        kept += [not_null(carriers[d]) for d in strict if carriers[d].nullable]
        return Pushed(filtered(pushed.node, dict.fromkeys(kept)), carriers, pushed.strict | strict)

    def _project(self, node: n.Project, need: Need) -> Pushed:
        pushed = self.push(node.input, need)
        columns = {a: e.substitute(pushed.values) for a, e in node.columns}
        for carrier in pushed.carriers.values():
            if carrier in columns and columns[carrier].attribute != carrier:
                raise AssertionError("an attribute is computed twice")
            columns.setdefault(carrier, column(carrier))
        return replace(pushed, node=n.Project(pushed.node, tuple(columns.items())))

    def _generate(self, node: n.Generate, need: Need) -> Pushed:
        pushed = self.push(node.input, need)
        return replace(
            pushed, node=n.Generate(pushed.node, node.text.substitute(pushed.values), node.generated, node.outer)
        )

    def _rows(self, node: n.Rows, need: Need) -> Pushed:
        branches = tuple(_row_projection(node, row, self.context) for row in node.rows)
        return self.push(n.Union(branches, node.attributes) if len(branches) > 1 else branches[0], need)

    # joins -----------------------------------------------------------------------------------------

    def _join(self, node: n.Join, need: Need) -> Pushed:
        dependent = [c for c in node.conditions if need & set(c.attributes)]
        if dependent:
            rest = tuple(c for c in node.conditions if c not in dependent)
            return self._select(replace(node, conditions=rest), dependent, need)
        missing = need.difference(*(free(part) for part in node.inputs))
        inputs: list[Node] = []
        carriers: dict[Attribute, Attribute] = {}
        ties: list[Expression] = []
        strict: frozenset[Attribute] = frozenset()
        for part in node.inputs:
            own = free(part) & need
            if own:
                pushed = self.push(part, own | missing)
                missing = frozenset()
                ties += [pushed.tie(carriers[d], a) for d, a in pushed.carriers.items() if d in carriers]
                carriers = {**pushed.carriers, **carriers}
                strict |= pushed.strict
                part = pushed.node
            inputs.append(part)
        kept = [same(e.left, e.right, null_safe=e.null_safe) for e in node.equalities]
        return Pushed(inner_join(self.context, inputs, [*kept, *node.conditions, *ties]), carriers, strict)

    def _beside(self, node: n.Outer | n.Exists, need: Need) -> tuple[Pushed, Node, tuple[n.Equality, ...], Any]:
        """A join that preserves left rows: the left side for every value, the right side joined by the values too."""
        left = self.push(node.left, need)
        right = self.push(node.right, free(node.right) & need)
        more = tuple(
            n.Equality(left.carriers[d], a, null_safe=left.carriers[d].nullable and a.nullable)
            for d, a in right.carriers.items()
        )
        conditions = tuple(c.substitute(left.values) for c in node.conditions)
        return left, right.node, (*node.equalities, *more), conditions

    def _outer(self, node: n.Outer, need: Need) -> Pushed:
        if node.full:
            return self._full(node, need)
        left, right, equalities, conditions = self._beside(node, need)
        known = {inner for _, inner in node.padded}
        extra = tuple((self.context.numbers.like(a, nullable=True), a) for a in right.outputs if a not in known)
        return replace(left, node=n.Outer(left.node, right, equalities, conditions, (*node.padded, *extra)))

    def _full(self, node: n.Outer, need: Need) -> Pushed:
        left, right = self.push(node.left, need), self.push(node.right, need)
        known = {inner for _, inner in node.padded}
        both = (*left.node.outputs, *right.node.outputs)
        padded = (*node.padded, *((self.context.numbers.like(a, nullable=True), a) for a in both if a not in known))
        outside = {inner: outer for outer, inner in padded}
        more = tuple(n.Equality(left.carriers[d], right.carriers[d], null_safe=True) for d in left.carriers)
        conditions = tuple(c.substitute(left.values) for c in node.conditions)
        joined = n.Outer(left.node, right.node, (*node.equalities, *more), conditions, padded, full=True)
        carriers: dict[Attribute, Attribute] = {}
        columns = dict(passed_on(joined.outputs))
        for d in left.carriers:
            carriers[d] = self.context.numbers.like(d, nullable=True)
            sides = outside[left.carriers[d]], outside[right.carriers[d]]
            columns[carriers[d]] = coalesce(*sides)
        return Pushed(n.Project(joined, tuple(columns.items())), carriers)

    def _exists(self, node: n.Exists, need: Need) -> Pushed:
        left, right, equalities, conditions = self._beside(node, need)
        return replace(left, node=n.Exists(left.node, right, equalities, conditions, node.negated))

    # by row, group, partition ------------------------------------------------------------------------

    def _exact(self, node: Node, need: Need) -> tuple[Pushed, tuple[Attribute, ...]]:
        """The expression with only its own columns and one carrier per needed attribute, and those in order."""
        pushed = self.push(node, need)
        carriers = tuple(pushed.carriers[d] for d in sorted(need, key=lambda a: a.number))
        columns = passed_on((*node.outputs, *carriers))
        return replace(pushed, node=n.Project(pushed.node, columns)), carriers

    def _distinct(self, node: n.Distinct, need: Need) -> Pushed:
        pushed, _ = self._exact(node.input, need)
        return replace(pushed, node=n.Distinct(pushed.node))

    def _by_position(self, node: n.Union | n.Monus | n.Least, need: Need) -> Pushed:
        ordered = sorted(need, key=lambda a: a.number)
        branches: list[Node] = []
        for part in node.inputs:
            pushed = self.push(part, need)
            taken: dict[Attribute, Expression] = dict(passed_on(part.outputs))
            for d in ordered:
                carrier = pushed.carriers[d]
                own = carrier if carrier not in taken else self.context.numbers.like(carrier)
                taken[own] = column(carrier)
            branches.append(n.Project(pushed.node, tuple(taken.items())))
        carriers = {d: self.context.numbers.like(d) for d in ordered}
        attributes = (*node.attributes, *carriers.values())
        return Pushed(replace(node.with_inputs(tuple(branches)), attributes=attributes), carriers)

    def _aggregate(self, node: n.Aggregate, need: Need) -> Pushed:
        pushed = self.push(node.input, need)
        groups = tuple(dict.fromkeys((*node.groups, *pushed.carriers.values())))
        calls = tuple(c.substituted(pushed.values) for c in node.calls)
        grouped = replace(pushed, node=n.Aggregate(pushed.node, groups, calls))
        return self._with_empty_groups(grouped, node, need) if node.whole else grouped

    def _with_empty_groups(self, grouped: Pushed, node: n.Aggregate, need: Need) -> Pushed:
        """An aggregate without GROUP BY, with a row for every outer value even for empty input."""
        domain, carriers = self.domain(need)
        ties = tuple(
            n.Equality(carriers[d], a, null_safe=carriers[d].nullable and a.nullable)
            for d, a in grouped.carriers.items()
        )
        padded = tuple((self.context.numbers.like(a, nullable=True), a) for a in grouped.node.outputs)
        outside = {inner: outer for outer, inner in padded}
        joined = n.Outer(domain, grouped.node, ties, (), padded)
        columns = dict(passed_on(carriers.values()))
        for call in node.calls:
            columns[call.output] = value_of_none(call, outside[call.output])
        return Pushed(n.Project(joined, tuple(columns.items())), carriers)

    def _window(self, node: n.Window, need: Need) -> Pushed:
        pushed, carriers = self._exact(node.input, need)
        calls = tuple(replace(c, text=c.text.substitute(pushed.values)) for c in node.calls)
        partition = tuple(dict.fromkeys((*node.partition, *carriers)))
        return replace(pushed, node=n.Window(pushed.node, partition, node.order, calls))

    def _top(self, node: n.Top, need: Need) -> Pushed:
        pushed, carriers = self._exact(node.input, need)
        partition = tuple(dict.fromkeys((*node.partition, *carriers)))
        return replace(pushed, node=n.Top(pushed.node, partition, node.order, node.limit, node.offset))


def _row_projection(node: n.Rows, row: tuple[Expression, ...], context: Context) -> Node:
    one = n.Rows((), ((),))
    attributes = node.attributes if len(node.rows) == 1 else tuple(context.numbers.like(a) for a in node.attributes)
    return n.Project(one, tuple(zip(attributes, row, strict=True)))


def value_of_none(call: n.Call, padded: Attribute) -> Expression:
    """An aggregate's value where a left join found no group: its value for empty input."""
    empty = EMPTY_VALUE.get(call.function)
    if empty is None:
        return column(padded)
    return coalesce(padded, templated(f"CAST({empty} AS {call.output.type.ddl})"))


_PUSH: dict[type[Node], Callable[[Unnesting, Any, Need], Pushed]] = {
    n.Rows: Unnesting._rows,
    n.Project: Unnesting._project,
    n.Filter: Unnesting._filter,
    n.Join: Unnesting._join,
    n.Outer: Unnesting._outer,
    n.Exists: Unnesting._exists,
    n.Union: Unnesting._by_position,
    n.Distinct: Unnesting._distinct,
    n.Monus: Unnesting._by_position,
    n.Least: Unnesting._by_position,
    n.Aggregate: Unnesting._aggregate,
    n.Window: Unnesting._window,
    n.Top: Unnesting._top,
    n.Generate: Unnesting._generate,
}
"""How each operator is made independent."""
