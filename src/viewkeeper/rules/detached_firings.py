"""Runs one firing of a detached rule to its end.

SQL and Python actions run in a transaction of their own whose entry also ends the firing, so what they change is
changed once, however often they are tried. A webhook is called, and then its end is entered: a process that dies
between the two calls it again, with the same idempotency key. An end without changes makes no epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from viewkeeper.catalog.active_rules import WEBHOOK, ActiveRule, Waiting
from viewkeeper.errors import Conflict, ViewkeeperError
from viewkeeper.log.failpoints import point
from viewkeeper.log.open_log import LOCK, Held
from viewkeeper.rules.acting import act, action_parts, bindings, holds
from viewkeeper.rules.actions import Actions
from viewkeeper.rules.past_transitions import transition_at
from viewkeeper.rules.processing import RuleProcessing
from viewkeeper.rules.transitions import RuleChange, Transition
from viewkeeper.rules.watching import parameter_columns
from viewkeeper.rules.webhooks import document, firing_key, send
from viewkeeper.store.store import Store
from viewkeeper.transaction.commit import commit
from viewkeeper.transaction.open_transaction import OpenTransaction

RETRIES = 20
"""How often a transaction is run again after a conflict with others, in one attempt."""

DONE, NOT_MET = "done", "condition not met"
"""The outcomes of a firing that has come to its end."""

Begin = Callable[[], tuple[OpenTransaction, RuleProcessing]]
"""Begins a transaction, with the rules that its changes may fire."""


class CallFailed(Exception):
    """A function of the user's has raised `problem`."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True)
class _TellingApart:
    """Actions that tell what a function of the user's raises apart from errors of Viewkeeper's own."""

    actions: Actions

    def statements(self, tx: OpenTransaction, text: str) -> None:
        self.actions.statements(tx, text)

    def holds(self, tx: OpenTransaction, condition: str) -> bool:
        return self.actions.holds(tx, condition)

    def call(self, tx: OpenTransaction, rule: ActiveRule, change: RuleChange) -> None:
        try:
            self.actions.call(tx, rule, change)
        except ViewkeeperError:  # of what it did with the transaction: a conflict is tried again
            raise
        except Exception as problem:
            raise CallFailed(problem) from problem


def is_waiting(store: Store, firing: Waiting) -> bool:
    """Whether a firing still waits, as far as the newest entry says."""
    return any(other.key == firing.key for other in store.refresh().waiting)


def enter(store: Store, firing: Waiting, change: dict[str, Any]) -> bool:
    """Enters a change of a firing without making an epoch; False if the firing does not wait any more."""
    with store.storage.lock(LOCK):
        while is_waiting(store, firing):
            after = store.ledger.append(store.state, {"kind": "maintenance", "waiting": [change]})
            if after is not None:
                store.state = after
                return True
    return False


def run_firing(store: Store, actions: Actions, begin: Begin, firing: Waiting) -> None:
    """Runs a firing that waits, once. Raises what goes wrong; nothing is changed then, and it still waits.

    What a function of the user's raises comes as CallFailed, unless it is an error of Viewkeeper's.
    """
    actions = _TellingApart(actions)
    with store.engine.running():
        for tried in range(RETRIES):
            try:
                if tried == 0:
                    store.engine.surviving(lambda: _attempt(store, actions, begin, firing))
                else:
                    with store.storage.lock(LOCK):
                        store.engine.surviving(lambda: _attempt(store, actions, begin, firing))
                return
            except Conflict:
                if not is_waiting(store, firing):
                    return
                if tried == RETRIES - 1:
                    raise
            finally:
                store.clear_scratch()


def _attempt(store: Store, actions: Actions, begin: Begin, firing: Waiting) -> None:
    began = time.perf_counter()
    tx, rules = begin()
    try:
        rule = tx.state.rules.get(firing.rule)
        if rule is None or all(other.key != firing.key for other in tx.state.waiting):
            tx.discard()
            return
        tx.firing, tx.before_firing = firing, firing.epoch - 1
        transition = transition_at(store, Held(tx.state), rule, firing.epoch)
        run = _call_webhook if rule.action.kind == WEBHOOK else _act
        rows = run(tx, actions, rule, firing, transition)
        tx.before_firing = None
        point("detached-acted")
        if tx.changed:
            rules.after_statement(tx)
    except BaseException:
        tx.discard()
        raise
    ended = firing.ended(rule.name, DONE if rows else NOT_MET, rows, round((time.perf_counter() - began) * 1000, 1))
    if tx.changed:
        tx.waiting.append(ended)
        commit(tx)
    else:
        tx.discard()
        enter(store, firing, ended)
    point("detached-ended")


def _act(tx: OpenTransaction, actions: Actions, rule: ActiveRule, firing: Waiting, transition: Transition) -> int:
    """Runs the SQL or the Python function of a rule; for how many rows."""
    key = firing_key(firing)
    parts = action_parts(rule, transition)
    return sum(act(tx, actions, rule, values, RuleChange(part, firing.epoch, key)) for values, part in parts)


def _call_webhook(
    tx: OpenTransaction, actions: Actions, rule: ActiveRule, firing: Waiting, transition: Transition
) -> int:
    """Sends the document of a firing, with the rows of the activations whose condition holds; how many they are."""
    met = _met(tx, actions, rule, transition.only(rule.events))
    if met.rows:
        body = document(rule, firing, met)
        point("detached-before-call")
        send(rule.action, firing_key(firing), body)
    return met.rows


def _met(tx: OpenTransaction, actions: Actions, rule: ActiveRule, transition: Transition) -> Transition:
    """The part of a transition for which the condition of a rule holds."""
    if rule.condition is None:
        return transition
    if not rule.parameters:
        return transition if holds(tx, actions, rule, {}, transition) else transition.only(())
    columns = parameter_columns(rule)
    parts = transition.by_columns(columns)
    failed = {values for values, part in parts if not holds(tx, actions, rule, bindings(rule, values), part)}
    return transition.without(columns, failed)
