"""Firings of detached rules on the model, in the order in which the ledger says that they came to their ends.

Sessions run the firings of different rules side by side. Whatever they do must be what one after the other does: a
firing that has changed something is run on the state of the model that its entry found. One that has changed nothing,
or has failed, makes no epoch: it may have seen any state since the sessions began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.rules.actions import Refused
from tests.rules.model import Firing, Model, ModelTransaction, Outcome

Same = Callable[[object, object, str], None]
"""Compares what was found with what was expected."""


class Replay:
    """The model while sessions run firings; `names` has the names of rules by id."""

    def __init__(self, model: Model, names: dict[str, str], same: Same) -> None:
        self.model = model
        self._names = names
        self._same = same
        self._states = [model]  # after each epoch

    def entry(self, entry: dict[str, Any], changed: set[str], net: Callable[[Model, Model], dict[str, Any]]) -> None:
        """What one entry of the ledger does to firings; `changed` are the relations that it has written."""
        before = {(firing.rule, firing.epoch): firing for firing in self.model.waiting}
        for change in entry.get("waiting", ()):
            rule, epoch = change["ended"] if "ended" in change else (change["rule"], change["epoch"])
            if epoch == entry.get("epoch"):
                continue  # added by this entry: compared as the outcome of the firing that it ends
            firing = before.get((self._names[rule], epoch))
            if firing is None:
                raise AssertionError(f"a firing of {self._names[rule]} at epoch {epoch} ends that does not wait")
            self._same(self.model.next_firing(firing.rule), firing, "the next firing")
            if "epoch" in entry:
                self._committed(firing, change, entry, changed, net)
            elif "ended" in change:
                self._without_effect(firing, change)
            else:
                self._failed(firing, change)

    def _committed(
        self,
        firing: Firing,
        change: dict[str, Any],
        entry: dict[str, Any],
        changed: set[str],
        net: Callable[[Model, Model], dict[str, Any]],
    ) -> None:
        tx = ModelTransaction(self.model)
        rows, outcome = tx.run(firing)
        assert outcome is not None, f"the firing of {firing.rule} at epoch {firing.epoch} changes nothing"
        self._same((change["outcome"], change["rows"]), ("done", rows), "outcome")
        self._same(changed, set(net(tx.now, self.model)), "relations changed by a detached rule")
        self._same([(each["name"], each["rows"]) for each in entry.get("fired", ())], outcome.fired, "fired")
        added = [each for each in entry["waiting"] if "ended" not in each]
        found = sorted((self._names[each["rule"]], each["rows"]) for each in added)
        self._same(found, sorted(outcome.waiting), "waiting after a detached rule")
        self._same(sorted(entry.get("warned", ())), outcome.warnings, "warnings of a detached rule")
        self.model = tx.now.at_epoch(entry["epoch"])
        self._states.append(self.model)

    def _without_effect(self, firing: Firing, change: dict[str, Any]) -> None:
        self._same((change["outcome"], change["rows"]), ("condition not met", 0), "outcome")
        self._same(None in [self._tried(firing, state) for state in self._states], True, "the condition is not met")
        self._wait([other for other in self.model.waiting if other is not firing])

    def _failed(self, firing: Firing, change: dict[str, Any]) -> None:
        found = [self._tried(firing, state) for state in self._states]
        self._same("refused" in found, True, f"the firing of {firing.rule} fails: {change['problem']}")
        parked = replace(firing, parked=bool(change["parked"]))
        self._wait([parked if other is firing else other for other in self.model.waiting])

    def _tried(self, firing: Firing, state: Model) -> Outcome | str | None:
        """What a firing does on a state: an outcome, nothing, or an error; "absent" where it does not wait yet."""
        if firing not in state.waiting:
            return "absent"
        try:
            return ModelTransaction(state).run(firing)[1]
        except Refused:
            return "refused"

    def _wait(self, firings: list[Firing]) -> None:
        """The model with other firings that wait."""
        self.model = self.model.copy()
        self.model.waiting = firings
