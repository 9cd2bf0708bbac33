"""What keys make unnecessary in a query, before it is laid out to be kept. One rule each, with the theorem it rests on.

The query itself stays as it was written; only what is stored and maintained becomes less.
"""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Expression, column, text
from viewkeeper.algebra.printing import title
from viewkeeper.analysis.dependencies import Declared, facts_of


def without_needless(node: n.Node, declared: Declared) -> n.Node:
    """The query without what its keys make unnecessary."""
    return _Simplification(declared).of(node)


def needless(node: n.Node, declared: Declared) -> list[str]:
    """What keys make unnecessary in a query, in words."""
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
                self.left_out.append(f"{title(part)} needs nothing to be kept: {listed} is a key of what it reads")
                part = simpler
        return part


def distinct_of_a_key(node: n.Node, declared: Declared) -> n.Node:
    """ε(S) = S where S has a key: no row is there twice (Theorem 5.3), so no counts are needed."""
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
    """An aggregate of a single row; None if that takes more than its value."""
    argument = call.argument
    if call.text is not None:
        return None
    if argument is None:
        return text("CAST(1 AS BIGINT)") if call.function == "count" else None
    match call.function:
        case "count":
            return text("CAST(CASE WHEN {} IS NULL THEN 0 ELSE 1 END AS BIGINT)", argument)
        case "sum":
            return text(f"CAST({{}} AS {call.output.type.ddl})", argument)
        case "min" | "max":
            return column(argument)
        case _:
            return None


RULES: tuple[Callable[[n.Node, Declared], n.Node], ...] = (distinct_of_a_key, group_by_a_key)
"""In the order in which they are tried at every node, from the bottom up."""
