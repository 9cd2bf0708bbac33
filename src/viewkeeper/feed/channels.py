"""Channels: subscriptions to the same thing, for which the change of an epoch is derived once.

Subscriptions that are bound to values of the same columns share a channel too: while there are few values, only rows
with these values are derived; then the change is split among the subscriptions.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from viewkeeper.errors import ViewkeeperError
from viewkeeper.feed.bound_rows import Values, condition_on, split_by
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.followed import Followed
from viewkeeper.feed.shared_changes import Parts, SharedChanges
from viewkeeper.log.open_log import Held
from viewkeeper.log.tail import Committed
from viewkeeper.transaction.change import Change

if TYPE_CHECKING:
    from viewkeeper.feed.subscription import Subscription


class Channel:
    """Subscriptions that share derivations. All state is guarded by the lock of the feeds."""

    def __init__(self, followed: Followed, columns: tuple[str, ...], epoch: int) -> None:
        """`columns` are those that the subscriptions are bound by; `epoch` is the one it has distributed last."""
        self.followed = followed
        self.columns = columns
        self.epoch = epoch
        self.begun = epoch  # the one whose distribution has begun: who comes later has to derive it
        self.by_values: dict[Values, list[Subscription]] = {}
        self._shared = SharedChanges()
        self._bound: tuple[frozenset[Values], Followed] | None = None

    def subscriptions(self) -> Iterable[Subscription]:
        """All of them."""
        return [one for several in self.by_values.values() for one in several]

    def add(self, one: Subscription) -> None:
        """Adds a subscription."""
        self.by_values.setdefault(one.condition.values, []).append(one)

    def remove(self, one: Subscription) -> None:
        """Removes a subscription."""
        others = [other for other in self.by_values.get(one.condition.values, ()) if other is not one]
        if others:
            self.by_values[one.condition.values] = others
        else:
            self.by_values.pop(one.condition.values, None)

    def source(self, values: frozenset[Values]) -> Followed:
        """What to derive for subscriptions with some values: only rows with these, if the values are few."""
        followed = self.followed
        if not self.columns or followed.is_stored or len(values) > followed.store.tuning.literal_keys:
            return followed
        bound = self._bound  # one look: subscriptions that derive for themselves replace it meanwhile
        if bound is None or bound[0] != values:
            text = condition_on(self.columns, sorted(values))
            bound = self._bound = (values, followed.where(text))
        return bound[1]

    def change(self, held: Held, since: int, until: int, values: frozenset[Values]) -> Parts:
        """The net change after one epoch, up to another, for subscriptions with some values."""
        source = self.source(values)
        return self._shared.get((source.text, since, until), lambda: self._parts(source.change(held, since, until)))

    def snapshot(self, held: Held, epoch: int, values: frozenset[Values]) -> Parts:
        """All rows of an epoch, for subscriptions with some values."""
        source = self.source(values)
        return self._shared.get((source.text, epoch), lambda: self._parts(source.snapshot(held, epoch)))

    def _parts(self, change: Change) -> Parts:
        return Parts(change, split_by(change.rows, self.columns) if self.columns else None)

    def derive(self, held: Held, commit: Committed, values: frozenset[Values]) -> dict[Values, Change] | None:
        """The change of an epoch for each of some values that it concerns; None if it could not be derived.

        The subscriptions derive it themselves then, and report what fails.
        """
        try:
            if not self.followed.exists(held.state, commit.epoch):
                return None
            if not self.followed.is_reached(held.state, commit):
                return {}
            parts = self.change(held, commit.epoch - 1, commit.epoch, values)
        except ViewkeeperError:
            return None
        if not parts.whole.rows.num_rows:
            return {}
        return {key: parts.of(key) for key in (((),) if parts.by_values is None else parts.by_values) if key in values}


def frame_of(name: str, commit: Committed, change: Change, *, snapshot: bool = False, reset: bool = False) -> Frame:
    """The frame of a commit."""
    return Frame(name, commit.epoch, dt.datetime.fromtimestamp(commit.at, dt.UTC), change, snapshot, reset)
