"""The condition and the action of a rule, for a change: of each activation, of each row, or as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from viewkeeper.algebra.types import parse_type
from viewkeeper.catalog.active_rules import PYTHON, ActiveRule
from viewkeeper.rules.actions import Actions
from viewkeeper.rules.bound_texts import bound, parameter_values, row_values
from viewkeeper.rules.transitions import RuleChange, Transition
from viewkeeper.rules.watching import parameter_columns
from viewkeeper.transaction.open_transaction import OpenTransaction


def bindings(rule: ActiveRule, values: tuple[Any, ...]) -> dict[str, str]:
    """SQL for the parameters of a rule in one activation."""
    return parameter_values({name: parse_type(kind) for name, kind in rule.parameters}, values)


def action_parts(rule: ActiveRule, transition: Transition) -> Iterator[tuple[dict[str, str], Transition]]:
    """The transitions for which an action is run apart: of each activation, of each row; with the values they bind."""
    seen = transition.only(rule.events)
    parts: list[tuple[dict[str, str], Transition]] = [({}, seen)]
    if rule.parameters:
        parts = [(bindings(rule, values), part) for values, part in seen.by_columns(parameter_columns(rule))]
    for values, part in parts:
        if not rule.each_row:
            yield values, part
            continue
        for row in part.each_row():
            yield {**values, **row_values(row)}, row


@contextlib.contextmanager
def _seeing(tx: OpenTransaction, transition: Transition) -> Iterator[None]:
    """Statements in the block see the transition tables."""
    engine, schema = tx.store.engine, transition.schema
    tx.given = {name: engine.arrow(table, schema, "") for name, table in transition.tables().items()}
    try:
        yield
    finally:
        tx.given = {}


def _is_true(tx: OpenTransaction, actions: Actions, rule: ActiveRule, values: dict[str, str]) -> bool:
    return rule.condition is None or actions.holds(tx, bound(rule.condition, values))


def holds(tx: OpenTransaction, actions: Actions, rule: ActiveRule, values: dict[str, str], seen: Transition) -> bool:
    """Whether the condition of a rule holds."""
    with _seeing(tx, seen):
        return _is_true(tx, actions, rule, values)


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
    with _seeing(tx, change.transition):
        if not _is_true(tx, actions, rule, values):
            return 0
        if rule.action.kind != PYTHON:
            actions.statements(tx, bound(rule.action.text, values))
        elif not dry:
            actions.call(tx, rule, change)
    return change.transition.rows
