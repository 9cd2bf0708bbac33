"""Operators that keys make unnecessary, removed from a query before it is maintained: one function and theorem each.

The view's own query stays as written; only less is stored and maintained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import BIGINT, Expression, Literal, case, cast, column, is_null
from viewkeeper.algebra.printing import title
from viewkeeper.analysis.dependencies import Declared, facts_of


def without_needless(node: n.Node, declared: Declared) -> n.Node:
    """The query without the operators that its keys make unnecessary."""
    return _Simplification(declared).of(node)


def needless(node: n.Node, declared: Declared) -> list[str]:
    """The operators that keys make unnecessary in a query, in words."""
    work = _Simplification(declared)
    work.of(node)
    return work.left_out


class _Simplification:
    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.left_out: list[str] = []

    def of(self, node: n.Node) -> n.Node:
        return n.transform(node, self._turn)

    def _turn(self, part: n.Node) -> n.Node:
        for rule in RULES:
            simpler = rule(part, self.declared)
            if simpler is not part:
                keys = facts_of(part.inputs[0], self.declared).keys
                listed = ", ".join(f"({', '.join(a.name for a in sorted(k, key=lambda a: a.number))})" for k in keys)
                self.left_out.append(f"{title(part)} needs no auxiliary relation: {listed} is a key of what it reads")
                part = simpler
        return part


def distinct_of_a_key(node: n.Node, declared: Declared) -> n.Node:
    """ε(S) = S where S has a key: S has no duplicates (Theorem 5.3), so no counts are needed."""
    if isinstance(node, n.Distinct) and facts_of(node.input, declared).keys:
        return node.input
    return node


def group_by_a_key(node: n.Node, declared: Declared) -> n.Node:
    """γ[G; f](S) = π[G, f of one row](S) where G determines a key of S: every group is one row, and needs no state.

    By Lemma 5.2, two rows that agree on G agree on all that G binds, so on a key, so they are one.
    """
    if not isinstance(node, n.Aggregate) or node.whole or not node.groups:
        return node
    values = [_of_one_row(call) for call in node.calls]
    if None in values or not facts_of(node.input, declared).is_key(node.groups):
        return node
    pairs = zip(node.calls, values, strict=True)
    computed = tuple((call.output, value) for call, value in pairs if value is not None)
    return n.Project(node.input, (*((group, column(group)) for group in node.groups), *computed))


def _of_one_row(call: n.Call) -> Expression | None:
    """The value of an aggregate over a single row; None if that is not a simple expression."""
    argument = call.argument
    if call.text is not None:
        return None
    if argument is None:
        return Literal(1, BIGINT) if call.function == "count" else None
    match call.function:
        case "count":
            return case((is_null(argument), Literal(0, BIGINT)), default=Literal(1, BIGINT))
        case "sum":
            return cast(argument, call.output.type)
        case "min" | "max":
            return column(argument)
        case _:
            return None


# foreign keys ------------------------------------------------------------------------------------

Refers = Callable[[n.Scan, n.Scan], list[tuple[tuple[str, ...], tuple[str, ...]]]]
"""The foreign keys of one stored relation to another: columns of the first, and those of the second they refer to."""


def parents_first(node: n.Node, refers: Refers) -> n.Node:
    """Joins along foreign keys begin with the referenced table, and record it: then rows inserted there match nothing.

    S ⋈ T with S.a → T.k:  ΔT ⋈ S@old = ∅, because S@old refers to keys of T@old only, and ΔT has none of these.
    """

    def turn(part: n.Node) -> n.Node:
        if not isinstance(part, n.Join):
            return part
        pairs = [
            (child, parent)
            for child, one in enumerate(part.inputs)
            for parent, other in enumerate(part.inputs)
            if child != parent and _compares(part, _base(one), _base(other), refers)
        ]
        order = _ordered(len(part.inputs), pairs)
        places = {old: new for new, old in enumerate(order)}
        kept = tuple((places[c], places[p]) for c, p in pairs if places[p] < places[c])
        if not kept:
            return part
        joined = replace(part, inputs_=tuple(part.inputs[i] for i in order), parents=kept)
        if joined.outputs == part.outputs:
            return joined
        return n.Project(joined, tuple((a, column(a)) for a in part.outputs))

    return n.transform(node, turn)


def _base(node: n.Node) -> n.Scan | None:
    """The scan whose rows an expression returns as they are."""
    while isinstance(node, (n.Filter, n.Project)):
        node = node.input
    return node if isinstance(node, n.Scan) else None


def _compares(node: n.Join, child: n.Scan | None, parent: n.Scan | None, refers: Refers) -> bool:
    """Whether a join compares all columns of a foreign key with those they refer to. NULL refers to nothing."""
    if child is None or parent is None:
        return False
    ours = {name.lower(): a for a, name in zip(child.attributes, child.stored_names, strict=True)}
    theirs = {name.lower(): a for a, name in zip(parent.attributes, parent.stored_names, strict=True)}
    plain = {frozenset((e.left, e.right)) for e in node.equalities if not e.null_safe}
    for columns, referenced in refers(child, parent):
        pairs = [(ours.get(c.lower()), theirs.get(r.lower())) for c, r in zip(columns, referenced, strict=True)]
        if all(one is not None and frozenset((one, other)) in plain for one, other in pairs):
            return True
    return False


def _ordered(count: int, pairs: list[tuple[int, int]]) -> list[int]:
    """The positions 0 to count - 1 in order, but each after those it refers to, as far as possible."""
    order: list[int] = []
    waiting = list(range(count))
    while waiting:
        ready = [i for i in waiting if not any(c == i and p in waiting and p != i for c, p in pairs)]
        chosen = ready[0] if ready else waiting[0]
        order.append(chosen)
        waiting.remove(chosen)
    return order


RULES: tuple[Callable[[n.Node, Declared], n.Node], ...] = (distinct_of_a_key, group_by_a_key)
"""In the order in which they are tried at every node, bottom up."""
