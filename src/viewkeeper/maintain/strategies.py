"""Which strategy maintains which relation. The one place that knows."""

from __future__ import annotations

from viewkeeper.catalog.relations import Auxiliary, Derived, VirtualView
from viewkeeper.maintain.differentiate import Differentiate
from viewkeeper.maintain.fixpoint import Fixpoint
from viewkeeper.maintain.fold import Fold
from viewkeeper.maintain.strategy import Strategy
from viewkeeper.maintain.topk import TopK
from viewkeeper.plan.strategy_names import DIFFERENTIATE, strategy_name

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (Differentiate(), Fold(), TopK(), Fixpoint())
}


def strategy_of(relation: Derived) -> Strategy:
    """The strategy that maintains a view or auxiliary relation incrementally."""
    if isinstance(relation, VirtualView):
        return STRATEGIES[DIFFERENTIATE]
    definition = relation.definition
    return STRATEGIES[
        strategy_name(definition.maintained, definition.group_state, auxiliary=isinstance(relation, Auxiliary))
    ]
