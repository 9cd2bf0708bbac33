"""A check of translated queries: an error of the translation must fail here, not give a wrong result."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import VOID, Attribute, explicit
from viewkeeper.algebra.nodes import Node
from viewkeeper.algebra.types import same_family
from viewkeeper.sql.free import used


def check(node: Node) -> None:
    """Raises AssertionError unless every node refers only to columns of its inputs and outputs each column once."""
    for part in node.walk():
        _check_node(part)


def _check_node(node: Node) -> None:
    kind = type(node).__name__
    given = {a for below in node.inputs for a in below.outputs}
    missing = [f"{a.name} ({a.label})" for a in used(node) if a not in given]
    assert not missing, f"{kind} names {', '.join(missing)}, which its inputs do not have"
    outputs = [a.number for a in node.outputs]
    assert len(set(outputs)) == len(outputs), f"{kind} has a column twice: {[str(a) for a in node.outputs]}"
    for below in node.inputs:
        assert type(below) in n.KINDS, f"{type(below).__name__} is no node"
    match node:
        case n.Project():
            _check_projection(node)
        case n.Join():
            _check_join(node)
        case n.Outer() | n.Exists():
            left, right = set(node.left.outputs), set(node.right.outputs)
            for e in node.equalities:
                assert e.left in left, f"{kind}: {e} is the wrong way round"
                assert e.right in right, f"{kind}: {e} is the wrong way round"
                assert same_family(e.left.type, e.right.type), f"{kind}: {e} compares different types"
        case n.Union() | n.Monus() | n.Least():
            _check_positions(node)
    if isinstance(node, n.Outer):
        _check_padding(node)


def _check_projection(node: n.Project) -> None:
    for attribute, expression in node.columns:
        plain = expression.attribute
        kind = expression.type
        assert explicit(expression) is expression, f"{attribute} has an implicit cast that nothing makes"
        assert kind in (None, VOID) or kind.ddl == attribute.type.ddl, f"{attribute} is {attribute.type}, not {kind}"
        assert attribute not in node.input.outputs or plain == attribute, f"{attribute} is computed again"


def _check_join(node: n.Join) -> None:
    homes: dict[Attribute, int] = {a: i for i, part in enumerate(node.inputs) for a in part.outputs}
    for e in node.equalities:
        assert homes[e.left] != homes[e.right], f"Join: {e} is about one input"
        assert same_family(e.left.type, e.right.type), f"Join: {e} compares different types"


def _check_positions(node: n.Union | n.Monus | n.Least) -> None:
    for below in node.inputs:
        kinds = [a.type.ddl for a in below.outputs]
        assert kinds == [a.type.ddl for a in node.attributes], f"{type(node).__name__}: a branch has other columns"


def _check_padding(node: n.Outer) -> None:
    inside = {inner for _, inner in node.padded}
    must = {*node.right.outputs, *(node.left.outputs if node.full else ())}
    assert inside == must, "Outer: the columns of a side that may be missing are not all padded"
    assert all(outer.nullable for outer, _ in node.padded), "Outer: a padded column says that it is never NULL"
