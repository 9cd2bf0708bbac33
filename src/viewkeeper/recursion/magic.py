"""Bound queries on recursive relations, answered from outside of the recursion and memoized (magic sets).

Calls and answers are stored for as long as their state is. So a repeated call, or one that a finished call with fewer
bound columns covers, costs nothing. `rewriting` writes the rules for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Predicate, Rule
from viewkeeper.algebra.expressions import Attribute, column
from viewkeeper.driver.row_index import is_plain, key_of
from viewkeeper.engine.lowered import distinct_rows
from viewkeeper.engine.lowering import Lowering
from viewkeeper.recursion.evaluation import Evaluation, Outside
from viewkeeper.recursion.rewriting import Bound, Rewriting, adorned, calls_of
from viewkeeper.recursion.row_sets import Rows, Workspace
from viewkeeper.recursion.steps import Orders


class Magic(Rewriting):
    """Answers bound queries in one state."""

    def __init__(
        self,
        space: Workspace,
        predicates: Sequence[Predicate],
        rules: Sequence[Rule],
        outside: Outside,
        plan: Rewriting | None = None,
        orders: Orders | None = None,
    ) -> None:
        """`plan` has rules that are rewritten already, and `orders` the join orders that are known of them."""
        self.space = space
        self.evaluation = Evaluation(space, outside, orders)
        super().__init__(predicates, rules, self.evaluation, is_small=plan.is_small if plan else lambda _: False)
        if plan is not None:
            self.evaluation.growth = self.begin_with(plan).growth

    def ask(self, name: str, bound: Bound, calls: Rows, until: Callable[[], bool] = lambda: False) -> list[str]:
        """Derives all answers to some calls, or enough of them; returns the relations that have them.

        The columns of `calls` are the bound ones, in order.
        """
        predicate = self.predicates[name]
        width = len(predicate.attributes)
        found: list[str] = []
        for fewer in self.fewer(name, bound):
            left = self._not_covered(name, fewer, bound, calls)
            if left.count < calls.count:
                found.append(adorned(name, fewer, width))
                calls = left
        if calls.count:
            self.make(name, bound)
            if bound:
                self.evaluation.add(calls_of(name, bound, width), calls)
            found.append(adorned(name, bound, width))
        self.evaluation.run(until)
        return found

    def answers(self, lowering: Lowering, names: Sequence[str], attributes: Sequence[Attribute]) -> n.Node:
        """The rows of relations that `ask` named, inside a query."""
        parts = [self.evaluation.known[name].node(lowering, attributes) for name in names]
        return parts[0] if len(parts) == 1 else n.Union(tuple(parts), tuple(attributes))

    def holds(self, name: str, rows: Rows, most: int | None = None) -> set[tuple[Any, ...]] | Rows | None:
        """Which of some rows can be derived: as tuples where they are on the driver.

        The search ends as soon as all of them are found; None if it has derived more than `most` rows.
        """
        self.prepare(name)
        bound: Bound = tuple(range(len(self.predicates[name].attributes)))
        while (name, bound) in self.instead:
            bound = self.instead[name, bound]
        left = set(rows.tuples) if rows.is_local else set()
        known = self.evaluation.known

        def all_found() -> bool:
            for own, grown in known.items():
                if own.startswith(f"{name}^") and grown.index:
                    left.difference_update(grown.index)
            return rows.is_local and not left

        def is_over() -> bool:
            return all_found() or (most is not None and self.evaluation.count > most)

        names = self.ask(name, bound, self._columns(rows, bound), is_over)
        if self.evaluation.goes_on and not all_found():
            return None
        indexes = [known[one].index for one in names]
        if rows.is_local and all(index is not None for index in indexes):
            all_found()
            return {row for row in rows.tuples if row not in left}
        return self.space.among(rows, lambda lowering: self.answers(lowering, names, rows.attributes))

    def parted(self, name: str, rows: Rows, most: int | None = None) -> tuple[Rows, Rows] | None:
        """Rows that can be derived, and those that cannot; None if that derives more than `most` rows."""
        holds = self.holds(name, rows, most)
        if holds is None:
            return None
        if isinstance(holds, Rows):
            return holds, self.space.less(rows, lambda lowering: holds.node(lowering, rows.attributes))
        flags = [row in holds for row in rows.tuples]
        return rows.chosen(flags), rows.chosen([not flag for flag in flags])

    def _columns(self, rows: Rows, bound: Bound) -> Rows:
        """The distinct values of some columns."""
        if len(bound) == len(rows.attributes):
            return rows
        columns = tuple(rows.attributes[i] for i in bound)
        if rows.is_local and all(is_plain(a.type) for a in columns):
            take = key_of(bound)
            found = list(dict.fromkeys(map(take, rows.tuples)))
            return self.space.of_tuples(found if len(bound) > 1 else [(value,) for value in found], columns)
        if rows.is_local and not any(a.type.is_nested for a in columns):
            return self.space.on_driver(distinct_rows(rows.table.select([a.label for a in columns])), columns)
        pairs = tuple((a, column(a)) for a in columns)
        return self.space.run(lambda lowering: n.Project(lowering.given(rows.lowered), pairs))

    def _not_covered(self, name: str, fewer: Bound, bound: Bound, calls: Rows) -> Rows:
        """The calls that no finished call with fewer bound columns covers."""
        if not fewer:
            return calls.chosen([False] * calls.count) if calls.is_local else calls
        done = self.evaluation.known[calls_of(name, fewer, len(self.predicates[name].attributes))].index
        if done is None or not calls.is_local:
            return calls
        places = [bound.index(position) for position in fewer]
        return calls.chosen([tuple(row[i] for i in places) not in done for row in calls.tuples])
