"""Positive partial differentials: the rows of a query's new state that a change of its relations has touched.

    N(R)        = the inserted rows of R                     N(σ S) = σ N(S), and so for π and generate
    N(S ⊎ T)    = N(S) ⊎ N(T)                                N(ε S) = ε N(S)
    N(S1 ⋈ S2)  = N(S1) ⋈ S2@new  ⊎  S1@new ⋈ N(S2)
    N(S ⋉ T)    = N(S) ⋉ T@new  ⊎  S@new ⋉ N(T)
    N(γ S)      = γ S@new, of the groups that δS touches
    N(other S)  = (other S)@new, of the rows that stand in δ(other S), which may cancel

Risch and Skold (1999), section 1.4.2: what a nervous rule reacts to. All rows are in the new state, and all that the
change has added are among them; some may have been there before. Where no operator counts, negates or ranks rows,
deletions need not be looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Numbers
from viewkeeper.analysis.polarity import Kinds
from viewkeeper.delta.compile import Differentiation
from viewkeeper.delta.laws import sum_of

INSERTED = "+"
"""What the relation of a scan begins with that reads the inserted rows of a relation alone."""


def positive_differential(node: n.Node, changed: Collection[str]) -> n.Node | None:
    """The touched rows of the new state, duplicates possible; None if the change cannot touch any."""
    laws = Differentiation(changed, Numbers(n.highest(node) + 100_000), ())
    return _touched(laws, node)


def needed_kinds(node: n.Node) -> dict[str, Kinds]:
    """Per relation, the kinds of its changes that can touch rows: inserts, and deletes under operators that count."""
    found: dict[str, Kinds] = {}
    match node:
        case n.Scan():
            return {node.relation: Kinds.ADDITIONS}
        case n.Project() | n.Filter() | n.Generate() | n.Distinct() | n.Union() | n.Join() | n.Exists(negated=False):
            for part in node.inputs:
                for relation, kinds in needed_kinds(part).items():
                    found[relation] = found.get(relation, Kinds.NONE) | kinds
        case _:
            found = {scan.relation: Kinds.BOTH for scan in n.scans(node)}
    return found


def _touched(laws: Differentiation, node: n.Node) -> n.Node | None:
    if not any(scan.relation in laws.changed for scan in n.scans(node)):
        return None
    match node:
        case n.Scan():
            return replace(node, relation=f"{INSERTED}{node.relation}", state=n.NEW)
        case n.Project() | n.Filter() | n.Generate() | n.Distinct():
            below = _touched(laws, node.input)
            return None if below is None else replace(node, input=below)
        case n.Union():
            parts = [below for part in node.inputs if (below := _touched(laws, part)) is not None]
            return sum_of(parts, node.outputs)
        case n.Join():
            return _joined(laws, node)
        case n.Exists(negated=False):
            return _semi_joined(laws, node)
        case n.Aggregate() if node.groups:
            change = laws.change(node.input)
            if change is None:
                return None
            return n.Restrict(laws.new(node), change, tuple((key, key) for key in node.groups))
        case _:
            change = laws.change(node)
            if change is None:
                return None
            pairs = tuple((a, a) for a in node.outputs if not a.type.has_map())
            return n.Restrict(laws.new(node), change, pairs)


def _joined(laws: Differentiation, node: n.Join) -> n.Node | None:
    terms: list[n.Node] = []
    for index, part in enumerate(node.inputs):
        touched = _touched(laws, part)
        if touched is None:
            continue
        others = [laws.new(other) for other in node.inputs]
        others[index] = touched
        terms.append(n.Join(tuple(others), node.equalities, node.conditions))
    return sum_of(terms, node.outputs)


def _semi_joined(laws: Differentiation, node: n.Exists) -> n.Node | None:
    terms: list[n.Node] = []
    left, right = _touched(laws, node.left), _touched(laws, node.right)
    if left is not None:
        terms.append(replace(node, left=left, right=laws.new(node.right)))
    if right is not None:
        terms.append(replace(node, left=laws.new(node.left), right=right))
    return sum_of(terms, node.outputs)
