"""What the rounds of a recursion need beside rows, made once and used as long as its rules are: plans of bound tests,
and the order of joins of each rule.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.datalog_rules import Rule
from viewkeeper.recursion.endless import Growth, growth_of
from viewkeeper.recursion.join_orders import join_order
from viewkeeper.recursion.rewriting import Rewriting, questions
from viewkeeper.recursion.row_sets import copied
from viewkeeper.recursion.steps import Orders

MOST = 200
"""Recursions that stay prepared: those used last."""


@dataclass(eq=False)
class Prepared:
    """The plans of a recursion. `common` is what is equal for all of its relations."""

    common: n.Fixpoint
    orders: Orders = field(default_factory=dict)
    _questions: dict[frozenset[int], list[Rewriting]] = field(default_factory=dict)

    @cached_property
    def growth(self) -> Growth:
        """Which columns grow."""
        return growth_of(self.common.predicates, self.common.rules)

    @cached_property
    def is_for_driver(self) -> bool:
        """Whether every round of few rows is joined on the driver, and reads nothing but stored relations."""
        orders = (join_order(rule, place) for rule in self.common.rules for place in range(len(rule.body)))
        return all(order is not None for order in orders) and all(map(copied, self.common.inputs))

    def questions(self, size: Callable[[n.Scan], int], few: int) -> list[Rewriting]:
        """The plans for testing whether a row can be derived; `size` and `few` say what can be read by any column."""
        parts = enumerate(self.common.inputs)
        small = frozenset(number for number, part in parts if sum(map(size, n.scans(part))) <= few)
        if small not in self._questions:
            self._questions[small] = questions(self.common, small)
        return self._questions[small]


def common_part(node: n.Fixpoint) -> n.Fixpoint:
    """A recursion without which of its relations is shown and where they are stored: equal for all of its relations."""
    return replace(node, shown="", attributes=(), stored=())


_known: OrderedDict[int, tuple[tuple[Rule, ...], Prepared]] = OrderedDict()
"""By the id() of the rules, which are held so that no others get it: the nodes around them are made for each use."""

_lock = threading.Lock()


def prepared(node: n.Fixpoint) -> Prepared:
    """The plans of a recursion in its own states; they are the same for all relations of one recursion."""
    key = id(node.rules)
    with _lock:
        found = _known.get(key)
        if found is None:
            common = common_part(node)
            same = (plans for _, plans in _known.values() if plans.common == common)
            found = _known[key] = (node.rules, next(same, None) or Prepared(common))
        _known.move_to_end(key)
        while len(_known) > MOST:
            _known.popitem(last=False)
    return found[1]
