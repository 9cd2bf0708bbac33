"""Detached rules: their firings, which commits have recorded in the ledger, are run after them, by threads.

Nothing runs while nothing waits. A firing is noticed when this process opens the database, commits, or reads a newer
state; then a thread looks for firings that are due until none is left that this process could run. Each rule has a
thread of its own meanwhile, so that a slow or failing action holds neither other rules nor commits. The firings of one
rule are run one after the other in the order of their epochs, by one process at a time (`log/turns.py`).

What may go wrong with an action, the storage or the engine is entered in the ledger as the failure of an attempt. An
error that is none of these is a mistake of Viewkeeper's own: it also ends its thread, so that Python reports it
(`threading.excepthook`, on standard error if nothing else is set), and the rule is left alone for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from viewkeeper.catalog.active_rules import PYTHON, ActiveRule, Waiting
from viewkeeper.errors import ViewkeeperError
from viewkeeper.log.storage import now
from viewkeeper.log.turns import turn
from viewkeeper.rules.actions import Actions
from viewkeeper.rules.detached_firings import Begin, CallFailed, enter, is_waiting, run_firing
from viewkeeper.rules.due import after_failure, next_firings
from viewkeeper.store.store import Store

LOOK_SECONDS = 1.0
"""Seconds after which firings are looked at again that another process runs."""

AFTER_MISTAKE_SECONDS = 60.0
"""Seconds for which a rule is left alone after an error of Viewkeeper's own."""

EXPECTED = (ViewkeeperError, OSError)
"""Errors that storage and engine may raise at any time; the attempt is made again."""

CLOSE_SECONDS = 10.0
"""Seconds in which a handle that is closed still begins to run firings that are due; others run the rest."""


class Registered(Actions, Protocol):
    """Actions that know which functions this process has."""

    def has(self, rule: ActiveRule) -> bool:
        """Whether the function of a rule was registered here."""


class DetachedRules:
    """Runs the firings of one open database; its threads live while something waits."""

    def __init__(self, store: Store, actions: Registered, begin: Begin) -> None:
        self._store = store
        self._actions = actions
        self._begin = begin
        self._changed = threading.Condition()
        self._looking: threading.Thread | None = None
        self._busy: dict[str, threading.Thread] = {}  # the rules whose firings are run here, by id
        self._later: dict[str, float] = {}  # rules that could not be run here, and until when they are left alone
        self._woken = False
        self._closing = False

    def wake(self) -> None:
        """Looks for firings that are due, if this process can run any; called whenever some may have been added."""
        if self._store.lease.refused or not next_firings(self._store.state, self._able):
            return
        with self._changed:
            self._woken = True
            if self._looking is None and not self._closing:
                self._looking = threading.Thread(target=self._look, name="viewkeeper-detached", daemon=True)
                self._looking.start()
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Waits until no firing is due or being run here, at most so long; whether that is so."""
        until = time.monotonic() + seconds
        self._store.refresh()
        self.wake()
        with self._changed:
            while self._looking is not None and (self._busy or self._woken or self._due()):
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, LOOK_SECONDS))
        return True

    def close(self) -> None:
        """Waits for what is being run, and runs once what is due now; then the threads end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            looking = self._looking
        if looking is not None:
            looking.join()

    # looking for firings -------------------------------------------------------------------------

    def _able(self, rule: ActiveRule) -> bool:
        return rule.action.kind != PYTHON or self._actions.has(rule)

    def _next(self) -> list[Waiting]:
        """The next firings of rules that are not being run here."""
        return [firing for firing in next_firings(self._store.state, self._able) if firing.rule not in self._busy]

    def _due(self) -> list[Waiting]:
        """Those that can be run now."""
        at = now()
        return [firing for firing in self._next() if firing.due <= at and self._later.get(firing.rule, 0.0) <= at]

    def _look(self) -> None:
        """The thread that looks for firings; ends when none is left that this process could run."""
        try:
            self._look_until_none_is_left()
        except BaseException:
            with self._changed:
                self._looking = None  # the next wake() begins again
                self._changed.notify_all()
            raise

    def _look_until_none_is_left(self) -> None:
        while not self._closing:
            known = self._refreshed()
            with self._changed:
                self._woken = False
                for firing in self._due()[: self._store.tuning.action_threads - len(self._busy)]:
                    self._start(firing.rule, self._run_rule)
                self._changed.notify_all()
                if known and not self._busy and not self._next():
                    self._looking = None
                    return
                if not self._woken and not self._closing:
                    self._changed.wait(self._pause())
        self._finish()
        with self._changed:
            self._looking = None
            self._changed.notify_all()

    def _refreshed(self) -> bool:
        """Reads the newest state; whether that was possible."""
        try:
            self._store.refresh()
        except EXPECTED:
            return False  # looked at again a little later
        return True

    def _pause(self) -> float:
        """Seconds until something may be due, or is looked at again in any case."""
        at = now()
        coming = [max(firing.due, self._later.get(firing.rule, 0.0)) - at for firing in self._next()]
        return max(0.01, min([LOOK_SECONDS, *coming]))

    def _start(self, rule: str, run: Callable[[str], None]) -> None:
        thread = threading.Thread(target=run, args=(rule,), name="viewkeeper-detached-rule", daemon=True)
        self._busy[rule] = thread
        thread.start()

    # running them --------------------------------------------------------------------------------

    def _run_rule(self, rule: str) -> None:
        """Runs the firings of a rule that are due, one after the other; a thread of its own."""
        try:
            while not self._closing and self._run_next(rule):
                self._look_again()  # the action may have fired other rules
        finally:
            with self._changed:
                del self._busy[rule]
                self._look_again()

    def _look_again(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def _run_next(self, rule: str) -> bool:
        """Runs the next firing of a rule, if it is due and it is this process's turn; whether it came to its end.

        Raises nothing but errors of Viewkeeper's own.
        """
        store = self._store
        try:
            with turn(store.storage, rule, store.lease.id) as mine:
                store.refresh()
                head = next((each for each in next_firings(store.state, self._able) if each.rule == rule), None)
                if mine and (head is None or head.due > now()):
                    return False
                if mine and head is not None:
                    return self._run(head)
        except EXPECTED:  # the ledger cannot be read or written now: the firing waits, and is looked at again
            pass
        except Exception:
            self._later[rule] = now() + AFTER_MISTAKE_SECONDS
            raise
        self._later[rule] = now() + LOOK_SECONDS
        return False

    def _run(self, firing: Waiting) -> bool:
        """Runs a firing; a failure is entered in the ledger. Whether it came to its end.

        Raises errors of Viewkeeper's own, which are entered like all others.
        """
        store = self._store
        try:
            run_firing(store, self._actions, self._begin, firing)
        except Exception as problem:
            failed = after_failure(firing, _reason(problem), now(), store.tuning)
            enter(store, firing, failed.to_json())
            if not isinstance(problem, (CallFailed, *EXPECTED)):
                raise
            return bool(failed.parked)
        return not is_waiting(store, firing)

    def _finish(self) -> None:
        """Runs once what is due when the handle is closed, and waits for what is being run."""
        until = now() + CLOSE_SECONDS
        for thread in list(self._busy.values()):
            thread.join()
        if not self._refreshed():
            return
        epoch = self._store.state.epoch

        def run(rule: str) -> None:
            while now() < until and self._has_due(rule, epoch) and self._run_next(rule):
                pass

        threads = [
            threading.Thread(target=run, args=(firing.rule,), name="viewkeeper-detached-rule", daemon=True)
            for firing in self._due()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _has_due(self, rule: str, epoch: int) -> bool:
        """Whether the next firing of a rule is due, and is not of an epoch that came after closing began."""
        found = [firing for firing in next_firings(self._store.state, self._able) if firing.rule == rule]
        return bool(found) and found[0].due <= now() and found[0].epoch <= epoch


def _reason(problem: Exception) -> str:
    """Why an attempt failed, in one line."""
    if isinstance(problem, CallFailed):
        problem = problem.problem
    if isinstance(problem, ViewkeeperError):
        return f"{problem.message}: {problem.detail}" if problem.detail else problem.message
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
