"""Rule processing inside a transaction: one rule at a time, until no rule is triggered.

A rule is triggered if the net change of what it watches, since it was last considered, has one of its events. Of the
triggered rules the first in order is considered: its condition is tested and, if it holds, its action is run. The
action may change tables, so the triggered rules are found again after it. A rule has seen everything up to the moment
at which it was considered; what its own action changes may trigger it again (Ceri and Widom 1991, section 3).

Points at which rules are processed: the end of every statement for immediate ones, CHECK and the commit for deferred
ones as well. After such a point everything counts as seen. A rule takes part from the transaction after the one that
creates, enables or activates it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from viewkeeper.algebra.rows import row_tuples
from viewkeeper.catalog.active_rules import DEFERRED, DETACHED, IMMEDIATE, ActiveRule, Waiting
from viewkeeper.errors import RuleLoop, ViewkeeperError
from viewkeeper.maintain.propagation import propagate
from viewkeeper.rules.acting import act, action_parts
from viewkeeper.rules.actions import Actions
from viewkeeper.rules.transitions import RuleChange, Transition
from viewkeeper.rules.watching import parameter_columns, read_below, transition_since, wanted_kinds, watched_views
from viewkeeper.transaction.assertions import SHOWN, rows_text
from viewkeeper.transaction.change import Commit
from viewkeeper.transaction.marks import Mark, set_mark
from viewkeeper.transaction.open_transaction import OpenTransaction, Read

MOST_FIRINGS = 100
"""How often one rule may change something at one point before the cascade is given up."""


@dataclass
class _Point:
    """What has happened at a point of rule processing: rules that changed something, with some of the rows they saw."""

    fired: list[tuple[str, str]] = field(default_factory=list)


class RuleProcessing:
    """The active rules of one transaction; a hook of its commit."""

    def __init__(self, actions: Actions, *, dry: bool = False) -> None:
        """`dry`: functions of the user's are not called, for a preview."""
        self.actions = actions
        self._dry = dry
        self._seen: dict[str, Mark] = {}  # up to where each rule has seen the transaction
        self._settled: dict[str, Mark] = {}  # the same, at the last point before the commit
        self._recorded: list[dict[str, Any]] = []  # what had fired at that point
        self._point = _Point()

    def dry(self) -> RuleProcessing:
        """The same rules for a preview, in which functions of the user's are not called."""
        made = RuleProcessing(self.actions, dry=True)
        made._settled, made._recorded = dict(self._settled), list(self._recorded)
        return made

    # the stages of a commit -------------------------------------------------------------------------------

    def begin(self, tx: OpenTransaction) -> None:
        """The commit begins, or begins again on a newer state."""
        self._seen = dict(self._settled)
        self._point = _Point()
        tx.fired[:] = self._recorded
        tx.waiting[:] = [change for change in tx.waiting if change.get("epoch") != 0]
        rules = _rules(tx, IMMEDIATE, DEFERRED, DETACHED)
        tx.watched |= watched_views(tx, rules)
        tx.wanted = wanted_kinds(rules, self._seen)

    def before_writing(self, tx: OpenTransaction) -> bool:
        """Considers triggered rules until one changes something; in the end notes which detached ones are triggered."""
        if self._consider(tx, _rules(tx, IMMEDIATE, DEFERRED)):
            return True
        for rule in _rules(tx, DETACHED):
            transition = _transition(tx, rule, None)
            if transition.triggers(rule.events):
                tx.waiting.append(Waiting(rule.id, 0, transition.only(rule.events).rows).to_json())
        return False

    def after_entry(self, tx: OpenTransaction, done: Commit) -> None:
        """Nothing: firings of detached rules are part of the entry."""

    # points before the commit -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def as_a_whole(self, tx: OpenTransaction) -> Iterator[None]:
        """Takes back what rules have seen and what has fired if a step of a transaction fails."""
        seen, settled, recorded, fired = dict(self._seen), self._settled, self._recorded, list(tx.fired)
        try:
            yield
        except BaseException:
            self._seen, self._settled, self._recorded, tx.fired[:] = seen, settled, recorded, fired
            raise

    def after_statement(self, tx: OpenTransaction) -> None:
        """Immediate rules are processed."""
        self._process(tx, _rules(tx, IMMEDIATE))

    def check(self, tx: OpenTransaction) -> None:
        """Immediate and deferred rules are processed."""
        self._process(tx, _rules(tx, IMMEDIATE, DEFERRED))

    def _process(self, tx: OpenTransaction, rules: list[ActiveRule]) -> None:
        """Processes some rules to the end. What decides about them counts as read by the transaction."""
        if not rules or not (tx.changed or tx.has_definitions or self._settled):
            return
        before = set(tx.watched)
        wanted = read_below(tx, rules)
        self._point = _Point()
        tx.watched, tx.wanted = watched_views(tx, rules), {}
        try:
            while True:
                tx.store.engine.surviving(lambda: propagate(tx, wanted))
                if not self._consider(tx, rules):
                    break
            mark = set_mark(tx)
        finally:
            tx.watched = before
            tx.drop_derived()
        for rule in rules:
            self._seen[rule.id] = mark
        self._settled = dict(self._seen)
        self._recorded = list(tx.fired)
        tx.reads += [Read(key) for key in _read_by(tx, rules) if key in tx.state.relations]

    # one rule at a time -----------------------------------------------------------------------------------

    def _consider(self, tx: OpenTransaction, rules: Collection[ActiveRule]) -> bool:
        """Considers triggered rules in their order until one has changed something; whether one has."""
        for rule in sorted(rules, key=lambda rule: rule.precedence):
            transition = _transition(tx, rule, self._seen.get(rule.id))
            if not transition.triggers(rule.events):
                continue
            self._seen[rule.id] = set_mark(tx)
            tx.wanted.pop(rule.watched, None)
            before = _gathered(tx)
            self._fire(tx, rule, transition)
            if _has_changed(tx, before):
                self._point.fired.append((rule.name, _sample(transition)))
                if sum(name == rule.name for name, _ in self._point.fired) >= MOST_FIRINGS:
                    raise _loop(self._point)
                return True
        return False

    def _fire(self, tx: OpenTransaction, rule: ActiveRule, transition: Transition) -> None:
        """Tests the condition of a rule and runs its action, for each activation and each row if it says so."""
        began = time.perf_counter()
        rows = 0
        try:
            for values, part in action_parts(rule, transition):
                rows += act(tx, self.actions, rule, values, RuleChange(part), dry=self._dry)
        except ViewkeeperError as problem:
            where = f"in the action of the rule {rule.name}"
            problem.detail = f"{where}: {problem.detail}" if problem.detail else where
            raise
        if not rows:
            return
        spent = round((time.perf_counter() - began) * 1000, 1)
        tx.fired.append({"rule": rule.id, "name": rule.name, "rows": rows, "ms": spent, "outcome": "done"})


def _rules(tx: OpenTransaction, *couplings: str) -> list[ActiveRule]:
    """The rules that take part in a transaction: enabled before it began, and still there."""
    there = {rule.id: rule for rule in tx.active_rules()}
    began = [rule for rule in tx.state.rules.values() if rule.enabled and rule.coupling in couplings]
    return [there[rule.id] for rule in began if rule.id in there and there[rule.id].enabled]


def _transition(tx: OpenTransaction, rule: ActiveRule, mark: Mark | None) -> Transition:
    """What a rule sees since a mark; activations that this transaction makes or ends see nothing."""
    transition = transition_since(tx, rule, mark)
    if rule.activations is None or not transition.rows:
        return transition
    pending = tx.pending.get(rule.activations)
    if pending is None or pending.is_empty:
        return transition
    table = tx.by_id(rule.activations)
    changed = set(row_tuples(pending.rows.select(table.schema.names)))
    return transition.without(parameter_columns(rule), changed)


_Gathered: TypeAlias = dict[str, tuple[pa.Table, int]]


def _gathered(tx: OpenTransaction) -> _Gathered:
    """What statements have changed so far: the rows on the driver and the number of staged files, by relation."""
    return {key: (held.rows, len(held.staged)) for key, held in tx.pending.items() if key not in tx.derived}


def _has_changed(tx: OpenTransaction, before: _Gathered) -> bool:
    """Whether statements have changed something since; tables are never changed in place."""
    now = _gathered(tx)
    if now.keys() != before.keys():
        return True
    return any(rows is not before[key][0] or staged != before[key][1] for key, (rows, staged) in now.items())


def _read_by(tx: OpenTransaction, rules: Collection[ActiveRule]) -> set[str]:
    """The relations beside the changed ones on which it depends whether rules are triggered."""
    found: set[str] = set()
    for rule in rules:
        below = read_below(tx, [rule])
        if len(below) > 1 or below != {rule.watched}:
            found |= below
    return found


def _sample(transition: Transition) -> str:
    """Some rows of a transition as text."""
    parts = (("inserted", transition.inserted), ("deleted", transition.deleted), ("updated to", transition.new))
    names = transition.schema.names
    return ", ".join(
        f"{word} {rows_text(names, row_tuples(rows.slice(0, SHOWN + 1)))}" for word, rows in parts if rows.num_rows
    )


def _loop(point: _Point) -> RuleLoop:
    """The error for a cascade without end: the rules that fire again and again, and what they saw in the end."""
    last = point.fired[-20:]
    again = {name for name, _ in last}
    names = [name for name in dict.fromkeys(name for name, _ in point.fired) if name in again]
    shown = "; ".join(f"{name}: {rows}" for name, rows in last[-max(3, len(names)) :])
    what = " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
    verb = "triggers itself" if len(names) == 1 else "trigger each other"
    return RuleLoop(
        f"the rule{'s' if len(names) > 1 else ''} {what} {verb} without end: given up after {MOST_FIRINGS} firings",
        detail=f"nothing was changed; the last firings saw {shown}",
        hint=f"give a rule a condition that its own action makes false, or ALTER RULE {names[0]} DISABLE",
    )
