"""Which table references of a view are safe to maintain incrementally, from the columns and keys that are bound.

Ceri and Widom 1991, on the algebra: every reference in the text is a scan of its own.

    B(V)   columns of the top-level tables that the view's columns determine            Definition 5.1
    C(V)   columns of a nested subquery that B(V) determines by correlation             Definition 6.1, 6.3 for IN
    V has no duplicates if B(V) has a key of every top-level table                      Theorem 5.3
    a reference is safe if B(V), or C(V) where it is nested, has a key of it            Definitions 5.4 and 6.3
    under NOT EXISTS it is I-safe if the subquery reads B(V) alone, and DU-safe         Definitions 7.1 and 7.3
    if it is safe as well

A key with a nullable column is none: two rows with NULL agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import Schema
from viewkeeper.analysis.dependencies import Columns, Declared, Facts, Knowledge, named_keys
from viewkeeper.errors import Place


class Nesting(Enum):
    """The position of a reference in the query."""

    TOP = "top level"
    POSITIVE = "EXISTS, IN or ANY"
    NEGATIVE = "NOT EXISTS, NOT IN or ALL"


@dataclass(frozen=True)
class Reference:
    """A table or stored view, where a query names it. `id` is the relation of its scan.

    `nesting` is its nesting in the text, if the text alone decides: a reference in a WITH or under GROUPING SETS counts
    once for each use.
    """

    id: str
    name: str
    schema: Schema
    place: Place | None = None
    is_view: bool = False
    nesting: Nesting | None = None

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """Keys, without nullable UNIQUE columns of tables: NULLs may repeat there, but not in the key of a view."""
        keys = [key.columns for key in self.schema.keys]
        if self.is_view:
            return keys
        return [key for key in keys if not any(self.schema.column(name).nullable for name in key)]


@dataclass(frozen=True)
class Verdict:
    """What is known of a reference.

    `key` is its bound key, if there is one. `looks_outside` are unbound columns of the top-level tables that a nested
    subquery compares with.
    """

    reference: Reference
    nesting: Nesting
    bound: tuple[str, ...]
    key: tuple[str, ...] | None
    looks_outside: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Whether its changes are applied without reading the rest of the view (5.4, 6.3; DU-safe by 7.3)."""
        return self.key is not None and not self.looks_outside

    @property
    def is_safe_for_insertions(self) -> bool:
        """I-safe (7.1): rows inserted under a negation delete rows of the view."""
        return self.nesting is not Nesting.NEGATIVE or not self.looks_outside


@dataclass(frozen=True)
class Findings:
    """What is known of a view."""

    keys: tuple[tuple[str, ...], ...]
    has_duplicates: bool
    verdicts: tuple[Verdict, ...]


class Examination:
    """Examines the query of a view; `names` are its column names."""

    def __init__(self, node: n.Node, names: Sequence[str], references: Sequence[Reference]) -> None:
        self.node = node
        self.names = names
        self.references = {reference.id: reference for reference in references}
        self._known = Knowledge(self._declared)
        self._found = list(_scans(node, Nesting.TOP, self._facts.bound_by(node.outputs), self._known))

    def _declared(self, scan: n.Scan) -> list[tuple[str, ...]]:
        return self.references[scan.relation].keys if scan.relation in self.references else []

    @property
    def _facts(self) -> Facts:
        return self._known.of(self.node)

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The smallest known keys."""
        return tuple(named_keys(self._facts, self.node.outputs, self.names))

    @property
    def has_duplicates(self) -> bool:
        """Whether a row may occur more than once."""
        return not self._facts.keys

    def findings(self) -> Findings:
        """The facts about the view and each reference."""
        verdicts = (self.verdict(name) for name in self.references)
        return Findings(self.keys, self.has_duplicates, tuple(verdict for verdict in verdicts if verdict is not None))

    def verdict(self, name: str) -> Verdict | None:
        """What is known of the reference whose scan reads `name`; None if the query has no such scan."""
        reference = self.references[name]
        others = Knowledge(lambda scan: [] if scan.relation == name else self._declared(scan))
        bound = others.of(self.node).bound_by(self.node.outputs)
        without = {id(scan): columns for scan, _, columns, _ in _scans(self.node, Nesting.TOP, bound, others)}
        mine = [
            _verdict(reference, scan, nesting, (without[id(scan)], columns), outside)
            for scan, nesting, columns, outside in self._found
            if scan.relation == name
        ]
        mine = [verdict for verdict in mine if verdict.nesting is reference.nesting] or mine
        # A subquery is compared with a copy of the outer query, whose scans are not the reference itself.
        found = sorted(mine, key=lambda verdict: verdict.is_safe, reverse=reference.nesting is not None)
        return found[0] if found else None


def safe_relations(node: n.Node, declared: Declared) -> frozenset[str]:
    """The relations all of whose references are safe at the top level of a query without duplicates."""
    known = Knowledge(declared)
    facts = known.of(node)
    if not facts.keys:
        return frozenset()
    found: dict[str, bool] = {}
    for scan, nesting, bound, _ in _scans(node, Nesting.TOP, facts.bound_by(node.outputs), known):
        there = {name.lower() for a, name in zip(scan.attributes, scan.stored_names, strict=True) if a in bound}
        keyed = any({name.lower() for name in key} <= there for key in declared(scan))
        found[scan.relation] = found.get(scan.relation, True) and keyed and nesting is Nesting.TOP
    return frozenset(relation for relation, is_safe in found.items() if is_safe)


def _scans(
    node: n.Node, nesting: Nesting, bound: Columns, known: Knowledge, outside: tuple[str, ...] = ()
) -> Iterator[tuple[n.Scan, Nesting, Columns, tuple[str, ...]]]:
    """The scans below a node, each with its nesting, the columns that are bound there, and outer columns it reads."""
    if isinstance(node, n.Scan):
        yield node, nesting, bound, outside
        return
    if isinstance(node, (n.Union, n.Monus, n.Least)):  # each branch is examined on its own (section 8)
        for part in node.inputs:
            here = [a for a, above in zip(part.outputs, node.outputs, strict=True) if above in bound]
            kind = Nesting.NEGATIVE if isinstance(node, n.Monus) and part is node.right else nesting
            yield from _scans(part, kind, known.of(part).bound_by(here), known, outside)
        return
    if isinstance(node, n.Outer):
        inside = {inner for outer, inner in node.padded if outer in bound}
        for part in node.inputs:
            here = [a for a in part.outputs if a in bound or a in inside]
            yield from _scans(part, nesting, known.of(part).bound_by(here), known, outside)
        return
    if not isinstance(node, n.Exists):
        for part in node.inputs:
            yield from _scans(part, nesting, bound, known, outside)
        return
    yield from _scans(node.left, nesting, bound, known, outside)
    ours = (e.right for e in node.equalities if e.left in bound)
    correlated = known.of(node.right).bound_by(ours)
    theirs = set(node.right.outputs)
    looked = {e.left for e in node.equalities} | {a for c in node.conditions for a in c.attributes if a not in theirs}
    free = tuple(dict.fromkeys(a.name for a in sorted(looked - bound, key=lambda a: a.number)))
    kind = Nesting.NEGATIVE if node.negated or nesting is Nesting.NEGATIVE else Nesting.POSITIVE
    yield from _scans(node.right, kind, correlated, known, (*outside, *free) if node.negated else outside)


def _verdict(
    reference: Reference, scan: n.Scan, nesting: Nesting, bound: Sequence[Columns], outside: tuple[str, ...]
) -> Verdict:
    """The verdict; `bound` are the columns that are bound without the keys of this reference, and with them."""
    pairs = list(zip(scan.attributes, scan.stored_names, strict=True))
    key = None
    for columns in bound:
        there = {name.lower() for a, name in pairs if a in columns}
        key = key or next((one for one in reference.keys if {name.lower() for name in one} <= there), None)
    names = [column.name for column in reference.schema if key is not None or column.name.lower() in there]
    return Verdict(reference, nesting, tuple(names), key, outside)
