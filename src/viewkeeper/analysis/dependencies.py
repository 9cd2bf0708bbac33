"""Functional dependencies, constants and keys of an expression.

A dependency X → a says that no two rows agree on X and differ in a. Columns that a projection or a group-by drops stay
in the dependencies, because others depend on them: a row then has the values of any one of its input rows. The facts
are sound: they hold for all contents of the tables. They are not complete.

    keys of tables, a = b, a = constant       Ceri and Widom 1991, Definition 5.1: the columns that given ones bind
                                              are their closure under these
    group-by, DISTINCT, EXCEPT, INTERSECT     the groups, the whole row
    outer join                                what depends on a column of the padded side that is never NULL there
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Equality, Expression
from viewkeeper.analysis.relevance import equal_columns, fixed_values

Columns = frozenset[Attribute]

Declared = Callable[[n.Scan], list[tuple[str, ...]]]
"""The keys of a stored relation, by the names of their columns, none of which is nullable."""

MOST_KEYS = 12
"""At most so many keys of an expression are considered."""


@dataclass(frozen=True)
class Dependency:
    """Columns that determine others. No columns determine a constant."""

    columns: Columns
    determined: Columns


@dataclass(frozen=True)
class Facts:
    """What is known of an expression. `keys`: no two of its rows, duplicates included, agree on one."""

    dependencies: tuple[Dependency, ...] = ()
    keys: tuple[Columns, ...] = ()

    def bound_by(self, columns: Iterable[Attribute]) -> Columns:
        """The columns whose values are determined by those of some columns."""
        found = set(columns)
        grows = True
        while grows:
            grows = False
            for dependency in self.dependencies:
                if dependency.columns <= found and not dependency.determined <= found:
                    found |= dependency.determined
                    grows = True
        return frozenset(found)

    def is_key(self, columns: Iterable[Attribute]) -> bool:
        """Whether no two rows agree on some columns."""
        bound = self.bound_by(columns)
        return any(key <= bound for key in self.keys)

    def smallest(self, columns: Iterable[Attribute]) -> Columns:
        """A minimal subset of some columns that determines all of them."""
        kept = list(dict.fromkeys(columns))
        for column in list(kept):
            rest = [other for other in kept if other != column]
            if column in self.bound_by(rest):
                kept = rest
        return frozenset(kept)


def facts_of(node: n.Node, declared: Declared) -> Facts:
    """What is known of an expression, from the keys of the relations it reads."""
    return Knowledge(declared).of(node)


def keys_of(node: n.Node, names: Sequence[str], declared: Declared) -> list[tuple[str, ...]]:
    """The smallest known keys of a query, by the names of its columns."""
    return named_keys(facts_of(node, declared), node.outputs, names)


def named_keys(facts: Facts, outputs: Sequence[Attribute], names: Sequence[str]) -> list[tuple[str, ...]]:
    """The smallest keys, by names for the columns."""
    found = sorted(facts.keys, key=lambda key: (len(key), sorted(a.number for a in key)))
    small = [key for key in found if not any(other < key for other in found)]
    pairs = list(zip(outputs, names, strict=True))
    return list(dict.fromkeys(tuple(name for a, name in pairs if a in key) for key in small))


class Knowledge:
    """Finds what is known of expressions; memoized."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self._found: dict[int, tuple[n.Node, Facts]] = {}

    def of(self, node: n.Node) -> Facts:
        """What is known of an expression."""
        if id(node) not in self._found:
            self._found[id(node)] = (node, self._look(node))
        return self._found[id(node)][1]

    def _look(self, node: n.Node) -> Facts:
        match node:
            case n.Scan():
                return self._scan(node)
            case n.Rows():
                return Facts(keys=(frozenset(),) if len(node.rows) <= 1 else ())
            case n.Project():
                return self._project(node)
            case n.Filter():
                return _joined([self.of(node.input)], (), (node.condition,))
            case n.Join():
                return _joined([self.of(part) for part in node.inputs], node.equalities, node.conditions)
            case n.Exists():
                return self.of(node.left)
            case n.Outer():
                return self._outer(node)
            case n.Distinct():
                below = self.of(node.input)
                return _with_keys(below, [*below.keys, frozenset(node.outputs)], node.outputs)
            case n.Aggregate():
                return self._aggregate(node)
            case n.Window():
                return self.of(node.input)
            case n.Top():
                below = self.of(node.input)
                one = node.limit is not None and node.limit <= 1
                return replace(below, keys=(*below.keys, frozenset(node.partition))) if one else below
            case n.Generate():
                return replace(self.of(node.input), keys=())
            case n.Union():
                return self._union(node)
            case n.Monus():
                return _positioned(self.of(node.left), node.left.outputs, node.outputs)
            case n.Least():
                return self._both(node)
            case n.Fixpoint() if not node.bag:
                return _with_keys(Facts(), [frozenset(node.outputs)], node.outputs)
            case _:
                return Facts()

    def _scan(self, node: n.Scan) -> Facts:
        by_name = {name.lower(): a for name, a in zip(node.stored_names, node.attributes, strict=True)}
        keys = [[by_name.get(name.lower()) for name in key] for key in self.declared(node)]
        whole = [frozenset(a for a in key if a is not None) for key in keys if None not in key]
        return Facts(tuple(Dependency(key, frozenset(node.attributes)) for key in whole), tuple(whole))

    def _project(self, node: n.Project) -> Facts:
        below = self.of(node.input)
        more = []
        for attribute, value in node.columns:
            if value.attribute == attribute:
                continue
            if value.attribute is not None or all(_is_plain(a) for a in value.attributes):
                more.append(Dependency(frozenset(value.attributes), frozenset([attribute])))
            if value.attribute is not None:
                more.append(Dependency(frozenset([attribute]), frozenset([value.attribute])))
        facts = Facts((*below.dependencies, *more), below.keys)
        if not facts.is_key(node.outputs):
            return replace(facts, keys=())
        return _with_keys(facts, [frozenset(node.outputs), *below.keys], node.outputs)

    def _outer(self, node: n.Outer) -> Facts:
        left, right = self.of(node.left), self.of(node.right)
        renamed = {inner: outer for outer, inner in node.padded}
        sides = []
        for facts, inside, padded in ((left, node.left.outputs, node.full), (right, node.right.outputs, True)):
            sides.append(_padded(facts, inside, renamed) if padded else facts)
        ours = [renamed.get(a, a) for a in node.left.outputs]
        theirs = [renamed.get(a, a) for a in node.right.outputs]
        found = Facts((*sides[0].dependencies, *sides[1].dependencies))
        bound = right.bound_by([*(e.right for e in node.equalities)])
        if not node.full and any(key <= bound for key in right.keys):  # each left row matches at most one right row
            keys = sides[0].keys
            more = [Dependency(key, frozenset([*ours, *theirs])) for key in keys]
            return Facts((*found.dependencies, *more), keys)
        pairs = [one | other for one in sides[0].keys for other in sides[1].keys][:MOST_KEYS]
        return Facts(found.dependencies, tuple(pairs) if not node.full else ())

    def _aggregate(self, node: n.Aggregate) -> Facts:
        below = self.of(node.input)
        groups = frozenset(node.groups)
        every = Dependency(groups, frozenset(node.outputs))
        return _with_keys(Facts((*below.dependencies, every)), [groups], node.outputs)

    def _union(self, node: n.Union) -> Facts:
        parts = [_positioned(self.of(part), part.outputs, node.outputs) for part in node.inputs]
        return replace(parts[0], keys=parts[0].keys) if len(parts) == 1 else Facts()

    def _both(self, node: n.Least) -> Facts:
        left = _positioned(self.of(node.left), node.left.outputs, node.outputs)
        right = _positioned(self.of(node.right), node.right.outputs, node.outputs)
        return Facts((*left.dependencies, *right.dependencies), (*left.keys, *right.keys)[:MOST_KEYS])


def _joined(parts: Sequence[Facts], equalities: Sequence[Equality], conditions: Sequence[Expression]) -> Facts:
    """What holds for joined rows that pass some conditions."""
    found = [dependency for part in parts for dependency in part.dependencies]
    for equality in equalities:
        found += _equal(equality.left, equality.right)
    for condition in conditions:
        for left, right in equal_columns(condition):
            found += _equal(left, right)
        found += [Dependency(frozenset(), frozenset([a])) for a in fixed_values(condition)]
    facts = Facts(tuple(found))
    keys: list[Columns] = [frozenset()]
    for part in parts:
        keys = [one | other for one in keys for other in part.keys][:MOST_KEYS]
    return _with_keys(facts, keys, frozenset().union(*keys) if keys else ())


def _is_plain(attribute: Attribute) -> bool:
    """Whether equal values are identical: 0.0 equals -0.0, and equal maps may be ordered differently."""
    return not any(part.is_float or part.name == "map" for part in attribute.type.parts())


def _equal(left: Attribute, right: Attribute) -> list[Dependency]:
    one, other = frozenset([left]), frozenset([right])
    return [Dependency(one, other), Dependency(other, one)]


def _with_keys(facts: Facts, keys: Iterable[Columns], among: Iterable[Attribute]) -> Facts:
    """The facts with minimal keys, out of some columns."""
    allowed = set(among)
    found: dict[Columns, None] = {}
    for key in keys:
        if key <= allowed:
            found[facts.smallest(sorted(key, key=lambda a: a.number))] = None
    small = [key for key in found if not any(other < key for other in found)]
    every = [Dependency(key, frozenset(allowed)) for key in small]
    return Facts((*facts.dependencies, *every), tuple(small[:MOST_KEYS]))


def _padded(facts: Facts, inside: Sequence[Attribute], renamed: dict[Attribute, Attribute]) -> Facts:
    """The facts of a side of an outer join that still hold with padded rows: those of columns that are never NULL."""
    kept = []
    for dependency in facts.dependencies:
        columns, determined = dependency.columns, dependency.determined & set(inside)
        if columns <= set(inside) and any(not a.nullable for a in columns):
            kept.append(Dependency(_named(columns, renamed), _named(determined, renamed)))
    keys = [_named(key, renamed) for key in facts.keys if key <= set(inside) and any(not a.nullable for a in key)]
    return Facts(tuple(kept), tuple(keys))


def _positioned(facts: Facts, inside: Sequence[Attribute], outside: Sequence[Attribute]) -> Facts:
    """Facts about columns, renamed to those of the node above."""
    renamed = dict(zip(inside, outside, strict=True))
    kept = [
        Dependency(_named(d.columns, renamed), _named(d.determined & set(inside), renamed))
        for d in facts.dependencies
        if d.columns <= set(inside)
    ]
    return Facts(tuple(kept), tuple(_named(key, renamed) for key in facts.keys if key <= set(inside)))


def _named(columns: Columns, renamed: dict[Attribute, Attribute]) -> Columns:
    return frozenset(renamed.get(a, a) for a in columns)
