"""The condition and the action of a rule, for a change: of each activation, of each row, or as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.algebra.types import parse_type
from viewkeeper.catalog.active_rules import PYTHON, ActiveRule
from viewkeeper.rules.actions import Actions
from viewkeeper.rules.bound_texts import bound, parameter_values, row_values
from viewkeeper.rules.transitions import RuleChange, Transition
from viewkeeper.rules.watching import PARAMETER
from viewkeeper.transaction.open_transaction import OpenTransaction


def by_activation(rule: ActiveRule, transition: Transition) -> list[tuple[dict[str, str], Transition]]:
    """The transitions of each activation, with the values of its parameters; the whole one, if there are none."""
    seen = transition.only(rule.events)
    if not rule.parameters:
        return [({}, seen)]
    kinds = {name: parse_type(kind) for name, kind in rule.parameters}
    columns = [f"{PARAMETER}{name}" for name in kinds]
    return [(parameter_values(kinds, values), part) for values, part in seen.by_columns(columns)]


def action_parts(rule: ActiveRule, transition: Transition) -> Iterator[tuple[dict[str, str], Transition]]:
    """The transitions for which an action is run apart: of each activation, of each row; with the values they bind."""
    for values, part in by_activation(rule, transition):
        if not rule.each_row:
            yield values, part
            continue
        for row in part.each_row():
            yield {**values, **row_values(row)}, row


def act(
    tx: OpenTransaction,
    actions: Actions,
    rule: ActiveRule,
    values: dict[str, str],
    change: RuleChange,
    *,
    dry: bool = False,
) -> int:
    """Runs the action once, if the condition holds; for how many rows. `dry`: no function of the user's is called."""
    engine = tx.store.engine
    schema = change.schema
    tx.given = {name: engine.arrow(table, schema, "") for name, table in change.transition.tables().items()}
    try:
        if rule.condition is not None and not actions.holds(tx, bound(rule.condition, values)):
            return 0
        if rule.action.kind != PYTHON:
            actions.statements(tx, bound(rule.action.text, values))
        elif not dry:
            actions.call(tx, rule, change)
    finally:
        tx.given = {}
    return change.transition.rows
