"""Queries of views in the place of the views."""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Numbers, column
from viewkeeper.catalog.relations import Derived

Wanted = Callable[[str], Derived | None]
"""Gives the view with an id, if its query is to stand in its place."""


def expanded(node: n.Node, wanted: Wanted) -> n.Node:
    """An expression with the views that are wanted replaced by their queries, and those in these queries too."""
    return _expanded(node, wanted, Numbers(n.highest(node) + 1))


def _expanded(node: n.Node, wanted: Wanted, numbers: Numbers) -> n.Node:
    def turn(part: n.Node) -> n.Node:
        view = wanted(part.relation) if isinstance(part, n.Scan) else None
        if not isinstance(part, n.Scan) or view is None:
            return part
        inside, _ = n.fresh(view.definition.as_written, numbers)
        by_name = dict(zip([name.lower() for name in view.definition.names], inside.outputs, strict=True))
        pairs = zip(part.outputs, part.stored_names, strict=True)
        columns = tuple((a, column(by_name[name.lower()])) for a, name in pairs)
        return n.Project(_expanded(inside, wanted, numbers), columns)

    return n.transform(node, turn)
