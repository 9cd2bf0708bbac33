"""Shared subexpressions: the change of an inner join that several views have is derived once for all of them.

Two joins are the same if they join the same relations in the same order with the same conditions. The shared join has
the columns that any of the views uses. A virtual view that several views are defined over is such a join, unless each
adds conditions of its own, which then are tested before the join.

In a view, a scan takes the place of the shared join, as if it were a relation. Only its change is ever read; where a
law needs the join in the old or new state, the join itself is put back.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, Name, Numbers, column
from viewkeeper.algebra.printing import formula
from viewkeeper.delta.compile import differentiate

Form: TypeAlias = tuple[object, ...]
"""A join without its column ids and the choice of its columns."""


@dataclass(frozen=True)
class Common:
    """A join that several views share, with the columns that any of them uses. `names` are its columns, in order."""

    id: str
    node: n.Node
    names: tuple[str, ...]
    users: frozenset[str]

    @property
    def relations(self) -> frozenset[str]:
        """The relations that it reads."""
        return frozenset(scan.relation for scan in n.scans(self.node))

    def __str__(self) -> str:
        return formula(self.node).replace("@new", "")


class Sharing:
    """The joins that some views share."""

    def __init__(self, views: Iterable[tuple[str, n.Node]]) -> None:
        """`views` are names or ids, each with its expression."""
        found: dict[Form, dict[str, list[tuple[n.Node, dict[Attribute, str]]]]] = {}
        for view, node in views:
            for part in _joins(node):
                names: dict[Attribute, str] = {}
                form = form_of(part, names, itertools.count())
                if form is not None:
                    found.setdefault(form, {}).setdefault(view, []).append((part, names))
        self.commons: dict[str, Common] = {}
        self._scans: dict[n.Node, n.Scan] = {}
        for users in found.values():
            if len(users) < 2:
                continue
            places = [place for listed in users.values() for place in listed]
            common = _common(f"common {len(self.commons) + 1}", places, frozenset(users))
            self.commons[common.id] = common
            for place, called in places:
                columns = tuple(called[attribute] for attribute in place.outputs)
                self._scans[place] = n.Scan(common.id, str(common), place.outputs, n.NEW, columns)

    def change(self, node: n.Node, changed: Collection[str], wanted: Collection[str]) -> n.Node | None:
        """δ of a view's expression, with the changes of the `wanted` shared joins read as if they were relations."""

        def aside(part: n.Node) -> n.Node:
            scan = self._scans.get(part) if isinstance(part, n.Join) else None
            return scan if scan is not None and scan.relation in wanted else part

        replaced = n.transform(node, aside)
        if replaced is node:
            return differentiate(node, changed)
        change = differentiate(replaced, {*changed, *wanted})
        return None if change is None else n.transform(change, self._put_back)

    def _put_back(self, part: n.Node) -> n.Node:
        if not isinstance(part, n.Scan) or part.relation not in self.commons or part.state == n.CHANGE:
            return part
        common = self.commons[part.relation]
        columns = dict(zip(common.names, common.node.outputs, strict=True))
        given = zip(part.attributes, part.stored_names, strict=True)
        return n.Project(n.at(common.node, part.state), tuple((a, column(columns[name])) for a, name in given))


def _joins(node: n.Node) -> Iterator[n.Join]:
    """The inner joins of an expression that are not inside another join."""
    if isinstance(node, n.Join):
        yield node
        return
    for below in node.inputs:
        yield from _joins(below)


def form_of(node: n.Node, names: dict[Attribute, str], numbers: Iterator[int]) -> Form | None:
    """What equal joins have in common, adding their columns to `names`; None if there is more than joins."""
    match node:
        case n.Scan():
            number = next(numbers)
            names.update((a, f"{number}.{name}") for a, name in zip(node.attributes, node.stored_names, strict=True))
            return ("scan", node.relation)
        case n.Filter():
            below = form_of(node.input, names, numbers)
            return None if below is None else ("filter", below, _shape(node.condition, names))
        case n.Join() | n.Exists():
            parts = [form_of(part, names, numbers) for part in node.inputs]
            if None in parts:
                return None
            equalities = frozenset((frozenset((names[e.left], names[e.right])), e.null_safe) for e in node.equalities)
            conditions = frozenset(_shape(condition, names) for condition in node.conditions)
            kind = "join" if isinstance(node, n.Join) else f"exists {node.negated}"
            return (kind, *parts, equalities, conditions)
        case _:
            return None


def _shape(expression: Expression, names: dict[Attribute, str]) -> tuple[object, ...]:
    """An expression with the names of columns in place of their ids."""
    return (expression.substitute({a: Name(names[a]) for a in expression.attributes}),)


def _common(id: str, places: list[tuple[n.Node, dict[Attribute, str]]], users: frozenset[str]) -> Common:
    """The shared join for equal joins, with the columns of each."""
    first, names = places[0]
    kinds = {name: attribute for _, other in places for attribute, name in other.items()}
    own = set(names.values())
    numbers = Numbers(n.highest(first) + 1)
    count = itertools.count()

    def widened(part: n.Node) -> n.Node:
        if not isinstance(part, n.Scan):
            return part
        prefix = f"{next(count)}."
        more = [name for name in kinds if name.startswith(prefix) and name not in own]
        added = [numbers.like(kinds[name]) for name in more]
        names.update(zip(added, more, strict=True))
        stored = (*part.stored_names, *(name.removeprefix(prefix) for name in more))
        return replace(part, attributes=(*part.attributes, *added), columns=stored)

    node = n.transform(first, widened)
    return Common(id, node, tuple(names[attribute] for attribute in node.outputs), users)
