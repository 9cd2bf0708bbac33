"""GROUP BY as written: plain keys, ALL, GROUPING SETS, ROLLUP and CUBE."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute, Expression, In, case, column, integer, null_of
from viewkeeper.algebra.nodes import Join, Node, Project, Rows, Union
from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import is_grouping, outermost, same
from viewkeeper.sql.aggregates import Aggregation
from viewkeeper.sql.clauses import only
from viewkeeper.sql.conditions import unwrapped
from viewkeeper.sql.context import Context, passed_on
from viewkeeper.sql.free import copied

Key = Callable[[exp.Expr], int]
INT = Type("int")
MOST_SETS = 64
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


@dataclass(frozen=True)
class Grouping:
    """The keys of a GROUP BY and, for grouping sets, the positions of the keys in each set."""

    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...] | None = None


def read_grouping(context: Context, group: exp.Group, bound: Sequence[tuple[exp.Expr, exp.Expr]]) -> Grouping:
    """The grouping of a GROUP BY clause. `bound` binds each key."""
    keys: list[exp.Expr] = []

    def key(node: exp.Expr) -> int:
        found = next(made for written, made in bound if written is node)
        for index, known in enumerate(keys):
            if same(known, found):
                return index
        keys.append(found)
        return len(keys) - 1

    if group.args.get("totals"):
        context.refuse("WITH TOTALS is not supported", group, "write ROLLUP")
    if group.args.get("all") is False:
        context.wrong("DISTINCT cannot stand in GROUP BY", group, "leave it out")
    only(context, group, "expressions", "grouping_sets", "rollup", "cube", "all")
    mixed = sum(bool(group.args.get(word)) for word in ("grouping_sets", "rollup", "cube"))
    if mixed and (mixed > 1 or any(isinstance(part, _SETS) for part in group.expressions)):
        context.wrong("GROUPING SETS, WITH ROLLUP and WITH CUBE follow plain keys only", group, "put commas between")
    factors = [_sets(part, key) for part in group.expressions]
    for word in ("grouping_sets", "rollup", "cube"):
        for part in group.args.get(word) or ():
            if isinstance(part, exp.Expr) and part.expressions:  # the keys before GROUPING SETS only give their order
                factors = [_sets(part, key)]
            elif word != "grouping_sets":  # GROUP BY a, b WITH ROLLUP
                units = [unit for factor in factors for unit in factor]
                factors = [_rolled(units) if word == "rollup" else _cubed(units)]
    if all(len(factor) == 1 for factor in factors) and not _has_sets(group):
        return Grouping(tuple(keys))
    sets = [
        tuple(dict.fromkeys(index for part in combination for index in part))
        for combination in itertools.product(*factors)
    ]
    if len(sets) > MOST_SETS:
        context.refuse(f"{len(sets)} grouping sets are too many", group, f"at most {MOST_SETS} are possible")
    return Grouping(tuple(keys), tuple(sets))


def written_keys(group: exp.Group) -> list[exp.Expr]:
    """The keys as written, from all parts of the clause."""
    found: list[exp.Expr] = []

    def collect(node: exp.Expr) -> None:
        if isinstance(node, (exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple)):
            for part in node.expressions:
                collect(part)
        elif isinstance(node, exp.Paren):
            collect(node.this)
        else:
            found.append(node)

    for node in group.expressions:
        collect(node)
    for word in ("grouping_sets", "rollup", "cube"):
        for part in group.args.get(word) or ():
            if isinstance(part, exp.Expr):
                collect(part)
    return found


def _has_sets(group: exp.Group) -> bool:
    if any(group.args.get(word) for word in ("grouping_sets", "rollup", "cube")):
        return True
    return any(isinstance(part, _SETS) for part in group.expressions)


def _unit(node: exp.Expr, key: Key) -> tuple[int, ...]:
    """One element of a ROLLUP, CUBE or GROUPING SETS: a key, or several in parentheses."""
    node = unwrapped(node)
    if isinstance(node, exp.Tuple):
        return tuple(index for part in node.expressions for index in _unit(part, key))
    return (key(node),)


def _sets(node: exp.Expr, key: Key) -> list[tuple[int, ...]]:
    if isinstance(node, exp.Rollup):
        return _rolled([_unit(part, key) for part in node.expressions])
    if isinstance(node, exp.Cube):
        return _cubed([_unit(part, key) for part in node.expressions])
    if isinstance(node, exp.GroupingSets):
        found: list[tuple[int, ...]] = []
        for part in node.expressions:
            nested = isinstance(part, (exp.Rollup, exp.Cube, exp.GroupingSets))
            found += _sets(part, key) if nested else [_unit(part, key)]
        return found
    return [_unit(node, key)]


def _rolled(units: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(i for unit in units[:n] for i in unit) for n in range(len(units), -1, -1)]


def _cubed(units: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    chosen = itertools.product((True, False), repeat=len(units))
    return [tuple(i for unit, take in zip(units, choice, strict=True) if take for i in unit) for choice in chosen]


class GroupingSets:
    """Aggregates by several sets of keys. The group keys are the position of the set and the keys in it."""

    def __init__(self, context: Context, aggregation: Aggregation, sets: Sequence[tuple[int, ...]]) -> None:
        self.context = context
        self.aggregation = aggregation
        self.sets = list(sets)
        self.position = context.numbers.attribute("grouping_set", INT, nullable=False)

    def aggregate(self, node: Node) -> tuple[Node, list[Attribute], list[Attribute]]:
        """The aggregate over prepared rows: its node, the keys (NULL where not grouped by), the calls' values."""
        keys = self.aggregation.keys
        branches: list[tuple[Node, list[Attribute], list[Attribute], Attribute]] = []
        keyed = [index for index, one in enumerate(self.sets) if one]
        if keyed:
            branches.append(self._keyed(node, keyed))
        for index in (index for index, one in enumerate(self.sets) if not one):
            copy, renamed = copied(node, self.context.numbers) if branches else (node, {})
            branches.append(self._whole(copy, renamed, index))
        if len(branches) == 1:
            made, shown, values, self.position = branches[0]
            return made, shown, values
        rows = [self._row(branch) for branch in branches]
        numbers = self.context.numbers
        first = rows[0].outputs
        outputs = tuple(numbers.like(a, nullable=any(r.outputs[i].nullable for r in rows)) for i, a in enumerate(first))
        self.position = outputs[0]
        return Union(tuple(rows), outputs), list(outputs[1 : 1 + len(keys)]), list(outputs[1 + len(keys) :])

    def _row(self, branch: tuple[Node, list[Attribute], list[Attribute], Attribute]) -> Project:
        node, shown, values, position = branch
        named = [("grouping_set", column(position)), *((a.name, column(a)) for a in (*shown, *values))]
        return self.context.project(node, named)

    def _keyed(self, node: Node, positions: list[int]) -> tuple[Node, list[Attribute], list[Attribute], Attribute]:
        """The input for the sets that have keys: every row once per set, with the keys outside the set NULL."""
        numbers = self.context.numbers
        rows = Rows((self.position,), tuple((integer(i),) for i in positions))
        columns = dict(passed_on((*node.outputs, self.position)))
        shown: list[Attribute] = []
        for index, key in enumerate(self.aggregation.keys):
            inside = [integer(i) for i in positions if index in self.sets[i]]
            nulled = numbers.like(key, nullable=True)
            if not inside:
                columns[nulled] = null_of(key.type)
            elif len(inside) == len(positions):
                columns[nulled] = column(key)
            else:
                columns[nulled] = case((In(column(self.position), tuple(inside)), key))
            shown.append(nulled)
        repeated = Project(Join((node, rows)), tuple(columns.items()))
        made, values = self.aggregation.aggregate(repeated, [self.position, *shown], whole=False)
        return made, shown, values, self.position

    def _whole(
        self, node: Node, renamed: dict[Attribute, Attribute], index: int
    ) -> tuple[Node, list[Attribute], list[Attribute], Attribute]:
        """The aggregate for the empty set: one row, even for empty input."""
        made, values = self.aggregation.aggregate(node, [], whole=True, renamed=renamed)
        position = self.context.numbers.attribute("grouping_set", INT, nullable=False)
        keys = [self.context.numbers.like(key, nullable=True) for key in self.aggregation.keys]
        columns: dict[Attribute, Expression] = {position: integer(index)}
        columns.update({key: null_of(key.type) for key in keys})
        columns.update(dict(passed_on(values)))
        return Project(made, tuple(columns.items())), keys, values, position

    def grouping(self, call: exp.Expr) -> exp.Expr:
        """grouping(key) or grouping_id(keys), from the position of the set."""
        keys = [self._key(call, a) for a in call.expressions]
        if call.name.lower() == "grouping" and len(keys) != 1:
            self.context.wrong("grouping takes one key", call, None)
        if not call.expressions:
            keys = list(range(len(self.aggregation.keys)))
        marked = self.context.marked(self.position, call)
        kind = "TINYINT" if call.name.lower() == "grouping" else "BIGINT"
        branches = []
        for index, one in enumerate(self.sets):
            bits = "".join("0" if key in one else "1" for key in keys)
            value = exp.cast(exp.Literal.number(int(bits or "0", 2)), kind, dialect="spark")
            branches.append(exp.If(this=exp.EQ(this=marked.copy(), expression=exp.Literal.number(index)), true=value))
        return exp.Case(ifs=branches)

    def _key(self, call: exp.Expr, argument: exp.Expr) -> int:
        for index, bound in enumerate(self.aggregation.groups):
            if same(bound, argument):
                return index
        return self.context.wrong(f"{call.name} takes a key of GROUP BY", call, None)


def groupings_in(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The calls of grouping and grouping_id in some syntax."""
    return [part for node in nodes for part in outermost(node, is_grouping)]
