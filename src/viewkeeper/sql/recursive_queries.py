"""WITH RECURSIVE: a query over itself, as rules of a recursive relation.

The branches of its UNION that do not read it are its start, the others are its steps. A step becomes a rule: the
tables it joins become literals, and an input that does not read the recursion stays one expression. UNION makes a set;
UNION ALL a bag, in which a row occurs as often as it can be derived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import Attribute, Equality, Expression, column, comparison
from viewkeeper.algebra.serial import fingerprint
from viewkeeper.sql.context import Context
from viewkeeper.sql.prune import pruned

_WHAT: dict[type[n.Node], str] = {
    n.Aggregate: "GROUP BY and aggregates",
    n.Window: "window functions",
    n.Top: "ORDER BY ... LIMIT",
    n.Outer: "an outer join",
    n.Distinct: "DISTINCT",
    n.Monus: "EXCEPT",
    n.Least: "INTERSECT",
    n.Generate: "explode and other table functions",
    n.Exists: "EXISTS and IN",
    n.Fixpoint: "another recursion",
    n.Union: "a set operation",
}


@dataclass
class _Parts:
    """The parts of a step as a rule; `values` has its columns as expressions over the literals' attributes."""

    literals: list[Literal] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)
    computed: list[tuple[Attribute, Expression]] = field(default_factory=list)
    values: dict[Attribute, Expression] = field(default_factory=dict)


class Recursion:
    """Turns the branches of recursive queries into rules."""

    def __init__(self, context: Context, markers: Mapping[str, n.Scan], at: exp.Expr | None, *, bag: bool) -> None:
        """`markers` are the scans that stand for the recursive relations, by name."""
        self.context = context
        self.markers = markers
        self.names = {marker.relation: name for name, marker in markers.items()}
        self.at = at
        self.bag = bag
        self.inputs: list[n.Node] = []
        self.rules: list[Rule] = []

    def branch(self, name: str, node: n.Node, label: str) -> None:
        """Adds the rules of a branch of one relation; `label` is their text for display."""
        while not self.bag and isinstance(node, n.Distinct):
            node = node.input
        if isinstance(node, n.Union) and self._inside(node):
            for part in node.inputs:
                self.branch(name, part, label)
            return
        parts = self._apart(node)
        own = [literal for literal in parts.literals if literal.is_recursive]
        if self.bag and len(own) > 1:
            self.context.refuse(
                f"'{name}' stands twice in one branch of UNION ALL", self.at, "write UNION instead of UNION ALL"
            )
        columns = tuple(parts.values[a] for a in node.outputs)
        rule = Rule(
            name,
            columns,
            tuple(parts.literals),
            tuple(parts.equalities),
            tuple(parts.conditions),
            tuple(parts.computed),
            label,
        )
        self.rules.append(self._narrow(rule))

    def fixpoint(self, shown: str, attributes: Sequence[Attribute]) -> n.Fixpoint:
        """The recursion, with the columns of the relation that is shown."""
        predicates = tuple(Predicate(name, marker.attributes) for name, marker in self.markers.items())
        inputs, rules = self._once_each()
        return n.Fixpoint(inputs, predicates, rules, shown, tuple(attributes), self.bag)

    def _once_each(self) -> tuple[tuple[n.Node, ...], tuple[Rule, ...]]:
        """The expressions outside the recursion, equal ones only once, and the rules over them."""
        kept: list[n.Node] = []
        prints: dict[str, int] = {}
        places: dict[int, int] = {}
        for number, node in enumerate(self.inputs):
            places[number] = prints.setdefault(fingerprint(node), len(kept))
            if places[number] == len(kept):
                kept.append(node)

        def placed(literal: Literal) -> Literal:
            return replace(literal, source=places[literal.source]) if isinstance(literal.source, int) else literal

        rules = (replace(rule, body=tuple(placed(literal) for literal in rule.body)) for rule in self.rules)
        return tuple(kept), tuple(rules)

    def _narrow(self, rule: Rule) -> Rule:
        """The rule with literals outside the recursion reduced to the columns it needs."""
        values = (*rule.columns, *rule.conditions, *(value for _, value in rule.computed))
        used = {a for value in values for a in value.attributes}
        used |= {a for e in rule.equalities for a in (e.left, e.right)}
        body = []
        for literal in rule.body:
            if isinstance(literal.source, int):
                kept = tuple(a for a in literal.attributes if a in used) or literal.attributes[:1]
                below = self.inputs[literal.source]
                self.inputs[literal.source] = pruned(n.Project(below, tuple((a, column(a)) for a in kept)))
                literal = replace(literal, attributes=kept)
            body.append(literal)
        return replace(rule, body=tuple(body))

    def _inside(self, node: n.Node) -> bool:
        return any(scan.relation in self.names for scan in n.scans(node))

    def _apart(self, node: n.Node) -> _Parts:
        if not self._inside(node):
            return self._outside(node)
        match node:
            case n.Scan():
                return self._recursive(node)
            case n.Project():
                below = self._apart(node.input)
                below.values = {a: e.substitute(below.values) for a, e in node.columns}
                return below
            case n.Filter():
                below = self._apart(node.input)
                below.conditions.append(node.condition.substitute(below.values))
                return below
            case n.Join():
                return self._join(node)
            case n.Exists() if node.negated and not node.conditions and not self._inside(node.right):
                return self._anti(node)
        name = next(self.names[scan.relation] for scan in n.scans(node) if scan.relation in self.names)
        return self.context.refuse(
            f"'{name}' cannot be read through {_WHAT.get(type(node), 'this')} inside its own definition",
            self.at,
            "do that outside of the recursion, over its result",
        )

    def _outside(self, node: n.Node) -> _Parts:
        self.inputs.append(node)
        return _Parts([Literal(len(self.inputs) - 1, node.outputs)], values={a: column(a) for a in node.outputs})

    def _recursive(self, scan: n.Scan) -> _Parts:
        """A literal with all columns of its relation, even unused ones."""
        name = self.names[scan.relation]
        there = dict(zip(scan.stored_names, scan.outputs, strict=True))
        numbers = self.context.numbers
        every = tuple(there.get(a.name) or numbers.like(a) for a in self.markers[name].attributes)
        return _Parts([Literal(name, every)], values={a: column(a) for a in every})

    def _join(self, node: n.Join) -> _Parts:
        total = _Parts()
        for part in node.inputs:
            below = self._apart(part)
            total.literals += below.literals
            total.equalities += below.equalities
            total.conditions += below.conditions
            total.computed += below.computed
            total.values |= below.values
        for equality in node.equalities:
            self._equal(total, equality, total.values)
        total.conditions += [condition.substitute(total.values) for condition in node.conditions]
        return total

    def _anti(self, node: n.Exists) -> _Parts:
        below = self._apart(node.left)
        keys = tuple(dict.fromkeys(equality.right for equality in node.equalities))
        self.inputs.append(n.Distinct(n.Project(node.right, tuple((key, column(key)) for key in keys))))
        below.literals.append(Literal(len(self.inputs) - 1, keys, negated=True))
        for equality in node.equalities:
            value = below.values[equality.left]
            compared = value.attribute
            if compared is None:
                compared = self.context.numbers.attribute("compared", equality.right.type)
                below.computed.append((compared, value))
            below.equalities.append(Equality(compared, equality.right, equality.null_safe))
        return below

    @staticmethod
    def _equal(total: _Parts, equality: Equality, values: Mapping[Attribute, Expression]) -> None:
        left, right = values[equality.left], values[equality.right]
        if left.attribute is not None and right.attribute is not None:
            total.equalities.append(Equality(left.attribute, right.attribute, equality.null_safe))
        else:
            sign = "<=>" if equality.null_safe else "="
            total.conditions.append(comparison(sign, left, right, fallible=True))
