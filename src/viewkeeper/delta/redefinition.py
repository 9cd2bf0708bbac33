"""A replaced definition: the change from E0 in the old state to E1 in the new state.

Where the two differ, an imaginary relation takes the place of the difference: it was X0 and is X1. What is above it is
differentiated as usual, with that relation among the changed ones:

    δ(⊎ branches)   branches in both: δb        only after: + b@new         only before: − b@old
    δ(σp0 → σp1)    δ(σp0∧p1(S)) ⊎ σp1∧¬p0(S@new) − σp0∧¬p1(S@old)         ¬p: p is false or NULL

A view that differs in any other way is recomputed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    FALSE,
    Attribute,
    Column,
    Comparison,
    Equality,
    Expression,
    Not,
    Numbers,
    coalesce,
    column,
    conjunction,
    same,
)
from viewkeeper.algebra.printing import title
from viewkeeper.algebra.serial import fingerprint
from viewkeeper.delta.compile import differentiate


class OtherwiseMade(Exception):
    """Two expressions differ in more than conditions and branches of a union; the message says where."""


@dataclass(frozen=True)
class Difference:
    """Where two expressions differ: X0 and X1, the parts that are in both, and those that are in only one."""

    before: n.Node
    after: n.Node
    both: tuple[n.Node, ...]
    removed: tuple[n.Node, ...]
    added: tuple[n.Node, ...]
    description: str
    is_fallible: bool = False

    def change(self, changed: Collection[str], outputs: tuple[Attribute, ...]) -> n.Node:
        """X1@new − X0@old, net."""
        common = (differentiate(part, changed) for part in self.both)
        terms: list[n.Node] = [term for term in common if term is not None]
        terms += [n.Negate(n.Negate(n.at(part, n.NEW))) for part in self.added]
        terms += [n.Negate(n.at(part, n.OLD)) for part in self.removed]
        return n.Once(n.Net(n.Union(tuple(terms), outputs)))


@dataclass
class Redefinition:
    """The new expression, with imaginary relations where it differs from the old one."""

    node: n.Node
    places: dict[str, Difference] = field(default_factory=dict)

    def __str__(self) -> str:
        return "; ".join(place.description for place in self.places.values())

    def cannot_follow(self, changed: Collection[str]) -> str | None:
        """Why this cannot be maintained incrementally when some relations change too; None if it can."""
        for place in self.places.values():
            read = {scan.relation for part in (place.before, place.after) for scan in n.scans(part)}
            if place.is_fallible and read & set(changed):
                return "the changed condition may fail for rows that were inserted or deleted with it"
        return None

    def change(self, node: n.Node, changed: Collection[str]) -> n.Node | None:
        """δ of this expression or a part of it, when some relations change too."""
        numbers = Numbers(n.highest(node) + 500_000)
        found = differentiate(node, {*changed, *self.places})
        if found is None:
            return None
        changes: dict[str, n.Node] = {}

        def put_back(part: n.Node) -> n.Node:
            if not isinstance(part, n.Scan) or part.relation not in self.places:
                return part
            place = self.places[part.relation]
            if part.state == n.CHANGE:
                if part.relation not in changes:
                    outputs = tuple(numbers.like(a) for a in place.after.outputs)
                    changes[part.relation] = place.change(changed, outputs)
                whole = changes[part.relation]
            else:
                whole, _ = n.fresh(place.before if part.state == n.OLD else place.after, numbers)
                whole = n.at(whole, part.state)
            pairs = zip(part.attributes, whole.outputs, strict=True)
            return n.Project(whole, tuple((a, column(below)) for a, below in pairs))

        return n.transform(found, put_back)


def redefined(before: n.Node, after: n.Node) -> Redefinition:
    """How one expression differs from another; OtherwiseMade is raised if that cannot be maintained incrementally."""
    result = Redefinition(after)
    numbers = Numbers(max(n.highest(before), n.highest(after)) + 1_000)
    apart, _ = n.fresh(before, numbers)
    result.node = _Comparison(result, numbers).merged(apart, after)
    return result


class _Comparison:
    """Compares two expressions, from the top."""

    def __init__(self, found: Redefinition, numbers: Numbers) -> None:
        self.found = found
        self.numbers = numbers

    def merged(self, before: n.Node, after: n.Node) -> n.Node:
        """The second expression, with an imaginary relation wherever the first one differs."""
        if fingerprint(before) == fingerprint(after):
            return after
        if isinstance(before, n.Union) or isinstance(after, n.Union):
            return self._branches(before, after)
        if isinstance(before, _BLOCK) or isinstance(after, _BLOCK):
            place = self._conditions(before, after)
            if place is not None:
                return self._imagined(place)
        if type(before) is not type(after) or isinstance(before, n.Fixpoint):
            raise OtherwiseMade(f"{title(before)} became {title(after)}")
        if len(before.inputs) != len(after.inputs) or not before.inputs or _alone(before) != _alone(after):
            raise OtherwiseMade(f"{title(before)} became {title(after)}, which is more than a condition or a branch")
        pairs = zip(before.inputs, after.inputs, strict=True)
        return after.with_inputs(tuple(self.merged(one, other) for one, other in pairs))

    def _imagined(self, place: Difference) -> n.Scan:
        if len(place.before.outputs) != len(place.after.outputs):
            raise OtherwiseMade("it has other columns inside")
        for was, now in zip(place.before.outputs, place.after.outputs, strict=True):
            if was.type != now.type or (was.nullable and not now.nullable):
                raise OtherwiseMade(f"{now} has another type, or can no longer be NULL")
        key = f"redefined {len(self.found.places) + 1}"
        self.found.places[key] = place
        return n.Scan(key, place.description, place.after.outputs)

    # branches of a union -------------------------------------------------------------------------

    def _branches(self, before: n.Node, after: n.Node) -> n.Node:
        """The branches that both have, those that differ a little, and one imaginary relation for all others."""
        left = {number: (fingerprint(part), part) for number, part in enumerate(_branches_of(before))}
        common: list[n.Node] = []
        other: list[n.Node] = []
        for part in _branches_of(after):
            print_ = fingerprint(part)
            same = next((number for number, (known, _) in left.items() if known == print_), None)
            if same is None:
                other.append(part)
            else:
                del left[same]
                common.append(part)
        added: list[n.Node] = []
        for part in other:
            found = self._nearly(part, left)
            common.append(found) if found is not None else added.append(part)
        removed = [part for _, part in left.values()]
        if not common:
            raise OtherwiseMade("no branch of its union stayed the same")
        if added or removed:
            counted = [f"{_count(parts)} {what}" for parts, what in ((added, "added"), (removed, "removed")) if parts]
            was, now = (self._together(parts, after.outputs) for parts in (removed, added))
            difference = Difference(was, now, (), tuple(removed), tuple(added), " and ".join(counted))
            common.append(self._imagined(difference))
        union = n.Union(tuple(common), tuple(self.numbers.like(a) for a in after.outputs))
        pairs = zip(after.outputs, union.outputs, strict=True)
        return n.Project(union, tuple((a, column(below)) for a, below in pairs))

    def _nearly(self, part: n.Node, left: dict[int, tuple[str, n.Node]]) -> n.Node | None:
        """A new branch, merged with the first old one that it differs from in a way that can be maintained."""
        places = dict(self.found.places)
        for number, (_, before) in left.items():
            try:
                found = self.merged(before, part)
            except OtherwiseMade:
                self.found.places = dict(places)
                continue
            del left[number]
            return found
        return None

    def _together(self, parts: Sequence[n.Node], like: tuple[Attribute, ...]) -> n.Node:
        outputs = tuple(self.numbers.like(a) for a in like)
        return n.Union(tuple(parts), outputs) if parts else n.Rows(outputs, ())

    # conditions ----------------------------------------------------------------------------------

    def _conditions(self, before: n.Node, after: n.Node) -> Difference | None:
        """The rows that pass both conditions, and those that pass only one; None if more than conditions differ."""
        old, new = (_Block.of(node, self.numbers) for node in (before, after))
        core = _in_common(old, new)
        if core is None:
            return None
        inputs, there = core
        past = [_renamed(e, there) for e in old.conditions]
        if [_renamed(e, there) for e in old.columns] != new.columns:
            return None
        now = list(new.conditions)
        same = [e for e in now if e in past]
        lost, added = [e for e in past if e not in same], [e for e in now if e not in same]
        if not lost and not added:
            return None  # written in another order
        joined = inputs[0] if len(inputs) == 1 else n.Join(tuple(inputs))

        def where(*conditions: Expression) -> n.Node:
            every = (*same, *conditions)
            node = _joined(joined, every)
            return n.Project(node, tuple(zip(after.outputs, new.columns, strict=True)))

        both = where(*lost, *added)
        deleted = (where(*lost, _not(added)),) if added else ()
        inserted = (where(*added, _not(lost)),) if lost else ()
        description = f"its condition {_text(lost)} became {_text(added)}"
        is_fallible = any(e.raises for e in (*lost, *added))
        return Difference(before, after, (both,), deleted, inserted, description, is_fallible)


_BLOCK = (n.Project, n.Filter, n.Join)
"""The operators that make up a block."""


@dataclass
class _Block:
    """Selections, projections and joins as one: the joined inputs, all conditions, and the columns."""

    inputs: list[n.Node]
    conditions: list[Expression]
    columns: list[Expression]

    @staticmethod
    def of(node: n.Node, numbers: Numbers) -> _Block:
        """The block at the top of an expression; its inputs have attributes that occur nowhere else."""
        match node:
            case n.Project():
                below = _Block.of(node.input, numbers)
                values = dict(zip(node.input.outputs, below.columns, strict=True))
                below.columns = [e.substitute(values) for _, e in node.columns]
                return below
            case n.Filter():
                below = _Block.of(node.input, numbers)
                values = dict(zip(node.outputs, below.columns, strict=True))
                below.conditions.append(node.condition.substitute(values))
                return below
            case n.Join():
                parts = [_Block.of(part, numbers) for part in node.inputs]
                whole = _Block([i for p in parts for i in p.inputs], [c for p in parts for c in p.conditions], [])
                whole.columns = [c for p in parts for c in p.columns]
                values = dict(zip(node.outputs, whole.columns, strict=True))
                for equality in node.equalities:
                    left, right = values[equality.left], values[equality.right]
                    whole.conditions.append(same(left, right, null_safe=equality.null_safe))
                whole.conditions += [e.substitute(values) for e in node.conditions]
                return whole
            case _:
                leaf, _ = n.fresh(node, numbers)
                return _Block([leaf], [], [column(a) for a in leaf.outputs])


def _in_common(old: _Block, new: _Block) -> tuple[list[n.Node], dict[Attribute, Attribute]] | None:
    """The inputs of both blocks, with the columns of each, and a map from the first's to these; None if they differ."""
    if len(old.inputs) != len(new.inputs):
        return None
    inputs: list[n.Node] = []
    there: dict[Attribute, Attribute] = {}
    for before, after in zip(old.inputs, new.inputs, strict=True):
        if isinstance(before, n.Scan) and isinstance(after, n.Scan) and before.relation == after.relation:
            names = dict(zip(after.stored_names, after.attributes, strict=True))
            known = dict(names)
            for a, name in zip(before.attributes, before.stored_names, strict=True):
                there[a] = known.setdefault(name, a)
            more = {name: a for name, a in known.items() if name not in names}
            columns = (*after.stored_names, *more)
            inputs.append(replace(after, attributes=(*after.attributes, *more.values()), columns=columns))
        elif fingerprint(before) == fingerprint(after):
            there.update(zip(before.outputs, after.outputs, strict=True))
            inputs.append(after)
        else:
            return None
    return inputs, there


def _joined(node: n.Node, conditions: Sequence[Expression]) -> n.Node:
    """The rows that pass some conditions; equalities between inputs become equalities of the join."""
    if not isinstance(node, n.Join):
        return n.Filter(node, conjunction(tuple(conditions))) if conditions else node
    equalities: list[Equality] = []
    rest: list[Expression] = []
    for condition in conditions:
        match condition:
            case Comparison("=" | "<=>" as sign, Column(left), Column(right)):
                equalities.append(Equality(left, right, sign == "<=>"))
            case _:
                rest.append(condition)
    plain = tuple(e for e in rest if not e.raises)
    fallible = tuple(e for e in rest if e.raises)
    joined: n.Node = n.Join(node.inputs, tuple(equalities), plain)
    return n.Filter(joined, conjunction(fallible)) if fallible else joined


def _renamed(expression: Expression, there: dict[Attribute, Attribute]) -> Expression:
    return n.map_attributes(expression, lambda a: there.get(a, a))


def _not(conditions: Sequence[Expression]) -> Expression:
    """A condition that holds where others are false or NULL."""
    return Not(coalesce(conjunction(conditions), FALSE))


def _text(conditions: Sequence[Expression]) -> str:
    return " AND ".join(str(e) for e in conditions) or "true"


def _count(parts: Sequence[n.Node]) -> str:
    return "a union branch" if len(parts) == 1 else f"{len(parts)} union branches"


def _branches_of(node: n.Node) -> Iterator[n.Node]:
    """The branches of a union, nested unions flattened; anything else is one branch."""
    if isinstance(node, n.Union):
        for part in node.inputs:
            yield from _branches_of(part)
    else:
        yield node


def _alone(node: n.Node) -> str:
    """A node's fingerprint without its inputs."""
    stand_ins = tuple(
        n.Scan(f"input {i}", "", part.outputs, n.NEW, tuple(f"c{j}" for j in range(len(part.outputs))))
        for i, part in enumerate(node.inputs)
    )
    alone = node.with_inputs(stand_ins)
    return fingerprint(n.map_attributes(alone, lambda a: replace(a, nullable=True)))
