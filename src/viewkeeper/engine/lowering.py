"""Algebra to frames, one function per operator.

A change is lowered to rows with a `_weight`; only operators that are linear in it stand above one. Everything else is
lowered to plain rows, duplicates repeated, so that the engine's own operators apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import (
    BIGINT,
    INT,
    NULL,
    Attribute,
    Call,
    Cast,
    Expression,
    Literal,
    Name,
    Negative,
    call,
    case,
    cast,
    comparison,
    conjunction,
    disjunction,
    integer,
    not_null,
    plain,
    same,
)
from viewkeeper.algebra.null_expressions import merged_keys, none_null
from viewkeeper.algebra.rows import without_balanced
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.algebra.spark_text import printed
from viewkeeper.analysis.relevance import rows_that_may_pass
from viewkeeper.delta.positive import INSERTED
from viewkeeper.driver.arrow_operators import (
    aggregated,
    as_change,
    both_states,
    constant_rows,
    counted,
    distinct,
    existing,
    filtered,
    inner_joined,
    net,
    opposite,
    outer_joined,
    projected,
    restricted,
    united,
)
from viewkeeper.driver.arrow_values import evaluate, why_not
from viewkeeper.driver.arrow_windows import first_rows, window_functions
from viewkeeper.driver.numbers import LeftToEngine
from viewkeeper.engine.bags import consolidated, grouped_sums
from viewkeeper.engine.connect_columns import Item, listed, parsed
from viewkeeper.engine.engine import Engine, Frame
from viewkeeper.engine.lowered import (
    Binding,
    Lowered,
    Reader,
    Tables,
    all_renamed,
    binding_of,
    common,
    has_keys,
    matched_or_missing,
    meet,
    not_dominated,
    padded,
    paired,
    spread,
    without_nulls,
    without_partner,
)
from viewkeeper.engine.operator_parts import (
    NEVER_NULL,
    NONE,
    ONE,
    ROW_NUMBER,
    ROWS_SO_FAR,
    aggregate,
    copies,
    equality,
    forgetful,
    in_turn,
    join_condition,
    meant,
    sort_column,
    whole_row,
    windowed,
)
from viewkeeper.errors import InternalError


class Lowering:
    """Lowers expressions that read through one reader."""

    def __init__(self, engine: Engine, reader: Reader, *, looks: bool = True) -> None:
        """`looks`: known rows are real data, so those that cannot pass a filter are left out."""
        self.engine = engine
        self.reader = reader
        self.looks = looks
        self._kept: dict[n.Node, Lowered] = {}
        self._inside = False
        self.left: dict[str, None] = {}  # what was left to the engine although its inputs are on the driver
        self._lowered: list[n.Node] = []  # the expressions that it was given so far

    def lower(self, node: n.Node, binding: Binding | None = None) -> Lowered:
        """An expression as a frame; with a binding, at least the rows that match it."""
        outermost, self._inside = not self._inside, True
        if outermost:
            self._lowered.append(node)
        try:
            done = _OPERATORS[type(node)](self, node, binding)
        finally:
            self._inside = not outermost
        if done.outputs != node.outputs:
            raise InternalError(f"lowering {type(node).__name__} changes its columns")
        return done

    @property
    def _mixed(self) -> bool:
        """Whether there are joins by <=>, which Sail confuses with joins by = and cross joins in one plan."""
        if self.engine.kind != "sail":
            return False
        joins = (part for node in self._lowered for part in node.walk() if isinstance(part, n.Join))
        return any(equality.null_safe for join in joins for equality in join.equalities)

    def _here(
        self,
        inputs: Sequence[Lowered],
        outputs: tuple[Attribute, ...],
        compute: Callable[..., pa.Table],
        expressions: Iterable[Expression] = (),
        wide: Tables = (),
    ) -> Lowered | None:
        """What an operator returns if its inputs are on the driver and it can be computed there; else None."""
        most = allowed = self.engine.tuning.driver_rows if self.reader.lane == "auto" else 0
        there: list[pa.Table] = []
        for part in inputs:
            table = _on_driver(part)
            if table is None:
                return None
            there.append(table)
            most -= table.num_rows
        if most < 0 or not allowed:
            return None
        why = next((found for value in expressions if (found := why_not(value)) is not None), None)
        if why is None and (_has_parts(outputs) or any(_has_parts(part.outputs) for part in inputs)):
            why = "values that have parts are left to the engine"
        if why is None:
            try:
                table = compute(*there)
                return self.reader.local(table, outputs, weighted=WEIGHT in table.column_names, derived=True, wide=wide)
            except LeftToEngine as problem:
                why = str(problem)
        self.left[why] = None
        return None

    def on_driver(
        self, inputs: Sequence[Lowered], outputs: tuple[Attribute, ...], compute: Callable[..., pa.Table]
    ) -> Lowered | None:
        """What a computation of a strategy returns if its inputs are on the driver, as for operators; else None."""
        return self._here(inputs, outputs, compute)

    def given(self, lowered: Lowered) -> n.Node:
        """An expression that stands for an existing frame."""
        node = n.Once(n.Rows(lowered.outputs, ((integer(len(self._kept)),),)))
        self._kept[node] = lowered
        return node

    # leaves --------------------------------------------------------------------------------------

    def _scan(self, node: n.Scan, binding: Binding | None) -> Lowered:
        return self.reader.scan(node, binding)

    def _fixpoint(self, node: n.Fixpoint, binding: Binding | None) -> Lowered:
        return self.reader.fixpoint(node, binding)

    def _rederived(self, node: n.Rederived, binding: Binding | None) -> Lowered:
        return self.reader.rederived(node)

    def _rows(self, node: n.Rows, binding: Binding | None) -> Lowered:
        if not node.attributes and node.rows:
            return Lowered(self.engine.union([self.engine.sql("SELECT 1 AS _vk_one") for _ in node.rows]), ())
        written = [value for row in node.rows for value in row]
        if node.rows and (here := self._here([], node.outputs, lambda: constant_rows(node), written)):
            return replace(here, narrow=False)
        selects = []
        for row in node.rows:
            values = zip(node.attributes, row, strict=True)
            texts = [f"{printed(cast(meant(v, self.engine.kind), a.type))} AS {a.label}" for a, v in values]
            selects.append(f"SELECT {', '.join(texts)}")
        frames = [self.engine.sql(text) for text in selects]
        if not frames:
            return self.nothing(node.outputs)
        return Lowered(self.engine.union(frames), node.outputs)

    # linear --------------------------------------------------------------------------------------

    def _project(self, node: n.Project, binding: Binding | None) -> Lowered:
        passed = [(a, e.attribute) for a, e in node.columns if e.attribute is not None]
        below = self._full_by_keys(node, binding) if binding else None
        if below is None:
            below = self.lower(node.input, binding.reduced(passed) if binding else None)
        if below.empty:
            return self.nothing(node.outputs, weighted=below.weighted)
        values, wide = [value for _, value in node.columns], all_renamed(below.wide, passed)
        if node.columns and (here := self._here([below], node.outputs, partial(projected, node), values, wide)):
            return here
        items: list[Item] = [(self.computed(attribute, e), attribute.label) for attribute, e in node.columns]
        frame = below.frame.select(*listed(*(items or [(integer(1), "_vk_one")]), *below.weights))
        known = tuple(found for found in (_projected(table, node) for table in below.known) if found is not None)
        return _by_engine(below, frame, outputs=node.outputs, known=known, wide=wide)

    def computed(self, attribute: Attribute, value: Expression) -> Expression:
        """A column's expression for the engine.

        Sail infers that coalesce(x, 0) is never NULL, forgets it when it shares `x IS NOT NULL` with another column,
        and then refuses to group the rows of a union. So the value is made nullable.
        """
        made = meant(value, self.engine.kind)
        if self.engine.kind != "sail" or attribute.type.is_nested:
            return made
        chosen = any(isinstance(part, Call) and part.name in NEVER_NULL for part in made.walk())
        return call("nullif", made, NULL) if chosen else made

    def _filter(self, node: n.Filter, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        if below.empty:
            return below
        known, wide = below.known, below.keys
        if self.looks and node.condition == none_null(node.condition.attributes):
            keys = [a.label for a in node.condition.attributes]
            known, wide = (tuple(without_nulls(table, keys) for table in tables) for tables in (known, wide))
        if here := self._here([below], node.outputs, partial(filtered, [node.condition]), [node.condition], wide=wide):
            return here
        if self.looks:
            known = tuple(rows_that_may_pass(table, node.condition) for table in known)
        if any(not table.num_rows for table in known):
            return self.nothing(node.outputs, weighted=below.weighted)
        return _by_engine(below, below.frame.filter(parsed(self.condition(node))), known=known, wide=wide)

    def condition(self, node: n.Filter) -> Expression:
        """A filter's condition. A fallible one is evaluated only for rows that pass the filters below, which Sail would
        evaluate together with it."""
        conditions = [node.condition]
        below = node.input
        while self.engine.kind == "sail" and node.condition.raises and isinstance(below, n.Filter):
            conditions.insert(0, below.condition)
            below = below.input
        return in_turn(conditions, self.engine.kind)

    def _union(self, node: n.Union, binding: Binding | None) -> Lowered:
        parts: list[Lowered] = []
        for branch in node.inputs:
            pairs = list(zip(node.outputs, branch.outputs, strict=True))
            parts.append(self.lower(branch, binding.reduced(pairs) if binding else None))
        weighted = any(part.weighted for part in parts)
        there = [part for part in parts if not part.empty]
        if not there:
            return self.nothing(node.outputs, weighted=weighted)
        if here := self._here(there, node.outputs, lambda *tables: united(tables, there, node.outputs, weighted)):
            return here
        frames = []
        for part in there:
            names = [(a.label, out.label) for a, out in zip(part.outputs, node.outputs, strict=True)]
            weight: list[Item] = [WEIGHT if part.weighted else (ONE, WEIGHT)] if weighted else []
            frames.append(part.frame.select(*listed(*names, *weight)))
        narrow = all(part.narrow for part in there)
        return Lowered(self.engine.union(frames), node.outputs, weighted, common(there, node.outputs), narrow)

    def _generate(self, node: n.Generate, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.input.outputs) if binding else None)
        if _on_driver(below) is not None:
            function = node.text.name if isinstance(node.text, Call) else str(node.text)
            self.left[f"{function}() is left to the engine"] = None
        names = [attribute.label for attribute in node.generated]
        columns: list[Item] = list(below.columns)
        if self.engine.kind == "sail" and any(isinstance(part, (n.Aggregate, n.Distinct)) for part in node.walk()):
            one = integer(1)  # see forgetful
            columns = [(call("element_at", call("array", Name(name)), one), name) for name in below.columns]
        frame = below.frame  # it may start the engine, which columns need
        made = parsed(meant(node.text, self.engine.kind)).alias(*names)
        frame = frame.select(*listed(*columns), made)
        labels = [attribute.label for attribute in node.outputs]
        frame = frame.select(*listed(*labels, *below.weights))
        return _by_engine(below, frame, outputs=node.outputs)

    # joins ---------------------------------------------------------------------------------------

    def _join(self, node: n.Join, binding: Binding | None) -> Lowered:
        waiting = list(node.inputs)
        first = _first_input(node, binding)
        waiting.remove(first)
        current = self.lower(first, binding.kept(first.outputs) if binding else None)
        weighted = current.weighted or any(n.is_change(part) for part in waiting)
        equalities, conditions = list(node.equalities), list(node.conditions)
        while waiting:
            if current.empty:
                return self.nothing(node.outputs, weighted=weighted)
            following, pairs = self._next_input(current, waiting, equalities)
            waiting.remove(following)
            equalities = [e for e in equalities if e not in [pair for pair, _, _ in pairs]]
            current, other = self._beside(current, following, pairs, binding)
            current = self._joined(current, other, [equality for equality, _, _ in pairs])
            ready = [c for c in conditions if set(c.attributes) <= set(current.outputs)]
            conditions = [c for c in conditions if c not in ready]
            if ready:
                current = self._tested(current, ready)
        if current.empty:
            return self.nothing(node.outputs, weighted=weighted)
        rest = (*map(equality, equalities), *conditions)
        columns = [a.label for a in node.outputs] + ([WEIGHT] if current.weighted else [])
        last = partial(filtered, rest)
        if here := self._here(
            [current], node.outputs, lambda table: last(table).select(columns), rest, wide=current.wide
        ):
            return here
        if rest:
            current = _by_engine(current, current.frame.filter(parsed(in_turn(rest, self.engine.kind))))
        return _by_engine(current, current.frame.select(*listed(*columns)), outputs=node.outputs)

    def _tested(self, joined: Lowered, conditions: list[Expression]) -> Lowered:
        """The joined rows for which some conditions are true; none if no known row can pass."""
        if here := self._here([joined], joined.outputs, partial(filtered, conditions), conditions, wide=joined.keys):
            return here
        known = joined.known
        for condition in conditions if self.looks else ():
            known = tuple(rows_that_may_pass(table, condition) for table in known)
        if any(not table.num_rows for table in known):
            return self.nothing(joined.outputs, weighted=joined.weighted)
        frame = joined.frame.filter(parsed(in_turn(conditions, self.engine.kind)))
        return _by_engine(joined, frame, known=known, wide=joined.keys)

    def _next_input(
        self, current: Lowered, waiting: list[n.Node], equalities: list[n.Equality]
    ) -> tuple[n.Node, list[tuple[n.Equality, Attribute, Attribute]]]:
        """The input to join next: one with an equality to those joined; by keys on the driver first, then by size."""
        best: tuple[tuple[int, int, int], n.Node, list[tuple[n.Equality, Attribute, Attribute]]] | None = None
        for index, part in enumerate(waiting):
            pairs = _pairs(equalities, current.outputs, part.outputs)
            known = has_keys(current, [ours for _, ours, _ in pairs])
            size = self._size(part) if current.narrow else 0
            rank = (0 if pairs else 1, size if not known else 0, index)
            if best is None or rank < best[0]:
                best = (rank, part, pairs)
        assert best is not None
        return best[1], best[2]

    def _size(self, node: n.Node) -> int:
        return max((self.reader.size(scan) for scan in n.scans(node)), default=0)

    def _beside(
        self,
        current: Lowered,
        following: n.Node,
        pairs: list[tuple[n.Equality, Attribute, Attribute]],
        binding: Binding | None,
    ) -> tuple[Lowered, Lowered]:
        """The next input, read by the keys of the joined ones (sideways information passing)."""
        given = binding.kept(following.outputs) if binding else None
        if current.narrow and pairs:
            found = self._bound(current, pairs)
            if found is None and self._size(following) > self.engine.tuning.stage_rows:
                current = self.reader.keep(current)
                found = self._bound(current, pairs)
            given = found or given
        return current, self.lower(following, given)

    def _joined(self, left: Lowered, right: Lowered, equalities: list[n.Equality]) -> Lowered:
        if left.weighted and right.weighted:
            raise InternalError("two changes are joined")
        weighted = left.weighted or right.weighted
        outputs = (*left.outputs, *right.outputs)
        if left.empty or right.empty:
            return self.nothing(outputs, weighted=weighted)
        wide = not_dominated([spread(table, equalities) for table in (*left.keys, *right.keys)])
        most = self.engine.tuning.driver_rows
        if here := self._here(
            [left, right],
            outputs,
            lambda one, other: inner_joined(one, other, equalities, left.outputs, most),
            wide=wide,
        ):
            return here
        if self.looks:
            reduced = meet(left.known, right.known, equalities)
            if reduced is None:
                return self.nothing(outputs, weighted=weighted)
            left, right = replace(left, known=reduced[0]), replace(right, known=reduced[1])
        if equalities:
            condition = conjunction(map(equality, equalities))
            ours = left.frame
            if self._mixed:
                keys = [e.left if e.left in left.outputs else e.right for e in equalities if not e.null_safe]
                ours = ours.filter(parsed(conjunction(map(not_null, keys)))) if keys else ours
            frame = ours.join(right.frame, parsed(condition), "inner")
        else:
            frame = self._crossed(left.frame, right.frame)
        narrow = left.narrow or right.narrow
        both = paired(left.known, right.known, equalities, _PAIRS) if self.looks else None
        known = not_dominated(
            [spread(table, equalities) for table in (*([both] if both is not None else []), *left.known, *right.known)]
        )
        return Lowered(frame, outputs, weighted, known, narrow, wide=wide)

    def _crossed(self, left: Frame, right: Frame) -> Frame:
        if not self._mixed:
            return left.crossJoin(right)
        # in a plan with a cross join Sail takes <=> for =
        one, other = (side.select(*listed("*", (integer(1), f"_vk_{i}"))) for i, side in enumerate((left, right)))
        return one.join(other, parsed(same(Name("_vk_0"), Name("_vk_1"), null_safe=True)), "inner").drop(
            "_vk_0", "_vk_1"
        )

    def _unordered(self, frame: Frame) -> Frame:
        """The same rows, without a sort order that the engine knows of.

        Sail derives the orders of a union and a GROUP BY above a sort in time exponential in the number of sort
        columns. It does not follow an order through a cross join.
        """
        if self.engine.kind != "sail":
            return frame
        one = self.engine.session.range(1).select(*listed(("id", "_vk_one")))
        return self._crossed(frame, one).drop("_vk_one")

    def _outer(self, node: n.Outer, binding: Binding | None) -> Lowered:
        narrower = self._without_padding(node, binding)
        if narrower is not None:
            return narrower
        if node.full:
            return self._full(node, None, None)
        given = binding.kept(node.left.outputs) if binding else None
        left = self.lower(node.left, given)
        if left.empty:
            return self.nothing(node.outputs, weighted=left.weighted)
        left, right = self._beside_left(left, node, given)
        pairs = list(node.padded)
        more = matched_or_missing(left, node.equalities, pairs)
        wide = (*left.keys, *more, *padded(right, right.keys, pairs)) if left.wide or right.wide else ()
        if here := self._outer_here(node, left, right):
            return replace(here, wide=wide)
        known = (*left.known, *more, *padded(right, right.known, pairs))
        return Lowered(self._outer_frame(node, left, right), node.outputs, left.weighted, known, left.narrow, wide=wide)

    def _full(self, node: n.Outer, on_left: Binding | None, on_right: Binding | None) -> Lowered:
        left, right = self.lower(node.left, on_left), self.lower(node.right, on_right)
        if here := self._outer_here(node, left, right):
            return here
        sides = ((one, [(a, inner) for a, inner in node.padded if inner in one.outputs]) for one in (left, right))
        known = [table for one, pairs in sides for table in padded(one, one.known, pairs)]
        narrow = left.narrow and right.narrow
        return Lowered(self._outer_frame(node, left, right), node.outputs, left.weighted, tuple(known), narrow)

    def _full_by_keys(self, node: n.Project, binding: Binding) -> Lowered | None:
        """The full join below a projection, both sides read by the keys that it merges (USING); None if it has none."""
        solid = self._solid(binding)
        found = [(a, equality) for a, equality in merged_keys(node).items() if a in solid]
        if not found or not isinstance(node.input, n.Outer):
            return None
        on_left = binding.reduced([(a, e.left) for a, e in found])
        return self._full(node.input, on_left, binding.reduced([(a, e.right) for a, e in found]))

    def _solid(self, binding: Binding) -> list[Attribute]:
        """The columns of a binding without NULLs."""
        return [a for a in binding.columns if not self.looks or not binding.table.column(a.label).null_count]

    def _outer_here(self, node: n.Outer, left: Lowered, right: Lowered) -> Lowered | None:
        most = self.engine.tuning.driver_rows
        return self._here(
            [left, right], node.outputs, lambda one, other: outer_joined(node, one, other, most), node.conditions
        )

    def _outer_frame(self, node: n.Outer, left: Lowered, right: Lowered) -> Frame:
        condition = join_condition(node.equalities, node.conditions, self.engine.kind)
        frame = left.frame.join(right.frame, parsed(condition), "full" if node.full else "left")
        renamed = {inner: outer for outer, inner in node.padded}
        both = (*node.left.outputs, *node.right.outputs)
        weight = [WEIGHT] if left.weighted else []
        return frame.select(*listed(*[(a.label, renamed.get(a, a).label) for a in both], *weight))

    def _without_padding(self, node: n.Outer, binding: Binding | None) -> Lowered | None:
        """The rows of an outer join that match a binding, from a join that pads less; None if it pads as much.

        Rows in which a side is missing are NULL there: they match no binding on a column of that side without NULLs.
        """
        if binding is None:
            return None
        solid = self._solid(binding)
        renamed = {inner: outer for outer, inner in node.padded}
        ours, theirs = ([renamed.get(a, a) for a in side.outputs] for side in node.inputs)
        has_left = not node.full or any(a in solid for a in ours)
        has_right = any(a in solid for a in theirs)
        if not has_right and (not has_left or not node.full):
            return None
        on_left = tuple((renamed[a], a) for a in node.left.outputs if a in renamed)
        on_right = tuple((renamed[a], a) for a in node.right.outputs)
        narrower: n.Node
        if has_left and has_right:
            narrower, names = n.Join(node.inputs, node.equalities, node.conditions), (*on_left, *on_right)
        elif has_left:
            narrower, names = replace(node, padded=on_right, full=False), on_left
        else:
            turned = tuple(n.Equality(e.right, e.left, e.null_safe) for e in node.equalities)
            narrower, names = n.Outer(node.right, node.left, turned, node.conditions, on_left), on_right
        inner = dict(names)
        pairs = [(a, inner.get(a, a)) for a in node.outputs]
        done = self.lower(narrower, binding.reduced(pairs))
        if done.empty:
            return self.nothing(node.outputs, weighted=done.weighted)
        known, wide = (all_renamed(tables, pairs) for tables in (done.known, done.wide))
        weight = [WEIGHT] if done.weighted else []
        labels = [*(a.label for _, a in pairs), *weight]
        new = [*(out.label for out, _ in pairs), *weight]
        if here := self._here([done], node.outputs, lambda table: table.select(labels).rename_columns(new), wide=wide):
            return here
        frame = done.frame.select(*listed(*[(a.label, out.label) for out, a in pairs], *weight))
        return Lowered(frame, node.outputs, done.weighted, known, done.narrow, wide=wide)

    def _exists(self, node: n.Exists, binding: Binding | None) -> Lowered:
        left = self.lower(node.left, binding)
        if left.empty:
            return left
        left, right = self._beside_left(left, node, binding)
        most = self.engine.tuning.driver_rows
        if here := self._here(
            [left, right],
            node.outputs,
            lambda one, other: existing(node, one, other, most),
            node.conditions,
            wide=left.keys,
        ):
            return here
        if self.looks and node.negated and not node.conditions:
            left = replace(left, known=without_partner(left, right, node.equalities), wide=left.keys)
            if any(not table.num_rows for table in left.known):
                return self.nothing(node.outputs, weighted=left.weighted)
        how = "left_anti" if node.negated else "left_semi"
        condition = join_condition(node.equalities, node.conditions, self.engine.kind)
        return _by_engine(left, left.frame.join(right.frame, parsed(condition), how))

    def _beside_left(self, left: Lowered, node: n.Outer | n.Exists, binding: Binding | None) -> tuple[Lowered, Lowered]:
        """The left side of an outer, semi or anti join, and the right one, read by the left one's keys.

        Where these are not known they are the binding's, whose rows alone are wanted; else a query finds them first.
        """
        pairs = [(e, e.left, e.right) for e in node.equalities]
        found = self._bound(left, pairs) if left.narrow and pairs else None
        if found is None and binding is not None:
            found = self._matchable(binding.reduced([(mine, yours) for _, mine, yours in pairs]), pairs)
        if found is None and left.narrow and pairs and self._size(node.right) > self.engine.tuning.stage_rows:
            left = self.reader.keep(left)
            found = self._bound(left, pairs)
        return left, self.lower(node.right, found)

    def _bound(self, known: Lowered, pairs: list[tuple[n.Equality, Attribute, Attribute]]) -> Binding | None:
        """The known keys of a frame as a binding of what is joined to it."""
        return self._matchable(binding_of(known, [(mine, yours) for _, mine, yours in pairs]), pairs)

    def _matchable(self, found: Binding | None, pairs: list[tuple[n.Equality, Attribute, Attribute]]) -> Binding | None:
        """The keys of a binding that may have a partner: a NULL is equal to nothing, except by <=>."""
        if found is None or not self.looks:
            return found
        return replace(found, table=without_nulls(found.table, [a.label for e, _, a in pairs if not e.null_safe]))

    # by row --------------------------------------------------------------------------------------

    def _distinct(self, node: n.Distinct, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        if here := self._here([below], node.outputs, partial(distinct, node.outputs), wide=below.wide):
            return here
        return _by_engine(below, below.frame.distinct())

    def _monus(self, node: n.Monus, binding: Binding | None) -> Lowered:
        return self._counted(node, binding, plain("-", Name("_vk_l"), Name("_vk_r")))

    def _least(self, node: n.Least, binding: Binding | None) -> Lowered:
        left, right = Name("_vk_l"), Name("_vk_r")
        return self._counted(node, binding, case((comparison("<", left, right), left), default=right))

    def _counted(self, node: n.Monus | n.Least, binding: Binding | None, count: Expression) -> Lowered:
        """Rows with so many copies as an expression of their counts on the left and on the right says."""
        sides = []
        for side in (node.left, node.right):
            pairs = list(zip(node.outputs, side.outputs, strict=True))
            sides.append(self.lower(side, binding.reduced(pairs) if binding else None))
        if here := self._here(sides, node.outputs, partial(counted, node)):
            return here
        frames = []
        for below, counts in zip(sides, ((1, 0), (0, 1)), strict=True):
            pairs = list(zip(node.outputs, below.outputs, strict=True))
            names = [(a.label, out.label) for out, a in pairs]
            marks = [(integer(mark), name) for mark, name in zip(counts, ("_vk_a", "_vk_b"), strict=True)]
            frames.append(below.frame.select(*listed(*names, *marks)))
        labels = [a.label for a in node.outputs]
        sums = listed((call("sum", Name("_vk_a")), "_vk_l"), (call("sum", Name("_vk_b")), "_vk_r"))
        total = self.engine.union(frames).groupBy(*labels).agg(*sums)
        some = comparison(">", Name("_vk_n"), integer(0))
        total = total.select(*listed(*labels, (Cast(count, INT), "_vk_n"))).filter(parsed(some))
        shown = [forgetful(a, some) for a in node.outputs]
        frame = total.select(*listed(*shown, (copies(Name("_vk_n")), "_vk_copy"))).select(*listed(*labels))
        return Lowered(frame, node.outputs)

    # by group, partition, order --------------------------------------------------------------------

    def _aggregate(self, node: n.Aggregate, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.groups) if binding else None)
        if here := self._here(
            [below],
            node.outputs,
            partial(aggregated, node),
            wide=all_renamed(below.keys, [(a, a) for a in node.groups]),
        ):
            return here
        frame = below.frame  # it may start the engine, which columns need
        calls = listed(*[(aggregate(made, self.engine.kind), made.output.label) for made in node.calls])
        labels = [a.label for a in node.groups]
        if calls:
            frame = frame.groupBy(*labels).agg(*calls) if labels else frame.agg(*calls)
        else:
            frame = frame.select(*labels).distinct()
        frame = frame.select(*listed(*[a.label for a in node.outputs]))
        pairs = [(a, a) for a in node.groups]
        known, wide = (all_renamed(tables, pairs) for tables in (below.known, below.wide))
        return Lowered(frame, node.outputs, False, known, below.narrow, wide=wide)

    def _window(self, node: n.Window, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.partition) if binding else None)
        ties = whole_row(node.input.outputs, node.partition, node.order)
        if here := self._here([below], node.outputs, partial(window_functions, node, ties), wide=below.wide):
            return here
        items: list[Item] = []
        for made in node.calls:
            keys = list(node.order)
            if made.tie_break:
                keys += ties
            numbers = isinstance(made.text, Call) and made.text.name == ROW_NUMBER.name
            frame = ROWS_SO_FAR if numbers else made.frame  # its only frame, which keys of all types allow
            items.append((windowed(made.text, node.partition, keys, frame, self.engine.kind), made.output.label))
        return _by_engine(below, below.frame.select(*listed(*below.columns, *items)), outputs=node.outputs)

    def _top(self, node: n.Top, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.partition) if binding else None)
        keys = [*node.order, *whole_row(node.input.outputs, node.partition, node.order)]
        if here := self._here([below], node.outputs, partial(first_rows, node, keys), wide=below.wide):
            return here
        if not node.partition:
            frame = below.frame.orderBy(*[sort_column(key) for key in keys])
            if node.offset:
                frame = frame.offset(node.offset)
            if node.limit is not None:
                frame = frame.limit(node.limit)
            return _by_engine(below, self._unordered(frame))
        rank = Name("_vk_rank")
        number = windowed(ROW_NUMBER, node.partition, keys, ROWS_SO_FAR, self.engine.kind)
        frame = below.frame.select(*listed(*below.columns, (number, rank.name)))
        frame = frame.filter(parsed(comparison(">", rank, integer(node.offset))))
        if node.limit is not None:
            frame = frame.filter(parsed(comparison("<=", rank, integer(node.offset + node.limit))))
        return _by_engine(below, self._unordered(frame.select(*listed(*below.columns))))

    # changes -------------------------------------------------------------------------------------

    def _negate(self, node: n.Negate, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        if here := self._here([below], node.outputs, opposite, wide=below.wide):
            return here
        labels = [a.label for a in below.outputs]
        weight = Negative(Name(WEIGHT)) if below.weighted else Literal(-1, BIGINT)
        return _by_engine(below, below.frame.select(*listed(*labels, (weight, WEIGHT))), weighted=True)

    def _net(self, node: n.Net, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        if below.empty:
            return below
        if here := self._here([below], node.outputs, partial(net, node.outputs), wide=below.wide):
            return here
        return _by_engine(below, consolidated(below.frame, _schema(below.outputs), guarded=True))

    def _support(self, node: n.Support, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        labels = [a.label for a in below.outputs]
        if here := self._here(
            [below], node.outputs, lambda table: distinct(node.outputs, table.select(labels)), wide=below.wide
        ):
            return here
        return _by_engine(below, below.frame.select(*labels).distinct(), weighted=False)

    def _unbalanced(self, node: n.Unbalanced, binding: Binding | None) -> Lowered:
        """Few rows are looked at on the driver; many are left as they are."""
        below = self.lower(node.input, binding)
        if below.rows is None or not self.looks:
            return below
        labels = ([a.label for a in attributes] for attributes in (node.groups, node.counted, node.summed))
        kept = without_balanced(below.rows, *labels)
        return below if kept is below.rows else self.reader.local(kept, below.outputs, weighted=True)

    def _once(self, node: n.Once, binding: Binding | None) -> Lowered:
        if node not in self._kept:
            self._kept[node] = self.reader.keep(self.lower(node.input))
        return self._kept[node]

    def _restrict(self, node: n.Restrict, binding: Binding | None) -> Lowered:
        keys = self.lower(node.right)
        if keys.empty:
            return self.nothing(node.outputs, weighted=n.is_change(node.left))
        given = binding_of(keys, [(theirs, mine) for mine, theirs in node.on])
        below = self.lower(node.left, given)
        if below.empty:
            return below
        if not node.on:
            return below
        if here := self._here(
            [below, keys],
            node.outputs,
            lambda one, other: restricted(one, other, node.on),
            wide=(*below.keys, given.table) if given is not None else below.keys,
        ):
            return here
        names = [(theirs.label, f"_vk_k{i}") for i, (_, theirs) in enumerate(node.on)]
        right = keys.frame.select(*listed(*names)).distinct()
        condition = conjunction(same(mine, Name(f"_vk_k{i}"), null_safe=True) for i, (mine, _) in enumerate(node.on))
        frame = below.frame.join(F.broadcast(right), parsed(condition), "left_semi")
        known = (*below.known, given.table) if given is not None else below.known
        return _by_engine(below, frame, known=known, narrow=True)

    def _both(self, node: n.Both, binding: Binding | None) -> Lowered:
        before, change = self.lower(node.left), self.lower(node.right)
        assert not before.weighted
        assert change.weighted or change.empty
        if before.empty and change.empty:
            return self.nothing(node.outputs)
        if here := self._here([before, change], node.outputs, partial(both_states, node)):
            return here
        labels = [a.label for a in before.outputs]
        theirs = [(a.label, label) for a, label in zip(change.outputs, labels, strict=True)]
        frames = []
        if not before.empty:
            frames.append(before.frame.select(*listed(*labels, (ONE, "_vk_o"), (ONE, "_vk_n"))))
        if not change.empty:
            frames.append(change.frame.select(*listed(*theirs, (NONE, "_vk_o"), (WEIGHT, "_vk_n"))))
        schema = _schema(before.outputs)
        total = grouped_sums(self.engine.union(frames), schema, ("_vk_o", "_vk_n"))
        old, new, zero = Name("_vk_so"), Name("_vk_sn"), integer(0)
        new_copies = call("array_repeat", integer(1), Cast(call("greatest", new, zero), INT))
        marks = call("concat", call("array_repeat", zero, Cast(old, INT)), new_copies)
        some = disjunction((comparison("<>", old, zero), comparison("<>", new, zero)))
        shown = [forgetful(a, some) for a in before.outputs]
        frame = total.select(*listed(*shown, (call("explode", marks), node.state.label)))
        return Lowered(frame, node.outputs, False, common((before, change), before.outputs), True)

    def _signed(self, node: n.Signed, binding: Binding | None) -> Lowered:
        below = self.lower(node.input)
        if here := self._here([below], node.outputs, partial(as_change, node), wide=below.wide):
            return here
        labels = [a.label for a in node.outputs]
        weight = case((same(node.state, integer(1)), ONE), default=Literal(-1, BIGINT))
        frame = below.frame.select(*listed(*labels, (weight, WEIGHT)))
        return Lowered(frame, node.outputs, True, below.known, True, below.empty, below.wide)

    # help ----------------------------------------------------------------------------------------

    def nothing(self, outputs: tuple[Attribute, ...], *, weighted: bool = False) -> Lowered:
        """No rows; the frame is made when it is asked for."""
        if not outputs and not weighted:
            return Lowered(partial(self.engine.sql, "SELECT 1 AS _vk_one WHERE false"), (), empty=True)
        frame = partial(self.engine.empty, _schema(outputs), f"{WEIGHT} bigint" if weighted else "")
        return Lowered(frame, outputs, weighted, (), True, True)


def _by_engine(below: Lowered, frame: Frame, **facts: Any) -> Lowered:
    """What the engine computes from an input: its rows are no longer on the driver."""
    return replace(below, source=frame, rows=None, count=0, derived=False, **facts)


def _on_driver(part: Lowered) -> pa.Table | None:
    """The rows of an input, if they are on the driver."""
    if not part.outputs:
        return None  # a table without columns
    if part.rows is None and part.empty:
        schema = _schema(part.outputs)
        return (schema.signed_arrow if part.weighted else schema.arrow).empty_table()
    return part.rows


def _has_parts(outputs: tuple[Attribute, ...]) -> bool:
    """Whether a column has values with parts."""
    return any(attribute.type.is_nested for attribute in outputs)


def _projected(table: pa.Table, node: n.Project) -> pa.Table | None:
    """The columns of a projection that the driver can compute from a table; None if there are none."""
    found = {attribute.label: _column_of(table, value) for attribute, value in node.columns}
    there = {label: array for label, array in found.items() if array is not None}
    return pa.table(there) if there else None


def _column_of(table: pa.Table, value: Expression) -> pa.Array | pa.ChunkedArray | None:
    """A column that the driver can compute from a table of known values; None if it cannot."""
    if any(a.label not in table.column_names for a in value.attributes):
        return None
    if value.attribute is not None:
        return table.column(value.attribute.label)
    if why_not(value) is not None:
        return None
    try:
        return evaluate(value, table)
    except LeftToEngine:
        return None  # a known value need not be that of a row


def _first_input(node: n.Join, binding: Binding | None) -> n.Node:
    """The input to begin a join with: the change, or the inserted rows; else a bound one, else the first."""
    for part in node.inputs:
        if n.is_change(part) or any(scan.relation.startswith(INSERTED) for scan in n.scans(part)):
            return part
    if binding is not None:
        return max(node.inputs, key=lambda part: sum(column in part.outputs for column in binding.columns))
    return node.inputs[0]


def _pairs(
    equalities: list[n.Equality], ours: tuple[Attribute, ...], theirs: tuple[Attribute, ...]
) -> list[tuple[n.Equality, Attribute, Attribute]]:
    """The equalities between two sets of columns, each with its column in the first and in the second."""
    found = []
    here, there = {a.number for a in ours}, {a.number for a in theirs}
    for pair in equalities:
        left, right = pair.left.number, pair.right.number
        if left in here and right in there:
            found.append((pair, pair.left, pair.right))
        elif right in here and left in there:
            found.append((pair, pair.right, pair.left))
    return found


def _schema(outputs: tuple[Attribute, ...]) -> Schema:
    return Schema(tuple(Column(a.label, a.type) for a in outputs))


_PAIRS = 4_096
"""Most pairs of known rows that are compared on the driver, to see whether any passes the conditions of a join."""

_OPERATORS: dict[type[n.Node], Callable[[Lowering, Any, Binding | None], Lowered]] = {
    n.Scan: Lowering._scan,
    n.Rows: Lowering._rows,
    n.Fixpoint: Lowering._fixpoint,
    n.Rederived: Lowering._rederived,
    n.Project: Lowering._project,
    n.Filter: Lowering._filter,
    n.Join: Lowering._join,
    n.Outer: Lowering._outer,
    n.Exists: Lowering._exists,
    n.Union: Lowering._union,
    n.Distinct: Lowering._distinct,
    n.Monus: Lowering._monus,
    n.Least: Lowering._least,
    n.Aggregate: Lowering._aggregate,
    n.Window: Lowering._window,
    n.Top: Lowering._top,
    n.Generate: Lowering._generate,
    n.Negate: Lowering._negate,
    n.Net: Lowering._net,
    n.Support: Lowering._support,
    n.Unbalanced: Lowering._unbalanced,
    n.Once: Lowering._once,
    n.Restrict: Lowering._restrict,
    n.Both: Lowering._both,
    n.Signed: Lowering._signed,
}
"""How each operator is lowered."""
