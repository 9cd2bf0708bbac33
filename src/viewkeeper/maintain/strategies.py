"""Which strategy maintains which relation. The one place that knows."""

from __future__ import annotations

from viewkeeper.catalog.definition import AUXILIARY, VIEW
from viewkeeper.catalog.state import Relation
from viewkeeper.errors import InternalError
from viewkeeper.maintain.differentiate import Differentiate
from viewkeeper.maintain.fixpoint import Fixpoint
from viewkeeper.maintain.fold import Fold
from viewkeeper.maintain.strategy import Strategy
from viewkeeper.maintain.topk import TopK
from viewkeeper.plan.strategies import strategy_name

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (Differentiate(), Fold(), TopK(), Fixpoint())
}


def strategy_of(relation: Relation) -> Strategy:
    """The strategy that maintains a view or auxiliary relation incrementally."""
    if relation.definition is None:
        raise InternalError(f"{relation.name} is a table: nothing maintains it")
    stored = relation.kind != VIEW
    name = strategy_name(relation.definition.maintained, stored=stored, auxiliary=relation.kind == AUXILIARY)
    return STRATEGIES[name]
