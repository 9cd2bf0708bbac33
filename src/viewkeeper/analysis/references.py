"""What a query's table references are bound by, and what follows for keeping the query as a view.

Ceri and Widom 1991, on the algebra: every reference in the text is a scan of its own.

    B(V)   columns of the top-level tables that the view's columns determine            Definition 5.1
    C(V)   columns of a nested subquery that B(V) determines by correlation             Definition 6.1, 6.3 for IN
    V has no duplicates if B(V) has a key of every top-level table                      Theorem 5.3
    a reference is safe if B(V), or C(V) where it is nested, has a key of it            Definitions 5.4 and 6.3
    under NOT EXISTS it is I-safe if the subquery looks at B(V) alone, and DU-safe      Definitions 7.1 and 7.3
    if it is safe as well

A key with a column that may be NULL is none: two rows with NULL agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import Schema
from viewkeeper.analysis.dependencies import Columns, Declared, facts_of, named_keys
from viewkeeper.errors import Place


class Nesting(Enum):
    """Where a reference stands."""

    TOP = "top level"
    POSITIVE = "EXISTS, IN or ANY"
    NEGATIVE = "NOT EXISTS, NOT IN or ALL"


@dataclass(frozen=True)
class Reference:
    """A table, or a view that is stored, where a query names it. `id` is the relation of its scan."""

    id: str
    name: str
    schema: Schema
    place: Place | None = None

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The keys none of whose columns can be NULL."""
        keys = [key.columns for key in self.schema.keys]
        return [key for key in keys if not any(self.schema.column(name).nullable for name in key)]


@dataclass(frozen=True)
class Verdict:
    """What is known of a reference.

    `key` is the key of it that is bound, if there is one. `looks_outside` are columns of the top-level tables that a
    nested subquery compares with and that are not bound.
    """

    reference: Reference
    nesting: Nesting
    bound: tuple[str, ...]
    key: tuple[str, ...] | None
    looks_outside: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Whether changes of it can be followed without looking at the rest of the view (5.4, 6.3; DU-safe by 7.3)."""
        return self.key is not None and not self.looks_outside

    @property
    def is_safe_for_insertions(self) -> bool:
        """I-safe (7.1): what is inserted under a negation surely takes rows away."""
        return self.nesting is not Nesting.NEGATIVE or not self.looks_outside


@dataclass(frozen=True)
class Findings:
    """What is known of a view."""

    keys: tuple[tuple[str, ...], ...]
    has_duplicates: bool
    verdicts: tuple[Verdict, ...]


def examine(node: n.Node, names: Sequence[str], references: Sequence[Reference]) -> Findings:
    """Looks at the query of a view; `names` are those of its columns."""
    by_id = {reference.id: reference for reference in references}

    def declared(scan: n.Scan) -> list[tuple[str, ...]]:
        return by_id[scan.relation].keys if scan.relation in by_id else []

    facts = facts_of(node, declared)
    with_own = list(_scans(node, Nesting.TOP, facts.bound_by(node.outputs), declared))
    verdicts = []
    for reference in references:

        def others(scan: n.Scan, own: str = reference.id) -> list[tuple[str, ...]]:
            return [] if scan.relation == own else declared(scan)

        bound = facts_of(node, others).bound_by(node.outputs)
        without = {scan: columns for scan, _, columns, _ in _scans(node, Nesting.TOP, bound, others)}
        mine = [
            _verdict(reference, scan, nesting, (without[scan], columns), outside)
            for scan, nesting, columns, outside in with_own
            if scan.relation == reference.id
        ]
        verdicts += sorted(mine, key=lambda verdict: verdict.is_safe)[:1]  # read more than once, the worst counts
    return Findings(tuple(named_keys(facts, node.outputs, names)), not facts.keys, tuple(verdicts))


def safe_relations(node: n.Node, declared: Declared) -> frozenset[str]:
    """The relations all of whose references are safe at the top level of a query that has no row twice."""
    facts = facts_of(node, declared)
    if not facts.keys:
        return frozenset()
    found: dict[str, bool] = {}
    for scan, nesting, bound, _ in _scans(node, Nesting.TOP, facts.bound_by(node.outputs), declared):
        there = {name.lower() for a, name in zip(scan.attributes, scan.stored_names, strict=True) if a in bound}
        keyed = any({name.lower() for name in key} <= there for key in declared(scan))
        found[scan.relation] = found.get(scan.relation, True) and keyed and nesting is Nesting.TOP
    return frozenset(relation for relation, is_safe in found.items() if is_safe)


def _scans(
    node: n.Node, nesting: Nesting, bound: Columns, declared: Declared, outside: tuple[str, ...] = ()
) -> Iterator[tuple[n.Scan, Nesting, Columns, tuple[str, ...]]]:
    """The scans below a node, each with its nesting, the columns that are bound there, and what it looks at outside."""
    if isinstance(node, n.Scan):
        yield node, nesting, bound, outside
        return
    if isinstance(node, (n.Union, n.Monus, n.Least)):  # each branch is looked at on its own (section 8)
        for part in node.inputs:
            here = [a for a, above in zip(part.outputs, node.outputs, strict=True) if above in bound]
            yield from _scans(part, nesting, facts_of(part, declared).bound_by(here), declared, outside)
        return
    if isinstance(node, n.Outer):
        inside = {inner for outer, inner in node.padded if outer in bound}
        for part in node.inputs:
            here = [a for a in part.outputs if a in bound or a in inside]
            yield from _scans(part, nesting, facts_of(part, declared).bound_by(here), declared, outside)
        return
    if not isinstance(node, n.Exists):
        for part in node.inputs:
            yield from _scans(part, nesting, bound, declared, outside)
        return
    yield from _scans(node.left, nesting, bound, declared, outside)
    ours = (e.right for e in node.equalities if e.left in bound)
    correlated = facts_of(node.right, declared).bound_by(ours)
    theirs = set(node.right.outputs)
    looked = {e.left for e in node.equalities} | {a for c in node.conditions for a in c.attributes if a not in theirs}
    free = tuple(dict.fromkeys(a.name for a in sorted(looked - bound, key=lambda a: a.number)))
    kind = Nesting.NEGATIVE if node.negated or nesting is Nesting.NEGATIVE else Nesting.POSITIVE
    yield from _scans(node.right, kind, correlated, declared, (*outside, *free) if node.negated else outside)


def _verdict(
    reference: Reference, scan: n.Scan, nesting: Nesting, bound: Sequence[Columns], outside: tuple[str, ...]
) -> Verdict:
    """`bound` are the columns that are bound without the keys of this reference, and with them."""
    pairs = list(zip(scan.attributes, scan.stored_names, strict=True))
    key = None
    for columns in bound:
        there = {name.lower() for a, name in pairs if a in columns}
        key = key or next((one for one in reference.keys if {name.lower() for name in one} <= there), None)
    names = [column.name for column in reference.schema if key is not None or column.name.lower() in there]
    return Verdict(reference, nesting, tuple(names), key, outside)
