"""Channels: subscriptions to the same thing, for which the change of an epoch is derived once.

Subscriptions that are bound to values of the same columns share a channel too: while there are few values, only rows
with these values are derived; then the change is split among the subscriptions.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.errors import ViewkeeperError
from viewkeeper.feed.bound_rows import Values, condition_on, split_by
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.followed import Followed
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

    def part(self, change: Change, values: Values) -> Change:
        """The part of a change with the values that a subscription is bound to."""
        if not self.columns:
            return change
        return _change(change, split_by(change.rows, self.columns).get(values, change.rows.slice(0, 0)))

    def derive(self, held: Held, commit: Committed, values: frozenset[Values]) -> dict[Values, Change] | None:
        """The change of an epoch for each of some values that it concerns; None if it could not be derived.

        The subscriptions derive it themselves then, and report what fails.
        """
        try:
            if not self.followed.exists(held.state, commit.epoch):
                return None
            if not self.followed.is_reached(held.state, commit):
                return {}
            change = self.source(values).change(held, commit.epoch - 1, commit.epoch)
            if not change.rows.num_rows:
                return {}
            if not self.columns:
                return {(): change}
            parts = split_by(change.rows, self.columns)
        except ViewkeeperError:
            return None
        return {key: _change(change, rows) for key, rows in parts.items() if key in values}


def _change(change: Change, rows: pa.Table) -> Change:
    return Change(change.schema, lambda: rows)


def frame_of(name: str, commit: Committed, change: Change, *, snapshot: bool = False, reset: bool = False) -> Frame:
    """The frame of a commit."""
    return Frame(name, commit.epoch, dt.datetime.fromtimestamp(commit.at, dt.UTC), change, snapshot, reset)
