"""Full refresh. For relations of any kind; reads all of their inputs.

δV = V@new − V@old        V@new computed from its inputs, V@old as stored
"""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.maintain.neighbors import renew_neighbors
from viewkeeper.maintain.net_changes import join_change, less
from viewkeeper.maintain.runners_up import renew
from viewkeeper.maintain.strategy import Task


def recompute(task: Task) -> None:
    """Adds the difference between the computed and the stored contents to the transaction."""
    difference = task.lowering.lower(less(n.at(task.node, n.NEW), task.stored))
    join_change(task.tx, task.relation, difference, check=False)
    if task.relation.definition.runners_up:
        renew(task)
    if task.relation.definition.neighbors:
        renew_neighbors(task)
