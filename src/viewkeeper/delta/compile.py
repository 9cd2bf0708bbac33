"""Differentiation: dispatches on the operator, and checks the contract of every law.

The change of an expression has the expression's own columns and is signed. Relations that did not change make their
terms vanish (partial differencing): `change` is None where nothing can change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Numbers
from viewkeeper.delta import (
    aggregate,
    distinct,
    exists,
    inner_join,
    linear,
    outer_join,
    recursion,
    set_operations,
    window,
)
from viewkeeper.delta.laws import Laws
from viewkeeper.errors import InternalError

Law = Callable[[Laws, Any], n.Node | None]

LAWS: dict[type[n.Node], Law] = {
    n.Scan: linear.scan,
    n.Rows: linear.rows,
    n.Project: linear.project,
    n.Filter: linear.select,
    n.Generate: linear.generate,
    n.Union: linear.union,
    n.Join: inner_join.change,
    n.Outer: outer_join.change,
    n.Exists: exists.change,
    n.Distinct: distinct.distinct,
    n.Monus: set_operations.monus,
    n.Least: set_operations.least,
    n.Aggregate: aggregate.change,
    n.Window: window.window,
    n.Top: window.top,
    n.Fixpoint: recursion.change,
}


class Differentiation(Laws):
    """The laws, applied for a given set of changed relations."""

    def __init__(self, changed: Collection[str], numbers: Numbers, grown: Collection[str]) -> None:
        super().__init__(frozenset(changed), numbers, frozenset(grown))

    def change(self, node: n.Node) -> n.Node | None:
        """δ of an expression; None if none of its relations changed."""
        if not any(scan.relation in self.changed for scan in n.scans(node)):
            return None
        result = LAWS[type(node)](self, node)
        if result is not None:
            _check(type(node).__name__, node, result)
        return result


def _check(law: str, node: n.Node, result: n.Node) -> None:
    """Checks the contract of every law: the result has the same columns, and is a change."""
    if result.outputs != node.outputs:
        raise InternalError(f"the law of {law} changes the columns")
    if not n.is_change(result):
        raise InternalError(f"the law of {law} gives no change")


def differentiate(node: n.Node, changed: Collection[str], grown: Collection[str] = ()) -> n.Node | None:
    """The change of a query when some of its relations change; `grown` are those that only gain rows."""
    return Differentiation(changed, Numbers(n.highest(node) + 100_000), grown).change(node)
