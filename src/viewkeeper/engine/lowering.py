"""Algebra to frames, one function per operator.

A change is lowered to rows with a `_weight`; only operators that are linear in it stand above one. Everything else is
lowered to plain rows, duplicates repeated, so that the engine's own operators apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, conjunction
from viewkeeper.algebra.null_expressions import coalesced, merged_keys, not_null, null_of
from viewkeeper.algebra.rows import without_balanced
from viewkeeper.algebra.schema import WEIGHT, Column, Schema
from viewkeeper.analysis.relevance import computed, rows_that_may_pass
from viewkeeper.delta.positive import INSERTED
from viewkeeper.engine.bags import consolidated, grouped_sums
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.engine import Engine, Frame
from viewkeeper.engine.lowered import (
    Binding,
    Lowered,
    Reader,
    aggregated,
    all_renamed,
    binding_of,
    common,
    in_both_states,
    keys_of,
    matched_or_missing,
    meet,
    not_dominated,
    padded,
    paired,
    semi_joined,
    spread,
    without_nulls,
    without_partner,
)
from viewkeeper.engine.operator_texts import (
    ROWS_SO_FAR,
    call_text,
    condition_text,
    forgetful,
    in_turn,
    same_text,
    sort_column,
    whole_row,
    window_text,
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
        self._mixed = False  # whether the plan has joins by <=>, which Sail confuses with joins by = and cross joins

    def lower(self, node: n.Node, binding: Binding | None = None) -> Lowered:
        """An expression as a frame; with a binding, at least the rows that match it."""
        outermost, self._inside = not self._inside, True
        if outermost and self.engine.kind == "sail":
            joins = (part for part in node.walk() if isinstance(part, n.Join))
            self._mixed |= any(equality.null_safe for join in joins for equality in join.equalities)
        try:
            done = _OPERATORS[type(node)](self, node, binding)
        finally:
            self._inside = not outermost
        if done.outputs != node.outputs:
            raise InternalError(f"lowering {type(node).__name__} changes its columns")
        if done.rows is not None and not isinstance(node, _ROWS_STAY):
            return replace(done, rows=None)
        return done

    def given(self, lowered: Lowered) -> n.Node:
        """An expression that stands for an existing frame."""
        node = n.Once(n.Rows(lowered.outputs, ((Expression((str(len(self._kept)),)),),)))
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
        selects = []
        for row in node.rows:
            values = zip(node.attributes, row, strict=True)
            selects.append("SELECT " + ", ".join(f"CAST({v.sql} AS {a.type.ddl}) AS {a.label}" for a, v in values))
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
        texts = [f"{self._computed(attribute, e.sql)} AS {attribute.label}" for attribute, e in node.columns]
        if not texts:
            texts = ["1 AS _vk_one"]
        frame = below.frame.select(*listed(*texts, *([WEIGHT] if below.weighted else [])))
        known = tuple(found for found in (_projected(table, node) for table in below.known) if found is not None)
        wide = all_renamed(below.wide, passed)
        rows = None
        if below.rows is not None:
            rows = _projected(below.rows, node)
            if rows is not None and below.weighted:
                rows = rows.append_column(WEIGHT, below.rows.column(WEIGHT))
            if rows is not None and rows.num_columns < len(node.columns) + below.weighted:
                rows = None  # the engine computes some column
        return replace(below, frame=frame, outputs=node.outputs, known=known, wide=wide, rows=rows)

    def _computed(self, attribute: Attribute, sql: str) -> str:
        """A column's text.

        Sail infers that coalesce(x, 0) is never NULL, forgets it when it shares `x IS NOT NULL` with another column,
        and then refuses to group the rows of a union. So the text makes the value nullable.
        """
        if self.engine.kind != "sail" or attribute.type.is_nested or not _NEVER_NULL.search(sql):
            return sql
        return f"nullif({sql}, NULL)"

    def _filter(self, node: n.Filter, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        if below.empty:
            return below
        known, wide, rows = below.known, below.keys, None
        if node.condition == not_null(node.condition.attributes):
            rows = below.rows
            if self.looks:
                keys = [a.label for a in node.condition.attributes]
                known, wide = (tuple(without_nulls(table, keys) for table in tables) for tables in (known, wide))
                rows = without_nulls(rows, keys) if rows is not None else None
        elif self.looks:
            known = tuple(rows_that_may_pass(table, node.condition) for table in known)
        if any(not table.num_rows for table in known):
            return self.nothing(node.outputs, weighted=below.weighted)
        frame = below.frame.filter(parsed(self.condition(node)))
        return replace(below, frame=frame, known=known, wide=wide, rows=rows)

    def condition(self, node: n.Filter) -> str:
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
        frames = []
        for part in there:
            names = [f"{a.label} AS {out.label}" for a, out in zip(part.outputs, node.outputs, strict=True)]
            weight = [WEIGHT if part.weighted else f"CAST(1 AS BIGINT) AS {WEIGHT}"] if weighted else []
            frames.append(part.frame.select(*listed(*names, *weight)))
        narrow = all(part.narrow for part in there)
        return Lowered(self.engine.union(frames), node.outputs, weighted, common(there, node.outputs), narrow)

    def _generate(self, node: n.Generate, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.input.outputs) if binding else None)
        names = ", ".join(attribute.label for attribute in node.generated)
        names = f"({names})" if len(node.generated) > 1 else names
        columns = below.columns
        if self.engine.kind == "sail" and any(isinstance(part, (n.Aggregate, n.Distinct)) for part in node.walk()):
            columns = [f"element_at(array({name}), 1) AS {name}" for name in columns]  # see _forgetful
        frame = below.frame.select(*listed(*columns, f"{node.text.sql} AS {names}"))
        labels = [attribute.label for attribute in node.outputs]
        frame = frame.select(*listed(*labels, *([WEIGHT] if below.weighted else [])))
        return replace(below, frame=frame, outputs=node.outputs)

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
        rest = (*(same_text(e) for e in equalities), *conditions)
        if rest:
            current = replace(current, frame=current.frame.filter(parsed(in_turn(rest, self.engine.kind))))
        columns = [a.label for a in node.outputs] + ([WEIGHT] if current.weighted else [])
        return replace(current, frame=current.frame.select(*listed(*columns)), outputs=node.outputs)

    def _tested(self, joined: Lowered, conditions: list[Expression]) -> Lowered:
        """The joined rows for which some conditions are true; none if no known row can pass."""
        known = joined.known
        for condition in conditions if self.looks else ():
            known = tuple(rows_that_may_pass(table, condition) for table in known)
        if any(not table.num_rows for table in known):
            return self.nothing(joined.outputs, weighted=joined.weighted)
        frame = joined.frame.filter(parsed(in_turn(conditions, self.engine.kind)))
        return replace(joined, frame=frame, known=known, wide=joined.keys)

    def _next_input(
        self, current: Lowered, waiting: list[n.Node], equalities: list[n.Equality]
    ) -> tuple[n.Node, list[tuple[n.Equality, Attribute, Attribute]]]:
        """The input to join next: one with an equality to those joined; by keys on the driver first, then by size."""
        best: tuple[tuple[int, int, int], n.Node, list[tuple[n.Equality, Attribute, Attribute]]] | None = None
        for index, part in enumerate(waiting):
            pairs = _pairs(equalities, current.outputs, part.outputs)
            known = bool(pairs) and keys_of(current, [ours for _, ours, _ in pairs]) is not None
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
        if self.looks:
            reduced = meet(left.known, right.known, equalities)
            if reduced is None:
                return self.nothing(outputs, weighted=weighted)
            left, right = replace(left, known=reduced[0]), replace(right, known=reduced[1])
        if equalities:
            condition = conjunction(tuple(same_text(equality) for equality in equalities)).sql
            ours = left.frame
            if self._mixed:
                keys = [e.left if e.left in left.outputs else e.right for e in equalities if not e.null_safe]
                ours = ours.filter(parsed(" AND ".join(f"{key.label} IS NOT NULL" for key in keys))) if keys else ours
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
        one, other = (side.select(*listed("*", f"1 AS _vk_{i}")) for i, side in enumerate((left, right)))
        return one.join(other, parsed("_vk_0 <=> _vk_1"), "inner").drop("_vk_0", "_vk_1")

    def _unordered(self, frame: Frame) -> Frame:
        """The same rows, without a sort order that the engine knows of.

        Sail derives the orders of a union and a GROUP BY above a sort in time exponential in the number of sort
        columns. It does not follow an order through a cross join.
        """
        if self.engine.kind != "sail":
            return frame
        one = self.engine.session.range(1).select(*listed("id AS _vk_one"))
        return self._crossed(frame, one).drop("_vk_one")

    def _outer(self, node: n.Outer, binding: Binding | None) -> Lowered:
        narrower = self._without_padding(node, binding)
        if narrower is not None:
            return narrower
        if node.full:
            return self._full(node, None, None)
        left = self.lower(node.left, binding.kept(node.left.outputs) if binding else None)
        if left.empty:
            return self.nothing(node.outputs, weighted=left.weighted)
        right = self._partner(left, node.right, node.equalities)
        frame = self._outer_frame(node, left, right)
        pairs = list(node.padded)
        more = matched_or_missing(left, node.equalities, pairs)
        known = (*left.known, *more, *padded(right, right.known, pairs))
        wide = (*left.keys, *more, *padded(right, right.keys, pairs)) if left.wide or right.wide else ()
        return Lowered(frame, node.outputs, left.weighted, known, left.narrow, wide=wide)

    def _full(self, node: n.Outer, on_left: Binding | None, on_right: Binding | None) -> Lowered:
        left, right = self.lower(node.left, on_left), self.lower(node.right, on_right)
        return Lowered(self._outer_frame(node, left, right), node.outputs, left.weighted)

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

    def _outer_frame(self, node: n.Outer, left: Lowered, right: Lowered) -> Frame:
        condition = condition_text(node.equalities, node.conditions, self.engine.kind)
        frame = left.frame.join(right.frame, parsed(condition), "full" if node.full else "left")
        renamed = {inner: outer for outer, inner in node.padded}
        both = (*node.left.outputs, *node.right.outputs)
        weight = [WEIGHT] if left.weighted else []
        return frame.select(*listed(*[f"{a.label} AS {renamed.get(a, a).label}" for a in both], *weight))

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
        weight = [WEIGHT] if done.weighted else []
        frame = done.frame.select(*listed(*[f"{a.label} AS {out.label}" for out, a in pairs], *weight))
        known, wide = (all_renamed(tables, pairs) for tables in (done.known, done.wide))
        return Lowered(frame, node.outputs, done.weighted, known, done.narrow, wide=wide)

    def _exists(self, node: n.Exists, binding: Binding | None) -> Lowered:
        left = self.lower(node.left, binding)
        if left.empty:
            return left
        right = self._partner(left, node.right, node.equalities)
        if self.looks and node.negated and not node.conditions:
            left = replace(left, known=without_partner(left, right, node.equalities), wide=left.keys)
            if any(not table.num_rows for table in left.known):
                return self.nothing(node.outputs, weighted=left.weighted)
        how = "left_anti" if node.negated else "left_semi"
        condition = condition_text(node.equalities, node.conditions, self.engine.kind)
        return replace(left, frame=left.frame.join(right.frame, parsed(condition), how))

    def _partner(self, left: Lowered, right: n.Node, equalities: tuple[n.Equality, ...]) -> Lowered:
        """The right side of an outer, semi or anti join, read by the left side's keys where they are known."""
        if not left.narrow or not equalities:
            return self.lower(right)
        return self.lower(right, self._bound(left, [(e, e.left, e.right) for e in equalities]))

    def _bound(self, known: Lowered, pairs: list[tuple[n.Equality, Attribute, Attribute]]) -> Binding | None:
        """The known keys of a frame as a binding of what is joined to it; a NULL is equal to nothing, except by <=>."""
        found = binding_of(known, [(mine, yours) for _, mine, yours in pairs])
        if found is None or not self.looks:
            return found
        return replace(found, table=without_nulls(found.table, [a.label for e, _, a in pairs if not e.null_safe]))

    # by row --------------------------------------------------------------------------------------

    def _distinct(self, node: n.Distinct, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        return replace(below, frame=below.frame.distinct())

    def _monus(self, node: n.Monus, binding: Binding | None) -> Lowered:
        return self._counted(node, binding, "_vk_l - _vk_r")

    def _least(self, node: n.Least, binding: Binding | None) -> Lowered:
        return self._counted(node, binding, "CASE WHEN _vk_l < _vk_r THEN _vk_l ELSE _vk_r END")

    def _counted(self, node: n.Monus | n.Least, binding: Binding | None, copies: str) -> Lowered:
        """Rows with so many copies as an expression of their counts on the left and on the right says."""
        frames = []
        for side, counts in ((node.left, "1 AS _vk_a, 0 AS _vk_b"), (node.right, "0 AS _vk_a, 1 AS _vk_b")):
            pairs = list(zip(node.outputs, side.outputs, strict=True))
            below = self.lower(side, binding.reduced(pairs) if binding else None)
            names = [f"{a.label} AS {out.label}" for out, a in pairs]
            frames.append(below.frame.select(*listed(*names, *counts.split(", "))))
        labels = [a.label for a in node.outputs]
        sums = [parsed("sum(_vk_a)").alias("_vk_l"), parsed("sum(_vk_b)").alias("_vk_r")]
        total = self.engine.union(frames).groupBy(*labels).agg(*sums)
        total = total.select(*listed(*labels, f"CAST({copies} AS INT) AS _vk_n")).filter(parsed("_vk_n > 0"))
        shown = [forgetful(a, "_vk_n > 0") for a in node.outputs]
        frame = total.select(*listed(*shown, "explode(array_repeat(1, _vk_n)) AS _vk_copy")).select(*listed(*labels))
        return Lowered(frame, node.outputs)

    # by group, partition, order --------------------------------------------------------------------

    def _aggregate(self, node: n.Aggregate, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.groups) if binding else None)
        calls = [parsed(call_text(call)).alias(call.output.label) for call in node.calls]
        labels = [a.label for a in node.groups]
        if calls:
            frame = below.frame.groupBy(*labels).agg(*calls) if labels else below.frame.agg(*calls)
        else:
            frame = below.frame.select(*labels).distinct()
        frame = frame.select(*listed(*[a.label for a in node.outputs]))
        pairs = [(a, a) for a in node.groups]
        known, wide = (all_renamed(tables, pairs) for tables in (below.known, below.wide))
        rows = aggregated(below.rows, node) if below.rows is not None else None
        if rows is not None:
            known, wide = (rows,), wide or known
        return Lowered(frame, node.outputs, False, known, below.narrow, wide=wide)

    def _window(self, node: n.Window, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.partition) if binding else None)
        texts = []
        for call in node.calls:
            keys = list(node.order)
            if call.tie_break:
                keys += whole_row(node.input.outputs, node.partition, node.order)
            numbers = call.text.sql.lower() == "row_number()"  # its only frame, which keys of all types allow
            over = window_text(node.partition, keys, ROWS_SO_FAR if numbers else call.frame)
            texts.append(f"{call.text.sql} OVER ({over}) AS {call.output.label}")
        return replace(below, frame=below.frame.select(*listed(*below.columns, *texts)), outputs=node.outputs)

    def _top(self, node: n.Top, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding.kept(node.partition) if binding else None)
        keys = [*node.order, *whole_row(node.input.outputs, node.partition, node.order)]
        if not node.partition:
            frame = below.frame.orderBy(*[sort_column(key) for key in keys])
            if node.offset:
                frame = frame.offset(node.offset)
            if node.limit is not None:
                frame = frame.limit(node.limit)
            return replace(below, frame=self._unordered(frame))
        number = f"row_number() OVER ({window_text(node.partition, keys, ROWS_SO_FAR)}) AS _vk_rank"
        frame = below.frame.select(*listed(*below.columns, number)).filter(parsed(f"_vk_rank > {node.offset}"))
        if node.limit is not None:
            frame = frame.filter(parsed(f"_vk_rank <= {node.offset + node.limit}"))
        return replace(below, frame=self._unordered(frame.select(*listed(*below.columns))))

    # changes -------------------------------------------------------------------------------------

    def _negate(self, node: n.Negate, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        labels = [a.label for a in below.outputs]
        weight = f"-{WEIGHT}" if below.weighted else "CAST(-1 AS BIGINT)"
        return replace(below, frame=below.frame.select(*listed(*labels, f"{weight} AS {WEIGHT}")), weighted=True)

    def _net(self, node: n.Net, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        if below.empty:
            return below
        return replace(below, frame=consolidated(below.frame, _schema(below.outputs), guarded=True))

    def _support(self, node: n.Support, binding: Binding | None) -> Lowered:
        below = self.lower(node.input, binding)
        labels = [a.label for a in below.outputs]
        return replace(below, frame=below.frame.select(*labels).distinct(), weighted=False)

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
        names = [f"{theirs.label} AS _vk_k{i}" for i, (_, theirs) in enumerate(node.on)]
        right = keys.frame.select(*listed(*names)).distinct()
        condition = " AND ".join(f"{mine.label} <=> _vk_k{i}" for i, (mine, _) in enumerate(node.on))
        frame = below.frame.join(F.broadcast(right), parsed(condition), "left_semi")
        known = (*below.known, given.table) if given is not None else below.known
        return replace(below, frame=frame, known=known, narrow=True, rows=semi_joined(below, keys, node.on))

    def _both(self, node: n.Both, binding: Binding | None) -> Lowered:
        before, change = self.lower(node.left), self.lower(node.right)
        assert not before.weighted
        assert change.weighted or change.empty
        labels = [a.label for a in before.outputs]
        theirs = [f"{a.label} AS {label}" for a, label in zip(change.outputs, labels, strict=True)]
        frames = []
        if not before.empty:
            frames.append(
                before.frame.select(*listed(*labels, "CAST(1 AS BIGINT) AS _vk_o", "CAST(1 AS BIGINT) AS _vk_n"))
            )
        if not change.empty:
            frames.append(change.frame.select(*listed(*theirs, "CAST(0 AS BIGINT) AS _vk_o", f"{WEIGHT} AS _vk_n")))
        if not frames:
            return self.nothing(node.outputs)
        schema = _schema(before.outputs)
        total = grouped_sums(self.engine.union(frames), schema, ("_vk_o", "_vk_n"))
        copies = "concat(array_repeat(0, CAST(_vk_so AS INT)), array_repeat(1, CAST(greatest(_vk_sn, 0) AS INT)))"
        shown = [forgetful(a, "_vk_so <> 0 OR _vk_sn <> 0") for a in before.outputs]
        frame = total.select(*listed(*shown, f"explode({copies}) AS {node.state.label}"))
        rows = in_both_states(before, change, node.state, self.engine.tuning.direct_rows) if self.looks else None
        known = common((before, change), before.outputs)
        return Lowered(frame, node.outputs, False, known, True, rows=rows)

    def _signed(self, node: n.Signed, binding: Binding | None) -> Lowered:
        below = self.lower(node.input)
        labels = [a.label for a in node.outputs]
        weight = f"CASE WHEN {node.state.label} = 1 THEN CAST(1 AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS {WEIGHT}"
        frame = below.frame.select(*listed(*labels, weight))
        return Lowered(frame, node.outputs, True, below.known, True, below.empty, below.wide)

    # help ----------------------------------------------------------------------------------------

    def nothing(self, outputs: tuple[Attribute, ...], *, weighted: bool = False) -> Lowered:
        """A frame of no rows."""
        schema = _schema(outputs)
        extra = f"{WEIGHT} bigint" if weighted else ""
        if not outputs and not weighted:
            return Lowered(self.engine.sql("SELECT 1 AS _vk_one WHERE false"), (), empty=True)
        return Lowered(self.engine.empty(schema, extra), outputs, weighted, (), True, True)


def _projected(table: pa.Table, node: n.Project) -> pa.Table | None:
    """The columns of a projection that the driver can compute from a table; None if there are none."""
    found = {attribute.label: _column_of(table, attribute, value) for attribute, value in node.columns}
    there = {label: array for label, array in found.items() if array is not None}
    return pa.table(there) if there else None


def _column_of(table: pa.Table, attribute: Attribute, value: Expression) -> pa.Array | pa.ChunkedArray | None:
    """A column that the driver can compute from a table; None if it cannot."""
    if value == null_of(attribute):
        return pa.nulls(table.num_rows, attribute.type.arrow)
    pair = value.attributes
    if len(pair) == 2 and value == coalesced(*pair):
        there = all(a.label in table.column_names and a.type == attribute.type for a in pair)
        there = there and not attribute.type.is_nested
        return pc.coalesce(*(table.column(a.label) for a in pair)) if there else None
    return computed(table, attribute, value)


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
    for equality in equalities:
        if equality.left in ours and equality.right in theirs:
            found.append((equality, equality.left, equality.right))
        elif equality.right in ours and equality.left in theirs:
            found.append((equality, equality.right, equality.left))
    return found


def _schema(outputs: tuple[Attribute, ...]) -> Schema:
    return Schema(tuple(Column(a.label, a.type) for a in outputs))


_PAIRS = 4_096
"""Most pairs of known rows that are compared on the driver, to see whether any passes the conditions of a join."""

_NEVER_NULL = re.compile(r"\b(coalesce|ifnull|nvl)\s*\(", re.IGNORECASE)

_ROWS_STAY = (n.Scan, n.Once, n.Project, n.Filter, n.Unbalanced, n.Restrict, n.Both)
"""The operators that compute their rows on the driver too, if those below are there."""

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
