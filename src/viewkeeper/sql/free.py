"""Free attributes, those of outer queries that an expression refers to; and copies of expressions."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.nodes import Node, map_attributes


def used(node: Node) -> Iterator[Attribute]:
    """The attributes that a node itself refers to."""
    match node:
        case n.Rows():
            for row in node.rows:
                for value in row:
                    yield from value.attributes
        case n.Project():
            for _, expression in node.columns:
                yield from expression.attributes
        case n.Filter():
            yield from node.condition.attributes
        case n.Join() | n.Outer() | n.Exists():
            for equality in node.equalities:
                yield from (equality.left, equality.right)
            for condition in node.conditions:
                yield from condition.attributes
        case n.Aggregate():
            yield from node.groups
            for call in node.calls:
                yield from (call.argument,) if call.argument is not None else ()
                yield from call.text.attributes if call.text is not None else ()
        case n.Window():
            yield from node.partition
            yield from (key.attribute for key in node.order)
            for window_call in node.calls:
                yield from window_call.text.attributes
        case n.Top():
            yield from node.partition
            yield from (key.attribute for key in node.order)
        case n.Generate():
            yield from node.text.attributes


def free(node: Node) -> frozenset[Attribute]:
    """The attributes of outer queries that an expression refers to."""
    found: set[Attribute] = set(used(node))
    for below in node.inputs:
        found -= set(below.outputs)
    for below in node.inputs:
        found |= free(below)
    return frozenset(found)


def copied(node: Node, numbers: Numbers) -> tuple[Node, dict[Attribute, Attribute]]:
    """The same expression with new column ids for what it produces; its free attributes stay."""
    known: dict[Attribute, Attribute] = {}
    for attribute in n.produced(node):
        if attribute not in known:
            known[attribute] = numbers.like(attribute)
    return map_attributes(node, lambda a: known.get(a, a)), known
