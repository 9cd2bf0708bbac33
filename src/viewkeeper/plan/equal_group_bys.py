"""Equal group-bys: where a stored one has the columns of another, whatever their names and order.

Two group-bys have a stored relation in common if they group the same rows by the same values, in the same order, and
the one that is stored has every aggregate of the other. Rows are the same if they come from the same relations, joined
in the same order under the same conditions; any other input must be equal as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, Name
from viewkeeper.algebra.serial import fingerprint
from viewkeeper.plan.group_state import projected
from viewkeeper.plan.sharing import form_of


@dataclass(frozen=True)
class Meaning:
    """What a stored expression holds: what its rows are, and its columns, without ids and names.

    Of a group-by, the rows are its groups and the columns its aggregates; any other expression has no such columns.
    """

    rows: Hashable
    columns: tuple[Hashable, ...] = ()

    def places(self, other: Meaning, count: int) -> tuple[int, ...] | None:
        """The positions of the `count` columns of another one, groups first; None if any is missing."""
        if self.rows != other.rows or not set(other.columns) <= set(self.columns):
            return None
        groups = count - len(other.columns)
        return (*range(groups), *(groups + self.columns.index(column) for column in other.columns))


def meaning_of(node: n.Node) -> Meaning:
    """What an expression holds when it is stored."""
    if not isinstance(node, n.Aggregate):
        return Meaning(fingerprint(node))
    below, shown = projected(node.input)
    names: dict[Attribute, str] = {}
    rows: Hashable = form_of(below, names, itertools.count())
    if rows is None:
        rows, names = fingerprint(below), {a: f"{i}" for i, a in enumerate(below.outputs)}
    named: dict[Attribute, Expression] = {a: Name(name) for a, name in names.items()}
    values = {a: e.substitute(named) for a, e in zip(node.input.outputs, shown, strict=True)}
    groups = tuple(values[group] for group in node.groups)
    return Meaning((rows, node.whole, groups), tuple(_meaning(call, values) for call in node.calls))


def _meaning(call: n.Call, values: dict[Attribute, Expression]) -> Hashable:
    argument = None if call.argument is None else values[call.argument]
    text = None if call.text is None else call.text.substitute(values)
    return call.function, argument, text, call.output.type.ddl
