"""Expressions about NULL that are made in one place, so that they are recognized by comparison."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.algebra.expressions import Attribute, Equality, Expression, coalesce, conjunction, not_null
from viewkeeper.algebra.nodes import Outer, Project


def none_null(attributes: Sequence[Attribute]) -> Expression:
    """The condition that none of some attributes is NULL."""
    return conjunction(map(not_null, attributes))


def merged_keys(node: Project) -> dict[Attribute, Equality]:
    """The columns of a projection that merge two keys of the full join below it, as USING does, and which keys."""
    below = node.input
    if not isinstance(below, Outer) or not below.full:
        return {}
    outer = {inner: outer for outer, inner in below.padded}
    merged: dict[Expression, Equality] = {coalesce(outer[e.left], outer[e.right]): e for e in below.equalities}
    return {attribute: merged[value] for attribute, value in node.columns if value in merged}
