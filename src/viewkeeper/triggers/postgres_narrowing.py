"""Bound reads for PostgreSQL: restrictions to keys are pushed down to where a table is read.

The old state of a table is a query over the table and its log, and PostgreSQL does not push the keys of a join into it.
So they are pushed down here, and an index on them can be used.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.delta.laws import Laws, once
from viewkeeper.delta.outer_join import as_union

Keys = tuple[tuple[Attribute, Attribute], ...]


def without_full_joins(node: n.Node) -> n.Node:
    """The same query with S ⟗ T as (S ⟕ T) ⊎ (T ▷ S): PostgreSQL has full joins by equalities only."""
    laws = Laws(frozenset(), Numbers(n.highest(node) + 1_000))
    return n.transform(node, lambda part: as_union(laws, part) if isinstance(part, n.Outer) and part.full else part)


def narrowed(node: n.Node, changed: Collection[str]) -> n.Node:
    """A change that reads the tables it joins with by its keys."""
    return _Narrowing(frozenset(changed)).narrowed(node)


def scans(node: n.Node) -> list[n.Scan]:
    """The scans below a node."""
    return [part for part in parts_of(node) if isinstance(part, n.Scan)]


def parts_of(node: n.Node) -> list[n.Node]:
    """A node and all below it, each once, even if it is shared."""
    seen: dict[int, n.Node] = {}
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            waiting += part.inputs
    return list(seen.values())


class _Narrowing:
    def __init__(self, changed: frozenset[str]) -> None:
        self.changed = changed
        self._done: dict[int, tuple[n.Node, n.Node]] = {}

    def narrowed(self, node: n.Node) -> n.Node:
        """A node with bound reads, bottom up; shared nodes stay shared."""
        if id(node) not in self._done:
            self._done[id(node)] = (node, self._narrowed(node))
        return self._done[id(node)][1]

    def _narrowed(self, node: n.Node) -> n.Node:
        node = node.with_inputs(tuple(map(self.narrowed, node.inputs)))
        if isinstance(node, n.Restrict):
            return self.sunk(node.left, node.right, node.on)
        if isinstance(node, n.Join):
            return self._side_by_side(node, [n.is_change(part) for part in node.inputs])
        return node

    def sunk(self, node: n.Node, keys: n.Node, on: Keys) -> n.Node:
        """node ⋉ keys, with ⋉ as far down as it can be."""
        mine = [a for a, _ in on]
        match node:
            case n.Filter() | n.Distinct() | n.Restrict():
                return node.with_inputs((self.sunk(node.inputs[0], keys, on), *node.inputs[1:]))
            case n.Project():
                passed = {a: e.attribute for a, e in node.columns if e.attribute is not None}
                if on and all(a in passed for a in mine):
                    return replace(node, input=self.sunk(node.input, keys, tuple((passed[a], k) for a, k in on)))
            case n.Union() if on:
                places = [(node.outputs.index(a), k) for a, k in on]
                parts = (self.sunk(p, keys, tuple((p.outputs[i], k) for i, k in places)) for p in node.inputs)
                return replace(node, inputs_=tuple(parts))
            case n.Join() if on:
                return self._in_join(node, keys, on)
            case n.Exists() | n.Outer() if on and all(a in node.left.outputs and a in node.outputs for a in mine):
                return replace(node, left=self.sunk(node.left, keys, on))
            case n.Aggregate() if on and all(a in node.groups for a in mine):
                return replace(node, input=self.sunk(node.input, keys, on))
            case n.Window() | n.Top() if on and all(a in node.partition for a in mine):
                return replace(node, input=self.sunk(node.input, keys, on))
            case _:
                pass
        return n.Restrict(node, keys, on)

    def _in_join(self, node: n.Join, keys: n.Node, on: Keys) -> n.Node:
        """Restricts each input by the keys that it has; if none has them all, restricts the join too."""
        owned = [tuple((a, k) for a, k in on if a in part.outputs) for part in node.inputs]
        parts = [self.sunk(part, keys, own) if own else part for part, own in zip(node.inputs, owned, strict=True)]
        joined = self._side_by_side(replace(node, inputs_=tuple(parts)), [bool(own) for own in owned])
        return joined if any(len(own) == len(on) for own in owned) else n.Restrict(joined, keys, on)

    def _side_by_side(self, node: n.Join, few: list[bool]) -> n.Join:
        """A join whose inputs in the old state are read by the keys of those that have few rows."""
        parts = list(node.inputs)
        for place, part in enumerate(node.inputs):
            if few[place] or not self._reads_old(part):
                continue
            for other, small in enumerate(parts):
                pairs = _pairs(node, part, small)
                if few[other] and pairs:
                    parts[other] = once(small)
                    parts[place] = self.sunk(part, parts[other], pairs)
                    few = [*few[:place], True, *few[place + 1 :]]
                    break
        return replace(node, inputs_=tuple(parts))

    def _reads_old(self, node: n.Node) -> bool:
        return any(scan.state == n.OLD and scan.relation in self.changed for scan in scans(node))


def _pairs(node: n.Join, part: n.Node, other: n.Node) -> Keys:
    """The columns of an input that equal columns of another."""
    found = []
    for equality in node.equalities:
        for mine, theirs in ((equality.left, equality.right), (equality.right, equality.left)):
            if mine in part.outputs and theirs in other.outputs:
                found.append((mine, theirs))
    return tuple(found)
