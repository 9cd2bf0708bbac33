"""What all laws share: the old and new state of an expression, both states in one relation, and keys."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers, column
from viewkeeper.algebra.types import Type


class Laws:
    """What a law may use."""

    def __init__(self, changed: frozenset[str], numbers: Numbers, grown: frozenset[str] = frozenset()) -> None:
        """`grown` are those of the changed relations that only gained rows."""
        self.changed = changed
        self.numbers = numbers
        self.grown = grown

    def change(self, node: n.Node) -> n.Node | None:
        """δ of an expression; None if nothing in it can change."""
        raise NotImplementedError

    def old(self, node: n.Node) -> n.Node:
        """S@old."""
        return n.at(node, n.OLD)

    def new(self, node: n.Node) -> n.Node:
        """S@new."""
        return n.at(node, n.NEW)

    def side_by_side(self, before: n.Node, change: n.Node | None) -> tuple[n.Node, Attribute]:
        """S in both states, from S@old and δS (None: unchanged), and the column that holds the state."""
        state = self.numbers.attribute("state", Type("int"), nullable=False)
        return n.Both(before, change if change is not None else n.Rows(before.outputs, ()), state), state

    def touched(self, node: n.Node, change: n.Node, keys: Sequence[Attribute]) -> tuple[n.Node, Attribute]:
        """S ⋉ K in both states, where K are the values of `keys` in δS. S@new ⋉ K is (S@old ⋉ K) ⊎ δS."""
        usable = [key for key in keys if not key.type.has_map()]
        before = self.old(node)
        if usable:
            before = n.Restrict(before, change, tuple((key, key) for key in usable))
        return self.side_by_side(before, change)


def once(change: n.Node) -> n.Node:
    """A change that is computed once although it is used twice."""
    return change if isinstance(change, (n.Scan, n.Once)) else n.Once(change)


def net(change: n.Node) -> n.Node:
    """A change without rows that cancel, so that nothing is computed for rows that are in neither state."""
    return change if is_net(change) else n.Net(change)


def is_net(change: n.Node) -> bool:
    """Whether no row can be in a change twice."""
    if isinstance(change, (n.Scan, n.Net, n.Rederived)):
        return True
    return isinstance(change, (n.Filter, n.Once)) and is_net(change.input)


def keys_of(change: n.Node, keys: Sequence[Attribute], names: Sequence[Attribute]) -> n.Node:
    """The values of some columns in a change, under given names."""
    return n.Project(change, tuple((name, column(key)) for name, key in zip(names, keys, strict=True)))


def sum_of(terms: Sequence[n.Node], outputs: tuple[Attribute, ...]) -> n.Node | None:
    """The union of some terms, under the columns of the expression; None if there are none."""
    if not terms:
        return None
    if len(terms) == 1 and terms[0].outputs == outputs:
        return terms[0]
    return n.Union(tuple(terms), outputs)
