"""Pruning: removes columns that nothing uses, and nodes that do nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, conjunction
from viewkeeper.algebra.nodes import Node, transform
from viewkeeper.sql.context import passed_on

Wanted = frozenset[Attribute]


def pruned(node: Node) -> Node:
    """The same query without the columns that its result does not depend on."""
    return _prune(node, frozenset(node.outputs))


def _prune(node: Node, wanted: Wanted) -> Node:
    """A node with at least the wanted outputs; its outputs are a subsequence of the original ones."""
    match node:
        case n.Scan() | n.Rows():
            return _leaf(node, wanted)
        case n.Project():
            return _project(node, wanted)
        case n.Filter():
            return n.Filter(_prune(node.input, wanted | set(node.condition.attributes)), node.condition)
        case n.Join():
            needed = wanted | _tied(node)
            return replace(node, inputs_=tuple(_prune(part, needed) for part in node.inputs))
        case n.Outer():
            return _outer(node, wanted)
        case n.Exists():
            needed = _tied(node)
            return replace(node, left=_prune(node.left, wanted | needed), right=_prune(node.right, needed))
        case n.Union():
            return _union(node, wanted)
        case n.Aggregate():
            return _aggregate(node, wanted)
        case n.Window():
            return _window(node, wanted)
        case n.Generate():
            return replace(node, input=_prune(node.input, wanted | set(node.text.attributes)))
        case _:  # whole rows are compared or ordered: every column matters
            return node.with_inputs(tuple(_prune(part, frozenset(part.outputs)) for part in node.inputs))


def _tied(node: n.Join | n.Outer | n.Exists) -> Wanted:
    found = {a for e in node.equalities for a in (e.left, e.right)}
    return frozenset(found | {a for c in node.conditions for a in c.attributes})


def _some(attributes: Sequence[Attribute], wanted: Wanted) -> tuple[Attribute, ...]:
    """The wanted attributes; if there are none, a small one, since a row must have a column."""
    kept = tuple(a for a in attributes if a in wanted)
    if kept or not attributes:
        return kept
    small = (a for a in attributes if not a.type.is_nested and a.type.name not in ("string", "binary"))
    return (next(small, attributes[0]),)


def _leaf(node: n.Scan | n.Rows, wanted: Wanted) -> Node:
    kept = _some(node.attributes, wanted)
    if isinstance(node, n.Scan):
        return replace(node, attributes=kept)
    places = [i for i, a in enumerate(node.attributes) if a in kept]
    return n.Rows(kept, tuple(tuple(row[i] for i in places) for row in node.rows))


def _project(node: n.Project, wanted: Wanted) -> Node:
    kept = _some(node.outputs, wanted)
    columns = tuple((a, e) for a, e in node.columns if a in kept)
    return n.Project(_prune(node.input, frozenset(a for _, e in columns for a in e.attributes)), columns)


def _outer(node: n.Outer, wanted: Wanted) -> Node:
    inside = dict(node.padded)
    needed = frozenset(inside.get(a, a) for a in wanted) | _tied(node)
    left, right = _prune(node.left, needed), _prune(node.right, needed)
    there = {*left.outputs, *right.outputs}
    padded = tuple((outer, inner) for outer, inner in node.padded if inner in there)
    return replace(node, left=left, right=right, padded=padded)


def _union(node: n.Union, wanted: Wanted) -> Node:
    kept = _some(node.attributes, wanted)
    places = [i for i, a in enumerate(node.attributes) if a in kept]
    branches = []
    for part in node.inputs:
        columns = tuple(part.outputs[i] for i in places)
        branch = _prune(part, frozenset(columns))
        branches.append(branch if branch.outputs == columns else n.Project(branch, passed_on(columns)))
    return n.Union(tuple(branches), kept)


def _aggregate(node: n.Aggregate, wanted: Wanted) -> Node:
    calls = tuple(call for call in node.calls if call.output in wanted)
    if not calls and not node.groups:
        calls = node.calls[:1]
    needed = set(node.groups)
    for call in calls:
        needed |= {call.argument} if call.argument is not None else set()
        needed |= set(call.text.attributes) if call.text is not None else set()
    return replace(node, input=_prune(node.input, frozenset(needed)), calls=calls)


def _window(node: n.Window, wanted: Wanted) -> Node:
    calls = tuple(call for call in node.calls if call.output in wanted)
    if not calls:
        return _prune(node.input, wanted & frozenset(node.input.outputs))
    needed: set[Attribute] = set(wanted) & set(node.input.outputs)
    if any(call.tie_break for call in calls):  # the whole row breaks ties
        needed = set(node.input.outputs)
    needed |= {*node.partition, *(key.attribute for key in node.order)}
    needed |= {a for call in calls for a in call.text.attributes}
    return replace(node, input=_prune(node.input, frozenset(needed)), calls=calls)


# nodes that do nothing --------------------------------------------------------------------------

_MOST_GUARDED = 4
"""Most fallible conditions that get a filter of their own; more are merged into one, so that plans stay flat."""


def simplified(node: Node) -> Node:
    """The same query with projections and filters merged and joins of joins flat."""
    return _merged_filters(transform(node, _simpler))


def _merged_filters(node: Node) -> Node:
    """Adjacent filters as one, the lowest first. A few fallible ones stay above the others: they see only rows that
    pass those, in whatever order an engine evaluates the parts of one condition."""
    conditions: list[Expression] = []
    while isinstance(node, n.Filter):
        conditions.insert(0, node.condition)
        node = node.input
    node = node.with_inputs(tuple(_merged_filters(below) for below in node.inputs))
    above = [condition for condition in conditions if condition.raises]
    if len(conditions) > 1 and len(above) <= _MOST_GUARDED:
        safe = tuple(condition for condition in conditions if not condition.raises)
        node = n.Filter(node, conjunction(safe)) if safe else node
        for condition in above:
            node = n.Filter(node, condition)
        return node
    return n.Filter(node, conjunction(tuple(conditions))) if conditions else node


def _simpler(node: Node) -> Node:
    match node:
        case n.Project():
            return _merged_projects(node)
        case n.Join():
            return _flat_join(node)
        case _:
            return node


def _merged_projects(node: n.Project) -> Node:
    below = node.input
    if isinstance(below, n.Project) and _used_once(node.columns, below):
        values = dict(below.columns)
        columns = tuple((a, e.substitute(values)) for a, e in node.columns)
        if _keeps_numbers(columns):
            return _merged_projects(n.Project(below.input, columns))
    return below if node.columns == passed_on(below.outputs) else node


def _keeps_numbers(columns: Iterable[tuple[Attribute, object]]) -> bool:
    found = [a for a, _ in columns]
    return len(set(found)) == len(found)


def _used_once(columns: Sequence[tuple[Attribute, Expression]], below: n.Project) -> bool:
    """Whether merging two projections computes nothing twice."""
    computed = {a for a, e in below.columns if e.attribute is None}
    named = [part.attribute for _, e in columns for part in e.walk() if part.attribute is not None]
    used = [attribute for attribute in named if attribute in computed]
    return len(set(used)) == len(used)


def _flat_join(node: n.Join) -> Node:
    if not any(isinstance(part, n.Join) for part in node.inputs):
        return node
    inputs: list[Node] = []
    equalities, conditions = list(node.equalities), list(node.conditions)
    for part in node.inputs:
        if isinstance(part, n.Join):
            inputs += part.inputs
            equalities += part.equalities
            conditions += part.conditions
        else:
            inputs.append(part)
    return n.Join(tuple(inputs), tuple(equalities), tuple(conditions))
