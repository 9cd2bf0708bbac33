"""The last steps of a translation: unused columns are pruned, and the result is checked."""

from __future__ import annotations

from viewkeeper.algebra.nodes import Node
from viewkeeper.sql.check import check
from viewkeeper.sql.context import Context
from viewkeeper.sql.prune import pruned, simplified

MOST_NODES = 60
"""Most nodes on a path from the result to a table; engines get slow or fail on deeper plans."""


def finished(context: Context, node: Node) -> Node:
    """A translated query without columns that nothing uses, checked."""
    node = simplified(pruned(simplified(node)))
    check(node)
    depth = _depth(node)
    if depth > MOST_NODES:
        context.refuse(
            f"the query is nested too deeply: {depth} operators on one path, at most {MOST_NODES} are possible",
            None,
            "materialize a part of it as a view of its own",
        )
    return node


def _depth(node: Node) -> int:
    return 1 + max((_depth(part) for part in node.inputs), default=0)
